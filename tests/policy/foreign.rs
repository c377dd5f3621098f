//! Input that no kernel should send: nothing panics, nothing is stuck.

use crate::script::{policy_name, settings, topology};
use proptest::prelude::*;
use soft_domain::cpumask::CpuMask;
use soft_domain::event::{Answers, Cause, Name, ProcessEvent, Ready, Runnable, Spent};
use soft_domain::ids::{CpuId, MS, Ns, Pid, Tid};
use soft_domain::policies;
use soft_domain::policy::Policy;
use soft_domain::topology::{Level, Topology};

#[derive(Clone, Debug)]
enum Input {
    Process(ProcessEvent),
    Enqueue(Runnable),
    Observe(CpuId, Ns, Ns),
    Dispatch(Option<CpuId>, bool, CpuMask),
    Restore(Pid, CpuId),
}

fn id() -> impl Strategy<Value = i32> {
    prop_oneof![6 => 0..12i32, 1 => any::<i32>(), 1 => Just(i32::MIN), 1 => Just(i32::MAX), 1 => Just(-1)]
}

fn ns() -> impl Strategy<Value = Ns> {
    prop_oneof![4 => 0..50 * MS, 1 => any::<u64>(), 1 => Just(u64::MAX), 1 => Just(0)]
}

fn cpu() -> impl Strategy<Value = CpuId> {
    prop_oneof![6 => 0..40u16, 1 => any::<u16>(), 1 => Just(u16::MAX), 1 => Just(1023u16), 1 => Just(1024u16)]
        .prop_map(CpuId)
}

fn mask() -> impl Strategy<Value = CpuMask> {
    prop_oneof![
        3 => Just(CpuMask::ALL),
        1 => Just(CpuMask::EMPTY),
        3 => prop::collection::vec(cpu(), 0..6).prop_map(|c| c.into_iter().collect()),
    ]
}

fn name() -> impl Strategy<Value = Name> {
    prop_oneof![
        Just(Name::new(b"svc-a")),
        Just(Name::new(b"db")),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|b| Name::new(&b))
    ]
}

fn runnable() -> impl Strategy<Value = Runnable> {
    (id(), cpu(), mask(), any::<bool>(), ns(), ns(), ns(), any::<u32>(), any::<u64>()).prop_map(
        |(tid, cpu, allowed, wakeup, since_wakeup_ns, stint_ns, started, weight, generation)| {
            let cause = if wakeup { Cause::Wakeup } else { Cause::SliceEnd };
            let tid = Tid(tid);
            let waker = wakeup.then_some(Tid(weight as i32 % 8));
            Runnable { tid, cpu, allowed, cause, since_wakeup_ns, stint_ns, started, waker, weight, generation }
        },
    )
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        3 => (id(), id(), id(), name(), any::<bool>()).prop_map(|(tid, pid, parent, comm, kthread)| Input::Process(
            ProcessEvent::Thread { tid: Tid(tid), pid: Pid(pid), parent: Pid(parent), comm, kthread })),
        2 => (id(), name(), name())
            .prop_map(|(pid, comm, exe)| Input::Process(ProcessEvent::Exec { pid: Pid(pid), comm, exe })),
        2 => (id(), id(), any::<bool>())
            .prop_map(|(tid, pid, last)| Input::Process(ProcessEvent::Exit { tid: Tid(tid), pid: Pid(pid), last })),
        8 => runnable().prop_map(Input::Enqueue),
        2 => (cpu(), ns(), ns()).prop_map(|(c, h, o)| Input::Observe(c, h, o)),
        6 => (prop::option::of(cpu()), any::<bool>(), mask()).prop_map(|(c, n, m)| Input::Dispatch(c, n, m)),
        1 => (id(), cpu()).prop_map(|(p, c)| Input::Restore(Pid(p), c)),
    ]
}

fn give(policy: &mut dyn Policy, now: Ns, input: &Input, out: &mut Answers) {
    match input {
        Input::Process(e) => policy.process(now, e, out),
        Input::Enqueue(r) => policy.enqueue(now, r, out),
        Input::Observe(cpu, home, other) => {
            policy.observe(now, *cpu, &Spent { home_ns: *home, other_ns: *other, long_ns: *other / 2 });
        }
        Input::Dispatch(asking, next, idle) => {
            policy.dispatch(now, &Ready { asking: *asking, next: *next, idle: *idle }, out);
        }
        Input::Restore(pid, home) => policy.restore_home(*pid, *home),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 4000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_and_nothing_stays_behind(
        t in topology(),
        name in policy_name(),
        slots in prop_oneof![Just(64usize), 0usize..8],
        // Time passes, or stands still, or is late.
        inputs in prop::collection::vec((prop_oneof![4 => 0..20 * MS, 2 => Just(0), 1 => 0..u64::MAX / 256], input()), 0..200),
    ) {
        let mut policy = policies::build(name, &t, &settings(Level::Cpu, slots)).expect("a policy");
        let mut out = Answers::with_capacity(64);
        let mut now: Ns = 0;
        for (step, input) in &inputs {
            now = now.saturating_add(*step);
            give(&mut policy, now, input, &mut out);
            prop_assert!(out.dispatch.iter().all(|d| d.slice_ns > 0));
            out.clear();
        }
        let ready = Ready { asking: None, next: false, idle: *t.cpus() };
        let rounds = policy.waiting() + 1;
        for _ in 0..rounds {
            now = now.saturating_add(30 * MS);
            policy.dispatch(now, &ready, &mut out);
            out.clear();
        }
        // At the end of time no wait can be seen to grow.
        prop_assert!(policy.waiting() == 0 || now > u64::MAX / 2, "{} wait", policy.waiting());
    }
}

#[test]
fn a_task_without_a_cpu_of_this_machine_is_not_kept() {
    // A CPU that came online a moment ago, before the restart.
    for (name, _) in policies::NAMES {
        foreign_cpu(name);
    }
}

fn foreign_cpu(name: &str) {
    let t = Topology::grid(1, 1, 2, 1);
    let mut policy = policies::build(name, &t, &settings(Level::Cpu, 64)).expect("a policy");
    let mut out = Answers::with_capacity(64);
    let cpu = CpuId(7);
    let r = Runnable {
        tid: Tid(5),
        cpu,
        allowed: CpuMask::of(cpu),
        cause: Cause::Wakeup,
        since_wakeup_ns: 0,
        stint_ns: 0,
        started: 0,
        waker: None,
        weight: 100,
        generation: 1,
    };
    policy.enqueue(MS, &r, &mut out);
    let idle = [CpuId(0), CpuId(1)].into_iter().collect();
    policy.dispatch(MS, &Ready { asking: None, next: false, idle }, &mut out);
    assert_eq!((policy.waiting(), out.dispatch.len()), (0, 1), "{name}");
    assert_eq!(out.dispatch[0].cpu, cpu);
}
