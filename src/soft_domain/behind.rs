//! Tasks that are sent to a busy CPU's own queue: what runs there ends soon, and the CPU then goes on with them without a
//! turn of ours in between. At most one waits there, and nobody can take it away from there again.

use super::SoftDomain;
use crate::cpumask::Set;
use crate::event::{Answers, Cause, LONG, Reason};
use crate::ids::{CpuId, LlcId, Ns};
use crate::queue::Slot;

impl SoftDomain {
    /// After the CPUs that can take tasks have theirs: the first of each queue, if it wants a CPU that is about to be free.
    pub(super) fn send_behind_short(&mut self, now: Ns, out: &mut Answers) {
        let mut from = 0;
        while let Some(llc) = self.unbound().at_or_above(from).map(|c| LlcId(c.0)) {
            from = llc.index() + 1;
            let Some(slot) = self.queues.first(llc.index()) else { continue };
            let task = self.tasks.get(slot);
            let Some(home) = self.home_of(task).filter(|h| self.may_wait_behind(now, slot, *h, llc)) else { continue };
            if self.ends_soon(now, home) || self.waits_for(task.process, home, now) {
                self.send(now, slot, home, Reason::HomeBehind, out);
            }
        }
        let mut from = 0;
        while let Some(cpu) = self.waiting_cpus.at_or_above(from) {
            from = cpu.index() + 1;
            let queue = self.pinned_queue(cpu);
            let Some(slot) = self.queues.first(queue) else { continue };
            let llc = self.llc_of(cpu).index();
            let before = |other: Option<Slot>| other.and_then(|s| self.queues.deadline(s)).unwrap_or(u64::MAX);
            let due = before(Some(slot)) <= before(self.queues.first(llc));
            let alone = !self.cpus.has_behind(cpu) && self.nobody_late(now, queue) && self.nobody_late(now, llc);
            if due && alone && self.ends_soon(now, cpu) {
                self.send(now, slot, cpu, Reason::MaskBehind, out);
            } else if let Some(slot) = self.queues.oldest(queue).filter(|s| self.waits_in_vain(now, *s, cpu)) {
                self.send(now, slot, cpu, Reason::MaskBehind, out);
            }
        }
    }

    /// Whether a task of `llc`'s queue may wait in the queue of a busy CPU itself: nothing waits there yet, and nobody is
    /// passed over who has only that CPU or has waited too long (two instances that take turns there would never let go of it).
    pub(super) fn may_wait_behind(&self, now: Ns, slot: Slot, cpu: CpuId, llc: LlcId) -> bool {
        self.allows(slot, cpu)
            && !self.cpus.has_behind(cpu)
            && self.queues.is_empty(self.pinned_queue(cpu))
            && self.nobody_late(now, llc.index())
    }

    /// A CPU that did not ask for so long that its task is overdue is a real-time task's. There the kernel side must see who
    /// waits, to do something about it.
    fn waits_in_vain(&self, now: Ns, slot: Slot, cpu: CpuId) -> bool {
        self.waited(slot, now) > self.limits().age_bound_ns && !self.cpus.has_behind(cpu)
    }

    fn nobody_late(&self, now: Ns, queue: usize) -> bool {
        let late = |s: Slot| self.waited(s, now) > self.limits().age_bound_ns / 2;
        !self.queues.oldest(queue).is_some_and(late)
    }

    /// Whether the current task of `cpu` will have slept before it has run long, by what it usually does.
    pub(super) fn ends_soon(&self, now: Ns, cpu: CpuId) -> bool {
        self.cpus.current(cpu).is_some_and(|(current, since)| {
            let task = self.tasks.get(current);
            task.burst > 0 && task.burst.max(task.charged) <= LONG && now.saturating_sub(since) <= LONG
        })
    }

    /// A task that was preempted for a short one goes right behind it, if it is the next of its queue anyway: the CPU
    /// goes on with it without asking us again.
    pub(super) fn send_back_displaced(&mut self, now: Ns, cpu: CpuId, out: &mut Answers) {
        let Some((current, _)) = self.cpus.current(cpu) else { return };
        let queue = self.llc_of(cpu).index();
        let pinned = self.pinned_queue(cpu);
        let Some(slot) = self.queues.first(queue) else { return };
        let (task, preemptor) = (self.tasks.get(slot), self.tasks.get(current));
        let displaced = task.cause == Some(Cause::SliceEnd) && task.enqueued_at == now && task.cpu == cpu;
        if displaced
            && self.allows(slot, cpu)
            && !self.cpus.has_behind(cpu)
            && self.queues.is_empty(pinned)
            && preemptor.rank() + 2 <= task.rank()
        {
            self.send(now, slot, cpu, Reason::Behind, out);
        }
    }
}
