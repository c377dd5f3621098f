//! Random machines and random things that happen to them.
#![allow(dead_code)] // each test binary uses a part of it

use crate::machine::{FOREVER, Machine, State};
use proptest::prelude::*;
use soft_domain::cpumask::CpuMask;
use soft_domain::ids::{CpuId, MS, Ns, US};
use soft_domain::policies;
use soft_domain::policy::Policy;
use soft_domain::service::Pattern;
use soft_domain::soft_domain::Settings;
use soft_domain::topology::{Grid, Level, Numbering, RawCpu, Topology};

/// Names of programs; the first two are services.
pub const NAMES: [&str; 4] = ["svc-a", "db", "bash", "make"];

/// The settings of the tests: two services.
pub fn settings(level: Level, max_tasks: usize) -> Settings {
    let services = ["svc-*", "db"].map(|p| Pattern::new(p).expect("a pattern")).to_vec();
    Settings { services, level, max_tasks, ..Settings::default() }
}

pub fn level() -> impl Strategy<Value = Level> {
    prop::sample::select(Level::ALL.to_vec())
}

/// Any of the policies.
pub fn policy_name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(policies::NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>())
}

fn numbering() -> impl Strategy<Value = Numbering> {
    prop::sample::select(vec![Numbering::SiblingsTogether, Numbering::SiblingsLast, Numbering::NodesInterleaved])
}

/// Regular machines: one CPU to a few dozen, with holes, SMT and clusters.
pub fn small() -> impl Strategy<Value = Topology> {
    (1usize..4, 1usize..4, 1usize..5, 1usize..3, 1usize..4, numbering(), 0usize..9, 1usize..8).prop_map(
        |(nodes, llcs, cores, smt, clusters, numbering, first, stride)| {
            Grid::new(nodes, llcs, cores, smt).clusters(clusters).numbering(numbering).sparse(first, stride).build()
        },
    )
}

/// Up to 1,024 CPUs.
pub fn large() -> impl Strategy<Value = Topology> {
    (1usize..9, 1usize..5, 8usize..17, 1usize..3, 1usize..5, numbering()).prop_map(
        |(nodes, llcs, cores, smt, clusters, numbering)| {
            Grid::new(nodes, llcs, cores, smt).clusters(clusters).numbering(numbering).build()
        },
    )
}

/// Machines whose nodes and LLCs have different sizes.
pub fn uneven() -> impl Strategy<Value = Topology> {
    prop::collection::vec((0u32..3, 0u32..3), 1..20).prop_map(|cpus| {
        let raw = |(id, (node, llc)): (usize, (u32, u32))| {
            let id = id as u32 * 3;
            RawCpu { id, core: id, cluster: None, llc: node * 3 + llc, node, capacity: 1024 }
        };
        let raw: Vec<RawCpu> = cpus.into_iter().enumerate().map(raw).collect();
        Topology::new(&raw, Vec::new()).expect("a topology")
    })
}

/// Mostly small machines.
pub fn topology() -> impl Strategy<Value = Topology> {
    prop_oneof![6 => small(), 3 => uneven()]
}

#[derive(Clone, Copy, Debug)]
pub enum Mask {
    All,
    One(usize),
    /// Another LLC than the one it last ran in, or any.
    Llc(usize),
    Some(u64),
}

#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// A process; its program; runs so long, sleeps so long.
    Start(usize, Ns, Ns),
    /// A thread of a process, known to the policy or not yet.
    Thread(usize, bool),
    Tell(usize),
    Exec(usize, usize),
    Exit(usize),
    /// All threads of a process; the main thread first or last.
    Kill(usize, bool),
    Wake(usize),
    Sleep(usize),
    Preempt(usize),
    SetMask(usize, Mask),
    Weight(usize, u32),
    Requeue(usize),
    Ask(usize),
    Advance(Ns),
}

pub fn op() -> impl Strategy<Value = Op> {
    let n = || 0usize..1 << 16;
    let run = prop_oneof![2 => (10 * US)..(9 * MS), 1 => Just(FOREVER)];
    let sleep = prop_oneof![1 => Just(0), 2 => (50 * US)..(30 * MS)];
    let mask = prop_oneof![
        3 => Just(Mask::All),
        2 => n().prop_map(Mask::One),
        2 => n().prop_map(Mask::Llc),
        2 => any::<u64>().prop_map(Mask::Some),
    ];
    prop_oneof![
        8 => (0..NAMES.len(), run, sleep).prop_map(|(name, run, sleep)| Op::Start(name, run, sleep)),
        3 => (n(), any::<bool>()).prop_map(|(p, told)| Op::Thread(p, told)),
        2 => n().prop_map(Op::Tell),
        2 => (n(), 0..NAMES.len()).prop_map(|(p, name)| Op::Exec(p, name)),
        3 => n().prop_map(Op::Exit),
        2 => (n(), any::<bool>()).prop_map(|(p, main_first)| Op::Kill(p, main_first)),
        12 => n().prop_map(Op::Wake),
        4 => n().prop_map(Op::Sleep),
        3 => n().prop_map(Op::Preempt),
        5 => (n(), mask).prop_map(|(t, m)| Op::SetMask(t, m)),
        2 => (n(), 1u32..=10_000).prop_map(|(t, w)| Op::Weight(t, w)),
        3 => n().prop_map(Op::Requeue),
        2 => n().prop_map(Op::Ask),
        12 => (0u64..4_000).prop_map(|us| Op::Advance(us * US)),
        1 => Just(Op::Advance(300 * MS)),
    ]
}

fn pick<P: Policy>(m: &Machine<P>, n: usize) -> Option<i32> {
    m.tasks.keys().nth(n % m.tasks.len().max(1)).copied()
}

fn cpu_of<P: Policy>(m: &Machine<P>, n: usize) -> CpuId {
    m.t.cpus().iter().nth(n % m.t.nr_cpus()).expect("a CPU")
}

/// The lowest id that nobody has: ids are reused at once.
fn free_id<P: Policy>(m: &Machine<P>) -> i32 {
    (100..).find(|id| !m.tasks.contains_key(id) && !m.tasks.values().any(|t| t.pid == *id)).expect("an id")
}

/// The mask that is meant, with at least one CPU of the machine.
pub fn mask<P: Policy>(m: &Machine<P>, mask: Mask) -> CpuMask {
    let made = match mask {
        Mask::All => CpuMask::ALL,
        Mask::One(n) => CpuMask::of(cpu_of(m, n)),
        Mask::Llc(n) => *m.t.llc_cpus(m.t.cpu(cpu_of(m, n)).expect("a CPU").llc),
        Mask::Some(bits) => {
            m.t.cpus().iter().enumerate().filter(|(i, _)| bits >> (i % 64) & 1 == 1).map(|c| c.1).collect()
        }
    };
    if made.intersects(m.t.cpus()) { made } else { CpuMask::ALL }
}

/// Does it.
pub fn apply<P: Policy>(m: &mut Machine<P>, op: Op) {
    match op {
        Op::Start(name, run, sleep) => {
            let id = free_id(m);
            let t = m.start(id, NAMES[name]);
            (t.run, t.sleep) = (run, sleep);
            m.wake(id);
        }
        Op::Thread(n, told) => {
            let Some(pid) = pick(m, n).map(|tid| m.tasks[&tid].pid) else { return };
            let id = free_id(m);
            m.spawn(id, pid, "worker", told).sleep = 3 * MS;
            m.wake(id);
        }
        Op::Tell(n) => pick(m, n).into_iter().for_each(|tid| m.tell(tid)),
        Op::Exec(n, name) => {
            pick(m, n).map(|tid| m.tasks[&tid].pid).into_iter().for_each(|pid| m.exec(pid, NAMES[name]))
        }
        Op::Exit(n) => pick(m, n).into_iter().for_each(|tid| m.exit(tid)),
        Op::Kill(n, main_first) => {
            let Some(pid) = pick(m, n).map(|tid| m.tasks[&tid].pid) else { return };
            let mut threads: Vec<i32> = m.tasks.iter().filter(|(_, t)| t.pid == pid).map(|(tid, _)| *tid).collect();
            threads.sort_by_key(|tid| (*tid == pid) != main_first);
            threads.into_iter().for_each(|tid| m.exit(tid));
        }
        Op::Wake(n) => pick(m, n).into_iter().for_each(|tid| m.wake(tid)),
        Op::Sleep(n) => m.sleep(cpu_of(m, n)),
        Op::Preempt(n) => m.preempt(cpu_of(m, n)),
        Op::SetMask(n, which) => {
            let mask = mask(m, which);
            pick(m, n).into_iter().for_each(|tid| m.set_mask(tid, mask));
        }
        Op::Weight(n, weight) => {
            let Some(tid) = pick(m, n) else { return };
            m.tasks.get_mut(&tid).expect("a task").weight = weight;
            m.requeue(tid);
        }
        Op::Requeue(n) => {
            // One that waits, if there is one.
            let waits = m.held.keys().nth(n % m.held.len().max(1)).copied();
            waits.into_iter().for_each(|tid| m.requeue(tid));
        }
        Op::Ask(n) => {
            let cpu = cpu_of(m, n);
            m.pass(m.idle().has(cpu).then_some(cpu));
        }
        Op::Advance(by) => m.advance(by),
    }
    debug_assert!(m.tasks.values().all(|t| t.state != State::Queued || !m.held.is_empty()));
}
