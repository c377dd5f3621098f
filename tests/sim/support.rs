//! Runs in one line.

use soft_domain::ids::Ns;
use soft_domain::policies;
use soft_domain::policy::Policy;
use soft_domain::service::Pattern;
use soft_domain::sim::cost::Costs;
use soft_domain::sim::program::Workload;
use soft_domain::sim::results::{Line, Results};
use soft_domain::sim::{Machine, Setup, workload};
use soft_domain::soft_domain::Settings;
use soft_domain::topology::{Level, Topology};

pub struct Run {
    pub topology: Topology,
    pub costs: Costs,
    pub seed: u64,
    pub duration: Ns,
}

impl Run {
    pub fn on(topology: Topology, duration: Ns) -> Self {
        Run { topology, costs: Costs::default(), seed: 1, duration }
    }

    pub fn cost(mut self, setting: &str) -> Self {
        self.costs.set(setting).unwrap();
        self
    }

    pub fn named(&self, policy: &str, workload: &str) -> Results {
        let workload = workload::parse(workload, &self.topology).unwrap();
        self.workload(policy, workload)
    }

    pub fn workload(&self, policy: &str, workload: Workload) -> Results {
        let services = workload.services.iter().map(|s| Pattern::new(s).unwrap()).collect();
        let settings = Settings { services, max_tasks: 1 << 12, ..Settings::default() };
        self.policy(policies::build(policy, &self.topology, &settings).unwrap(), workload)
    }

    pub fn policy(&self, policy: Box<dyn Policy>, workload: Workload) -> Results {
        let Run { topology, costs, seed, .. } = self;
        let setup = Setup { topology, costs, level: Level::Cpu, seed: *seed };
        let mut machine = Machine::new(&setup, policy, workload);
        machine.run(self.duration);
        let results = machine.results();
        check(&results);
        results
    }
}

/// What holds in every run of every policy.
fn check(r: &Results) {
    assert_eq!(r.totals.woken, r.totals.woken_and_run + r.woken_waiting, "each wake-up runs once or still waits");
    let tasks: Ns = r.services.iter().map(|s| s.tally.cpu_ns).sum();
    let t = &r.totals;
    assert_eq!(tasks + t.scheduler_ns + t.idle_ns, r.duration * r.cpus, "every CPU is busy, scheduling or idle");
    assert!(t.idle_while_waiting_ns <= t.idle_ns);
    for s in &r.services {
        let of_service = r.tasks.iter().filter(|l| l.name == s.name);
        assert!(of_service.map(|l| l.tally.requests).sum::<u64>() <= s.tally.requests);
        assert_eq!(s.tally.wakeups, s.tally.latency.count());
        assert!(s.tally.home_ns <= s.tally.homed_ns && s.tally.homed_ns <= s.tally.cpu_ns);
    }
}

pub fn every_policy() -> impl Iterator<Item = &'static str> {
    policies::NAMES.iter().map(|(name, _)| *name)
}

pub fn line<'a>(r: &'a Results, service: &str) -> &'a Line {
    r.services.iter().find(|l| l.name == service).unwrap()
}
