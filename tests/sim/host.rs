//! Guests whose host has fewer CPUs, and wake-ups that come as interrupts.

use crate::support::{Run, every_policy, line};
use soft_domain::cpumask::CpuMask;
use soft_domain::ids::{CpuId, MS, US};
use soft_domain::sim::program::{Op, TaskSpec, Workload};
use soft_domain::topology::Topology;

fn pinned(service: &str, cpu: u16, program: Vec<Op>) -> TaskSpec {
    TaskSpec { allowed: CpuMask::of(CpuId(cpu)), ..TaskSpec::new(service, program) }
}

fn burner(service: &str, cpu: u16) -> TaskSpec {
    pinned(service, cpu, vec![Op::Run { ns: MS, spread: 0 }, Op::Count(1), Op::Jump(0)])
}

#[test]
fn two_cpus_of_a_guest_on_one_of_the_host_do_half_of_the_work_and_do_not_know() {
    let run = Run::on(Topology::grid(1, 1, 2, 1), 1000 * MS).cost("host-cpus=1");
    let r = run.workload("fifo", Workload { tasks: vec![burner("a", 0), burner("b", 1)], ..Workload::default() });
    for name in ["a", "b"] {
        let t = &line(&r, name).tally;
        assert!((480..=505).contains(&t.requests), "{name}: {} ms of work", t.requests);
        assert!(t.cpu_ns > 990 * MS, "{name}: {} ns", t.cpu_ns);
    }
    let (stolen, work) = (r.totals.stolen_ns, 1000 * MS);
    assert!((work * 97 / 100..=work).contains(&stolen), "{stolen} ns stolen of two CPUs");
}

#[test]
fn a_host_with_a_cpu_for_each_steals_nothing() {
    let t = Topology::grid(2, 2, 2, 1);
    let fleet = "fleet,server=1ms,batch=4,kthreads=50,bound=50";
    for policy in every_policy() {
        let alone = Run::on(t.clone(), 200 * MS).named(policy, fleet);
        let guest = Run::on(t.clone(), 200 * MS).cost("host-cpus=8").named(policy, fleet);
        let requests = |r| line(r, "valkey-server").tally.requests;
        assert_eq!((requests(&alone), guest.totals.stolen_ns), (requests(&guest), 0), "{policy}");
    }
}

#[test]
fn every_policy_gets_through_a_crowded_host_without_breaking_a_rule() {
    let t = Topology::grid(2, 2, 2, 1);
    for policy in every_policy() {
        for workload in ["fleet,tail=40%", "burners,tasks=9,kthreads=50,bound=50", "mixed", "forks"] {
            let r = Run::on(t.clone(), 2000 * MS).cost("host-cpus=2").named(policy, workload);
            assert!(r.faults.is_empty() && r.totals.stolen_ns > 0, "{policy} {workload}: {:?}", r.faults);
        }
    }
}

/// Wake-ups that have arrived after `us`: two starts, and one by a task that has run for 10 ms.
fn arrived(us: u64, waker: u16, sleeper: u16) -> u64 {
    let program = vec![Op::Run { ns: 10 * MS, spread: 0 }, Op::Post(0), Op::Sleep { ns: 1000 * MS, spread: 0 }];
    let mut w = Workload::default();
    let channel = w.channel(0);
    w.tasks = vec![pinned("waker", waker, program), pinned("sleeper", sleeper, vec![Op::Wait(channel), Op::Jump(0)])];
    let run = Run::on(Topology::grid(1, 2, 2, 1), us * US).cost("idle-exit=1000000");
    run.workload("fifo", w).totals.woken
}

#[test]
fn the_wake_up_of_a_task_whose_cpu_idles_waits_for_that_cpu() {
    for sleeper in [1, 2] {
        assert_eq!([arrived(11_500, 0, sleeper), arrived(13_000, 0, sleeper)], [2, 3], "CPU {sleeper}");
    }
    // Its own CPU is not idle while the waker runs there.
    assert_eq!(arrived(11_500, 0, 0), 3);
}
