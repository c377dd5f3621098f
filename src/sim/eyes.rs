//! The hints and kicks of `src/bpf/eyes.bpf.c`, rule by rule.

use super::cpu::Current;
use super::event_queue::Event;
use super::machine::{HINTS, Machine};
use super::task::{TaskId, tid_of};
use crate::event::Hint;
use crate::ids::{CpuId, MS, Ns};
use crate::topology::Level;

/// `preempt_margin` there.
const PREEMPT_MARGIN: u32 = 2;

/// `preempt_gap_ns` there.
const PREEMPT_GAP: Ns = MS;

impl Machine {
    /// The task's hint, unless another thread id took its slot.
    pub(super) fn hint_of(&self, task: TaskId) -> Option<Hint> {
        let tid = tid_of(task);
        self.hints[tid as usize % HINTS].filter(|h| h.tid.0 == tid)
    }

    pub(super) fn set_hint(&mut self, hint: Hint) {
        self.hints[hint.tid.0 as usize % HINTS] = Some(hint);
    }

    /// `task` woke up on a CPU that is busy.
    pub(super) fn eyes_woken(&mut self, task: TaskId) {
        let hint = self.hint_of(task);
        let t = &self.tasks[task];
        let cpu = t.cpu;
        let home = hint.map_or(cpu, |h| h.cpu);
        if home != cpu && self.is_idle(home) && t.allowed.has(home) {
            self.kick_idle(home);
            return;
        }
        let current = self.cpus[cpu.index()].current;
        let Current::Task(running) = current else { return };
        let only_one = t.allowed.and(self.topology.cpus()).count() == 1;
        if !hint.is_some_and(|h| h.sticky) && !only_one {
            let near = self.idle.and(self.topology.domain(cpu, Level::Llc)).and(&t.allowed);
            if let Some(other) = near.first() {
                self.kick_idle(other);
                return;
            }
        }
        let rank = hint.map_or(0, |h| u32::from(h.rank));
        let ran = self.now.saturating_sub(self.cpus[cpu.index()].switched_at);
        let running_rank = self.hint_of(running).map_or(0, |h| u32::from(h.rank)).max(log2_us(ran));
        if rank + PREEMPT_MARGIN <= running_rank {
            self.kick_preempt(cpu);
        }
    }

    fn is_idle(&self, cpu: CpuId) -> bool {
        self.cpus.get(cpu.index()).is_some_and(|c| c.current == Current::Idle)
    }

    fn kick_idle(&mut self, cpu: CpuId) {
        self.totals.kicks_idle += 1;
        self.interrupt(cpu);
    }

    /// At most one per CPU in [`PREEMPT_GAP`].
    pub(super) fn kick_preempt(&mut self, cpu: CpuId) {
        let now = self.now;
        let Some(c) = self.cpus.get_mut(cpu.index()) else { return };
        if c.preempted_at.is_some_and(|at| now - at < PREEMPT_GAP) {
            return;
        }
        c.preempted_at = Some(now);
        self.totals.kicks_preempt += 1;
        self.events.push(now + self.costs.kick, Event::Preempt(cpu));
    }

    /// Records wait, the scheduler is nowhere at work, and a CPU idles: that one shall run the scheduler.
    pub(super) fn wake_for_records(&mut self, cpu: CpuId) {
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
