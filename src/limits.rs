//! Every threshold of the policy, in one place, with units. All are starting values chosen by hand unless a source
//! is named.

use crate::ids::{MS, Ns, US};

/// A load of one whole CPU. Loads are in 1/1024 of a CPU, as in the kernel.
pub const FULL_LOAD: u32 = 1024;

/// Thresholds of the soft-domain policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time slice while few tasks wait, ns. It really ends at the next tick (1 to 4 ms later).
    pub slice_ns: Ns,
    /// Shortest slice, used when many tasks wait for one LLC, ns.
    pub slice_min_ns: Ns,
    /// A sleeper keeps at most this much credit against tasks that ran meanwhile, ns of CPU time at nice 0.
    pub lag_ns: Ns,
    /// A waiting task older than this goes before all others, ns: the age bound of every queue. A fifth of the
    /// kernel's 5 s watchdog.
    pub age_bound_ns: Ns,
    /// Half-life of a CPU's load, ns. That of the kernel (PELT).
    pub load_half_life_ns: Ns,
    /// A home moves inside its LLC to a CPU that is less loaded by at least this, in 1/1024 of a CPU (20%)...
    pub home_margin: u32,
    /// ...and has been for this long, ns; at once if it is better by twice as much.
    pub home_crowded_ns: Ns,
    /// A home does not move again before this, ns.
    pub home_settle_ns: Ns,
    /// Other tasks may take an idle CPU of another LLC after waiting this long, ns; 0 = two slices.
    pub spill_llc_ns: Ns,
    /// Tasks may take an idle CPU of another node after waiting this long, ns.
    pub spill_node_ns: Ns,
    /// An instance leaves an LLC where tasks that run long and have no home there have 5 of 8 CPUs or more (more than one
    /// burner can on two), and all together leave at most this much idle, in 1/1024 of a CPU...
    pub llc_left: u32,
    /// ...for this long, ns.
    pub llc_taken_ns: Ns,
    /// It returns when its first LLC has had a CPU below this load, in 1/1024 of a CPU...
    pub llc_free: u32,
    /// ...for this long, ns.
    pub llc_free_ns: Ns,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            slice_ns: 5 * MS,
            slice_min_ns: 500 * US,
            lag_ns: 3 * MS,
            age_bound_ns: 1000 * MS,
            load_half_life_ns: 32 * MS,
            home_margin: FULL_LOAD / 5,
            home_crowded_ns: 40 * MS,
            home_settle_ns: 500 * MS,
            spill_llc_ns: 0,
            spill_node_ns: 20 * MS,
            llc_left: FULL_LOAD / 4,
            llc_taken_ns: 30 * MS,
            llc_free: FULL_LOAD / 4,
            llc_free_ns: 300 * MS,
        }
    }
}

impl Limits {
    /// The wait after which an idle CPU of another LLC may take a task, ns.
    pub fn spill_llc(&self) -> Ns {
        if self.spill_llc_ns == 0 { 2 * self.slice_ns } else { self.spill_llc_ns }
    }
}
