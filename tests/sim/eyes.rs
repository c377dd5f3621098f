//! When a CPU is made to look for work: the rules of eyes.bpf.c and of the loop.

use crate::support::{Run, line};
use soft_domain::cpumask::CpuMask;
use soft_domain::event::{Answers, Dispatch, Hint, ProcessEvent, Ready, Reason, Runnable, Urgent};
use soft_domain::ids::{CpuId, MS, Ns, Tid, US};
use soft_domain::policy::Policy;
use soft_domain::sim::program::{Op, TaskSpec, Workload};
use soft_domain::sim::results::Results;
use soft_domain::topology::Topology;
use std::cell::Cell;
use std::rc::Rc;

/// Wakes up often, runs for a moment.
const SHORT: u8 = 3;

/// log2 of 65 ms in us.
const BURNER: u8 = 16;

/// The first task of a workload.
fn rank_of(tid: Tid) -> u8 {
    if tid.0 == 1000 { BURNER } else { SHORT }
}

/// Sends every task to its last CPU for 50 ms, and is urgent about those whose CPU is busy.
struct Ranked {
    held: Vec<Runnable>,
    /// Turns that were told of a task in the asking CPU's own queue.
    next: Rc<Cell<u32>>,
}

impl Policy for Ranked {
    fn process(&mut self, _: Ns, _: &ProcessEvent, _: &mut Answers) {}

    fn enqueue(&mut self, _: Ns, task: &Runnable, out: &mut Answers) {
        out.hints.push(Hint { tid: task.tid, cpu: task.cpu, rank: rank_of(task.tid), sticky: true, home: false });
        self.held.retain(|t| t.tid != task.tid);
        self.held.push(*task);
    }

    fn dispatch(&mut self, now: Ns, ready: &Ready, out: &mut Answers) {
        self.next.set(self.next.get() + u32::from(ready.next));
        let free = |t: &Runnable| ready.asking == Some(t.cpu) || ready.idle.has(t.cpu);
        out.dispatch.extend(self.held.extract_if(.., |t| free(t)).map(|t| Dispatch {
            tid: t.tid,
            cpu: t.cpu,
            slice_ns: 50 * MS,
            vtime: now,
            generation: t.generation,
            reason: Reason::InLlc,
        }));
        out.urgent.extend(self.held.iter().map(|t| Urgent { cpu: t.cpu, rank: rank_of(t.tid) }));
    }

    fn waiting(&self) -> usize {
        self.held.len()
    }
}

fn run(run: &Run, tasks: Vec<TaskSpec>, channels: usize) -> (Results, u32) {
    let mut w = Workload { tasks, ..Workload::default() };
    for _ in 0..channels {
        w.channel(0);
    }
    let next = Rc::new(Cell::new(0));
    let r = run.policy(Box::new(Ranked { held: Vec::new(), next: next.clone() }), w);
    (r, next.get())
}

fn on(cpu: u16, service: &str, program: Vec<Op>) -> TaskSpec {
    TaskSpec { allowed: CpuMask::of(CpuId(cpu)), ..TaskSpec::new(service, program) }
}

fn busy(ns: Ns) -> Op {
    Op::Run { ns, spread: 0 }
}

fn burner() -> TaskSpec {
    on(0, "burner", vec![busy(1000 * MS), Op::Jump(0)])
}

/// Sleeps for `ns`, computes for 10 us, again and again.
fn sleeper(cpu: u16, ns: Ns) -> TaskSpec {
    let program = vec![Op::Sleep { ns, spread: 200 }, busy(10 * US), Op::Jump(0)];
    TaskSpec { start: MS, ..on(cpu, "sleeper", program) }
}

#[test]
fn a_short_task_that_a_timer_wakes_preempts_a_burner_at_once() {
    let (r, _) = run(&Run::on(Topology::grid(1, 1, 1, 1), 1000 * MS), vec![burner(), sleeper(0, 5 * MS)], 0);
    let t = &line(&r, "sleeper").tally;
    assert!(r.totals.kicks_preempt > 150 && t.wakeups > 150, "{}", r.totals.kicks_preempt);
    assert!(t.latency.max() < 100 * US, "{}", t.latency.max());
}

/// A server that answers a client after each `work` ns, and sleeps after ten answers; both on one CPU.
fn server(work: Ns) -> Results {
    let ten = |to, counter| Op::Repeat { to, times: 10, counter };
    let server = vec![busy(work), Op::Post(0), ten(0, 0), Op::Wait(1), ten(3, 1), Op::Jump(0)];
    let client = vec![Op::Wait(0), busy(10 * US), Op::Count(1), Op::Post(1), Op::Jump(0)];
    run(&Run::on(Topology::grid(1, 1, 1, 1), 500 * MS), vec![on(0, "server", server), on(0, "client", client)], 2).0
}

#[test]
fn a_task_is_not_preempted_by_those_it_wakes_itself_until_it_has_run_long() {
    let batches = server(200 * US);
    assert_eq!(batches.totals.kicks_preempt, 0);
    assert!(line(&batches, "client").tally.requests > 100);
    let long = server(5 * MS);
    assert!(long.totals.kicks_preempt > 50, "{}", long.totals.kicks_preempt);
}

#[test]
fn two_preemptions_of_a_cpu_are_half_a_millisecond_apart() {
    let mut tasks = vec![burner()];
    tasks.extend((0..20).map(|_| sleeper(0, MS)));
    let (r, _) = run(&Run::on(Topology::grid(1, 1, 1, 1), 100 * MS), tasks, 0);
    assert!((50..=201).contains(&r.totals.kicks_preempt), "{}", r.totals.kicks_preempt);
}

#[test]
fn a_wake_up_during_a_turn_of_the_scheduler_elsewhere_preempts_when_it_leaves() {
    // The scheduler is at work on CPU 1 most of the time.
    let tasks = vec![burner(), sleeper(0, 7 * MS), sleeper(1, 300 * US)];
    let (r, _) = run(&Run::on(Topology::grid(1, 1, 2, 1), 1000 * MS).cost("pass=400000"), tasks, 0);
    let late = r.tasks[1].tally.latency.max();
    assert!(late < 4 * MS, "{late}: at the end of a turn, not of the burner's slice");
}

#[test]
fn the_core_drains_a_turns_records_without_a_second_turn() {
    // One task wakes 15, each on an idle CPU of its own.
    let mut all = vec![on(0, "caller", vec![Op::Sleep { ns: 5 * MS, spread: 0 }, Op::Broadcast(0), Op::Jump(0)])];
    all.extend((1..16).map(|cpu| on(cpu, "crowd", vec![Op::Block(0), busy(50 * US), Op::Count(1), Op::Jump(0)])));
    let (r, next) = run(&Run::on(Topology::grid(1, 1, 16, 1), 1000 * MS).cost("wake-up=0"), all, 1);
    assert!(line(&r, "crowd").tally.requests >= 15 * 190);
    let turns = r.totals.passes * 100 / r.totals.decisions;
    assert!(turns < 60, "{turns} turns for 100 decisions");
    assert!(line(&r, "crowd").tally.latency.max() < 100 * US, "{}", line(&r, "crowd").tally.latency.max());
    assert_eq!(next, 0);
}

#[test]
fn the_policy_hears_of_a_task_in_the_asking_cpus_own_queue() {
    // Three on one CPU: when the first sleeps and is asked about again, the others are in the CPU's queue.
    let program = vec![busy(100 * US), Op::Sleep { ns: 50 * US, spread: 100 }, Op::Jump(0)];
    let tasks = (0..4).map(|_| on(0, "t", program.clone())).collect();
    let (r, next) = run(&Run::on(Topology::grid(1, 1, 1, 1), 100 * MS), tasks, 0);
    assert!(next > 100, "{next} of {} turns", r.totals.passes);
}

/// Has no tasks, and wants a turn at certain times.
struct Alarm {
    due: Vec<Ns>,
    turns: Rc<std::cell::RefCell<Vec<Ns>>>,
}

impl Policy for Alarm {
    fn process(&mut self, _: Ns, _: &ProcessEvent, _: &mut Answers) {}
    fn enqueue(&mut self, _: Ns, _: &Runnable, _: &mut Answers) {}
    fn dispatch(&mut self, now: Ns, _: &Ready, _: &mut Answers) {
        if self.turns.borrow().is_empty() {
            // The machine does not boot at 0.
            self.due.iter_mut().for_each(|d| *d += now);
        }
        self.turns.borrow_mut().push(now);
        self.due.retain(|d| *d > now);
    }
    fn waiting(&self) -> usize {
        0
    }
    fn due(&self) -> Ns {
        self.due.iter().copied().min().unwrap_or(Ns::MAX)
    }
}

#[test]
fn a_policy_gets_the_turn_it_wants_on_an_idle_machine_and_few_others() {
    let turns = Rc::new(std::cell::RefCell::new(Vec::new()));
    let wanted = [450 * MS, 660 * MS, 2700 * MS];
    let alarm = Alarm { due: wanted.to_vec(), turns: turns.clone() };
    Run::on(Topology::grid(1, 1, 2, 1), 5000 * MS).policy(Box::new(alarm), Workload::default());
    let turns = turns.borrow();
    let late = wanted.map(|w| turns.iter().map(|t| t - turns[0]).find(|t| *t >= w).expect("a turn") - w);
    assert!(late.iter().all(|l| *l < 11 * MS), "{late:?} ns late");
    // The shim's heartbeat, once a second, and the wanted ones.
    assert!(turns.len() < 12, "{turns:?}");
}
