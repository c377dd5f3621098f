//! What holds whatever happens, on every machine.

use crate::machine::{FOREVER, Machine};
use crate::script::{Mask, Op, apply, large, level, mask, op, settings, topology};
use crate::support::{MACHINES, machine};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use soft_domain::event::MoveReason;
use soft_domain::host::sysfs::read_topology;
use soft_domain::ids::{CpuId, MS};
use soft_domain::policy::Policy;
use soft_domain::soft_domain::{Settings, SoftDomain};
use soft_domain::topology::{Level, Topology};
use std::collections::BTreeMap;

fn soft(t: &Topology, settings: Settings) -> Machine<SoftDomain> {
    let limits = settings.limits;
    Machine::new(t, SoftDomain::new(t, settings), limits)
}

/// Homes by pid, as the policy says.
fn placement(m: &Machine<SoftDomain>) -> BTreeMap<i32, CpuId> {
    m.policy.placement().map(|(pid, _, _, home)| (pid.0, home)).collect()
}

/// Runs the script; the machine checks every answer.
fn play<P: Policy>(m: &mut Machine<P>, ops: &[Op], after: impl Fn(&Machine<P>)) {
    for op in ops {
        apply(m, *op);
        after(m);
    }
    m.drain();
    after(m);
}

fn notices_tell_all_homes(m: &Machine<SoftDomain>) {
    let told: BTreeMap<i32, CpuId> = m.homes.iter().map(|(pid, h)| (*pid, h.cpu)).collect();
    assert_eq!(told, placement(m), "homes by the notices, and as they are");
    let alive = |pid: &i32| m.tasks.values().any(|t| t.pid == *pid);
    assert!(told.keys().all(alive), "a home of a process that has gone");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, max_shrink_iters: 4000, ..ProptestConfig::default() })]

    #[test]
    fn every_task_is_dispatched_once_inside_its_mask_and_every_answer_is_in_order(
        t in topology(),
        level in level(),
        preempts in any::<bool>(),
        ops in prop::collection::vec(op(), 0..250),
    ) {
        let mut m = soft(&t, settings(level, 512));
        m.preempts = preempts;
        play(&mut m, &ops, notices_tell_all_homes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_full_table_loses_no_task(
        t in topology(),
        slots in 0usize..12,
        ops in prop::collection::vec(op(), 0..200),
    ) {
        play(&mut soft(&t, settings(Level::Cpu, slots)), &ops, |_| ());
    }

    #[test]
    fn the_same_events_give_the_same_answers(
        t in topology(),
        level in level(),
        ops in prop::collection::vec(op(), 0..200),
    ) {
        let log = || {
            let mut m = soft(&t, settings(level, 128));
            m.preempts = true;
            m.log = Some(String::new());
            play(&mut m, &ops, |_| ());
            (m.log.take(), format!("{:?}", m.policy))
        };
        let (first, second) = (log(), log());
        prop_assert!(first == second);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn large_machines_too(t in large(), level in level(), ops in prop::collection::vec(op(), 0..250)) {
        play(&mut soft(&t, settings(level, 512)), &ops, notices_tell_all_homes);
    }
}

#[test]
fn the_captured_machines_too() {
    for name in MACHINES {
        let t = read_topology(&machine(name).root).expect("a topology");
        let config =
            ProptestConfig { cases: 3, max_shrink_iters: 100, failure_persistence: None, ..Default::default() };
        TestRunner::new(config)
            .run(&(level(), prop::collection::vec(op(), 0..200)), |(level, ops)| {
                play(&mut soft(&t, settings(level, 512)), &ops, notices_tell_all_homes);
                Ok(())
            })
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        crate::spread::spreads(&t, &[(40, 0), (5, 11), (0, 3), (9, 2)]);
    }
}

/// The longest wait allowed: the age bound, then everybody else that waits goes first on one CPU. Each turn of a CPU costs
/// up to two slices: a task may already wait in the CPU's own queue, behind a home that was busy.
fn longest(m: &Machine<SoftDomain>, cpus: usize) -> u64 {
    m.limits.age_bound_ns + 2 * (m.tasks.len().div_ceil(cpus) as u64 + 1) * m.limits.slice_ns
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 200, ..ProptestConfig::default() })]

    /// Masks may leave all tasks one CPU in common; every task that goes first costs a slice.
    #[test]
    fn no_task_waits_much_longer_than_the_age_bound(
        t in topology(),
        tasks in prop::collection::vec(
            (prop_oneof![Just(FOREVER), MS / 10..5 * MS], MS / 10..9 * MS, 1u32..=10_000, any::<u64>(), 0..3u8), 1..60),
    ) {
        let mut m = soft(&t, settings(Level::Cpu, 128));
        for (i, (run, sleep, weight, bits, kind)) in tasks.iter().enumerate() {
            let pid = 100 + i as i32;
            let allowed = mask(&m, match kind { 0 => Mask::One(*bits as usize), 1 => Mask::Some(*bits), _ => Mask::All });
            let t = m.start(pid, if kind % 2 == 0 { "svc-x" } else { "sh" });
            (t.run, t.sleep, t.weight) = (*run, *sleep, *weight);
            m.set_mask(pid, allowed);
            m.wake(pid);
        }
        m.advance(2_500 * MS);
        let bound = longest(&m, 1);
        prop_assert!(m.longest_wait <= bound, "{} > {bound}", m.longest_wait);
        let waiting = m.held.values().map(|(_, since)| m.now - since).max().unwrap_or(0);
        prop_assert!(waiting <= bound, "{waiting} > {bound}");
    }
}

#[test]
fn a_crowd_of_all_weights_waits_no_longer_than_the_age_bound_and_one_round() {
    for (t, n) in [(Topology::grid(1, 1, 1, 1), 120), (Topology::grid(2, 2, 2, 1), 200)] {
        let mut m = soft(&t, settings(Level::Cpu, 512));
        for pid in 0..n {
            let t = m.start(100 + pid, "sh");
            (t.run, t.weight) = (FOREVER, if pid % 2 == 0 { 10_000 } else { 3 });
            m.wake(100 + pid);
        }
        m.advance(3_000 * MS);
        let waiting = m.held.values().map(|(_, since)| m.now - since).max().unwrap_or(0).max(m.longest_wait);
        assert!(waiting <= longest(&m, t.nr_cpus()), "{waiting}");
    }
}

#[test]
fn homes_move_away_from_burners_and_only_to_gain() {
    let t = Topology::grid(2, 2, 2, 1);
    let mut m = soft(&t, settings(Level::Cpu, 128));
    for pid in 100..104 {
        let task = m.start(pid, "svc-a");
        (task.run, task.sleep) = (MS / 5, 2 * MS);
        m.wake(pid);
    }
    // Homes stay where they are at first.
    m.advance(600 * MS);
    for (i, cpu) in placement(&m).into_values().enumerate() {
        let burner = 200 + i as i32;
        m.start(burner, "burn").run = FOREVER;
        m.set_mask(burner, soft_domain::cpumask::CpuMask::of(cpu));
        m.wake(burner);
    }
    m.advance(100 * MS);
    let moved: Vec<i32> = m.moves.iter().filter(|m| m.0 == MoveReason::LessLoaded).map(|m| m.1).collect();
    assert_eq!(moved.len(), 4, "{:?}", m.moves);
    m.advance(2_000 * MS);
    assert_eq!(m.moves.len(), 4, "{:?}", m.moves);
}

#[test]
fn a_late_crowd_does_not_starve_the_late_tasks_of_another_queue() {
    let t = Topology::grid(1, 2, 2, 1);
    let mut s = settings(Level::Cpu, 2048);
    s.limits.slice_min_ns = s.limits.slice_ns;
    let mut m = soft(&t, s);
    // Every wait is over the age bound, and the other LLC's queue is served second.
    for pid in 100..1700 {
        m.start(pid, "sh").run = FOREVER;
        m.wake(pid);
    }
    for (pid, cpus) in [(50, vec![CpuId(3)]), (51, vec![CpuId(2), CpuId(3)])] {
        m.start(pid, "sh").run = FOREVER;
        m.set_mask(pid, cpus.into_iter().collect());
        m.wake(pid);
    }
    m.advance(6_000 * MS);
    let waiting = m.held.values().map(|(_, since)| m.now - since).max().unwrap_or(0).max(m.longest_wait);
    assert!(waiting <= longest(&m, t.nr_cpus()), "{waiting}");
}
