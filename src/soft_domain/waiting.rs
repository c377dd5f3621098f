//! Who waits where, and which of them a pass may leave out.
//!
//! Most tasks of an LLC's queue are bound to the LLC: while none of its CPUs is free nothing can be done for them, unless
//! they have waited for too long. On a big and busy machine nearly every LLC is full and nearly every pass is for one CPU.

use super::SoftDomain;
use super::task::Task;
use crate::cpumask::CpuMask;
use crate::ids::{CpuId, LlcId};
use crate::queue::{NONE, Slot};

impl SoftDomain {
    /// Whether a task that waits in an LLC's queue can only be sent to a free CPU of that LLC, for as long as nobody waits
    /// for too long: most can, and a pass need not look at them where no CPU of the LLC is free. The others have a home,
    /// where they may wait behind another task, have no domain yet, or belong to the kernel. They are marked in the queue.
    fn is_bound(&self, task: &Task) -> bool {
        if task.process == NONE {
            return true;
        }
        let p = self.domains.processes.get(task.process);
        !p.kthread && self.home_of(task).is_none() && !self.undecided(task.process)
    }

    /// How many tasks of an LLC's queue are not bound to the LLC; any, if that is not known.
    pub(super) fn unbound_in(&self, llc: LlcId) -> usize {
        if self.is_unknown(llc) { usize::MAX } else { self.queues.marked(llc.index()) }
    }

    /// LLCs whose queue may have tasks that are not bound to the LLC.
    pub(super) fn unbound(&self) -> &CpuMask {
        if self.unknown { &self.waiting_llcs } else { &self.unbound_llcs }
    }

    pub(super) fn is_unknown(&self, llc: LlcId) -> bool {
        self.unknown && self.queues.oldest_arrival(llc.index()) <= self.processes_changed
    }

    /// A process appears, becomes something else or ends.
    pub(super) fn note_processes_change(&mut self) {
        (self.processes_changed, self.unknown) = (self.queues.arrivals(), true);
    }

    pub(super) fn wait(&mut self, queue: usize, slot: Slot, deadline: u64) {
        self.queues.insert(queue, slot, deadline);
        if !self.is_bound(self.tasks.get(slot)) {
            self.queues.mark(slot);
        }
        self.note_waiting(queue);
    }

    /// Gives back the queue that the task has waited in.
    pub(super) fn unwait(&mut self, slot: Slot) -> Option<usize> {
        let queue = self.queues.remove(slot)?;
        self.note_waiting(queue);
        Some(queue)
    }

    fn note_waiting(&mut self, queue: usize) {
        let llcs = self.topology.nr_llcs();
        let (mask, bit) =
            if queue < llcs { (&mut self.waiting_llcs, queue) } else { (&mut self.waiting_cpus, queue - llcs) };
        let bit = CpuId(bit as u16);
        if self.queues.is_empty(queue) {
            mask.clear(bit);
        } else {
            mask.set(bit);
        }
        if queue < llcs && self.queues.marked(queue) == 0 {
            self.unbound_llcs.clear(bit);
        } else if queue < llcs {
            self.unbound_llcs.set(bit);
        }
    }
}
