//! What happens next: a heap ordered by time, and by the order of scheduling among equal times.

use super::task::TaskId;
use crate::ids::{CpuId, Ns};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The wake-up of a task arrives.
    Wake(TaskId),
    /// The wake-up of a task arrives as an interrupt of this CPU.
    WakeOn(CpuId, TaskId),
    /// What the CPU does ends (work done, slice over, a step of the scheduler's thread), unless its epoch is another.
    Cpu(CpuId, u32),
    /// An interrupt asks the CPU to look for work.
    Reschedule(CpuId),
    /// The same, and whatever task runs there gives way.
    Preempt(CpuId),
    /// The CPU of a guest has had its slice of the host's, unless that turn is over.
    HostSlice(CpuId, u32),
    /// The shim's heartbeat and the kernel's watchdog, once a second.
    Heartbeat,
    /// The timer that looks whether the policy wants a turn.
    Look,
}

/// The heap.
#[derive(Debug, Default)]
pub struct EventQueue {
    heap: BinaryHeap<Reverse<(Ns, u64, Event)>>,
    pushed: u64,
}

impl EventQueue {
    /// `event` happens at `at`.
    pub fn push(&mut self, at: Ns, event: Event) {
        self.pushed += 1;
        self.heap.push(Reverse((at, self.pushed, event)));
    }

    /// The next event before `end`.
    pub fn pop_before(&mut self, end: Ns) -> Option<(Ns, Event)> {
        if self.heap.peek().is_none_or(|Reverse((at, ..))| *at >= end) {
            return None;
        }
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }
}
