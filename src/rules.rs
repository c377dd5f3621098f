//! Numbers that the dispatch loop, the kernel side (`src/bpf/eyes.bpf.c`) and the simulator must agree on. Here alone:
//! the loop sets the kernel side's from these when it loads it, and the simulator follows them.
//!
//! Three more are part of the policy's interface: [`crate::event::LONG`], [`crate::event::MAX_URGENT`] and
//! [`crate::policy::OBSERVE_EVERY`].

use crate::ids::{MS, Ns, US};

/// Records taken from the shim's ring before CPUs get their answers: bounds the wait of the first one.
pub const RECORDS_PER_PASS: usize = 256;

/// Records that fit into the ring to the kernel (4096 of 48 bytes with 8 of header each).
pub const RING_RECORDS: u64 = 3500;

/// A CPU to which a task is on its way is not idle, whatever its bit says; if it has not switched after this long,
/// the task was cancelled or had died, ns. (A guess: ten times the longest observed switch in an emulated guest.)
pub const ON_ITS_WAY: Ns = 10 * MS;

/// A woken task preempts if the rank of what runs exceeds its own by this much: four times the run time.
pub const PREEMPT_MARGIN: u32 = 2;

/// At least this long between two preemptions of one CPU, ns. (A guess.)
pub const PREEMPT_GAP: Ns = 500 * US;

/// How often the kernel side looks whether the policy wants a turn though nothing happens, ns: what an idle machine pays,
/// and how late such a turn may be. (A guess: five timer interrupts a second are nothing, a fifth of a second late too.)
pub const LOOK_EVERY: Ns = 200 * MS;

/// While such a turn is overdue, and no sooner after one, ns.
pub const LOOK_AGAIN: Ns = 10 * MS;

/// Slots of the table of wake-up hints, direct-mapped by the low bits of the thread id: `EYES_HINTS` of eyes.h.
pub const HINTS: usize = 65_536;
