//! What a policy is told and what it answers. Everything here is plain data.

use crate::cpumask::CpuMask;
use crate::ids::{CpuId, MS, Ns, Pid, Tid};

/// A comm or a base name: at most 31 bytes, NUL-padded; chosen by users, so any bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Name([u8; 32]);

impl Name {
    /// The bytes up to the first NUL, cut at 31.
    pub fn new(bytes: &[u8]) -> Self {
        let mut n = [0; 32];
        let len = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len()).min(31);
        n[..len].copy_from_slice(&bytes[..len]);
        Name(n)
    }

    /// Without the padding.
    pub fn bytes(&self) -> &[u8] {
        let len = self.0.iter().position(|b| *b == 0).unwrap_or(31);
        &self.0[..len]
    }
}

/// Printable on any terminal: bytes outside printable ASCII, quotes and backslashes are escaped.
impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.bytes().escape_ascii().fmt(f)
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Why a task entered the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It slept (or is new) and became runnable.
    Wakeup,
    /// It was running and still wants to: its slice ended or it was preempted.
    SliceEnd,
}

/// A task that became runnable: one record of the shim's queued ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runnable {
    /// The thread.
    pub tid: Tid,
    /// The CPU it last ran on; always one that it may use.
    pub cpu: CpuId,
    /// Its affinity mask; the host's knowledge, so it may be a moment old.
    pub allowed: CpuMask,
    /// Wake-up or slice end.
    pub cause: Cause,
    /// CPU time since it last woke up, ns; 0 at a wake-up.
    pub since_wakeup_ns: Ns,
    /// Length of its last stint on a CPU, ns; 0 = never ran.
    pub stint_ns: Ns,
    /// When that stint began, on the shim's clock: tells two stints apart, nothing else.
    pub started: Ns,
    /// The thread that woke it, as far as the kernel side can tell: none for timers and at the end of a slice.
    pub waker: Option<Tid>,
    /// 100 is nice 0; 1..=10000.
    pub weight: u32,
    /// The shim's generation: a decision for an older one is cancelled by the kernel.
    pub generation: u64,
}

/// What happens to processes and threads, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// A thread exists: created now, or found by the scan at the start.
    Thread {
        /// The thread.
        tid: Tid,
        /// Its process.
        pid: Pid,
        /// The process that created it; for a new process the domain of the parent is a first guess.
        parent: Pid,
        /// Its comm, still the parent's right after a fork.
        comm: Name,
        /// A kernel thread: never an instance.
        kthread: bool,
    },
    /// A process runs another program: only now its comm is its own.
    Exec {
        /// The process.
        pid: Pid,
        /// Its comm from now on.
        comm: Name,
        /// Base name of the executable, cut at 31 bytes.
        exe: Name,
    },
    /// A thread ended.
    Exit {
        /// The thread.
        tid: Tid,
        /// Its process.
        pid: Pid,
        /// It was the last thread of its process.
        last: bool,
    },
}

/// How a CPU has spent its time since it was last observed; the rest was idle or the scheduler's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// For tasks whose home it is, ns.
    pub home_ns: Ns,
    /// For all others, ns.
    pub other_ns: Ns,
    /// The part of `other_ns` that went to tasks which run long without sleeping ([`LONG`]), ns.
    pub long_ns: Ns,
}

/// A task that usually runs this long between two sleeps, or just has, is no partner of a service but a burner, ns.
/// (A guess: a tick of the slowest kernels, so that it would have met the end of a slice.)
pub const LONG: Ns = 4 * MS;

/// The CPUs that can take a task in this pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The CPU that the scheduler stands on: a task given to it runs next, without a kick.
    pub asking: Option<CpuId>,
    /// A task waits in the asking CPU's own queue already: it runs next, before all that is sent there now.
    pub next: bool,
    /// Idle CPUs to which nothing is on its way.
    pub idle: CpuMask,
}

/// Why a task was sent where it was sent. Also the index of its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Reason {
    /// To its home, which was free.
    Home,
    /// To its busy home's own queue: what runs there is expected to be short.
    HomeBehind,
    /// To another CPU of its LLC because home was busy.
    InLlc,
    /// To another LLC of its node: it had waited, and a CPU there was idle.
    OtherLlc,
    /// To another node: it had waited for long.
    OtherNode,
    /// Its affinity mask leaves exactly this CPU or excludes its domain.
    Mask,
    /// It had waited over the age bound and went first.
    Overdue,
    /// Displaced by a more urgent task and sent back behind it.
    Behind,
    /// Unknown to the policy (its tables are full): sent to where it last ran.
    Untracked,
    /// To the own queue of the only CPU that it may use: what runs there is expected to be short.
    MaskBehind,
}

impl Reason {
    /// All, in the order of their counters.
    pub const ALL: [Reason; 10] = [
        Reason::Home,
        Reason::HomeBehind,
        Reason::InLlc,
        Reason::OtherLlc,
        Reason::OtherNode,
        Reason::Mask,
        Reason::Overdue,
        Reason::Behind,
        Reason::Untracked,
        Reason::MaskBehind,
    ];

    /// Short name for tables.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Home => "home",
            Reason::HomeBehind => "home, behind a short task",
            Reason::InLlc => "same LLC",
            Reason::OtherLlc => "other LLC",
            Reason::OtherNode => "other node",
            Reason::Mask => "by affinity mask",
            Reason::Overdue => "overdue",
            Reason::Behind => "behind its preemptor",
            Reason::MaskBehind => "by affinity mask, behind a short task",
            Reason::Untracked => "untracked",
        }
    }
}

/// Send a task to a CPU's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// The thread.
    pub tid: Tid,
    /// The CPU; in the task's mask as far as the policy knows.
    pub cpu: CpuId,
    /// Time slice, ns; never 0 (the shim would take 0 literally).
    pub slice_ns: Ns,
    /// Order inside the CPU's queue, smaller first. Something that grows with time, else a task can starve there.
    pub vtime: u64,
    /// Of the [`Runnable`] that this answers.
    pub generation: u64,
    /// Why there.
    pub reason: Reason,
}

/// What the kernel side shall do when the task wakes up next, before anybody asks the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The thread.
    pub tid: Tid,
    /// Where to look first.
    pub cpu: CpuId,
    /// log2 of its usual run time between sleeps, us: it may preempt a task with a clearly higher rank.
    pub rank: u8,
    /// It waits for its home rather than wake another CPU.
    pub sticky: bool,
    /// `cpu` is its home: what it runs there is no load to its own instance.
    pub home: bool,
}

/// A task waits for a CPU that may be busy with something longer. What runs there is known exactly only to the kernel
/// side, so that decides: it preempts where the current task's rank is clearly higher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Urgent {
    /// The CPU.
    pub cpu: CpuId,
    /// log2 of the waiting task's usual run time between sleeps, us.
    pub rank: u8,
}

/// Urgent tasks that a pass may name; the kernel side has room for as many.
pub const MAX_URGENT: usize = 32;

/// What an operator cares for; never more than a few per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// An instance got a home.
    Adopted {
        /// The process.
        pid: Pid,
        /// Which `-P` pattern it matched, by number.
        service: u16,
        /// Its name.
        name: Name,
        /// The home.
        home: CpuId,
    },
    /// An instance ended or became another program; its home is free.
    Left {
        /// The process.
        pid: Pid,
        /// The home that is free now.
        home: CpuId,
    },
    /// A home moved.
    Moved {
        /// The process.
        pid: Pid,
        /// Old home.
        from: CpuId,
        /// New home.
        to: CpuId,
        /// Load of the old home without the instance's own, and of the new one: 1024 = one CPU.
        load: (u32, u32),
        /// Why.
        why: MoveReason,
    },
}

/// Why a home moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MoveReason {
    /// Another CPU of the LLC is clearly less loaded.
    LessLoaded,
    /// Every CPU of the LLC was taken for longer than the bound.
    LlcTaken,
    /// Back to the LLC it was first given.
    Return,
    /// Spread became uneven when others left.
    Spread,
    /// The affinity mask no longer allows the old home.
    Mask,
    /// Exchanged with another instance: the process that it works with may run only over there.
    Exchange,
}

impl MoveReason {
    /// All, in the order of their numbers.
    pub const ALL: [MoveReason; 6] = [
        MoveReason::LessLoaded,
        MoveReason::LlcTaken,
        MoveReason::Return,
        MoveReason::Spread,
        MoveReason::Mask,
        MoveReason::Exchange,
    ];
}

/// Answers of one pass. The buffers are reused; [`Answers::clear`] keeps their memory.
#[derive(Debug, Default)]
pub struct Answers {
    /// Tasks to send, in order; at most one per ready CPU plus those that wait behind another task.
    pub dispatch: Vec<Dispatch>,
    /// Hints that changed.
    pub hints: Vec<Hint>,
    /// For the operator.
    pub notices: Vec<Notice>,
    /// Tasks that woke up and still wait: their CPUs should look for work at once where something long runs.
    pub urgent: Vec<Urgent>,
}

impl Answers {
    /// Room for `n` of each, so that a pass does not allocate.
    pub fn with_capacity(n: usize) -> Self {
        Answers {
            dispatch: Vec::with_capacity(n),
            hints: Vec::with_capacity(n),
            notices: Vec::with_capacity(n),
            urgent: Vec::with_capacity(MAX_URGENT),
        }
    }

    /// Empty, with the memory kept.
    pub fn clear(&mut self) {
        self.dispatch.clear();
        self.hints.clear();
        self.notices.clear();
        self.urgent.clear();
    }
}
