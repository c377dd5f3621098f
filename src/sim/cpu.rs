//! A simulated CPU, and what `eyes.bpf.c` keeps of it.

use super::rings::CpuQueue;
use super::task::TaskId;
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
    pub other_ns: Ns,
    pub home_ns: Ns,
    pub preempted_at: Option<Ns>,
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
            other_ns: 0,
            home_ns: 0,
            preempted_at: None,
        }
    }

    /// Time spent until `now` for tasks at their home, and for others.
    pub fn spent(&self, now: Ns) -> (Ns, Ns) {
        let stint = now.saturating_sub(self.switched_at);
        match self.owner {
            Owner::Nobody => (self.home_ns, self.other_ns),
            Owner::Other => (self.home_ns, self.other_ns + stint),
            Owner::Home => (self.home_ns + stint, self.other_ns),
        }
    }
}
