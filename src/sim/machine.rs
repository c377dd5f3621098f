//! The machine: its parts, its clock, and what it checks while it runs.

use super::cost::Costs;
use super::cpu::{Cpu, Current};
use super::dispatch_loop::{Loop, Step};
use super::event_queue::{Event, EventQueue};
use super::host::Host;
use super::metrics::{Fault, Tally, Totals};
use super::program::{TaskSpec, Workload};
use super::rings::QueuedRing;
use super::rng::Rng;
use super::task::{State, Task, TaskId, task_of, tid_of};
use super::watch::Watch;
use crate::cpumask::CpuMask;
use crate::event::{Answers, Dispatch, Hint, Name, Notice, ProcessEvent};
use crate::ids::{CpuId, MS, Ns, Pid, Tid};
use crate::policy::Policy;
use crate::rules::{HINTS, LOOK_EVERY};
use crate::topology::{Distance, Level, Topology};
use std::collections::VecDeque;

/// The clock's first reading, ns: policies take 0 for "never".
pub const BOOT: Ns = 1000 * MS;

/// The kernel ejects a scheduler that lets a runnable task wait longer, ns (`timeout_ms` of the shim).
const WATCHDOG: Ns = 5000 * MS;

/// How often the shim's heartbeat comes, ns; the watchdog looks then too.
const HEARTBEAT: Ns = 1000 * MS;

/// Faults that are kept.
const FAULTS: usize = 20;

/// What a machine is made from.
pub struct Setup<'a> {
    /// Its CPUs.
    pub topology: &'a Topology,
    /// What things cost.
    pub costs: &'a Costs,
    /// What counts as at home.
    pub level: Level,
    /// Of all random numbers.
    pub seed: u64,
}

/// A semaphore, condition or barrier.
#[derive(Debug, Default)]
pub(super) struct ChannelState {
    pub tokens: u64,
    pub waiters: VecDeque<TaskId>,
}

/// A line of the results.
#[derive(Debug)]
pub(super) struct ServiceState {
    pub name: String,
    /// Of forked tasks that have ended.
    pub ended: Tally,
    pub ended_tasks: u64,
}

/// A simulated machine with a policy and a workload on it.
pub struct Machine {
    pub(super) topology: Topology,
    pub(super) costs: Costs,
    pub(super) level: Level,
    pub(super) seed: u64,
    pub(super) policy: Box<dyn Policy>,
    pub(super) now: Ns,
    pub(super) tick: Ns,
    /// How late ticks come.
    pub(super) ticks: Rng,
    pub(super) events: EventQueue,
    pub(super) cpus: Vec<Cpu>,
    pub(super) host: Host,
    pub(super) idle: CpuMask,
    pub(super) tasks: Vec<Task>,
    /// Tasks of the workload itself; later ones were forked.
    pub(super) first_tasks: usize,
    pub(super) templates: Vec<TaskSpec>,
    pub(super) services: Vec<ServiceState>,
    pub(super) channels: Vec<ChannelState>,

    // --- Between the kernel and the policy.
    pub(super) queued: QueuedRing,
    pub(super) user: VecDeque<Dispatch>,
    pub(super) shared: VecDeque<TaskId>,
    pub(super) process_events: VecDeque<ProcessEvent>,
    pub(super) hints: Vec<Option<Hint>>,
    pub(super) dispatch_loop: Loop,
    pub(super) answers: Answers,

    // --- Watched.
    /// Writes everything down; `None` in runs that want no picture.
    pub(super) watch: Option<Box<Watch>>,
    /// Per main thread: the home of its process.
    pub(super) homes: Vec<Option<CpuId>>,
    pub(super) nr_idle: u64,
    pub(super) nr_waiting: u64,
    /// Tasks that the policy has taken and not answered.
    pub(super) nr_with_policy: usize,
    pub(super) totals: Totals,
    pub(super) faults: Vec<Fault>,
    pub(super) ejected: bool,
}

impl Machine {
    /// A machine on which every task of `workload` exists and sleeps, known to the policy as after its scan.
    pub fn new(setup: &Setup, policy: Box<dyn Policy>, workload: Workload) -> Self {
        let topology = setup.topology.clone();
        let online: Vec<CpuId> = topology.cpus().iter().collect();
        let mut machine = Machine {
            costs: setup.costs.clone(),
            level: setup.level,
            seed: setup.seed,
            policy,
            now: BOOT,
            tick: 1_000_000_000 / setup.costs.hz.max(1),
            ticks: Rng::new(setup.seed, u64::MAX >> 1),
            events: EventQueue::default(),
            cpus: vec![Cpu::new(BOOT); topology.cpu_slots()],
            host: Host::new(setup.costs.host_cpus, topology.cpu_slots(), Rng::new(setup.seed, u64::MAX >> 2)),
            idle: *topology.cpus(),
            tasks: Vec::with_capacity(workload.tasks.len()),
            first_tasks: workload.tasks.len(),
            templates: workload.templates,
            services: Vec::new(),
            channels: workload.channels.iter().map(|t| ChannelState { tokens: *t, ..Default::default() }).collect(),
            queued: QueuedRing::new(setup.costs),
            user: VecDeque::new(),
            shared: VecDeque::new(),
            process_events: VecDeque::new(),
            hints: vec![None; HINTS],
            dispatch_loop: Loop::new(topology.cpu_slots(), online.first().copied().unwrap_or_default()),
            answers: Answers::with_capacity(64),
            watch: None,
            homes: vec![None; workload.tasks.len()],
            nr_idle: online.len() as u64,
            nr_waiting: 0,
            nr_with_policy: 0,
            totals: Totals::default(),
            faults: Vec::new(),
            ejected: false,
            topology,
        };
        machine.add_tasks(&workload.tasks, &online);
        machine.scan();
        let first = machine.dispatch_loop.cpu;
        machine.dispatch_loop.needed = true;
        machine.interrupt(first);
        machine.events.push(BOOT + HEARTBEAT, Event::Heartbeat);
        machine.events.push(BOOT + LOOK_EVERY, Event::Look);
        machine
    }

    fn add_tasks(&mut self, specs: &[TaskSpec], online: &[CpuId]) {
        let mut start = Rng::new(self.seed, 0);
        for (id, spec) in specs.iter().enumerate() {
            let leader = spec.thread_of.filter(|l| *l < id).unwrap_or(id);
            let usable: Vec<CpuId> = online.iter().copied().filter(|c| spec.allowed.has(*c)).collect();
            // Where it last ran before the scheduler came: anywhere.
            let cpu = usable.get(start.below(usable.len() as u32) as usize).copied().unwrap_or_default();
            let task = self.make_task(id, leader, spec, cpu);
            self.tasks.push(task);
            if leader != id {
                self.tasks[leader].threads += 1;
            }
            if usable.is_empty() {
                // Its mask has no CPU of this machine: it can never run.
                self.tasks[id].state = State::Dead;
                self.tasks[leader].threads -= 1;
                continue;
            }
            self.wake_later(id, None, BOOT + spec.start, BOOT + spec.start);
        }
    }

    pub(super) fn make_task(&mut self, id: TaskId, leader: TaskId, spec: &TaskSpec, cpu: CpuId) -> Task {
        let service = self.services.iter().position(|s| s.name == spec.service).unwrap_or_else(|| {
            let new = ServiceState { name: spec.service.clone(), ended: Tally::default(), ended_tasks: 0 };
            self.services.push(new);
            self.services.len() - 1
        });
        let mut task = Task::new(id, leader, spec, service, cpu, Rng::new(self.seed, id as u64 + 1));
        task.began = self.now;
        task
    }

    /// Tells the policy of every task there is, as the host's scan of /proc does.
    fn scan(&mut self) {
        let mut out = std::mem::take(&mut self.answers);
        for id in 0..self.tasks.len() {
            if self.tasks[id].state == State::Dead {
                continue;
            }
            let Task { leader, comm, kernel, .. } = self.tasks[id];
            let pid = Pid(tid_of(leader));
            let thread = ProcessEvent::Thread { tid: Tid(tid_of(id)), pid, parent: Pid(1), comm, kthread: kernel };
            self.policy.process(self.now, &thread, &mut out);
            if leader == id {
                self.policy.process(self.now, &ProcessEvent::Exec { pid, comm, exe: comm }, &mut out);
            }
        }
        self.take_notices(&out.notices);
        out.clear();
        self.answers = out;
    }

    /// Runs for `duration` ns, or until the kernel would eject the scheduler.
    pub fn run(&mut self, duration: Ns) {
        let end = self.now.saturating_add(duration);
        while let Some((at, event)) = self.events.pop_before(end) {
            self.advance(at);
            self.totals.events += 1;
            match event {
                Event::Wake(task) => self.wake(task, None),
                Event::Cpu(cpu, _) | Event::Reschedule(cpu) | Event::Preempt(cpu) | Event::WakeOn(cpu, _) => {
                    if self.on_host(cpu, event) {
                        self.cpu_event(cpu, event);
                        self.host_rest(cpu);
                    }
                }
                Event::HostSlice(cpu, turn) => self.host_slice(cpu, turn),
                Event::Heartbeat => self.heartbeat(),
                Event::Look => self.eyes_look(),
            }
            if self.ejected {
                break;
            }
        }
        if !self.ejected {
            self.advance(end);
        }
        self.check_dropped();
    }

    fn advance(&mut self, to: Ns) {
        let span = to - self.now;
        self.totals.idle_ns += self.nr_idle * span;
        self.totals.idle_while_waiting_ns += self.nr_idle.min(self.nr_waiting) * span;
        self.now = to;
    }

    fn cpu_event(&mut self, cpu: CpuId, event: Event) {
        match event {
            Event::Cpu(_, epoch) => self.cpu_timer(cpu, epoch),
            Event::Preempt(_) => self.preempt(cpu),
            Event::WakeOn(_, task) => self.wake(task, Some(cpu)),
            _ => {
                self.cpus[cpu.index()].kicked = false;
                if self.cpus[cpu.index()].current == Current::Idle {
                    self.reschedule(cpu, 0);
                }
            }
        }
    }

    fn cpu_timer(&mut self, cpu: CpuId, epoch: u32) {
        let c = &self.cpus[cpu.index()];
        if c.epoch != epoch {
            return;
        }
        match c.current {
            Current::Idle => {}
            Current::Scheduler => match self.dispatch_loop.step {
                Step::Decide => self.begin_pass(cpu),
                Step::Write => self.end_pass(cpu),
            },
            Current::Task(task) => {
                self.account(cpu);
                if self.tasks[task].work_left == 0 && self.now >= self.cpus[cpu.index()].work_from {
                    self.step(cpu, task);
                } else {
                    self.tasks[task].slice = 0;
                    self.reschedule(cpu, 0);
                }
            }
        }
    }

    /// A preempting kick arrives: SCX_KICK_PREEMPT.
    fn preempt(&mut self, cpu: CpuId) {
        match self.cpus[cpu.index()].current {
            Current::Idle => self.reschedule(cpu, 0),
            Current::Task(task) => {
                self.account(cpu);
                self.tasks[task].slice = 0;
                self.reschedule(cpu, 0);
            }
            // It would end the turn of the dispatch loop early, which then goes on at once: no turn is that long.
            Current::Scheduler => {}
        }
    }

    fn heartbeat(&mut self) {
        self.events.push(self.now + HEARTBEAT, Event::Heartbeat);
        if self.now.saturating_sub(self.dispatch_loop.last_run) >= HEARTBEAT {
            self.dispatch_loop.needed = true;
            let cpu = self.dispatch_loop.cpu;
            self.interrupt(cpu);
        }
        let now = self.now;
        let stalled = (0..self.tasks.len())
            .filter(|t| self.tasks[*t].waits() && now - self.tasks[*t].waits_since > WATCHDOG)
            .min_by_key(|t| (self.tasks[*t].waits_since, *t));
        if let Some(task) = stalled {
            let t = &self.tasks[task];
            let waited = (now - t.waits_since) / MS;
            let place = match t.state {
                State::OnCpuQueue(cpu) => format!("in the queue of CPU {cpu}"),
                State::OnSharedQueue => "in the machine-wide queue".to_owned(),
                _ if t.with_policy => "with the policy".to_owned(),
                _ => "on its way to or from the policy".to_owned(),
            };
            self.fault(Some(task), format!("starved: runnable for {waited} ms {place}; the kernel ejects after 5 s"));
            self.ejected = true;
        }
    }

    /// At the end: tasks that the policy took and no longer counts as waiting will never run.
    fn check_dropped(&mut self) {
        // The run may end in the middle of a turn.
        let decided = if self.dispatch_loop.step == Step::Write { self.answers.dispatch.len() } else { 0 };
        let lost = self.nr_with_policy.saturating_sub(self.policy.waiting() + decided);
        if lost == 0 {
            return;
        }
        // Which ones it forgot cannot be seen from outside; those that have waited longest are the likely ones.
        let mut held: Vec<TaskId> = (0..self.tasks.len()).filter(|t| self.tasks[*t].with_policy).collect();
        held.sort_by_key(|t| (self.tasks[*t].waits_since, *t));
        for task in held.into_iter().take(lost) {
            let since = (self.tasks[task].waits_since - BOOT) / 1000;
            let text =
                format!("dropped: given to the policy {since} us after the start, never dispatched, not waiting");
            self.fault(Some(task), text);
        }
    }

    pub(super) fn fault(&mut self, task: Option<TaskId>, text: String) {
        if self.faults.len() >= FAULTS {
            return;
        }
        let service = task.map_or("", |t| &self.services[self.tasks[t].service].name).to_owned();
        self.faults.push(Fault { at: self.now - BOOT, tid: task.map_or(0, tid_of), service, text });
    }

    pub(super) fn set_state(&mut self, task: TaskId, state: State) {
        let t = &mut self.tasks[task];
        let (before, waited) = (t.state, t.waits());
        t.state = state;
        match (waited, t.waits()) {
            (false, true) => {
                t.waits_since = self.now;
                self.nr_waiting += 1;
            }
            (true, false) => {
                t.tally.waited_ns += self.now - t.waits_since;
                self.nr_waiting -= 1;
            }
            _ => {}
        }
        match before {
            State::Queued => self.totals.undecided_ns += self.now - t.state_since,
            State::OnCpuQueue(_) => self.totals.on_cpu_queue_ns += self.now - t.state_since,
            _ => {}
        }
        t.state_since = self.now;
        self.watch_line(task);
    }

    /// What the policy tells the operator; homes are known from it alone.
    pub(super) fn take_notices(&mut self, notices: &[Notice]) {
        for notice in notices {
            self.watch_home(notice);
            let (pid, home) = match *notice {
                Notice::Adopted { pid, home, .. } => {
                    self.totals.homes[0] += 1;
                    (pid, Some(home))
                }
                Notice::Moved { pid, from, to, .. } => {
                    let at = match self.topology.distance(from, to) {
                        Distance::Machine => 3,
                        Distance::Node => 2,
                        _ => 1,
                    };
                    self.totals.homes[at] += 1;
                    (pid, Some(to))
                }
                Notice::Left { pid, .. } => (pid, None),
            };
            if let Some(slot) = task_of(pid.0).and_then(|t| self.homes.get_mut(t)) {
                *slot = home;
            }
        }
    }

    /// A new process whose first thread is the next task.
    pub(super) fn note_process(&mut self, task: TaskId, parent: TaskId, comm: Name) {
        self.homes.resize(self.tasks.len(), None);
        self.process_events.push_back(ProcessEvent::Thread {
            tid: Tid(tid_of(task)),
            pid: Pid(tid_of(task)),
            parent: Pid(tid_of(self.tasks[parent].leader)),
            comm,
            kthread: false,
        });
    }
}
