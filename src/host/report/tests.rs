use super::*;
use crate::event::Name;

fn homes(list: &[(u16, &str)]) -> Vec<(CpuId, String)> {
    list.iter().map(|(cpu, who)| (CpuId(*cpu), who.to_string())).collect()
}

#[test]
fn the_placement_has_one_row_per_llc() {
    let topology = Topology::grid(2, 2, 2, 1);
    let text = placement(&topology, &homes(&[(0, "valkey-server 10"), (5, "a 11"), (5, "b 12"), (6, "c 13")]));
    assert_eq!(
        text,
        "  node 0   LLC 0   | 0: valkey-server 10 | 1: -\n           \
                    LLC 1   | 2: - | 3: -\n  \
           node 1   LLC 2   | 4: - | 5: a 11 b 12\n           \
                    LLC 3   | 6: c 13 | 7: -\n"
    );
}

#[test]
fn the_placement_of_a_large_machine_stays_readable() {
    let topology = Topology::grid(8, 3, 8, 2);
    let everywhere: Vec<_> =
        (0..384).map(|c| (CpuId(c), format!("valkey-server {}", 100_000 + u32::from(c)))).collect();
    for (list, lines) in [(everywhere, 24 * 6), (homes(&[(17, "one 1"), (383, "two 2")]), 24)] {
        let text = placement(&topology, &list);
        assert!(text.lines().count() <= lines, "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= LINE), "{text}");
        assert!(list.iter().all(|(cpu, who)| text.contains(&format!("{cpu}: {who}"))), "{text}");
    }
    assert!(placement(&topology, &homes(&[(17, "one 1")])).contains("| 17: one 1 | 15 CPUs free"));
}

#[test]
fn a_home_on_a_cpu_that_is_gone_is_shown_as_such() {
    let text = placement(&Topology::grid(1, 1, 2, 1), &homes(&[(7, "lost 3")]));
    assert!(text.ends_with("  CPU 7, offline: | lost 3\n"), "{text}");
}

#[test]
fn the_summary_of_nothing_has_no_nonsense_in_it() {
    let text = summary(&Run { ran_ns: 0, starts: 1, counters: Counters::default() });
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    assert!(text.contains("dispatched  0 tasks\n") && text.contains("no instance ran"), "{text}");
}

#[test]
fn the_summary_shows_every_number_that_was_asked_for() {
    let mut counters = Counters::default();
    for (i, counter) in Counter::ALL.iter().enumerate() {
        counters.set(*counter, 1000 + i as u64);
    }
    counters.set(Counter::HomeRuns, 75);
    counters.set(Counter::AwayRuns, 25);
    counters.set(Counter::OwnCpuUs, 500_000);
    let text = summary(&Run { ran_ns: 10_000 * MS, starts: 3, counters: counters.clone() });
    for reason in Reason::ALL {
        let n = counters.get(Counter::sent(reason));
        assert!(text.contains(&format!("{} {n} (", reason.name())), "{reason:?}: {text}");
    }
    for counter in [
        Counter::MovesInLlc,
        Counter::MovesAcrossLlc,
        Counter::MovesAcrossNode,
        Counter::KernelBounced,
        Counter::KernelCongested,
        Counter::OwnMinorFaults,
        Counter::OwnMajorFaults,
        Counter::NoticesDropped,
    ] {
        assert!(text.contains(&counters.get(counter).to_string()), "{counter:?}: {text}");
    }
    for words in ["10.0 s, started 3 times", "75.0% of 100 stints", "500 ms of CPU time (5.0% of one CPU)"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn times_are_in_units_that_people_use() {
    let ms = |n: u64| duration(n * MS);
    assert_eq!(ms(7), "7 ms");
    assert_eq!(ms(59_940), "59.9 s");
    assert_eq!(ms(61_000), "1 min 1 s");
    assert_eq!(ms(3_600_000 * 25), "25 h 0 min");
    assert_eq!(percent(1, 3), "33.3%");
    assert_eq!(percent(1, 0), "0.0%");
}

#[test]
fn notices_are_told_in_words_with_names_that_are_safe_to_print() {
    let topology = Topology::grid(2, 1, 2, 1);
    let services = [Pattern::new("ev\x1bil*").unwrap()];
    let mut names = Names::default();
    let adopted = Notice::Adopted { pid: Pid(5), service: 0, name: Name::new(b"ev\x1b[31m"), home: CpuId(3) };
    names.learn(&adopted);
    let say = |notice: &Notice| words(notice, &names, &services, &topology);
    assert_eq!(say(&adopted), "adopted ev\\x1b[31m 5 (-P ev\\u{1b}il*): home CPU 3 (node 1, LLC 1)");
    let (from, to) = (CpuId(3), CpuId(900));
    let moved = Notice::Moved { pid: Pid(5), from, to, load: (1024, 512), why: MoveReason::LlcTaken };
    assert_eq!(
        say(&moved),
        "moved   ev\\x1b[31m 5: CPU 3 (node 1, LLC 1) -> CPU 900 (offline), its LLC is taken (load 100.0% -> 50.0%)"
    );
    let left = Notice::Left { pid: Pid(5), home: CpuId(0) };
    assert_eq!(say(&left), "left    ev\\x1b[31m 5: CPU 0 (node 0, LLC 0) is free");
    // A service number that does not exist comes from a dispatcher gone wild.
    assert!(say(&Notice::Adopted { pid: Pid(6), service: 9, name: Name::default(), home: from }).contains("(-P ?)"));
    names.forget(&left);
    assert_eq!(names.of(Pid(5)), "pid 5");
}

#[test]
fn own_cost_is_what_was_spent_between_two_looks() {
    let stat = |faults, ticks| Stat {
        comm: Name::default(),
        parent: 1,
        kthread: false,
        exiting: false,
        minor_faults: faults,
        major_faults: 2,
        cpu_ticks: ticks,
        start_ticks: 0,
        policy: 0,
    };
    let mut counters = Counters::default();
    own_cost(&mut counters, &stat(5000, 40), &stat(5001, 65), 100);
    assert_eq!(counters.get(Counter::OwnCpuUs), 250_000);
    assert_eq!(counters.get(Counter::OwnMinorFaults), 1);
    assert_eq!(counters.get(Counter::OwnMajorFaults), 0);
    own_cost(&mut counters, &stat(9, 9), &stat(1, 1), 0);
    assert_eq!(counters.get(Counter::OwnCpuUs), 0);
}
