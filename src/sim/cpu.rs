//! A simulated CPU, and what `eyes.bpf.c` keeps of it.

use super::rings::CpuQueue;
use super::task::TaskId;
use crate::event::{LONG, Spent};
use crate::ids::Ns;

/// What a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Current {
    /// Nothing.
    Idle,
    /// Runs a task.
    Task(TaskId),
    /// Runs the scheduler's thread.
    Scheduler,
}

/// Whose time a CPU spends, as `eyes.h` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Nobody,
    Other,
    Home,
    Long,
}

/// One CPU.
#[derive(Clone, Debug)]
pub struct Cpu {
    pub current: Current,
    /// Only the timer of this epoch counts.
    pub epoch: u32,
    pub queue: CpuQueue,
    /// An interrupt to look for work is on its way.
    pub kicked: bool,

    // --- The stint of the current task.
    /// When the current task was switched in.
    pub since: Ns,
    /// Its work is accounted up to here.
    pub accounted: Ns,
    /// Before that it waits for the switch and its caches.
    pub work_from: Ns,
    /// Speed, permille.
    pub rate: u64,
    /// The tick at which its slice is over.
    pub slice_end: Ns,

    // --- eyes.bpf.c.
    pub switches: u32,
    pub switched_at: Ns,
    pub owner: Owner,
    pub home_ns: Ns,
    /// Of others, without what is in `long_ns`.
    pub other_ns: Ns,
    pub long_ns: Ns,
    /// When a kick last took the CPU from a task.
    pub preempted_at: Ns,
    /// A preempting kick is on its way.
    pub preempt_kicked: bool,
    /// Rank of the task behind the CPU's bit in `late`.
    pub late_rank: u32,
    /// Tasks in its own queue when the scheduler was switched in.
    pub queued: usize,
}

impl Cpu {
    /// Idle since `now`.
    pub fn new(now: Ns) -> Self {
        Cpu {
            current: Current::Idle,
            epoch: 0,
            queue: CpuQueue::default(),
            kicked: false,
            since: now,
            accounted: now,
            work_from: now,
            rate: 1000,
            slice_end: 0,
            switches: 0,
            switched_at: now,
            owner: Owner::Nobody,
            home_ns: 0,
            other_ns: 0,
            long_ns: 0,
            preempted_at: 0,
            preempt_kicked: false,
            late_rank: 0,
            queued: 0,
        }
    }

    /// Adds the current stint to the times.
    pub fn spend(&mut self, now: Ns) {
        (self.home_ns, self.other_ns, self.long_ns) = self.times(now);
    }

    /// How it has spent its time until `now`, as the loop reads it.
    pub fn spent(&self, now: Ns) -> Spent {
        let (home_ns, short_ns, long_ns) = self.times(now);
        Spent { home_ns, other_ns: short_ns + long_ns, long_ns }
    }

    /// For tasks at their home, for others, and for those of them that run long; with the current stint.
    fn times(&self, now: Ns) -> (Ns, Ns, Ns) {
        let stint = now.saturating_sub(self.switched_at);
        let (home, other, long) = (self.home_ns, self.other_ns, self.long_ns);
        match self.owner {
            Owner::Nobody => (home, other, long),
            Owner::Home => (home + stint, other, long),
            // A stint that turned out long counts as one.
            Owner::Other if stint < LONG => (home, other + stint, long),
            Owner::Other | Owner::Long => (home, other, long + stint),
        }
    }
}
