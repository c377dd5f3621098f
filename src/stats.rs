//! The counters: one table that the policy and the dispatch loop fill, and the only source of every number shown.

use crate::event::Reason;

macro_rules! counters {
    ($($name:ident $text:literal,)*) => {
        /// A number that only grows; its index in [`Counters`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(usize)]
        pub enum Counter {
            $(#[doc = $text] $name,)*
        }

        impl Counter {
            /// All, in order.
            pub const ALL: &[Counter] = &[$(Counter::$name,)*];

            /// What it counts, with its unit.
            pub fn text(self) -> &'static str {
                match self {
                    $(Counter::$name => $text,)*
                }
            }
        }
    };
}

counters! {
    Enqueued "tasks that became runnable and were given to the policy",
    Superseded "enqueues replaced by a newer one of the same task",
    ExitedQueued "tasks that ended while they waited",
    SentHome "tasks sent to their home, which was free",
    SentHomeBehind "tasks sent to their busy home, behind a task expected to be short",
    SentInLlc "tasks sent to another CPU of their LLC",
    SentOtherLlc "tasks sent to another LLC of their node",
    SentOtherNode "tasks sent to another node",
    SentMask "tasks sent where their affinity mask left a choice",
    SentOverdue "tasks that went first because they had waited over the age bound",
    SentBehind "displaced tasks sent back behind the more urgent one",
    SentMaskBehind "tasks sent to the only CPU they may use, behind a task expected to be short",
    SentUntracked "tasks unknown to the policy, sent to where they last ran",
    HomeRuns "stints of instances on their home",
    AwayRuns "stints of instances elsewhere",
    InstancesAdopted "instances that got a home",
    InstancesLeft "instances that ended",
    MovesInLlc "homes moved inside their LLC",
    MovesAcrossLlc "homes moved to another LLC of the node",
    MovesAcrossNode "homes moved to another node",
    TasksLost "tasks that could not be tracked because the table was full",
    Passes "turns of the dispatch loop",
    Records "records taken from the kernel's ring",
    RingFull "dispatches put off because the ring to the kernel was full",
    ProcessEventsDropped "process events lost because their ring was full",
    NoticesDropped "messages to the host process lost because the channel was full",
    KicksIdle "idle CPUs woken to look for work",
    KicksPreempt "running tasks preempted for a more urgent one",
    KernelUserDispatches "tasks the kernel side put on the CPU we chose",
    KernelDirect "tasks the kernel side dispatched without us (pinned kernel threads, wake-ups with --fast-path)",
    KernelCancelled "decisions cancelled by the kernel because the task had changed meanwhile",
    KernelBounced "tasks sent to a CPU they may not use, kept where they were",
    KernelCongested "tasks the kernel side dispatched by itself because we were too slow",
    Rescued "tasks helped from behind a real-time task that kept their CPU",
    NotRescued "tasks that no real-time priority could help from behind one",
    LongestWaitUs "longest time that a task waited for a decision, us",
    OwnCpuUs "CPU time of the dispatch thread, us",
    OwnMinorFaults "minor page faults of the dispatch process after the start",
    OwnMajorFaults "major page faults of the dispatch process after the start",
}

impl Counter {
    /// The counter of tasks sent for `reason`.
    pub fn sent(reason: Reason) -> Counter {
        match reason {
            Reason::Home => Counter::SentHome,
            Reason::HomeBehind => Counter::SentHomeBehind,
            Reason::InLlc => Counter::SentInLlc,
            Reason::OtherLlc => Counter::SentOtherLlc,
            Reason::OtherNode => Counter::SentOtherNode,
            Reason::Mask => Counter::SentMask,
            Reason::Overdue => Counter::SentOverdue,
            Reason::Behind => Counter::SentBehind,
            Reason::MaskBehind => Counter::SentMaskBehind,
            Reason::Untracked => Counter::SentUntracked,
        }
    }
}

/// How many counters there are.
pub const COUNTERS: usize = Counter::ALL.len();

/// The values, indexed by [`Counter`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters(pub [u64; COUNTERS]);

impl Default for Counters {
    fn default() -> Self {
        Counters([0; COUNTERS])
    }
}

impl Counters {
    /// One more.
    #[inline]
    pub fn add(&mut self, counter: Counter) {
        self.0[counter as usize] += 1;
    }

    /// A value that is counted elsewhere.
    pub fn set(&mut self, counter: Counter, value: u64) {
        self.0[counter as usize] = value;
    }

    /// The value.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// Takes in those of another run, or of another part of this one.
    pub fn absorb(&mut self, more: &Counters) {
        for counter in Counter::ALL {
            let (a, b) = (self.get(*counter), more.get(*counter));
            let both = if *counter == Counter::LongestWaitUs { a.max(b) } else { a.saturating_add(b) };
            self.set(*counter, both);
        }
    }

    /// Tasks sent to a CPU, whatever the reason.
    pub fn sent(&self) -> u64 {
        Reason::ALL.iter().map(|r| self.get(Counter::sent(*r))).sum()
    }
}
