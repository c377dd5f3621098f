//! The soft-domain policy library: plain Rust that knows nothing of BPF, `/proc` or clocks.
//!
//! It is told events with a timestamp and answers decisions, so that the very same code runs under the kernel's
//! sched_ext, in a simulator and on recordings, and the same events always give the same decisions.

pub mod cpumask;
pub mod event;
pub mod host;
pub mod ids;
pub mod limits;
pub mod policies;
pub mod policy;
pub mod service;
pub mod stats;
pub mod topology;
