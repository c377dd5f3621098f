//! What was recorded replays identically, and a difference is shown.

use crate::machine::FOREVER;
use crate::script::{op, policy_name, settings, topology};
use crate::support::{file, header, recording, records, replayed};
use proptest::prelude::*;
use soft_domain::ids::MS;
use soft_domain::policies;
use soft_domain::topology::{Grid, Level, Topology};
use soft_domain::trace::replay::{Ending, replay};
use soft_domain::trace::what_if::what_if;
use soft_domain::trace::{Item, Reader, Totals, Writer};

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, max_shrink_iters: 1000, ..ProptestConfig::default() })]

    #[test]
    fn a_recording_of_any_policy_replays_identically(
        name in policy_name(),
        t in topology(),
        ops in prop::collection::vec(op(), 0..150),
    ) {
        let records = records(name, &t, &ops);
        let r = replayed(&file(name, &t, &records));
        prop_assert!(r.identical(), "{}", r);
        prop_assert_eq!((r.calls, r.faults, &r.first_fault), (records.len() as u64, 0, &None));
        prop_assert_eq!(r.ending, Some(Ending::Closed(Totals { records: records.len() as u64, dropped: 0 })));
    }

    #[test]
    fn a_header_makes_the_same_machine_and_the_same_settings(t in topology()) {
        let mut h = header("fifo", &t);
        h.settings.limits.slice_ns = 123;
        h.settings.limits.llc_free_ns = u64::MAX;
        h.settings.level = Level::Cluster;
        let mut w = Writer::new(Vec::new()).expect("memory");
        w.begin(&h).expect("memory");
        let file = w.finish(0).expect("memory");
        let reader = Reader::open(&file[..]).expect("a trace");
        let got = reader.header();
        // What was assumed about the machine is not kept; its tables are.
        prop_assert_eq!(got.topology.to_string().lines().skip(1).count() > 0, true);
        prop_assert_eq!(got.topology.cpus(), t.cpus());
        for a in t.cpus().iter() {
            prop_assert_eq!(got.topology.cpu(a), t.cpu(a));
            for b in t.cpus().iter() {
                prop_assert_eq!(got.topology.distance(a, b), t.distance(a, b));
            }
        }
        prop_assert_eq!(&got.settings.services, &h.settings.services);
        prop_assert_eq!((got.settings.level, got.settings.limits), (h.settings.level, h.settings.limits));
        prop_assert_eq!((&got.policy, got.settings.max_tasks), (&h.policy, h.settings.max_tasks));
    }
}

/// A second of services beside burners.
fn busy(name: &str, t: &Topology) -> Vec<Vec<u8>> {
    let mut m = recording(name, t, Vec::new());
    for pid in 100..112 {
        let task = m.start(pid, if pid % 2 == 0 { "svc-a" } else { "make" });
        (task.run, task.sleep) = if pid % 2 == 0 { (MS / 3, MS) } else { (FOREVER, 0) };
        m.wake(pid);
    }
    m.advance(1000 * MS);
    m.policy.into_parts().1
}

#[test]
fn another_policy_is_told_apart_at_its_first_other_answer_with_the_state() {
    let t = Grid::new(1, 2, 2, 1).build();
    let file = file("fifo", &t, &busy("fifo", &t));
    let mut reader = Reader::open(&file[..]).expect("a trace");
    let mut other = |_: &_| policies::build("deadline", &t, &settings(Level::Cpu, 128));
    let r = replay(&mut reader, &mut other).expect("a policy");
    assert!(!r.identical());
    let text = r.to_string();
    for words in [
        "DIFFERENT: ",
        "call ",
        "recorded: thread 10",
        "now:      thread 10",
        " tasks wait, oldest first:",
        "CPUs were given",
    ] {
        assert!(text.contains(words), "'{words}' is not in\n{text}");
    }
}

#[test]
fn what_another_policy_would_have_done_is_counted() {
    let t = Grid::new(1, 2, 2, 1).build();
    let file = file("fifo", &t, &busy("fifo", &t));
    for (name, _) in policies::NAMES {
        let mut reader = Reader::open(&file[..]).expect("a trace");
        let mut other = |_: &_| policies::build(name, &t, &settings(Level::Cpu, 128));
        let w = what_if(&mut reader, &mut other, 3).expect("a policy");
        let both: u64 = w.apart.iter().sum();
        assert!(both > 1000 && w.recorded.sent >= both && w.other.sent >= both, "{name}: {w}");
        assert_eq!(w.faults, 0, "{name}: {w}");
        assert_eq!(
            w.examples.len(),
            match *name {
                "fifo" => 0,
                _ => 3,
            },
            "{name}: {w}"
        );
    }
}

#[test]
fn a_restart_begins_a_fresh_policy() {
    let (t, u) = (Topology::grid(1, 1, 2, 1), Topology::grid(1, 2, 2, 1));
    let mut w = Writer::new(Vec::new()).expect("memory");
    for t in [&t, &u, &t] {
        w.begin(&header("soft-domain", t)).expect("memory");
        busy("soft-domain", t).iter().for_each(|r| w.put(r).expect("memory"));
    }
    let r = replayed(&w.finish(0).expect("memory"));
    assert!(r.identical() && r.restarts == 2, "{r}");
}

#[test]
fn records_come_out_as_they_went_in() {
    let t = Grid::new(2, 2, 2, 2).sparse(3, 5).build();
    let records = busy("soft-domain", &t);
    let file = file("soft-domain", &t, &records);
    let mut reader = Reader::open(&file[..]).expect("a trace");
    let mut got = Vec::new();
    while let Some(Item::Record(_)) = reader.step().expect("whole") {
        got.push(reader.bytes().to_vec());
    }
    assert!(got == records && records.len() > 5000);
    let raw: usize = records.iter().map(Vec::len).sum();
    assert!(
        raw / records.len() < 100 && file.len() < raw,
        "{raw} bytes in {} records, {} packed",
        records.len(),
        file.len()
    );
}
