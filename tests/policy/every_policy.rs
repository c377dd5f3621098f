//! What holds for every policy that `--policy` can name.

use crate::machine::{FOREVER, Machine};
use crate::script::{Mask, Op, apply, level, mask, op, policy_name, settings, topology};
use proptest::prelude::*;
use soft_domain::ids::{MS, Ns};
use soft_domain::policies;
use soft_domain::policy::Policy;
use soft_domain::topology::{Level, Topology};

/// The longest time that a task may wait while a CPU that it may use is free. The policies with a queue per CPU leave
/// a CPU idle where masks or distance hide the task from it; what waits still waits a bounded time.
fn idle_bound(name: &str) -> Option<Ns> {
    match name {
        "fifo" | "deadline" => Some(0),
        _ => None,
    }
}

fn machine(name: &str, t: &Topology, level: Level, slots: usize) -> Machine<Box<dyn Policy>> {
    let settings = settings(level, slots);
    let limits = settings.limits;
    let mut m = Machine::new(t, policies::build(name, t, &settings).expect("a policy"), limits);
    if name != "soft-domain" {
        m.idle_bound = idle_bound(name).unwrap_or(Ns::MAX);
    }
    m
}

/// Runs the script; the machine checks every answer.
fn play(m: &mut Machine<Box<dyn Policy>>, ops: &[Op]) {
    ops.iter().for_each(|op| apply(m, *op));
    m.drain();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 4000, ..ProptestConfig::default() })]

    #[test]
    fn every_task_is_dispatched_once_inside_its_mask_unless_superseded_or_gone(
        name in policy_name(),
        t in topology(),
        level in level(),
        preempts in any::<bool>(),
        slots in prop_oneof![4 => Just(512usize), 1 => 0usize..12],
        ops in prop::collection::vec(op(), 0..250),
    ) {
        let mut m = machine(name, &t, level, slots);
        m.preempts = preempts;
        play(&mut m, &ops);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn the_same_events_give_the_same_decisions(
        name in policy_name(),
        t in topology(),
        ops in prop::collection::vec(op(), 0..200),
    ) {
        let log = || {
            let mut m = machine(name, &t, Level::Cpu, 128);
            m.preempts = true;
            m.log = Some(String::new());
            play(&mut m, &ops);
            m.log.take()
        };
        let (first, second) = (log(), log());
        prop_assert!(first == second);
    }

    /// The age bound, then everybody else first on one CPU, as masks may leave all tasks one CPU in common.
    #[test]
    fn the_wait_of_every_task_is_bounded(
        name in policy_name(),
        t in topology(),
        tasks in prop::collection::vec(
            (prop_oneof![Just(FOREVER), MS / 10..5 * MS], MS / 10..9 * MS, 1u32..=10_000, any::<u64>(), 0..3u8), 1..50),
    ) {
        let mut m = machine(name, &t, Level::Cpu, 128);
        for (i, (run, sleep, weight, bits, kind)) in tasks.iter().enumerate() {
            let pid = 100 + i as i32;
            let allowed = mask(&m, match kind { 0 => Mask::One(*bits as usize), 1 => Mask::Some(*bits), _ => Mask::All });
            let t = m.start(pid, if kind % 2 == 0 { "svc-x" } else { "sh" });
            (t.run, t.sleep, t.weight) = (*run, *sleep, *weight);
            m.set_mask(pid, allowed);
            m.wake(pid);
        }
        m.advance(2_500 * MS);
        let bound = m.limits.age_bound_ns + 2 * (tasks.len() as u64 + 1) * m.limits.slice_ns;
        let waiting = m.held.values().map(|(_, since)| m.now - since).max().unwrap_or(0);
        let longest = waiting.max(m.longest_wait);
        prop_assert!(longest <= bound, "{name}: {longest} > {bound}");
    }
}

#[test]
fn idle_cpus_take_what_waits_elsewhere() {
    for (name, _) in policies::NAMES {
        let mut m = machine(name, &Topology::grid(1, 2, 4, 1), Level::Cpu, 64);
        (100..108).for_each(|pid| {
            m.start(pid, "burn").run = FOREVER;
            m.wake(pid);
        });
        m.advance(500 * MS);
        assert!(
            m.idle().is_empty() && m.policy.waiting() == 0,
            "{name}: {} wait, {} idle",
            m.policy.waiting(),
            m.idle()
        );
    }
}
