//! The shim's rules between the kernel and the policy.

use crate::support::{Run, line};
use soft_domain::cpumask::CpuMask;
use soft_domain::event::{Answers, Dispatch, ProcessEvent, Ready, Reason, Runnable, Spent};
use soft_domain::ids::{CpuId, MS, Ns, US};
use soft_domain::policy::Policy;
use soft_domain::sim::program::{Op, TaskSpec, Workload};
use soft_domain::topology::Topology;
use std::cell::RefCell;
use std::rc::Rc;

/// What a policy saw.
#[derive(Default)]
pub struct Seen {
    records: Vec<(Ns, Runnable)>,
    most_in_a_pass: usize,
    observations: usize,
}

/// Sends every task to its last CPU at once, and remembers.
struct Plain {
    seen: Rc<RefCell<Seen>>,
    held: Vec<Runnable>,
}

impl Policy for Plain {
    fn process(&mut self, _: Ns, _: &ProcessEvent, _: &mut Answers) {}

    fn enqueue(&mut self, now: Ns, task: &Runnable, _: &mut Answers) {
        self.seen.borrow_mut().records.push((now, *task));
        self.held.retain(|t| t.tid != task.tid);
        self.held.push(*task);
    }

    fn observe(&mut self, _: Ns, _: CpuId, _: &Spent) {
        self.seen.borrow_mut().observations += 1;
    }

    fn dispatch(&mut self, now: Ns, _: &Ready, out: &mut Answers) {
        let seen = &mut *self.seen.borrow_mut();
        seen.most_in_a_pass = seen.most_in_a_pass.max(self.held.len());
        out.dispatch.extend(self.held.drain(..).map(|t| Dispatch {
            tid: t.tid,
            cpu: t.cpu,
            slice_ns: 5 * MS,
            vtime: now,
            generation: t.generation,
            reason: Reason::InLlc,
        }));
    }

    fn waiting(&self) -> usize {
        self.held.len()
    }
}

fn plain() -> (Box<Plain>, Rc<RefCell<Seen>>) {
    let seen = Rc::new(RefCell::new(Seen::default()));
    (Box::new(Plain { seen: seen.clone(), held: Vec::new() }), seen)
}

/// One task wakes `n` others at once, again and again.
fn crowd(n: usize) -> Workload {
    let mut w = Workload::default();
    let channel = w.channel(0);
    let all = vec![Op::Broadcast(channel), Op::Sleep { ns: 5 * MS, spread: 0 }, Op::Jump(0)];
    w.tasks.push(TaskSpec { start: MS, ..TaskSpec::new("caller", all) });
    let one = vec![Op::Block(channel), Op::Run { ns: 10 * US, spread: 0 }, Op::Count(1), Op::Jump(0)];
    w.tasks.extend((0..n).map(|_| TaskSpec::new("crowd", one.clone())));
    w
}

#[test]
fn a_full_ring_is_counted_and_nothing_is_lost() {
    // No time to read: the scheduler needs longer for a turn than the crowd to wake up.
    let run = Run::on(Topology::grid(1, 1, 4, 1), 500 * MS).cost("queued-ring=4").cost("pass=200000");
    for policy in ["soft-domain", "fifo"] {
        let r = run.workload(policy, crowd(64));
        assert!(r.totals.congested > 100, "{policy}: {}", r.totals.congested);
        assert_eq!(r.totals.decisions - r.totals.cancelled - r.totals.user_dispatches, 0, "all decisions arrived");
        assert!(r.faults.is_empty(), "{:?}", r.faults);
        assert!(line(&r, "crowd").tally.requests > 64 * 50, "{policy}: {}", line(&r, "crowd").tally.requests);
    }
    let r = Run::on(Topology::grid(1, 1, 4, 1), 500 * MS).workload("fifo", crowd(64));
    assert_eq!(r.totals.congested, 0, "the ring of the real size does not fill");
}

#[test]
fn a_turn_takes_at_most_256_records() {
    let (policy, seen) = plain();
    let r = Run::on(Topology::grid(1, 1, 2, 1), 100 * MS).cost("pass=2000000").policy(policy, crowd(1000));
    assert_eq!(seen.borrow().most_in_a_pass, 256);
    assert!(r.totals.passes > 4);
}

#[test]
fn a_dispatch_call_drains_one_record_so_a_batch_needs_as_many() {
    // 100 decisions of one turn, all for the one CPU: each is drained when the task before it has left the CPU.
    let (policy, seen) = plain();
    let r = Run::on(Topology::grid(1, 1, 1, 1), 4 * MS).cost("drain=1000000").policy(policy, crowd(100));
    assert_eq!(seen.borrow().most_in_a_pass, 100);
    assert_eq!(r.totals.user_dispatches, 4, "1 ms each, from the start on");
}

#[test]
fn slices_end_at_ticks() {
    let (policy, seen) = plain();
    let burner = TaskSpec::new("b", vec![Op::Run { ns: 100 * MS, spread: 0 }, Op::Jump(0)]);
    let w = Workload { tasks: vec![burner.clone(), burner], ..Workload::default() };
    Run::on(Topology::grid(1, 1, 1, 1), 200 * MS).policy(policy, w);
    let seen = seen.borrow();
    let stints: Vec<Ns> = seen.records.iter().map(|(_, r)| r.stint_ns).filter(|s| *s > 0).collect();
    assert!(stints.len() > 20);
    // A slice of 5 ms ends at the first tick after it: at 8 ms, less what the switch took.
    assert!(stints.iter().all(|s| (7990 * US..=8005 * US).contains(s)), "{stints:?}");
    let (_, first) = seen.records[0];
    assert_eq!((first.stint_ns, first.started, first.since_wakeup_ns), (0, 0, 0), "it has not run yet");
}

#[test]
fn a_lone_task_is_refilled_without_an_event() {
    let (policy, seen) = plain();
    let burner = TaskSpec::new("b", vec![Op::Run { ns: 100 * MS, spread: 0 }, Op::Jump(0)]);
    let w = Workload { tasks: vec![burner], ..Workload::default() };
    Run::on(Topology::grid(1, 1, 1, 1), 500 * MS).policy(policy, w);
    assert_eq!(seen.borrow().records.len(), 1);
}

#[test]
fn a_decision_for_a_task_that_changed_meanwhile_is_cancelled_and_the_next_one_counts() {
    let (policy, _) = plain();
    let (a, b) = (CpuMask::of(CpuId(0)), CpuMask::of(CpuId(1)));
    let mut w = Workload::default();
    let target =
        vec![Op::Run { ns: 50 * US, spread: 0 }, Op::Count(1), Op::Sleep { ns: 200 * US, spread: 500 }, Op::Jump(0)];
    w.tasks.push(TaskSpec::new("target", target));
    let gap = Op::Run { ns: 30 * US, spread: 900 };
    let program = vec![Op::Rebind { task: 0, mask: a }, gap.clone(), Op::Rebind { task: 0, mask: b }, gap, Op::Jump(0)];
    w.tasks.push(TaskSpec { allowed: CpuMask::of(CpuId(2)), ..TaskSpec::new("binder", program) });
    let r = Run::on(Topology::grid(1, 1, 3, 1), 1000 * MS).policy(policy, w);
    assert!(r.totals.cancelled > 10, "{}", r.totals.cancelled);
    assert!(line(&r, "target").tally.requests > 1000, "{}", line(&r, "target").tally.requests);
    assert!(r.faults.is_empty(), "{:?}", r.faults);
}

#[test]
fn observations_come_every_10_ms_for_every_cpu_while_there_are_events() {
    let (policy, seen) = plain();
    Run::on(Topology::grid(1, 1, 4, 1), 1000 * MS).policy(policy, crowd(4));
    let n = seen.borrow().observations;
    assert!((90 * 4..=101 * 4).contains(&n), "{n}");
}

#[test]
fn the_heartbeat_runs_the_scheduler_on_an_idle_machine() {
    let (policy, _) = plain();
    let once = TaskSpec::new("once", vec![Op::Run { ns: US, spread: 0 }, Op::Exit]);
    let w = Workload { tasks: vec![once], ..Workload::default() };
    let r = Run::on(Topology::grid(1, 1, 4, 1), 5500 * MS).policy(policy, w);
    // It looks once a second whether the last turn is a second old: every other time it is a moment too early.
    assert!((3..=6).contains(&r.totals.passes), "{}", r.totals.passes);
}
