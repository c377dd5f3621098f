//! The scheduler's thread: one turn after the other, as `src/dispatcher.rs` has it. Keep the two in step.
//!
//! A turn has two steps in simulated time. At the first the records are read and the policy decides; then the CPU is
//! busy for what that costs; at the second the decisions are in the ring and the thread yields.

use super::event_queue::Event;
use super::machine::Machine;
use super::task::{State, TaskId, task_of};
use crate::cpumask::CpuMask;
use crate::event::{Answers, Dispatch, ProcessEvent, Ready};
use crate::ids::{CpuId, MS, Ns};
use crate::policy::OBSERVE_EVERY;

/// `RECORDS_PER_PASS` there.
const RECORDS_PER_PASS: usize = 256;

/// `ON_ITS_WAY` there.
const ON_ITS_WAY: Ns = 10 * MS;

/// What the scheduler's thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read the records and ask the policy.
    Decide,
    /// Write the decisions and yield.
    Write,
}

/// The scheduler's thread and the words that it shares with the kernel side.
#[derive(Debug)]
pub struct Loop {
    /// Where it runs or last ran.
    pub cpu: CpuId,
    /// It waits in the queue of its own (SCHED_DSQ).
    pub queued: bool,
    pub step: Step,
    /// When it was switched in.
    pub since: Ns,
    pub last_run: Ns,
    /// The shim's `usersched_needed` and `nr_scheduled`.
    pub needed: bool,
    pub nr_scheduled: u64,
    /// `parked`, `preempt_cpu` and `scheduler_runs` of `eyes.bpf.c`.
    pub parked: u64,
    pub preempt: Option<CpuId>,
    pub runs: bool,
    on_its_way: Vec<Option<(u32, Ns)>>,
    spent: Vec<(Ns, Ns)>,
    observe_due: Ns,
    undrained: u64,
    sent: u64,
    /// Of the turn that is under way.
    began: Ns,
    idle: CpuMask,
}

impl Loop {
    /// Ready to run on `cpu`.
    pub fn new(cpu_slots: usize, cpu: CpuId) -> Self {
        Loop {
            cpu,
            queued: true,
            step: Step::Decide,
            since: 0,
            last_run: 0,
            needed: false,
            nr_scheduled: 0,
            parked: 0,
            preempt: None,
            runs: false,
            on_its_way: vec![None; cpu_slots],
            spent: vec![(0, 0); cpu_slots],
            observe_due: 0,
            undrained: 0,
            sent: 0,
            began: 0,
            idle: CpuMask::EMPTY,
        }
    }
}

impl Machine {
    /// The thread starts a turn on `cpu` in `delay` ns.
    pub(super) fn next_pass(&mut self, cpu: CpuId, delay: Ns) {
        self.dispatch_loop.step = Step::Decide;
        self.time_step(cpu, delay);
    }

    fn time_step(&mut self, cpu: CpuId, delay: Ns) {
        let at = self.now + delay;
        let c = &mut self.cpus[cpu.index()];
        c.epoch = c.epoch.wrapping_add(1);
        let event = Event::Cpu(cpu, c.epoch);
        self.events.push(at, event);
    }

    /// First step of a turn.
    pub(super) fn begin_pass(&mut self, cpu: CpuId) {
        let now = self.now;
        self.totals.passes += 1;
        let mut cost = self.costs.pass;
        let mut out = std::mem::take(&mut self.answers);
        out.clear();
        let drained = self.totals.user_dispatches + self.totals.bounced;
        let l = &mut self.dispatch_loop;
        l.began = now;
        l.undrained = l.undrained.saturating_sub(1).min(l.sent.saturating_sub(drained));
        if l.undrained == 0 {
            l.sent = drained;
        }
        let room = l.undrained < self.costs.user_ring.div_ceil(2);

        cost += self.tell_process_events(&mut out);
        for _ in 0..if room { RECORDS_PER_PASS } else { 0 } {
            let Some(record) = self.queued.pop() else { break };
            self.totals.records += 1;
            cost += self.costs.pass_record;
            if let Some(task) = task_of(record.tid.0).and_then(|t| self.tasks.get_mut(t)) {
                task.told_allowed = record.allowed;
                if !task.exit_told && !std::mem::replace(&mut task.with_policy, true) {
                    self.nr_with_policy += 1;
                }
            }
            self.policy.enqueue(now, &record, &mut out);
        }
        if now >= self.dispatch_loop.observe_due {
            self.dispatch_loop.observe_due = now + OBSERVE_EVERY;
            for cpu in self.topology.cpus().iter() {
                cost += self.costs.observe_cpu;
                let spent = self.cpus[cpu.index()].spent(now);
                let (home, other) = std::mem::replace(&mut self.dispatch_loop.spent[cpu.index()], spent);
                self.policy.observe(now, cpu, spent.0.saturating_sub(home), spent.1.saturating_sub(other));
            }
        }
        let ready = self.ready(cpu);
        if room {
            self.policy.dispatch(now, &ready, &mut out);
        }
        cost += out.dispatch.len() as u64 * self.costs.pass_dispatch;
        self.answers = out;
        self.dispatch_loop.step = Step::Write;
        self.time_step(cpu, cost);
    }

    fn tell_process_events(&mut self, out: &mut Answers) -> Ns {
        let mut cost = 0;
        while let Some(event) = self.process_events.pop_front() {
            cost += self.costs.pass_event;
            self.policy.process(self.now, &event, out);
            if let ProcessEvent::Exit { tid, .. } = event {
                self.exit_was_told(tid);
            }
        }
        cost
    }

    /// The CPUs that can take a task: those to which one is on its way cannot.
    fn ready(&mut self, asking: CpuId) -> Ready {
        let l = &mut self.dispatch_loop;
        l.idle = self.idle;
        let mut idle = self.idle;
        for cpu in self.idle.iter() {
            let slot = &mut l.on_its_way[cpu.index()];
            if let Some((switches, sent)) = *slot {
                if self.cpus[cpu.index()].switches == switches && self.now.saturating_sub(sent) < ON_ITS_WAY {
                    idle.clear(cpu);
                } else {
                    *slot = None;
                }
            }
        }
        idle.clear(asking);
        Ready { asking: Some(asking), idle }
    }

    /// Second step of a turn; the CPU looks for work at its end.
    pub(super) fn end_pass(&mut self, cpu: CpuId) {
        self.dispatch_loop.step = Step::Decide;
        let out = std::mem::take(&mut self.answers);
        for hint in &out.hints {
            self.set_hint(*hint);
        }
        self.take_notices(&out.notices);
        let mut given = false;
        for d in out.dispatch.iter().filter(|d| d.cpu != cpu) {
            self.send(d);
            let (switches, began) = (self.cpus.get(d.cpu.index()).map_or(0, |c| c.switches), self.dispatch_loop.began);
            if let Some(slot) = self.dispatch_loop.on_its_way.get_mut(d.cpu.index()) {
                *slot = Some((switches, began));
            }
        }
        for d in out.dispatch.iter().filter(|d| d.cpu == cpu) {
            self.send(d);
            given = true;
        }
        let waiting = self.policy.waiting();
        let l = &mut self.dispatch_loop;
        l.parked = waiting as u64;
        l.preempt = out.preempt.filter(|c| c.index() < self.cpus.len());
        let nobody_works = l.idle.or(&CpuMask::of(cpu)) == *self.topology.cpus();
        let again = l.undrained > 1 || !given && waiting > 0 && nobody_works;
        l.nr_scheduled = u64::from(again);
        self.answers = out;
        self.reschedule(cpu, 0);
    }

    /// Writes one decision to the user ring, after checking that it keeps the rules.
    fn send(&mut self, d: &Dispatch) {
        let Some(id) = task_of(d.tid.0).filter(|t| *t < self.tasks.len()) else {
            self.fault(None, format!("a dispatch for thread {}, which never existed", d.tid));
            return;
        };
        self.check(id, d);
        if self.user.len() as u64 >= self.costs.user_ring {
            // The loop has told the policy that it is sent: it is lost, as it would be there.
            self.totals.ring_full += 1;
            return;
        }
        self.totals.decisions += 1;
        self.user.push_back(*d);
        self.dispatch_loop.undrained += 1;
        self.dispatch_loop.sent += 1;
    }

    fn check(&mut self, id: TaskId, d: &Dispatch) {
        let task = &mut self.tasks[id];
        let had = std::mem::take(&mut task.with_policy);
        let allowed = task.told_allowed;
        if !had && task.exit_told && task.state == State::Dead {
            self.fault(Some(id), "dispatched after the policy was told of its exit".to_owned());
        } else if !had {
            self.fault(Some(id), "dispatched twice, or without having been enqueued".to_owned());
        } else {
            self.nr_with_policy -= 1;
        }
        if !allowed.has(d.cpu) || self.topology.cpu(d.cpu).is_none() {
            let text = format!("dispatched to CPU {}, which is outside its affinity mask", d.cpu);
            self.fault(Some(id), text);
        }
        if d.slice_ns == 0 {
            self.fault(Some(id), "dispatched with a slice of 0 ns, which the shim takes literally".to_owned());
        }
    }
}
