//! What is counted while the machine runs; integers only.

use super::hist::Histogram;
use crate::ids::Ns;
use crate::topology::Distance;

/// What one task, or all tasks of a service, did and suffered.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Requests done.
    pub requests: u64,
    /// Times on a CPU.
    pub stints: u64,
    /// Wake-ups that led to a stint.
    pub wakeups: u64,
    /// Time on a CPU, ns, switches and refills included.
    pub cpu_ns: Ns,
    /// The part of it on the home of its process.
    pub home_ns: Ns,
    /// The part of it while the process had a home at all.
    pub homed_ns: Ns,
    /// Time runnable but not on a CPU, ns.
    pub waited_ns: Ns,
    /// Moves between CPUs of a core, of a cluster, of an LLC, of a node, and across nodes.
    pub moves: [u64; 5],
    /// From the wake-up to the first instruction.
    pub latency: Histogram,
    /// From the sending of a request (or batch) to the first instruction after its answer.
    pub response: Histogram,
}

impl Tally {
    /// A stint begins this far from the CPU of the last one.
    pub fn moved(&mut self, distance: Distance) {
        let at = match distance {
            Distance::Same => return,
            Distance::Core => 0,
            Distance::Cluster => 1,
            Distance::Llc => 2,
            Distance::Node => 3,
            Distance::Machine => 4,
        };
        self.moves[at] += 1;
    }

    /// All moves.
    pub fn all_moves(&self) -> u64 {
        self.moves.iter().sum()
    }

    /// Adds another's.
    pub fn absorb(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.stints += other.stints;
        self.wakeups += other.wakeups;
        self.cpu_ns += other.cpu_ns;
        self.home_ns += other.home_ns;
        self.homed_ns += other.homed_ns;
        self.waited_ns += other.waited_ns;
        for (to, from) in self.moves.iter_mut().zip(other.moves) {
            *to += from;
        }
        self.latency.absorb(&other.latency);
        self.response.absorb(&other.response);
    }
}

/// What the machine as a whole did.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Events that the simulator handled.
    pub events: u64,
    /// Records given to the policy.
    pub records: u64,
    /// Decisions of the policy.
    pub decisions: u64,
    /// Turns of the dispatch loop.
    pub passes: u64,
    /// CPU time of the scheduler's thread, ns.
    pub scheduler_ns: Ns,
    /// Sum over CPUs of the time that each was idle, ns.
    pub idle_ns: Ns,
    /// The same, only while tasks waited, and at most as many CPUs as waited, ns. Does not look at masks.
    pub idle_while_waiting_ns: Ns,
    /// Time that tasks waited for a decision, from the record to the arrival of the decision, ns.
    pub undecided_ns: Ns,
    /// Time that tasks waited in the queue of the CPU that was chosen, ns.
    pub on_cpu_queue_ns: Ns,
    /// Time that a guest's CPUs with something to do waited for one of the host, in the middle of it, ns.
    pub stolen_ns: Ns,
    /// Time that producers spent at the queued ring's lock, ns.
    pub ring_wait_ns: Ns,
    /// Wake-ups begun, and those whose task ran.
    pub woken: u64,
    /// See above.
    pub woken_and_run: u64,
    /// Tasks put on the CPU that the policy chose.
    pub user_dispatches: u64,
    /// Per-CPU kernel threads that the shim put on their CPU without the policy.
    pub kernel_dispatches: u64,
    /// Tasks that the shim sent anywhere because the queued ring was full.
    pub congested: u64,
    /// Decisions cancelled because the task had changed meanwhile.
    pub cancelled: u64,
    /// Decisions for a CPU outside the task's mask, or for nobody.
    pub bounced: u64,
    /// Decisions that found no room in the user ring.
    pub ring_full: u64,
    /// Kicks of idle CPUs by eyes.bpf.c.
    pub kicks_idle: u64,
    /// Its preempting kicks.
    pub kicks_preempt: u64,
    /// Processes forked.
    pub forks: u64,
    /// Homes given, moved inside the LLC, to another LLC, to another node.
    pub homes: [u64; 4],
}

/// A rule of the kernel, or of [`crate::policy::Policy`], that the policy broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When, ns after the start.
    pub at: Ns,
    /// The thread, 0 if it cannot be told.
    pub tid: i32,
    /// Its service.
    pub service: String,
    /// The rule and what happened.
    pub text: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Fault { at, tid, service, text } = self;
        write!(f, "at {}.{:06} ms, task {tid} ({service}): {text}", at / 1_000_000, at % 1_000_000)
    }
}
