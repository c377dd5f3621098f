//! The two rings of the shim and its queues.

use super::cost::Costs;
use super::task::TaskId;
use crate::event::Runnable;
use crate::ids::Ns;
use std::collections::VecDeque;

/// The ring to user space, with the lock that its producers share.
#[derive(Debug)]
pub struct QueuedRing {
    records: VecDeque<Runnable>,
    capacity: usize,
    /// When each producer that is at the lock now leaves it, earliest first.
    leaving: VecDeque<Ns>,
}

impl QueuedRing {
    /// Empty.
    pub fn new(costs: &Costs) -> Self {
        QueuedRing { records: VecDeque::new(), capacity: costs.queued_ring as usize, leaving: VecDeque::new() }
    }

    /// A producer comes to the lock at `now`; how long it is held up there. Each is served in turn, and the more stand
    /// there the longer each takes (the lock's cache line goes from one to the other).
    pub fn take_turn(&mut self, now: Ns, costs: &Costs) -> Ns {
        while self.leaving.front().is_some_and(|t| *t <= now) {
            self.leaving.pop_front();
        }
        let hold = costs.ring_hold(self.leaving.len() as u64 + 1);
        let leaves = self.leaving.back().copied().unwrap_or(now).max(now) + hold;
        self.leaving.push_back(leaves);
        leaves - now
    }

    /// Adds a record unless the ring is full.
    pub fn push(&mut self, record: Runnable) -> bool {
        let room = self.records.len() < self.capacity;
        if room {
            self.records.push_back(record);
        }
        room
    }

    /// The oldest record.
    pub fn pop(&mut self) -> Option<Runnable> {
        self.records.pop_front()
    }

    /// Nothing there.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

/// The queue of one CPU: by vtime, first come first served among equals.
#[derive(Clone, Debug, Default)]
pub struct CpuQueue(VecDeque<(u64, TaskId)>);

impl CpuQueue {
    /// Adds a task.
    pub fn insert(&mut self, vtime: u64, task: TaskId) {
        let at = self.0.partition_point(|(v, _)| *v <= vtime);
        self.0.insert(at, (vtime, task));
    }

    /// Takes the first.
    pub fn pop(&mut self) -> Option<TaskId> {
        self.0.pop_front().map(|(_, task)| task)
    }

    /// Tasks in it.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes `task` out.
    pub fn remove(&mut self, task: TaskId) {
        self.0.retain(|(_, t)| *t != task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn producers_that_never_leave_the_lock_reach_the_reported_rate() {
        let costs = Costs::default();
        let mut ring = QueuedRing::new(&costs);
        // 48 producers in a closed loop: each comes back when it leaves.
        let mut next: Vec<Ns> = vec![0; 48];
        let mut records = 0;
        while let Some((i, now)) = next.iter().copied().enumerate().min_by_key(|(i, t)| (*t, *i)) {
            if now > 1_000_000 {
                break;
            }
            next[i] = now + ring.take_turn(now, &costs);
            records += 1;
        }
        assert!((1_150..1_300).contains(&records), "{records} records in 1 ms");
    }

    #[test]
    fn a_cpu_queue_is_ordered_by_vtime_then_by_arrival() {
        let mut q = CpuQueue::default();
        for (vtime, task) in [(5, 1), (3, 2), (5, 3), (4, 4)] {
            q.insert(vtime, task);
        }
        q.remove(4);
        assert_eq!([q.pop(), q.pop(), q.pop(), q.pop()], [Some(2), Some(1), Some(3), None]);
    }
}
