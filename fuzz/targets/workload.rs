//! An rt-app file: read, and if it makes sense simulated for a moment.
#![no_main]

use libfuzzer_sys::fuzz_target;
use soft_domain::ids::US;
use soft_domain::policies;
use soft_domain::sim::cost::Costs;
use soft_domain::sim::workload::parse_rtapp;
use soft_domain::sim::{Machine, Setup};
use soft_domain::soft_domain::Settings;
use soft_domain::topology::{Level, Topology};

fuzz_target!(|data: &str| {
    let topology = Topology::grid(1, 2, 1, 1);
    match parse_rtapp(data, &topology) {
        Err(e) => assert!(!e.is_empty() && !e.contains('\n'), "{e}"),
        Ok(workload) if workload.tasks.len() > 100 => {}
        Ok(workload) => {
            let settings = Settings { max_tasks: 256, ..Settings::default() };
            let policy = policies::build("soft-domain", &topology, &settings).expect("a policy");
            let setup = Setup { topology: &topology, costs: &Costs::default(), level: Level::Cpu, seed: 1 };
            Machine::new(&setup, policy, workload).run(500 * US);
        }
    }
});
