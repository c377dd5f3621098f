//! What touches the machine: the only place that reads `/sys` and `/proc`, clocks and sockets. Never used by the
//! policy.

pub mod clock;
pub mod cpulist;
pub mod exit;
pub mod journal;
pub mod partial;
pub mod preflight;
pub mod procstat;
pub mod report;
pub mod scan;
pub mod sched_policy;
pub mod supervisor;
pub mod sysctl;
pub mod sysfs;
