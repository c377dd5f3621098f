use crate::support::{Run, every_policy};
use soft_domain::ids::MS;
use soft_domain::sim::report::{self, Title};
use soft_domain::sim::{json, presets};

fn text(policy: &str, workload: &str, topology: &str, seed: u64) -> String {
    let mut run = Run::on(presets::topology(topology).unwrap(), 60 * MS);
    run.seed = seed;
    let results = run.named(policy, workload);
    let title = Title { policy: policy.into(), workload: workload.into(), topology: topology.into(), seed };
    report::text(&title, &results, true) + &json::text(&title, &results)
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for policy in every_policy() {
        for (workload, topology) in [
            ("fleet", "nodes=2,llcs=2,cores=2"),
            ("mixed", "hybrid-laptop"),
            ("forks", "cloud-2cpu"),
            ("pipe", "cores=4"),
        ] {
            let first = text(policy, workload, topology, 7);
            assert!(first == text(policy, workload, topology, 7), "{policy} {workload}");
        }
    }
}

#[test]
fn another_seed_gives_another_run() {
    assert_ne!(text("fifo", "fleet", "cores=4", 1), text("fifo", "fleet", "cores=4", 2));
}
