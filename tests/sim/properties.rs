//! Random workloads on random machines.

use crate::support::{Run, every_policy};
use proptest::prelude::*;
use soft_domain::cpumask::CpuMask;
use soft_domain::ids::{CpuId, MS, Ns, US};
use soft_domain::sim::program::{Op, TaskSpec, Workload};
use soft_domain::topology::Topology;

const CHANNELS: usize = 3;

fn mask() -> impl Strategy<Value = CpuMask> {
    prop_oneof![3 => Just(CpuMask::ALL), 1 => any::<u64>().prop_map(|bits| CpuMask::from_words(&[bits | 1]))]
}

fn op(tasks: usize) -> impl Strategy<Value = Op> {
    let ns = 0..5000u64;
    prop_oneof![
        6 => (ns.clone(), 0..1000u32).prop_map(|(us, spread)| Op::Run { ns: us * US, spread }),
        3 => (ns.clone(), 0..1000u32).prop_map(|(us, spread)| Op::Sleep { ns: us * US, spread }),
        2 => (0..2usize, 1..10_000u64, any::<bool>())
            .prop_map(|(timer, us, absolute)| Op::Timer { timer, period: us * US, absolute }),
        2 => (0..CHANNELS).prop_map(Op::Post),
        1 => (0..CHANNELS).prop_map(Op::Wait),
        1 => (0..CHANNELS).prop_map(Op::Broadcast),
        1 => Just(Op::Yield),
        1 => Just(Op::Fork(0)),
        1 => mask().prop_map(Op::SetMask),
        1 => (0..tasks, mask()).prop_map(|(task, mask)| Op::Rebind { task, mask }),
        1 => (1..10_000u32).prop_map(Op::SetWeight),
        1 => (2..5u32).prop_map(|times| Op::Repeat { to: 0, times, counter: 0 }),
    ]
}

fn workload() -> impl Strategy<Value = Workload> {
    let task = (prop::collection::vec(op(8), 1..8), mask(), 0..3000u64, any::<bool>(), prop::option::of(0..4usize));
    prop::collection::vec(task, 1..24).prop_map(|tasks| {
        let mut w = Workload { services: vec!["server".into()], ..Workload::default() };
        for _ in 0..CHANNELS {
            w.channel(1);
        }
        let child = vec![Op::Exec(soft_domain::event::Name::new(b"server")), Op::Run { ns: 300 * US, spread: 900 }];
        w.templates.push(TaskSpec::new("child", child));
        for (i, (mut ops, allowed, start, again, thread_of)) in tasks.into_iter().enumerate() {
            // A loop without a pause would be a fork bomb.
            ops.push(Op::Sleep { ns: 500 * US, spread: 0 });
            if again {
                ops.push(Op::Jump(0));
            }
            let service = if i % 2 == 0 { "server" } else { "other" };
            let start: Ns = start * US;
            w.tasks.push(TaskSpec { allowed, start, thread_of, ..TaskSpec::new(service, ops) });
        }
        w
    })
}

fn topology() -> impl Strategy<Value = Topology> {
    (1..3usize, 1..3usize, 1..4usize, 1..3usize).prop_map(|(n, l, c, s)| Topology::grid(n, l, c, s))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    /// `Run` checks after each run: every wake-up once, every CPU's time accounted for.
    #[test]
    fn random_workloads_keep_the_books_and_every_policy_the_rules(
        w in workload(),
        t in topology(),
        seed in any::<u64>(),
        ring in 1..40u64,
    ) {
        for policy in every_policy() {
            for cost in ["queued-ring=5460".to_owned(), format!("queued-ring={ring}")] {
                let mut run = Run::on(t.clone(), 60 * MS).cost(&cost);
                run.seed = seed;
                let r = run.workload(policy, w.clone());
                prop_assert!(r.faults.is_empty(), "{}: {}", policy, r.faults[0]);
            }
        }
    }

    #[test]
    fn with_one_cpu_left_to_each_nothing_moves(seed in any::<u64>(), cpus in 1..8usize) {
        let mut w = Workload::default();
        for cpu in 0..cpus {
            let ops = vec![Op::Run { ns: MS, spread: 900 }, Op::Sleep { ns: MS, spread: 900 }, Op::Jump(0)];
            w.tasks.push(TaskSpec { allowed: CpuMask::of(CpuId(cpu as u16)), ..TaskSpec::new("t", ops) });
        }
        for policy in every_policy() {
            let mut run = Run::on(Topology::grid(1, 1, cpus, 1), 100 * MS);
            run.seed = seed;
            let r = run.workload(policy, w.clone());
            prop_assert_eq!(r.services[0].tally.all_moves(), 0);
            prop_assert_eq!(r.totals.bounced, 0);
        }
    }
}
