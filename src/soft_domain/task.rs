//! What the policy remembers of a thread.

use super::SoftDomain;
use crate::cpumask::{Both, CpuMask, Set};
use crate::event::{Cause, Hint, Runnable};
use crate::ids::{CpuId, LlcId, Ns, Tid};
use crate::queue::Slot;

/// What is known of a task's affinity mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Nothing yet.
    #[default]
    Unknown,
    /// It may use every CPU of the machine.
    Anywhere,
    /// It has a mask of its own.
    Narrow,
}

/// A thread that we have seen runnable. Few and small fields: a copy is made at every event, and with thousands of tasks
/// it comes from memory, two cache lines side by side.
#[repr(align(128))]
#[derive(Clone, Copy, Debug, Default)]
pub struct Task {
    pub tid: Tid,
    pub process: Slot,
    /// Last CPU it ran on.
    pub cpu: CpuId,
    pub reach: Reach,
    pub generation: u64,
    pub weight: u32,
    pub cause: Option<Cause>,
    pub enqueued_at: Ns,
    /// When it was last sent to a CPU.
    pub sent_at: Ns,
    /// CPU time at nice 0 that it has had, on the clock of `clock_of`, ns.
    pub vtime: u64,
    pub clock_of: LlcId,
    /// Start of its last charged stint.
    pub started: u64,
    /// CPU time since its last wake-up that is charged already, ns.
    pub charged: Ns,
    /// Usual run time between sleeps, ns.
    pub burst: Ns,
    pub hint: Option<Hint>,
}

const _: () = assert!(size_of::<Task>() == 128);

impl Task {
    /// log2 of its run time between sleeps, us: small = urgent.
    pub fn rank(&self) -> u8 {
        (self.burst.max(self.charged) >> 10).checked_ilog2().unwrap_or(0) as u8
    }

    /// Run time since the last charge, ns. The shim tells the time since the last wake-up, which is 0 again at the
    /// next one, and the last stint.
    pub fn charge(&mut self, r: &Runnable) -> Ns {
        let ran_again = r.started != self.started;
        let ran = match r.cause {
            Cause::SliceEnd => r.since_wakeup_ns.saturating_sub(self.charged),
            Cause::Wakeup if ran_again => r.stint_ns,
            Cause::Wakeup => 0,
        };
        self.started = r.started;
        match r.cause {
            Cause::SliceEnd => self.charged = r.since_wakeup_ns,
            Cause::Wakeup => {
                if ran_again {
                    // Weight 1/4: a task changes class within a few wake-ups. (A guess.)
                    let last = self.charged.saturating_add(ran);
                    self.burst = self.burst / 4 * 3 + last / 4;
                }
                self.charged = 0;
            }
        }
        ran
    }
}

impl SoftDomain {
    /// The CPUs of this machine that the task may use, and maybe some that are not of this machine.
    #[inline]
    pub(super) fn mask_of(&self, slot: Slot) -> &CpuMask {
        match self.tasks.get(slot).reach {
            Reach::Anywhere => self.topology.cpus(),
            Reach::Narrow => &self.masks[slot as usize],
            Reach::Unknown => &CpuMask::EMPTY,
        }
    }

    /// Of `cpus`, all of this machine, those that the task may use.
    #[inline]
    pub(super) fn usable<S: Set>(&self, slot: Slot, cpus: S) -> Both<S, &CpuMask> {
        cpus.both(self.mask_of(slot))
    }

    /// Whether the task may use `cpu`.
    #[inline]
    pub(super) fn allows(&self, slot: Slot, cpu: CpuId) -> bool {
        match self.tasks.get(slot).reach {
            Reach::Anywhere => true,
            Reach::Narrow => self.masks[slot as usize].has(cpu),
            Reach::Unknown => false,
        }
    }
}
