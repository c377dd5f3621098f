//! The numbers that the kernel gives things, each in a type of its own so that a CPU is never taken for an LLC.
//!
//! CPU numbers are the kernel's and may be sparse. LLC, node, cluster and core numbers are ours: dense, in the
//! order of their first CPU, whatever sysfs calls them (`topology.rs` keeps the kernel's node number for display).

use std::fmt;

/// CPUs that the shim can address (`MAX_CPUS` of its `intf.h`); CPU numbers at or above it are ignored.
pub const MAX_CPUS: usize = 1024;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $int);

        impl $name {
            /// As an index into a table with one entry each.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A logical CPU, by the kernel's number; always below [`MAX_CPUS`].
    CpuId(u16)
);
id!(
    /// A physical core: one or more SMT siblings. Dense, machine-wide.
    CoreId(u16)
);
id!(
    /// CPUs that share a part of the LLC (Kunpeng's 4-core clusters). Dense, machine-wide; where the machine
    /// has none, each LLC is one cluster.
    ClusterId(u16)
);
id!(
    /// CPUs that share the last-level cache. Dense, machine-wide.
    LlcId(u16)
);
id!(
    /// A NUMA node that has CPUs. Dense.
    NodeId(u16)
);
id!(
    /// A thread, by the kernel's thread id in the initial pid namespace.
    Tid(i32)
);
id!(
    /// A process, by its thread-group id in the initial pid namespace. Pids are reused: the policy forgets a
    /// process when it exits, so that the next owner of the number is a new one.
    Pid(i32)
);

/// Nanoseconds: a point on the kernel's monotonic clock (what `scx_bpf_now` counts), or a span.
pub type Ns = u64;

/// One microsecond, in ns.
pub const US: Ns = 1_000;
/// One millisecond, in ns.
pub const MS: Ns = 1_000_000;
