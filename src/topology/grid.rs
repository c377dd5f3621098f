//! Made-up machines for tests and the simulator.

use super::{FULL_CAPACITY, RawCpu, Topology};

/// How a [`Grid`] numbers its CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// Node by node, SMT siblings side by side, as QEMU does.
    SiblingsTogether,
    /// Node by node, first every first sibling of the machine, then every second one, as most x86 firmware does.
    SiblingsLast,
    /// Round robin over the nodes, as old two-socket machines do: CPU 0 in the first node, CPU 1 in the second.
    NodesInterleaved,
}

/// A regular machine, described step by step: `Grid::new(2, 2, 8, 1).clusters(4).stride(3).build()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    nodes: usize,
    llcs_per_node: usize,
    clusters_per_llc: usize,
    cores_per_llc: usize,
    smt: usize,
    numbering: Numbering,
    first: usize,
    stride: usize,
}

impl Grid {
    /// Counts per level, without clusters; a zero counts as 1.
    pub fn new(nodes: usize, llcs_per_node: usize, cores_per_llc: usize, smt: usize) -> Self {
        Grid {
            nodes: nodes.max(1),
            llcs_per_node: llcs_per_node.max(1),
            clusters_per_llc: 1,
            cores_per_llc: cores_per_llc.max(1),
            smt: smt.max(1),
            numbering: Numbering::SiblingsTogether,
            first: 0,
            stride: 1,
        }
    }

    /// Divides each LLC into `n` clusters of (nearly) equally many cores.
    pub fn clusters(mut self, n: usize) -> Self {
        self.clusters_per_llc = n.clamp(1, self.cores_per_llc);
        self
    }

    /// Numbers the CPUs in another order.
    pub fn numbering(mut self, numbering: Numbering) -> Self {
        self.numbering = numbering;
        self
    }

    /// Leaves holes: CPU numbers `first`, `first + stride`, ...
    pub fn sparse(mut self, first: usize, stride: usize) -> Self {
        (self.first, self.stride) = (first, stride.max(1));
        self
    }

    /// The CPUs as a reader would see them, for tests that then spoil them.
    pub fn raw(&self) -> Vec<RawCpu> {
        let mut cpus = Vec::new();
        for node in 0..self.nodes {
            for llc in 0..self.llcs_per_node {
                let llc = node * self.llcs_per_node + llc;
                for in_llc in 0..self.cores_per_llc {
                    let core = llc * self.cores_per_llc + in_llc;
                    let cluster = llc * self.clusters_per_llc + in_llc * self.clusters_per_llc / self.cores_per_llc;
                    for sibling in 0..self.smt {
                        let order = match self.numbering {
                            Numbering::SiblingsTogether => (0, core, sibling),
                            Numbering::SiblingsLast => (sibling, core, 0),
                            Numbering::NodesInterleaved => {
                                (sibling, core % (self.llcs_per_node * self.cores_per_llc), node)
                            }
                        };
                        let cpu = RawCpu {
                            id: 0,
                            core: core as u32,
                            cluster: (self.clusters_per_llc > 1).then_some(cluster as u32),
                            llc: llc as u32,
                            node: node as u32,
                            capacity: FULL_CAPACITY,
                        };
                        cpus.push((order, cpu));
                    }
                }
            }
        }
        cpus.sort_by_key(|(order, _)| *order);
        let number = |i| (self.first + i * self.stride) as u32;
        cpus.into_iter().enumerate().map(|(i, (_, cpu))| RawCpu { id: number(i), ..cpu }).collect()
    }

    /// The machine; CPUs that get numbers of 1,024 or more are left out and an assumption says so.
    pub fn build(&self) -> Topology {
        super::build::tables(&self.raw(), Vec::new())
    }
}
