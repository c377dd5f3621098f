//! The topology as people read it at start-up and in `check`.

use super::Topology;
use std::fmt;

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in self.nodes() {
            writeln!(f, "node {}  CPUs {}", self.kernel_node(node).unwrap_or_default(), self.node_cpus(node))?;
            for llc in self.node_llcs(node) {
                writeln!(f, "  LLC {llc}  CPUs {}", self.llc_cpus(*llc))?;
            }
        }
        Ok(())
    }
}
