//! The policies that `--policy` can name: small ones for comparison and as templates for your own
//! (docs/write-your-own-policy.md).

mod cpu_queues;
pub mod deadline;
pub mod default_like;
pub mod fifo;
pub mod least_loaded;
mod panics;

use crate::cpumask::CpuMask;
use crate::event::{Dispatch, Ready, Reason, Runnable};
use crate::ids::{CpuId, Ns};
use crate::policy::Policy;
use crate::soft_domain::{Settings, SoftDomain};
use crate::topology::{Distance, Topology};

/// Names and one line on each; the first is the default.
pub const NAMES: &[(&str, &str)] = &[
    ("soft-domain", "homes for services, a home LLC for everything else"),
    ("fifo", "first come, first served, machine-wide; knows no services"),
    ("deadline", "one machine-wide queue by virtual deadline, in the manner of scx_rustland"),
    ("least-loaded", "each woken task to the least loaded CPU, a queue per CPU"),
    ("default-like", "roughly the kernel's own: idle CPU of the LLC, queues per CPU, periodic balancing"),
];

/// See `panics.rs`.
pub const PANICS: &str = "panics";

/// Builds the policy called `name`; `None` if there is none.
pub fn build(name: &str, topology: &Topology, settings: &Settings) -> Option<Box<dyn Policy>> {
    match name {
        "soft-domain" => Some(Box::new(SoftDomain::new(topology, settings.clone()))),
        "fifo" => Some(Box::new(fifo::Fifo::new(topology, settings))),
        "deadline" => Some(Box::new(deadline::Deadline::new(topology, settings))),
        "least-loaded" => Some(Box::new(least_loaded::LeastLoaded::new(topology, settings))),
        "default-like" => Some(Box::new(default_like::DefaultLike::new(topology, settings))),
        PANICS => Some(Box::new(panics::Panics::new(fifo::Fifo::new(topology, settings)))),
        _ => None,
    }
}

/// All CPUs that can take a task now: the one that asks among them, unless it has its next task already.
fn ready_cpus(topology: &Topology, ready: &Ready) -> CpuMask {
    let mut cpus = ready.idle;
    if let Some(cpu) = ready.asking.filter(|_| !ready.next) {
        cpus.set(cpu);
    }
    cpus.and(topology.cpus())
}

/// How far a task that last ran on `last` was sent, as a reason.
fn reason(topology: &Topology, allowed: &CpuMask, last: CpuId, cpu: CpuId) -> Reason {
    match topology.distance(last, cpu) {
        _ if allowed.and(topology.cpus()) == CpuMask::of(cpu) => Reason::Mask,
        Distance::Node => Reason::OtherLlc,
        Distance::Machine => Reason::OtherNode,
        _ => Reason::InLlc,
    }
}

/// For a task that the policy cannot keep: back to where it last ran, at once.
fn untracked(now: Ns, r: &Runnable, slice_ns: Ns) -> Dispatch {
    let (tid, cpu, generation) = (r.tid, r.cpu, r.generation);
    Dispatch { tid, cpu, slice_ns: slice_ns.max(1), vtime: now, generation, reason: Reason::Untracked }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_that_is_named_can_be_built() {
        let settings = Settings { max_tasks: 16, ..Settings::default() };
        for (name, _) in NAMES {
            assert!(build(name, &Topology::grid(1, 1, 1, 1), &settings).is_some(), "{name}");
        }
        assert!(build("none", &Topology::grid(1, 1, 1, 1), &settings).is_none());
    }
}
