//! The hints and kicks of `src/bpf/eyes.bpf.c`, rule by rule.

use super::cpu::{Current, Owner};
use super::event_queue::Event;
use super::machine::Machine;
use super::task::{TaskId, tid_of};
use crate::cpumask::CpuMask;
use crate::event::{Hint, LONG};
use crate::ids::{CpuId, Ns};
use crate::rules::{HINTS, LOOK_AGAIN, LOOK_EVERY, PREEMPT_GAP, PREEMPT_MARGIN};
use crate::topology::Level;

impl Machine {
    /// The task's hint, unless another thread id took its slot.
    pub(super) fn hint_of(&self, task: TaskId) -> Option<Hint> {
        let tid = tid_of(task);
        self.hints[tid as usize % HINTS].filter(|h| h.tid.0 == tid)
    }

    pub(super) fn set_hint(&mut self, hint: Hint) {
        self.hints[hint.tid.0 as usize % HINTS] = Some(hint);
    }

    /// `woken()`: `task` woke up on a CPU that is busy.
    pub(super) fn eyes_woken(&mut self, task: TaskId) {
        let hint = self.hint_of(task);
        let t = &self.tasks[task];
        let cpu = hint.map(|h| h.cpu).filter(|c| c.index() < self.cpus.len() && t.allowed.has(*c)).unwrap_or(t.cpu);
        if self.is_idle(cpu) {
            self.kick_idle(cpu);
            return;
        }
        let only_one = t.allowed.and(self.topology.cpus()).count() == 1;
        if !hint.is_some_and(|h| h.sticky) && !only_one {
            let near = self.idle.and(self.topology.domain(cpu, Level::Llc)).and(&t.allowed);
            if let Some(other) = near.first() {
                self.kick_idle(other);
                return;
            }
        }
        self.look_for_work(cpu, hint.map_or(0, |h| u32::from(h.rank)), t.woken_on);
    }

    /// `interrupt()`: a task of `rank` waits for `cpu`. `waker` is the CPU where that was found out, unless by a timer.
    fn look_for_work(&mut self, cpu: CpuId, rank: u32, waker: Option<CpuId>) {
        let Some(c) = self.cpus.get(cpu.index()) else { return };
        let ran = self.now.saturating_sub(c.switched_at);
        let running_rank = match c.current {
            _ if self.dispatch_loop.runs => return self.look_later(cpu, rank),
            Current::Idle => return self.kick_idle(cpu),
            Current::Task(running) => self.hint_of(running).map_or(0, |h| u32::from(h.rank)),
            Current::Scheduler => 0,
        };
        if running_rank.max(log2_us(ran)) < rank + PREEMPT_MARGIN || waker == Some(cpu) && ran < LONG {
            return;
        }
        if self.now - c.preempted_at < PREEMPT_GAP {
            return self.look_later(cpu, rank);
        }
        self.cpus[cpu.index()].preempt_kicked = true;
        self.totals.kicks_preempt += 1;
        self.events.push(self.now + self.costs.kick, Event::Preempt(cpu));
    }

    fn look_later(&mut self, cpu: CpuId, rank: u32) {
        self.cpus[cpu.index()].late_rank = rank;
        self.dispatch_loop.late.set(cpu);
    }

    fn is_idle(&self, cpu: CpuId) -> bool {
        self.cpus.get(cpu.index()).is_some_and(|c| c.current == Current::Idle)
    }

    fn kick_idle(&mut self, cpu: CpuId) {
        self.totals.kicks_idle += 1;
        self.interrupt(cpu);
    }

    /// `eyes_switch()`: `cpu` switches from `prev` to `next`, which is current already. `prev_runs`: it still wants to.
    pub(super) fn eyes_switch(&mut self, cpu: CpuId, prev: Current, prev_runs: bool, next: Current) {
        let now = self.now;
        let owner = match next {
            Current::Idle | Current::Scheduler => Owner::Nobody,
            Current::Task(task) => match self.hint_of(task) {
                Some(h) if h.home && h.cpu == cpu => Owner::Home,
                Some(h) if u32::from(h.rank) >= log2_us(LONG) => Owner::Long,
                _ => Owner::Other,
            },
        };
        let c = &mut self.cpus[cpu.index()];
        c.spend(now);
        c.owner = owner;
        c.switched_at = now;
        c.switches = c.switches.wrapping_add(1);
        if std::mem::take(&mut c.preempt_kicked) && next == Current::Scheduler {
            c.preempted_at = now;
        }
        if prev == Current::Scheduler {
            self.scheduler_left(cpu, next);
        } else if next == Current::Scheduler {
            c.queued = c.queue.len();
            self.dispatch_loop.runs = true;
            self.dispatch_loop.idle_before = self.idle.or(&CpuMask::of(cpu));
        }
        let blocked = matches!(prev, Current::Task(_)) && !prev_runs;
        if !blocked || next == Current::Idle {
            self.wake_for_records(cpu);
        }
    }

    /// `left()`, `interrupt_urgent()`, `kick_newly_idle()`: records that the core has not drained, tasks that still wait.
    fn scheduler_left(&mut self, cpu: CpuId, next: Current) {
        let drained = self.drained();
        let l = &mut self.dispatch_loop;
        let undrained = drained < l.drained_at_rest;
        // Not twice for the same records.
        let in_vain = std::mem::replace(&mut l.drained_before, drained) == drained;
        l.runs = false;
        l.nr_scheduled = if l.parked > 0 { l.parked } else { u64::from(undrained) };
        if undrained && !in_vain && next == Current::Idle {
            self.kick_idle(cpu);
        }
        for i in 0..self.dispatch_loop.urgent.len() {
            let urgent = self.dispatch_loop.urgent[i];
            self.look_for_work(urgent.cpu, u32::from(urgent.rank), Some(cpu));
        }
        for late in std::mem::take(&mut self.dispatch_loop.late).iter() {
            let rank = self.cpus[late.index()].late_rank;
            self.look_for_work(late, rank, Some(cpu));
        }
        // A CPU that fell idle during the turn found no scheduler to run.
        let before = self.dispatch_loop.idle_before;
        if self.dispatch_loop.parked > 0
            && let Some(idle) = self.idle.iter().find(|c| !before.has(*c))
        {
            self.kick_idle(idle);
        }
    }

    /// `look_if_due()`.
    pub(super) fn eyes_look(&mut self) {
        let mut next = LOOK_EVERY;
        if self.now >= self.dispatch_loop.due {
            next = LOOK_AGAIN;
            self.dispatch_loop.nr_scheduled = 1;
            if let Some(idle) = self.idle.first() {
                self.kick_idle(idle);
            }
        } else {
            next = next.min(self.dispatch_loop.due - self.now);
        }
        self.events.push(self.now + next, Event::Look);
    }

    /// Records wait, the scheduler is nowhere at work, and a CPU idles: that one shall run the scheduler.
    fn wake_for_records(&mut self, cpu: CpuId) {
        if self.dispatch_loop.runs || self.queued.is_empty() {
            return;
        }
        let idle = if self.is_idle(cpu) { Some(cpu) } else { self.idle.first() };
        if let Some(idle) = idle {
            self.kick_idle(idle);
        }
    }
}

/// log2 of a time in 1,024 ns, 0 below that.
fn log2_us(ns: Ns) -> u32 {
    (ns >> 10).checked_ilog2().unwrap_or(0)
}
