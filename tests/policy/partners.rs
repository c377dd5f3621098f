//! Processes that wake each other live in one LLC while they fit.

use crate::machine::{Machine, State};
use crate::script::settings;
use soft_domain::cpumask::CpuMask;
use soft_domain::event::MoveReason;
use soft_domain::ids::{CpuId, LlcId, MS, Ns, US};
use soft_domain::soft_domain::SoftDomain;
use soft_domain::topology::{Level, Topology};

fn soft(t: &Topology) -> Machine<SoftDomain> {
    let settings = settings(Level::Cpu, 64);
    Machine::new(t, SoftDomain::new(t, settings.clone()), settings.limits)
}

/// A process that runs for `run` whenever it is woken, and first does so on one of `cpus`.
fn begins_on(m: &mut Machine<SoftDomain>, pid: i32, name: &str, run: Ns, cpus: CpuMask) {
    m.start(pid, name).run = run;
    m.set_mask(pid, cpus);
    m.wake(pid);
    m.advance(20 * MS);
    m.set_mask(pid, CpuMask::ALL);
}

/// Each of the pairs wakes the other in turn, `times` times.
fn talk(m: &mut Machine<SoftDomain>, pairs: &[(i32, i32)], times: usize) {
    for i in 0..2 * times {
        for (a, b) in pairs {
            let (waker, woken) = if i % 2 == 0 { (*a, *b) } else { (*b, *a) };
            m.wake_by(woken, Some(waker));
        }
        m.advance(MS);
    }
}

fn llc_of(m: &Machine<SoftDomain>, cpu: CpuId) -> LlcId {
    m.t.cpu(cpu).expect("a CPU").llc
}

/// Where the task runs when it is woken once more.
fn runs_in(m: &mut Machine<SoftDomain>, pid: i32) -> LlcId {
    m.advance(50 * MS);
    m.wake(pid);
    let State::Running(cpu) = m.tasks[&pid].state else { panic!("{pid} waits on an idle machine") };
    llc_of(m, cpu)
}

#[test]
fn a_client_moves_to_the_llc_of_its_server() {
    let t = Topology::grid(1, 4, 2, 1);
    let mut m = soft(&t);
    m.start(100, "svc-a").run = 100 * US;
    m.wake(100);
    m.advance(20 * MS);
    let home = llc_of(&m, m.homes[&100].cpu);
    let far = t.llcs().find(|l| *l != home).expect("another LLC");
    begins_on(&mut m, 200, "client", 100 * US, *t.llc_cpus(far));
    assert_eq!(runs_in(&mut m, 200), far);
    talk(&mut m, &[(100, 200)], 100);
    assert_eq!(runs_in(&mut m, 200), home);
    assert_eq!(m.moves, []);
}

#[test]
fn the_ends_of_a_pipe_meet_and_stay() {
    let t = Topology::grid(1, 2, 2, 1);
    let mut m = soft(&t);
    begins_on(&mut m, 200, "writer", 100 * US, *t.llc_cpus(LlcId(1)));
    begins_on(&mut m, 201, "reader", 100 * US, *t.llc_cpus(LlcId(0)));
    for _ in 0..5 {
        talk(&mut m, &[(200, 201)], 100);
        assert_eq!((runs_in(&mut m, 200), runs_in(&mut m, 201)), (LlcId(1), LlcId(1)));
    }
}

#[test]
fn a_pair_that_needs_two_cpus_is_not_put_on_one() {
    let t = Topology::grid(1, 2, 1, 1);
    let mut m = soft(&t);
    begins_on(&mut m, 200, "tar", 900 * US, *t.llc_cpus(LlcId(0)));
    begins_on(&mut m, 201, "gzip", 900 * US, *t.llc_cpus(LlcId(1)));
    for _ in 0..200 {
        m.wake_by(200, Some(201));
        m.wake_by(201, Some(200));
        m.advance(MS);
    }
    assert_ne!(runs_in(&mut m, 200), runs_in(&mut m, 201));
}

#[test]
fn servers_whose_clients_are_pinned_to_each_others_cpu_exchange_homes_once() {
    let t = Topology::grid(1, 2, 1, 1);
    let mut m = soft(&t);
    for pid in [100, 101] {
        m.start(pid, "svc-a").run = 100 * US;
        m.wake(pid);
        m.advance(20 * MS);
    }
    let homes = [100, 101].map(|pid| m.homes[&pid].cpu);
    for (client, cpu) in [(200, homes[1]), (201, homes[0])] {
        m.start(client, "client").run = 100 * US;
        m.set_mask(client, CpuMask::of(cpu));
    }
    talk(&mut m, &[(100, 200), (101, 201)], 1_000);
    assert_eq!([101, 100].map(|pid| m.homes[&pid].cpu), homes);
    let exchange = |pid, from, to| (MoveReason::Exchange, pid, from, to);
    let mut moves = m.moves.clone();
    moves.sort_by_key(|m| m.1);
    assert_eq!(moves, [exchange(100, homes[0], homes[1]), exchange(101, homes[1], homes[0])]);
}

#[test]
fn a_server_is_not_sent_away_for_another_whose_client_is_where_its_own_is() {
    let t = Topology::grid(1, 2, 1, 1);
    let mut m = soft(&t);
    for pid in [100, 101] {
        m.start(pid, "svc-a").run = 100 * US;
        m.wake(pid);
        m.advance(20 * MS);
    }
    let there = m.homes[&101].cpu;
    for client in [200, 201] {
        m.start(client, "client").run = 100 * US;
        m.set_mask(client, CpuMask::of(there));
    }
    talk(&mut m, &[(101, 201)], 200);
    talk(&mut m, &[(100, 200), (101, 201)], 500);
    assert_eq!(m.moves, []);
}
