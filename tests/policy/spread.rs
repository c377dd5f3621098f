//! Homes: spread evenly, inside the mask, given back.

use crate::machine::{FOREVER, Machine, State};
use crate::script::{Mask, large, mask, settings, topology};
use proptest::prelude::*;
use soft_domain::cpumask::CpuMask;
use soft_domain::event::MoveReason;
use soft_domain::ids::{CpuId, MS};
use soft_domain::policy::Policy;
use soft_domain::soft_domain::SoftDomain;
use soft_domain::stats::Counter;
use soft_domain::topology::{Level, Topology};

fn soft(t: &Topology, max_tasks: usize) -> Machine<SoftDomain> {
    let settings = settings(Level::Cpu, max_tasks);
    let limits = settings.limits;
    Machine::new(t, SoftDomain::new(t, settings), limits)
}

/// Most minus least over some sets of CPUs.
fn gap<'a>(homes: &[CpuId], sets: impl Iterator<Item = &'a CpuMask>) -> usize {
    let counts: Vec<usize> = sets.map(|s| homes.iter().filter(|h| s.has(**h)).count()).collect();
    counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0)
}

/// Unrestricted homes are within 1 of each other per node, and per LLC of each node; on a regular machine that is
/// within 1 over all LLCs.
fn assert_even(m: &Machine<SoftDomain>) {
    let t = &m.t;
    let unrestricted = |pid: &i32| t.cpus().is_subset_of(&m.tasks[pid].allowed);
    let homes: Vec<CpuId> = m.homes.iter().filter(|(pid, _)| unrestricted(pid)).map(|(_, h)| h.cpu).collect();
    let moves = &m.moves[m.moves.len().saturating_sub(8)..];
    assert!(gap(&homes, t.nodes().map(|n| t.node_cpus(n))) <= 1, "nodes: {homes:?} on\n{t}\n{moves:?}");
    for n in t.nodes() {
        let llcs = t.node_llcs(n).iter().map(|l| t.llc_cpus(*l));
        assert!(gap(&homes, llcs) <= 1, "LLCs of node {n}: {homes:?} on\n{t}\n{moves:?}");
    }
    let regular = t.nodes().all(|n| t.node_llcs(n).len() * t.nr_nodes() == t.nr_llcs());
    if regular {
        assert!(gap(&homes, t.llcs().map(|l| t.llc_cpus(l))) <= 1, "LLCs: {homes:?} on\n{t}\n{moves:?}");
    }
}

/// Waves of instances that come and, chosen by the second number, go; a second later the spread is even.
pub fn spreads(t: &Topology, waves: &[(usize, usize)]) {
    let mut m = soft(t, 512);
    let mut next = 100;
    for (come, go) in waves {
        for _ in 0..*come {
            let task = m.start(next, "svc-a");
            (task.run, task.sleep) = (MS / 10, 50 * MS);
            // Every sixth may use only a part of the machine.
            let bits = (next as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let allowed = mask(&m, if next % 6 == 0 { Mask::Some(bits) } else { Mask::All });
            m.set_mask(next, allowed);
            m.wake(next);
            next += 1;
        }
        m.advance(MS);
        // The worst to leave: all of one place.
        let mut gone: Vec<(CpuId, i32)> = m.homes.iter().map(|(pid, h)| (h.cpu, *pid)).collect();
        gone.sort();
        gone.into_iter().take(*go).for_each(|(_, pid)| m.exit(pid));
        m.advance(1_000 * MS);
        assert_even(&m);
    }
    // Load may still move homes inside their LLC.
    let moves = m.moves.len();
    m.advance(500 * MS);
    let far: Vec<_> = m.moves[moves..].iter().filter(|m| m.0 != MoveReason::LessLoaded).collect();
    assert!(far.is_empty(), "homes move although nothing changed: {far:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn unrestricted_homes_are_even_one_second_after_the_last_change(
        t in topology(),
        waves in prop::collection::vec((0usize..30, 0usize..20), 1..4),
    ) {
        spreads(&t, &waves);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2, max_shrink_iters: 10, ..ProptestConfig::default() })]

    #[test]
    fn also_on_large_machines(t in large(), waves in prop::collection::vec((0usize..60, 0usize..40), 1..3)) {
        spreads(&t, &waves);
    }
}

#[test]
fn a_whole_node_of_instances_may_end_at_once() {
    spreads(&Topology::grid(2, 2, 4, 2), &[(300, 150)]);
}

#[test]
fn three_hundred_short_lived_instances_leave_nothing_behind() {
    // Tables of 64: what leaked would fill them.
    let mut m = soft(&Topology::grid(2, 2, 2, 1), 64);
    let mut started = 0;
    while started < 300 {
        let wave: Vec<i32> = (0..20).map(|i| 100 + (started + i) % 1000 * 3).collect();
        for pid in &wave {
            let task = m.start(*pid, "svc-short");
            (task.run, task.sleep) = (MS, MS);
            // A second thread that is seen running before anybody tells of it.
            m.spawn(*pid + 1, *pid, "worker", false);
            m.wake(*pid + 1);
            m.wake(*pid);
            m.advance(MS / 2);
            m.tell(*pid + 1);
        }
        assert_eq!(m.policy.placement().count(), 20);
        m.advance(5 * MS);
        assert_even(&m);
        for pid in &wave {
            m.exit(*pid);
            m.exit(*pid + 1);
        }
        assert_eq!(m.policy.placement().count(), 0);
        started += 20;
    }
    let c = m.policy.counters().expect("counters");
    assert_eq!((c.get(Counter::InstancesAdopted), c.get(Counter::InstancesLeft)), (300, 300));
    assert_eq!(c.get(Counter::TasksLost), 0);
    m.advance(1_000 * MS);
    m.start(7, "svc-last");
    assert_eq!(m.homes[&7].cpu, CpuId(0), "an empty machine is filled from the first CPU on");
}

#[test]
fn the_killed_ones_home_goes_to_its_successor_and_the_others_stay() {
    let mut m = soft(&Topology::grid(2, 2, 2, 1), 64);
    for pid in 100..108 {
        m.start(pid, "svc-a");
    }
    m.advance(1_000 * MS);
    for pid in 100..108 {
        let home = m.homes[&pid].cpu;
        m.exit(pid);
        m.advance(100 * MS);
        m.start(pid, "svc-a");
        assert_eq!(m.homes[&pid].cpu, home);
        m.advance(700 * MS);
    }
    assert!(m.moves.is_empty(), "{:?}", m.moves);
}

#[test]
fn a_home_follows_the_mask_to_the_nearest_place() {
    let t = Topology::grid(2, 2, 2, 1);
    let mut m = soft(&t, 64);
    m.start(100, "svc-a").sleep = 5 * MS;
    m.wake(100);
    m.advance(10 * MS);
    assert_eq!(m.homes[&100].cpu, CpuId(0));
    // Only its home is forbidden: the other CPU of the LLC is the nearest.
    m.set_mask(100, t.cpus().minus(&CpuMask::of(CpuId(0))));
    m.advance(10 * MS);
    assert_eq!(m.homes[&100].cpu, CpuId(1));
}

#[test]
fn the_instances_of_a_taken_llc_leave_stay_away_and_return() {
    let t = Topology::grid(2, 2, 2, 1);
    let mut m = soft(&t, 64);
    for pid in 100..104 {
        let task = m.start(pid, "svc-a");
        (task.run, task.sleep) = (MS / 5, 2 * MS);
        m.wake(pid);
    }
    m.advance(1_000 * MS);
    let home = m.homes[&100].cpu;
    let llc = *m.t.llc_cpus(t.cpu(home).expect("a CPU").llc);
    for (i, cpu) in llc.iter().flat_map(|c| [c, c]).enumerate() {
        let burner = 200 + i as i32;
        m.start(burner, "burn").run = FOREVER;
        m.set_mask(burner, CpuMask::of(cpu));
        m.wake(burner);
    }
    m.advance(250 * MS);
    assert!(!llc.has(m.homes[&100].cpu), "still there after 250 ms: {:?}", m.moves);
    let moves = m.moves.len();
    m.advance(2_000 * MS);
    assert_eq!(m.moves.len(), moves, "to and fro: {:?}", m.moves);
    (200..204).for_each(|pid| m.exit(pid));
    m.advance(1_000 * MS);
    assert!(llc.has(m.homes[&100].cpu), "did not return: {:?}", m.moves);
    assert_eq!(m.moves.last().expect("a move").0, MoveReason::Return);
    assert_even(&m);
}

fn eight_instances_on_eight_cpus() -> Machine<SoftDomain> {
    let mut m = soft(&Topology::grid(2, 2, 2, 1), 64);
    for pid in 100..108 {
        let task = m.start(pid, "svc-a");
        (task.run, task.sleep) = (MS / 10, 50 * MS);
        m.wake(pid);
    }
    m.advance(1_000 * MS);
    m
}

/// A task that keeps half of `cpu` busy.
fn stranger(m: &mut Machine<SoftDomain>, pid: i32, cpu: CpuId) {
    let task = m.start(pid, "sh");
    (task.run, task.sleep) = (2 * MS, 2 * MS);
    m.set_mask(pid, CpuMask::of(cpu));
    m.wake(pid);
}

#[test]
fn a_restarted_instance_finds_its_home_free_and_the_others_stay() {
    let mut m = eight_instances_on_eight_cpus();
    let freed = m.homes[&103].cpu;
    let neighbour = m.t.llc_cpus(m.t.cpu(freed).expect("a CPU").llc).iter().find(|c| *c != freed).expect("two CPUs");
    // Its LLC's other home is crowded: the free CPU is clearly better there.
    stranger(&mut m, 200, neighbour);
    m.exit(103);
    let others: Vec<_> = m.homes.iter().map(|(pid, h)| (*pid, h.cpu)).collect();
    m.advance(500 * MS);
    m.start(300, "svc-a").run = MS / 10;
    m.wake(300);
    m.advance(500 * MS);
    assert_eq!(m.homes[&300].cpu, freed, "{:?}", m.moves);
    for (pid, cpu) in others {
        assert_eq!(m.homes[&pid].cpu, cpu, "{pid}: {:?}", m.moves);
    }
}

#[test]
fn a_home_that_others_crowd_does_not_move_onto_another_home() {
    let mut m = eight_instances_on_eight_cpus();
    let crowded = m.homes[&103].cpu;
    stranger(&mut m, 200, crowded);
    m.advance(2_000 * MS);
    let homes: std::collections::BTreeSet<u16> = m.homes.values().map(|h| h.cpu.0).collect();
    assert_eq!(homes.len(), 8, "{:?}", m.moves);
}

#[test]
fn of_two_clients_in_the_way_of_one_home_one_moves_to_an_llc_with_room() {
    let mut m = soft(&Topology::grid(2, 2, 2, 1), 64);
    for pid in 100..104 {
        let task = m.start(pid, "svc-a");
        (task.run, task.sleep) = (MS / 5, MS);
        m.wake(pid);
    }
    let crowded = *m.t.llc_cpus(m.t.cpu(m.homes[&100].cpu).expect("a CPU").llc);
    for pid in [200, 201] {
        let task = m.start(pid, "client");
        (task.run, task.sleep) = (MS / 2, MS + MS / 10 * (pid as u64 - 200));
        m.set_mask(pid, crowded);
        m.wake(pid);
    }
    m.advance(200 * MS);
    for pid in [200, 201] {
        m.set_mask(pid, CpuMask::ALL);
    }
    m.advance(1_000 * MS);
    let mut together = 0;
    for _ in 0..500 {
        m.advance(MS);
        let there = |pid| matches!(m.tasks[&pid].state, State::Running(c) if crowded.has(c));
        together += u32::from(there(200) && there(201));
    }
    assert_eq!(together, 0, "of 500 ms");
}
