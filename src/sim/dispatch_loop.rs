//! The scheduler's thread: one turn after the other, as `src/dispatcher.rs` has it. Keep the two in step.
//!
//! A turn has two steps in simulated time. At the first the records are read and the policy decides; then the CPU is
//! busy for what that costs; at the second the decisions are in the ring and the thread yields.

use super::event_queue::Event;
use super::machine::Machine;
use super::task::{State, TaskId, task_of};
use crate::cpumask::CpuMask;
use crate::event::{Answers, Dispatch, MAX_URGENT, ProcessEvent, Ready, Spent, Urgent};
use crate::ids::{CpuId, Ns};
use crate::policy::OBSERVE_EVERY;
use crate::rules::{ON_ITS_WAY, RECORDS_PER_PASS};
use crate::undrained::Undrained;

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
    /// When that is.
    pub step_at: Ns,
    /// When it was switched in.
    pub since: Ns,
    pub last_run: Ns,
    /// The shim's `usersched_needed` and `nr_scheduled`.
    pub needed: bool,
    pub nr_scheduled: u64,
    /// `parked`, `due`, `urgent`, `late`, `drained_at_rest` and `scheduler_runs` of `eyes.bpf.c`.
    pub parked: u64,
    pub due: Ns,
    pub urgent: Vec<Urgent>,
    pub late: CpuMask,
    /// Idle when the scheduler was switched in last, or its own CPU.
    pub idle_before: CpuMask,
    pub drained_at_rest: u64,
    /// When the scheduler left last.
    pub drained_before: u64,
    pub runs: bool,
    on_its_way: Vec<Option<(u32, Ns)>>,
    /// Per CPU: the number of the last record that sends a task there.
    last_record: Vec<u64>,
    spent: Vec<Spent>,
    observe_due: Ns,
    undrained: Undrained,
    /// Of the turn that is under way.
    began: Ns,
    next: bool,
}

impl Loop {
    /// Ready to run on `cpu`.
    pub fn new(cpu_slots: usize, cpu: CpuId) -> Self {
        Loop {
            cpu,
            queued: true,
            step: Step::Decide,
            step_at: 0,
            since: 0,
            last_run: 0,
            needed: false,
            nr_scheduled: 0,
            parked: 0,
            due: Ns::MAX,
            urgent: Vec::with_capacity(MAX_URGENT),
            late: CpuMask::EMPTY,
            idle_before: CpuMask::EMPTY,
            drained_at_rest: 0,
            drained_before: 0,
            runs: false,
            on_its_way: vec![None; cpu_slots],
            last_record: vec![0; cpu_slots],
            spent: vec![Spent::default(); cpu_slots],
            observe_due: 0,
            undrained: Undrained::default(),
            began: 0,
            next: false,
        }
    }
}

impl Machine {
    /// The thread starts a turn on `cpu` in `delay` ns.
    pub(super) fn next_pass(&mut self, cpu: CpuId, delay: Ns) {
        self.dispatch_loop.step = Step::Decide;
        self.time_step(cpu, delay);
    }

    pub(super) fn time_step(&mut self, cpu: CpuId, delay: Ns) {
        let at = self.now + delay;
        self.dispatch_loop.step_at = at;
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
        let drained = self.drained();
        let l = &mut self.dispatch_loop;
        l.began = now;
        l.undrained.pass(drained);
        let room = l.undrained.count() < self.costs.user_ring.div_ceil(2);

        cost += self.tell_process_events(&mut out);
        if room {
            // Wake-ups whose records are read now; those that come during the turn are looked at after it.
            self.dispatch_loop.late = CpuMask::EMPTY;
        }
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
                let before = std::mem::replace(&mut self.dispatch_loop.spent[cpu.index()], spent);
                let spent = Spent {
                    home_ns: spent.home_ns.saturating_sub(before.home_ns),
                    other_ns: spent.other_ns.saturating_sub(before.other_ns),
                    long_ns: spent.long_ns.saturating_sub(before.long_ns),
                };
                self.policy.observe(now, cpu, &spent);
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
        l.next = l.undrained.holds(l.last_record[asking.index()]) || self.cpus[asking.index()].queued > 0;
        Ready { asking: Some(asking), next: l.next, idle }
    }

    /// Second step of a turn; the CPU looks for work at its end.
    pub(super) fn end_pass(&mut self, cpu: CpuId) {
        self.dispatch_loop.step = Step::Decide;
        let out = std::mem::take(&mut self.answers);
        for hint in &out.hints {
            self.set_hint(*hint);
        }
        self.take_notices(&out.notices);
        // The own CPU's last: the core drains on only while this CPU has nothing to run.
        for d in out.dispatch.iter().filter(|d| d.cpu != cpu) {
            self.send(d);
            let (switches, began) = (self.cpus.get(d.cpu.index()).map_or(0, |c| c.switches), self.dispatch_loop.began);
            if let Some(slot) = self.dispatch_loop.on_its_way.get_mut(d.cpu.index()) {
                *slot = Some((switches, began));
            }
        }
        out.dispatch.iter().filter(|d| d.cpu == cpu).for_each(|d| self.send(d));
        let (waiting, due, drained) = (self.policy.waiting(), self.policy.due(), self.drained());
        let l = &mut self.dispatch_loop;
        (l.parked, l.due) = (waiting as u64, due);
        l.urgent.clear();
        l.urgent.extend(out.urgent.iter().take(MAX_URGENT));
        l.drained_at_rest = drained + l.undrained.count();
        // A task in the CPU's own queue ends the draining after the first record. Tasks that wait on are for the eyes.
        let again = l.undrained.count() > 1 && l.next;
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
        let number = self.dispatch_loop.undrained.add();
        if let Some(last) = self.dispatch_loop.last_record.get_mut(d.cpu.index()) {
            *last = number;
        }
    }

    /// Records that the shim has counted as drained.
    pub(super) fn drained(&self) -> u64 {
        self.totals.user_dispatches + self.totals.bounced
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
