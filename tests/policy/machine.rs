//! A small deterministic machine that drives any policy as the kernel does, and checks every answer.
//!
//! Time is simulated: tasks run in bursts and sleep between them, CPUs come back for work when a slice or a burst
//! ends. A task alone on its CPU gets new slices without an event, as under the shim.
#![allow(dead_code)] // each test binary uses a part of it

#[path = "answers.rs"]
mod answers;

use soft_domain::cpumask::CpuMask;
use soft_domain::event::{Answers, Cause, Hint, LONG, MoveReason, Name, ProcessEvent, Ready, Reason, Runnable, Spent};
use soft_domain::ids::{CpuId, MS, Ns, Pid, Tid};
use soft_domain::limits::Limits;
use soft_domain::policy::{OBSERVE_EVERY, Policy};
use soft_domain::topology::Topology;
use std::collections::{BTreeMap, BTreeSet};

/// A burst that does not end.
pub const FOREVER: Ns = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Until a time, or until an operation wakes it.
    Asleep(Option<Ns>),
    /// The policy has it.
    Queued,
    /// In the queue of a CPU.
    Sent(CpuId),
    Running(CpuId),
}

#[derive(Clone, Debug)]
pub struct Task {
    pub pid: i32,
    pub comm: Name,
    pub allowed: CpuMask,
    pub weight: u32,
    /// It runs so long between sleeps ...
    pub run: Ns,
    /// ... and sleeps so long; 0 = until it is woken.
    pub sleep: Ns,
    pub state: State,
    /// CPU time so far.
    pub got: Ns,
    /// The policy heard of its creation.
    pub told: bool,
    left: Ns,
    cpu: CpuId,
    since_wakeup: Ns,
    stint: Ns,
    started: Ns,
    waker: Option<Tid>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    tid: i32,
    began: Ns,
    until: Ns,
}

#[derive(Clone, Debug, Default)]
struct Cpu {
    running: Option<Run>,
    queue: BTreeMap<(u64, u64), (i32, Ns)>,
    spent: Spent,
    accounted: Ns,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Wake(i32),
    Cpu(u16),
    Observe,
}

/// What an instance looks like from outside, by the notices.
#[derive(Clone, Copy, Debug)]
pub struct Home {
    pub cpu: CpuId,
    pub moved_at: Option<Ns>,
}

pub struct Machine<P> {
    pub t: Topology,
    pub policy: P,
    pub limits: Limits,
    pub now: Ns,
    pub tasks: BTreeMap<i32, Task>,
    /// What the policy holds: the newest record and when it was given.
    pub held: BTreeMap<i32, (Runnable, Ns)>,
    /// Homes, from the notices alone.
    pub homes: BTreeMap<i32, Home>,
    /// Every answer as text, if that is wanted.
    pub log: Option<String>,
    /// No task may wait longer than this while a CPU that it may use stays free, ns.
    pub idle_bound: Ns,
    /// Whether a wake-up preempts a running task of clearly higher rank.
    pub preempts: bool,
    pub longest_wait: Ns,
    pub dispatched: u64,
    pub by_reason: BTreeMap<Reason, u64>,
    pub moves: Vec<(MoveReason, i32, CpuId, CpuId)>,
    enqueued: u64,
    superseded: u64,
    exited: u64,
    cpus: Vec<Cpu>,
    hints: BTreeMap<i32, Hint>,
    timers: BTreeSet<(Ns, Timer)>,
    generation: u64,
    order: u64,
    out: Answers,
}

impl<P: Policy> Machine<P> {
    pub fn new(t: &Topology, policy: P, limits: Limits) -> Self {
        let start = 1_000 * MS;
        Machine {
            cpus: vec![Cpu { accounted: start, ..Cpu::default() }; t.cpu_slots()],
            t: t.clone(),
            policy,
            limits,
            now: start,
            tasks: BTreeMap::new(),
            held: BTreeMap::new(),
            homes: BTreeMap::new(),
            log: None,
            idle_bound: limits.spill_node_ns,
            preempts: false,
            longest_wait: 0,
            dispatched: 0,
            by_reason: BTreeMap::new(),
            moves: Vec::new(),
            enqueued: 0,
            superseded: 0,
            exited: 0,
            hints: BTreeMap::new(),
            timers: BTreeSet::from([(start + OBSERVE_EVERY, Timer::Observe)]),
            generation: 0,
            order: 0,
            out: Answers::with_capacity(4096),
        }
    }

    // --- What happens to processes.

    /// A thread that sleeps; the policy hears of it if `tell`.
    pub fn spawn(&mut self, tid: i32, pid: i32, comm: &str, tell: bool) -> &mut Task {
        let task = Task {
            pid,
            comm: Name::new(comm.as_bytes()),
            allowed: CpuMask::ALL,
            weight: 100,
            run: MS,
            sleep: 0,
            state: State::Asleep(None),
            got: 0,
            told: false,
            left: 0,
            cpu: self.t.cpus().first().expect("a CPU"),
            since_wakeup: 0,
            stint: 0,
            started: 0,
            waker: None,
        };
        assert!(self.tasks.insert(tid, task).is_none(), "{tid} exists");
        if tell {
            self.tell(tid);
        }
        self.tasks.get_mut(&tid).expect("the new task")
    }

    pub fn tell(&mut self, tid: i32) {
        let Some(t) = self.tasks.get_mut(&tid).filter(|t| !t.told) else { return };
        t.told = true;
        let (tid, pid, comm) = (Tid(tid), Pid(t.pid), t.comm);
        self.process(ProcessEvent::Thread { tid, pid, parent: Pid(1), comm, kthread: false });
    }

    pub fn exec(&mut self, pid: i32, name: &str) {
        let name = Name::new(name.as_bytes());
        self.process(ProcessEvent::Exec { pid: Pid(pid), comm: name, exe: name });
    }

    /// A process with one thread that has run its program and sleeps.
    pub fn start(&mut self, pid: i32, name: &str) -> &mut Task {
        self.spawn(pid, pid, "sh", true);
        self.exec(pid, name);
        self.tasks.get_mut(&pid).expect("the new task")
    }

    pub fn exit(&mut self, tid: i32) {
        let Some(t) = self.tasks.get(&tid) else { return };
        let (pid, state) = (t.pid, t.state);
        self.leave_cpu(tid);
        self.tasks.remove(&tid);
        self.hints.remove(&tid);
        self.exited += u64::from(self.held.remove(&tid).is_some());
        let last = !self.tasks.values().any(|t| t.pid == pid);
        self.process(ProcessEvent::Exit { tid: Tid(tid), pid: Pid(pid), last });
        self.pass(if let State::Running(cpu) = state { Some(cpu) } else { None });
    }

    /// Hands the policy an event as it is.
    pub fn process(&mut self, event: ProcessEvent) {
        self.policy.process(self.now, &event, &mut self.out);
        assert!(self.out.dispatch.is_empty(), "dispatches belong to dispatch()");
        self.take_answers(None);
    }

    // --- What happens to tasks.

    pub fn wake(&mut self, tid: i32) {
        self.wake_by(tid, None);
    }

    /// The task is woken by another one.
    pub fn wake_by(&mut self, tid: i32, waker: Option<i32>) {
        let Some(t) = self.tasks.get_mut(&tid) else { return };
        if !matches!(t.state, State::Asleep(_)) {
            return;
        }
        (t.left, t.since_wakeup, t.waker) = (t.run, 0, waker.map(Tid));
        self.enqueue(tid, Cause::Wakeup);
        let preempted = self.preempts.then(|| self.to_preempt(tid)).flatten();
        if let Some(cpu) = preempted {
            let displaced = self.stop(cpu).expect("somebody runs there");
            self.enqueue(displaced, Cause::SliceEnd);
        }
        self.pass(preempted);
    }

    /// The CPU of the task's hint, if what runs there is clearly less urgent and no CPU is idle.
    fn to_preempt(&self, tid: i32) -> Option<CpuId> {
        let hint = self.hints.get(&tid)?;
        let running = self.cpus.get(hint.cpu.index())?.running?;
        let rank = self.hints.get(&running.tid).map_or(0, |h| h.rank);
        (self.idle().is_empty() && hint.rank + 2 <= rank && self.tasks[&tid].allowed.has(hint.cpu)).then_some(hint.cpu)
    }

    /// The running task of `cpu` sleeps early.
    pub fn sleep(&mut self, cpu: CpuId) {
        let Some(tid) = self.stop(cpu) else { return };
        self.fall_asleep(tid);
        self.pass(Some(cpu));
    }

    /// The running task of `cpu` is told to give way.
    pub fn preempt(&mut self, cpu: CpuId) {
        let Some(tid) = self.stop(cpu) else { return };
        self.enqueue(tid, Cause::SliceEnd);
        self.pass(Some(cpu));
    }

    /// The mask of the task changes; one that is runnable is enqueued again.
    pub fn set_mask(&mut self, tid: i32, mask: CpuMask) {
        let Some(t) = self.tasks.get_mut(&tid).filter(|_| mask.intersects(self.t.cpus())) else { return };
        t.allowed = mask;
        self.requeue(tid);
    }

    /// A newer generation of a task that is runnable: its weight, mask or class was changed.
    pub fn requeue(&mut self, tid: i32) {
        let Some(t) = self.tasks.get(&tid) else { return };
        let state = t.state;
        let cause = if t.started == 0 { Cause::Wakeup } else { Cause::SliceEnd };
        if matches!(state, State::Asleep(_)) {
            return;
        }
        self.leave_cpu(tid);
        self.enqueue(tid, cause);
        self.pass(if let State::Running(cpu) = state { Some(cpu) } else { None });
    }

    fn fall_asleep(&mut self, tid: i32) {
        let now = self.now;
        let t = self.tasks.get_mut(&tid).expect("a task");
        let until = (t.sleep > 0).then(|| now + t.sleep);
        t.state = State::Asleep(until);
        self.timers.extend(until.map(|u| (u, Timer::Wake(tid))));
    }

    fn enqueue(&mut self, tid: i32, cause: Cause) {
        self.generation += 1;
        let t = self.tasks.get_mut(&tid).expect("a task");
        if !t.allowed.has(t.cpu) {
            t.cpu = t.allowed.and(self.t.cpus()).first().expect("a mask with a CPU");
        }
        t.state = State::Queued;
        let r = Runnable {
            tid: Tid(tid),
            cpu: t.cpu,
            allowed: t.allowed,
            cause,
            since_wakeup_ns: t.since_wakeup,
            stint_ns: t.stint,
            started: t.started,
            waker: t.waker.filter(|_| cause == Cause::Wakeup),
            weight: t.weight,
            generation: self.generation,
        };
        self.enqueued += 1;
        self.superseded += u64::from(self.held.insert(tid, (r, self.now)).is_some());
        self.policy.enqueue(self.now, &r, &mut self.out);
        self.take_answers(None);
        // Where the policy has no room for it, it does not know the mask.
        let main = self.tasks[&tid].pid == tid && self.held.contains_key(&tid);
        if let Some(home) = self.homes.get(&tid).filter(|_| main) {
            assert!(r.allowed.has(home.cpu), "the home {} of {tid} is outside {}", home.cpu, r.allowed);
        }
    }

    // --- Time.

    pub fn idle(&self) -> CpuMask {
        let idle = |c: &CpuId| self.cpus[c.index()].running.is_none() && self.cpus[c.index()].queue.is_empty();
        self.t.cpus().iter().filter(idle).collect()
    }

    pub fn running(&self, cpu: CpuId) -> Option<i32> {
        self.cpus.get(cpu.index())?.running.map(|r| r.tid)
    }

    pub fn advance(&mut self, by: Ns) {
        let end = self.now + by;
        while let Some((at, timer)) = self.timers.first().copied().filter(|(at, _)| *at <= end) {
            self.timers.pop_first();
            self.now = at;
            match timer {
                Timer::Wake(tid) => {
                    if self.tasks.get(&tid).is_some_and(|t| t.state == State::Asleep(Some(at))) {
                        self.wake(tid);
                    }
                }
                Timer::Cpu(cpu) => self.cpu_timer(CpuId(cpu)),
                Timer::Observe => {
                    self.timers.insert((at + OBSERVE_EVERY, Timer::Observe));
                    self.observe();
                    self.pass(None);
                }
            }
        }
        self.now = end;
    }

    fn cpu_timer(&mut self, cpu: CpuId) {
        let now = self.now;
        if self.cpus[cpu.index()].running.is_none_or(|r| r.until != now) {
            return;
        }
        let tid = self.stop(cpu).expect("it runs");
        if self.tasks[&tid].left == 0 {
            self.fall_asleep(tid);
        } else if self.held.is_empty() && self.cpus[cpu.index()].queue.is_empty() {
            // Alone: the shim refills its slice.
            self.run(cpu, tid, self.limits.slice_ns);
            return;
        } else {
            self.enqueue(tid, Cause::SliceEnd);
        }
        self.pass(Some(cpu));
    }

    pub fn observe(&mut self) {
        let cpus = *self.t.cpus();
        for cpu in cpus.iter() {
            self.account(cpu);
            let spent = std::mem::take(&mut self.cpus[cpu.index()].spent);
            self.policy.observe(self.now, cpu, &spent);
        }
    }

    fn account(&mut self, cpu: CpuId) {
        let c = &mut self.cpus[cpu.index()];
        let span = self.now - c.accounted;
        c.accounted = self.now;
        if let Some(run) = c.running {
            let at_home = self.hints.get(&run.tid).is_some_and(|h| h.home && h.cpu == cpu);
            let long = self.hints.get(&run.tid).is_some_and(|h| 1024 << h.rank >= LONG);
            *(if at_home { &mut c.spent.home_ns } else { &mut c.spent.other_ns }) += span;
            c.spent.long_ns += if long && !at_home { span } else { 0 };
        }
    }

    fn run(&mut self, cpu: CpuId, tid: i32, slice: Ns) {
        self.account(cpu);
        let t = self.tasks.get_mut(&tid).expect("a task");
        (t.state, t.cpu) = (State::Running(cpu), cpu);
        let until = self.now + slice.min(t.left);
        self.cpus[cpu.index()].running = Some(Run { tid, began: self.now, until });
        self.timers.insert((until, Timer::Cpu(cpu.0)));
    }

    fn stop(&mut self, cpu: CpuId) -> Option<i32> {
        self.account(cpu);
        let run = self.cpus[cpu.index()].running.take()?;
        let ran = self.now - run.began;
        let t = self.tasks.get_mut(&run.tid).expect("a running task");
        t.got += ran;
        t.since_wakeup += ran;
        if t.run != FOREVER {
            t.left -= ran;
        }
        (t.stint, t.started) = (ran, run.began);
        Some(run.tid)
    }

    fn leave_cpu(&mut self, tid: i32) {
        match self.tasks[&tid].state {
            State::Running(cpu) => {
                self.stop(cpu);
            }
            State::Sent(cpu) => self.cpus[cpu.index()].queue.retain(|_, (t, _)| *t != tid),
            State::Asleep(_) | State::Queued => {}
        }
    }

    /// The policy places what waits: on idle CPUs, and on the one that looks for work.
    pub fn pass(&mut self, asking: Option<CpuId>) {
        let mut idle = self.idle();
        if let Some(cpu) = asking {
            idle.clear(cpu);
        }
        let next = asking.is_some_and(|c| !self.cpus[c.index()].queue.is_empty());
        let ready = Ready { asking, next, idle };
        self.policy.dispatch(self.now, &ready, &mut self.out);
        self.take_answers(Some(&ready));
        self.start_next(asking.into_iter());
    }

    fn start_next(&mut self, cpus: impl Iterator<Item = CpuId>) {
        for cpu in cpus {
            let c = &mut self.cpus[cpu.index()];
            if c.running.is_none()
                && let Some((_, (tid, slice))) = c.queue.pop_first()
            {
                self.run(cpu, tid, slice);
            }
        }
    }

    /// Everything falls asleep as soon as it runs: what waits must be gone after a bounded number of passes.
    pub fn drain(&mut self) {
        self.tasks.values_mut().for_each(|t| t.sleep = 0);
        let waiting: Vec<i32> = self.held.keys().copied().collect();
        let most = waiting.len() + 2;
        for _ in 0..most {
            let cpus = *self.t.cpus();
            for cpu in cpus.iter() {
                while self.running(cpu).is_some() {
                    self.sleep(cpu);
                }
            }
            if self.policy.waiting() == 0 {
                return;
            }
            self.advance(self.limits.spill_node_ns + MS);
        }
        panic!("{} tasks wait after {most} rounds in which every CPU was free", self.policy.waiting());
    }
}
