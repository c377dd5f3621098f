//! The clock of the host process.

use crate::ids::Ns;
use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC, ns: the clock of the timestamps that the dispatcher sends.
pub fn now() -> Ns {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
