//! The policies that `--policy` can name: small ones for comparison and as templates for your own.

pub mod fifo;

use crate::policy::Policy;
use crate::soft_domain::{Settings, SoftDomain};
use crate::topology::Topology;

/// Names and one line on each; the first is the default.
pub const NAMES: &[(&str, &str)] = &[
    ("soft-domain", "homes for services, a home LLC for everything else"),
    ("fifo", "first come, first served, machine-wide; knows no services"),
];

/// Builds the policy called `name`; `None` if there is none.
pub fn build(name: &str, topology: &Topology, settings: &Settings) -> Option<Box<dyn Policy>> {
    match name {
        "soft-domain" => Some(Box::new(SoftDomain::new(topology, settings.clone()))),
        "fifo" => Some(Box::new(fifo::Fifo::new(settings.max_tasks, settings.limits.slice_ns))),
        _ => None,
    }
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
