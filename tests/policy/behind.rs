//! Tasks that wait in a busy CPU's own queue because what runs there ends soon.

use crate::machine::Machine;
use crate::script::settings;
use soft_domain::cpumask::CpuMask;
use soft_domain::event::Reason;
use soft_domain::ids::{CpuId, MS, Ns, US};
use soft_domain::soft_domain::SoftDomain;
use soft_domain::topology::{Level, Topology};

/// Four tasks, two on each of two CPUs and allowed nowhere else; each runs for `run`, sleeps for as long, for a second.
fn pairs(run: Ns) -> Machine<SoftDomain> {
    let t = Topology::grid(1, 2, 1, 1);
    let settings = settings(Level::Cpu, 64);
    let mut m = Machine::new(&t, SoftDomain::new(&t, settings.clone()), settings.limits);
    for i in 0..4 {
        let pid = 100 + i;
        let task = m.start(pid, "pinned");
        (task.run, task.sleep) = (run, run);
        m.set_mask(pid, CpuMask::of(CpuId(i as u16 % 2)));
        m.wake(pid);
    }
    m.advance(1000 * MS);
    m
}

#[test]
fn a_task_with_one_cpu_is_sent_behind_a_short_one_there_in_another_cpus_turn() {
    let m = pairs(300 * US);
    let behind = m.by_reason.get(&Reason::MaskBehind).copied().unwrap_or(0);
    assert!(behind * 4 > m.dispatched, "{behind} of {}", m.dispatched);
}

#[test]
fn nobody_is_sent_behind_a_task_that_runs_long() {
    let m = pairs(20 * MS);
    assert_eq!(m.by_reason.get(&Reason::MaskBehind), None);
    assert!(m.dispatched > 20);
}
