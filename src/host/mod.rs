//! What touches the machine: the only place that reads `/sys` and `/proc`, clocks and sockets. Never used by the
//! policy.

pub mod cpulist;
pub mod sysfs;
