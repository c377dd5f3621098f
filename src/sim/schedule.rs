//! A CPU looks for work: the core's loop around `.dispatch()`, and the shim's `.dispatch()` itself.

use super::cpu::Current;
use super::event_queue::Event;
use super::machine::Machine;
use super::task::{State, TaskId, task_of};
use crate::event::Dispatch;
use crate::ids::{CpuId, Ns};

/// How often the core calls `.dispatch()` in one look while it only puts tasks elsewhere (`SCX_DSP_MAX_LOOPS`).
const MOST_DISPATCHES: usize = 32;

/// What a CPU runs next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pick {
    /// The current task or the scheduler goes on with a new slice.
    Keep,
    Scheduler,
    Task(TaskId),
}

impl Machine {
    /// `cpu` looks for work. Its current task goes on if it has some slice left and has not blocked. `spent` is CPU time
    /// that was used up on the way here, ns.
    pub(super) fn reschedule(&mut self, cpu: CpuId, mut spent: Ns) {
        let prev = self.cpus[cpu.index()].current;
        let prev_runs = match prev {
            Current::Idle => false,
            Current::Scheduler => true,
            Current::Task(task) => self.tasks[task].state == State::Running(cpu),
        };
        if let Current::Task(task) = prev
            && prev_runs
            && self.tasks[task].slice > 0
        {
            self.go_on(cpu, spent);
            return;
        }
        let mut pick = None;
        for round in 1..=MOST_DISPATCHES {
            let inserted;
            (inserted, pick) = self.ops_dispatch(cpu, prev, prev_runs, &mut spent);
            if pick.is_some() || !inserted {
                break;
            }
            if round == MOST_DISPATCHES {
                // More records wait: the core kicks itself and comes back.
                self.interrupt(cpu);
            }
        }
        match pick {
            Some(Pick::Keep) => match prev {
                Current::Scheduler => self.next_pass(cpu, spent + self.costs.yield_call),
                Current::Task(task) => {
                    self.tasks[task].slice = self.costs.shim_slice;
                    self.renew_slice(cpu, task);
                    self.go_on(cpu, spent);
                }
                Current::Idle => {}
            },
            Some(Pick::Scheduler) => {
                self.put_prev(cpu, prev, prev_runs, &mut spent);
                self.dispatch_loop.queued = false;
                self.dispatch_loop.cpu = cpu;
                (self.dispatch_loop.since, self.dispatch_loop.last_run) = (self.now, self.now);
                self.switch(cpu, prev, prev_runs, Current::Scheduler);
                self.next_pass(cpu, spent + self.costs.context_switch);
            }
            Some(Pick::Task(task)) => {
                self.put_prev(cpu, prev, prev_runs, &mut spent);
                // Before the switch is seen by the eyes: a hint of the task decides whose time begins.
                self.switch(cpu, prev, prev_runs, Current::Task(task));
                self.begin_stint(cpu, task, spent);
            }
            None => {
                // Without other work a task that still runs is always refilled; the scheduler goes back to its queue.
                self.put_prev(cpu, prev, prev_runs, &mut spent);
                if prev != Current::Idle {
                    self.switch(cpu, prev, prev_runs, Current::Idle);
                }
            }
        }
    }

    /// One `.dispatch()` of the shim: a record of the user ring, then the scheduler's thread, then the own queue, then
    /// the machine-wide one. Returns whether a task was queued somewhere, and what to run.
    fn ops_dispatch(&mut self, cpu: CpuId, prev: Current, prev_runs: bool, spent: &mut Ns) -> (bool, Option<Pick>) {
        *spent += self.costs.dispatch_call;
        let inserted = self.user.pop_front().is_some_and(|record| {
            *spent += self.costs.drain;
            self.insert(cpu, &record)
        });
        let l = &mut self.dispatch_loop;
        let pending = std::mem::take(&mut l.needed) || l.nr_scheduled > 0 || !self.queued.is_empty();
        if pending && l.queued {
            return (inserted, Some(Pick::Scheduler));
        }
        if let Some(task) = self.cpus[cpu.index()].queue.pop() {
            return (inserted, Some(Pick::Task(task)));
        }
        if let Some(at) = self.shared.iter().position(|t| self.tasks[*t].allowed.has(cpu))
            && let Some(task) = self.shared.remove(at)
        {
            return (inserted, Some(Pick::Task(task)));
        }
        let refill = prev_runs && (prev != Current::Scheduler || pending);
        (inserted, refill.then_some(Pick::Keep))
    }

    /// The shim's `dispatch_task`: a decision reaches the kernel on `here`. Returns whether the core counts a task.
    fn insert(&mut self, here: CpuId, record: &Dispatch) -> bool {
        let Some(id) = task_of(record.tid.0).filter(|t| *t < self.tasks.len()) else { return false };
        let task = &mut self.tasks[id];
        if task.state == State::Dead {
            return false;
        }
        let cpu = if task.allowed.has(record.cpu) && self.topology.cpu(record.cpu).is_some() {
            self.totals.user_dispatches += 1;
            record.cpu
        } else {
            self.totals.bounced += 1;
            task.cpu
        };
        if task.enq_cnt > record.generation {
            self.totals.cancelled += 1;
            return false;
        }
        if task.state != State::Queued {
            // Somebody else already got to it: the core ignores this one.
            return true;
        }
        task.slice = record.slice_ns;
        self.set_state(id, State::OnCpuQueue(cpu));
        if let Some(watch) = &mut self.watch {
            watch.sent(id, record.reason);
        }
        self.cpus[cpu.index()].queue.insert(record.vtime, id);
        if cpu != here && self.cpus[cpu.index()].current == Current::Idle {
            self.interrupt(cpu);
        }
        true
    }

    /// What ran until now leaves the CPU; if it still wants to run it goes back to where it is scheduled from.
    fn put_prev(&mut self, cpu: CpuId, prev: Current, prev_runs: bool, spent: &mut Ns) {
        match prev {
            Current::Idle => {}
            Current::Scheduler => {
                self.totals.scheduler_ns += self.now - self.dispatch_loop.since;
                self.dispatch_loop.queued = true;
            }
            Current::Task(task) => {
                self.end_stint(cpu, task);
                if prev_runs {
                    let held_up = self.queued.take_turn(self.now, &self.costs);
                    self.totals.ring_wait_ns += held_up;
                    *spent += held_up;
                    self.enqueue(task, false);
                }
            }
        }
    }

    /// sched_switch, with what `eyes.bpf.c` does there.
    fn switch(&mut self, cpu: CpuId, prev: Current, prev_runs: bool, next: Current) {
        self.watch_switch(cpu, next);
        let c = &mut self.cpus[cpu.index()];
        c.current = next;
        c.epoch = c.epoch.wrapping_add(1);
        match (prev, next) {
            (Current::Idle, Current::Idle) => {}
            (Current::Idle, _) => {
                self.idle.clear(cpu);
                self.nr_idle -= 1;
                self.retime_siblings(cpu);
            }
            (_, Current::Idle) => {
                self.idle.set(cpu);
                self.nr_idle += 1;
                self.retime_siblings(cpu);
            }
            _ => {}
        }
        self.eyes_switch(cpu, prev, prev_runs, next);
    }

    /// An interrupt to `cpu`, which looks for work if it is idle then. One on its way is enough.
    pub(super) fn interrupt(&mut self, cpu: CpuId) {
        let delay = self.costs.idle_exit;
        let at = self.now + delay;
        if let Some(c) = self.cpus.get_mut(cpu.index()).filter(|c| !c.kicked) {
            c.kicked = true;
            self.events.push(at, Event::Reschedule(cpu));
        }
    }
}
