//! The soft-domain policy library: plain Rust that knows nothing of BPF, `/proc` or clocks.
//!
//! It is told events with a timestamp and answers decisions, so that the very same code runs under the kernel's
//! sched_ext, in a simulator and on recordings, and the same events always give the same decisions.

pub mod channel;
pub mod cpumask;
pub mod cpus;
pub mod domain;
pub mod event;
pub mod host;
pub mod ids;
pub mod limits;
pub mod load;
pub mod options;
pub mod policies;
pub mod policy;
pub mod queue;
pub mod rules;
pub mod service;
pub mod sim;
pub mod soft_domain;
pub mod stats;
pub mod table;
pub mod timeline;
pub mod topology;
pub mod trace;
pub mod undrained;
