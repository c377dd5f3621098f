//! A queue per CPU number, and which of them have a task.

use crate::cpumask::CpuMask;
use crate::ids::CpuId;
use crate::queue::{Queues, Slot};
use crate::topology::Topology;

/// Queues by CPU; a slot is in at most one. No allocation after [`CpuQueues::new`].
#[derive(Debug)]
pub(super) struct CpuQueues {
    queues: Queues,
    waiting: CpuMask,
}

impl CpuQueues {
    /// One queue per CPU of the machine, over `slots` slots.
    pub fn new(topology: &Topology, slots: usize) -> Self {
        CpuQueues { queues: Queues::new(topology.cpu_slots(), slots), waiting: CpuMask::EMPTY }
    }

    /// CPUs whose queue has a task.
    pub fn waiting(&self) -> CpuMask {
        self.waiting
    }

    /// Tasks in the queue of `cpu`.
    pub fn len(&self, cpu: CpuId) -> usize {
        self.queues.len(cpu.index())
    }

    /// Tasks in all of them.
    pub fn total(&self) -> usize {
        self.queues.total()
    }

    /// Into the queue of `cpu`, out of any other.
    pub fn insert(&mut self, cpu: CpuId, slot: Slot, deadline: u64) {
        self.remove(slot);
        self.queues.insert(cpu.index(), slot, deadline);
        self.waiting.set(cpu);
    }

    /// Out of its queue, if it is in one.
    pub fn remove(&mut self, slot: Slot) {
        if let Some(queue) = self.queues.queue_of(slot) {
            self.queues.remove(slot);
            if self.queues.is_empty(queue) {
                self.waiting.clear(CpuId(queue as u16));
            }
        }
    }

    /// The earliest deadline; among equals, who came first.
    pub fn first(&self, cpu: CpuId) -> Option<Slot> {
        self.queues.first(cpu.index())
    }

    /// The next of the same queue by deadline.
    pub fn next(&self, slot: Slot) -> Option<Slot> {
        self.queues.next(slot)
    }

    /// Who has been in the queue of `cpu` longest.
    pub fn oldest(&self, cpu: CpuId) -> Option<Slot> {
        self.queues.oldest(cpu.index())
    }
}
