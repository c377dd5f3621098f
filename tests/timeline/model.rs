//! A picture of a simulation holds what the simulation's own books say.

use crate::support::{busy, check, parse, run};
use soft_domain::ids::{MS, Ns};
use soft_domain::policies;
use soft_domain::timeline::model::Moved;
use soft_domain::topology::Topology;

const WORKLOADS: [&str; 4] = ["fleet,batch=20", "mixed", "forks", "burners,tasks=40,run=1ms"];

#[test]
fn every_policy_and_workload_gives_a_picture_that_adds_up() {
    for (policy, _) in policies::NAMES {
        for workload in WORKLOADS {
            let ran = busy(policy, workload);
            let t = ran.timeline();
            check(&t);
            let totals = &ran.results.totals;
            let (own, others): (Vec<_>, Vec<_>) = t.spans.iter().partition(|s| s.task == 0);
            let sum = |spans: &[&soft_domain::timeline::model::Span]| spans.iter().map(|s| s.end - s.start).sum::<Ns>();
            let cpu_ns: Ns = ran.results.services.iter().map(|s| s.tally.cpu_ns).sum();
            assert_eq!((sum(&own), sum(&others)), (totals.scheduler_ns, cpu_ns), "{policy}, {workload}");
            let tallies = || ran.results.services.iter().map(|s| &s.tally);
            assert_eq!(others.len() as u64, tallies().map(|t| t.stints).sum::<u64>());
            assert_eq!(t.latency.count() as u64, totals.woken_and_run);
            assert_eq!(t.latency.at_permille(1000), tallies().map(|t| t.latency.max()).max().unwrap_or(0));
            let marks = |what: Moved| t.marks.iter().filter(|m| m.what == what).count() as u64;
            assert_eq!(marks(Moved::Llc), tallies().map(|t| t.moves[3]).sum::<u64>(), "{policy}, {workload}");
            assert_eq!(marks(Moved::Node), tallies().map(|t| t.moves[4]).sum::<u64>());
            assert_eq!(marks(Moved::Home), totals.homes[1..].iter().sum::<u64>());
            let at_home: Ns = t.spans.iter().filter(|s| s.at_home).map(|s| s.end - s.start).sum();
            assert!(at_home <= tallies().map(|t| t.homed_ns).sum());
        }
    }
}

#[test]
fn the_mean_queue_is_the_time_that_tasks_waited() {
    let ran = busy("soft-domain", "burners,tasks=40,run=1ms");
    let t = ran.timeline();
    let tallies: Ns = ran.results.services.iter().map(|s| s.tally.waited_ns).sum();
    let sums = t.queues.lengths.iter().flatten().map(|(_, mean)| u64::from(*mean) * t.queues.bin / 1000).sum::<Ns>();
    // Each bin is rounded down to a thousandth; who waits at the end is in no tally yet.
    let bins = t.queues.lengths.iter().flatten().count() as u64;
    let open = ran.results.waiting * t.length;
    assert!(sums + bins * (t.queues.bin / 1000 + 1) >= tallies, "{sums} {tallies}");
    assert!(sums <= tallies + open, "{sums} {tallies} {open}");
}

#[test]
fn a_watch_without_room_is_cut_where_it_was_full() {
    let topology = Topology::grid(2, 2, 2, 2);
    let ran = run("fifo", topology.clone(), parse("fleet,batch=20", &topology), 40 * MS, 100);
    let t = ran.timeline();
    check(&t);
    assert!(t.length < 40 * MS && t.accuracy.contains("Cut"), "{}", t.length);
    assert!((100..100 + 2 * topology.nr_cpus()).contains(&t.spans.len()), "{}", t.spans.len());
}

#[test]
fn watching_changes_nothing() {
    let topology = Topology::grid(2, 2, 2, 2);
    let totals = |room| {
        let ran = run("soft-domain", topology.clone(), parse("mixed", &topology), 40 * MS, room);
        format!("{:?}", ran.results.totals)
    };
    assert_eq!(totals(usize::MAX), totals(0));
}
