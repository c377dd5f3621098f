//! The machine as tables: which CPUs make a core, a cluster, an LLC and a NUMA node.
//!
//! Built once from what the host read ([`RawCpu`]) or from a made-up machine ([`Grid`]), then only read. Invariants,
//! which `build.rs` beside this file enforces whatever the input says:
//! - the levels nest: a CPU is in one core, a core in one cluster, a cluster in one LLC, an LLC in one node;
//! - ids are dense and in the order of their lowest CPU; only CPU numbers are the kernel's and may have holes;
//! - no core, cluster, LLC or node is empty; where an LLC has no clusters it is itself the only cluster in it.
//!
//! Look-ups index a `Vec`, allocate nothing and never panic: an id from elsewhere gives `None` or an empty set.

mod build;
mod grid;
mod tree;

pub use grid::{Grid, Numbering};

use crate::cpumask::CpuMask;
use crate::ids::{ClusterId, CoreId, CpuId, LlcId, NodeId};
use std::{fmt, str::FromStr};

/// The capacity of the biggest core of a machine, as in the kernel (`SCHED_CAPACITY_SCALE`).
pub const FULL_CAPACITY: u16 = 1024;

static NO_CPUS: CpuMask = CpuMask::EMPTY;

/// One online CPU as its reader saw it. Keys are compared for equality only, and machine-wide: two CPUs of one LLC
/// have equal `llc` keys. The lowest CPU number of the group is a good key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawCpu {
    /// The kernel's CPU number.
    pub id: u32,
    /// The physical core.
    pub core: u32,
    /// The cluster, where the reader found one.
    pub cluster: Option<u32>,
    /// The last-level cache.
    pub llc: u32,
    /// The kernel's NUMA node number; it is kept for display.
    pub node: u32,
    /// Relative computing power, [`FULL_CAPACITY`] for the biggest.
    pub capacity: u16,
}

/// One online CPU and its place in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuInfo {
    /// The kernel's CPU number.
    pub id: CpuId,
    /// Its physical core.
    pub core: CoreId,
    /// Its cluster; the whole LLC where there are none.
    pub cluster: ClusterId,
    /// Its last-level cache.
    pub llc: LlcId,
    /// Its NUMA node.
    pub node: NodeId,
    /// Its rank among the siblings of its core by CPU number, 0 first.
    pub smt: u8,
    /// Relative computing power, [`FULL_CAPACITY`] for the biggest.
    pub capacity: u16,
}

/// How far two CPUs are apart: the smallest thing that holds both. Ordered, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// The very same CPU.
    Same,
    /// SMT siblings.
    Core,
    /// Two cores of one cluster, on an LLC that has several clusters.
    Cluster,
    /// One LLC (also where it has no clusters).
    Llc,
    /// One NUMA node.
    Node,
    /// Different nodes, or a CPU that is not in this topology.
    Machine,
}

/// A level of the tree, widest first; what `--level` chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// NUMA node.
    Node,
    /// Last-level cache.
    Llc,
    /// Cluster; the LLC where there are none.
    Cluster,
    /// Physical core.
    Core,
    /// Logical CPU.
    Cpu,
}

impl Level {
    /// Every level, widest first.
    pub const ALL: [Level; 5] = [Level::Node, Level::Llc, Level::Cluster, Level::Core, Level::Cpu];
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Level::Node => "node",
            Level::Llc => "llc",
            Level::Cluster => "cluster",
            Level::Core => "core",
            Level::Cpu => "cpu",
        })
    }
}

/// A word that names no level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownLevel(String);

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no level is called '{}': use node, llc, cluster, core or cpu", self.0)
    }
}

impl std::error::Error for UnknownLevel {}

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(s: &str) -> Result<Self, UnknownLevel> {
        Level::ALL
            .into_iter()
            .find(|l| l.to_string().eq_ignore_ascii_case(s))
            .ok_or_else(|| UnknownLevel(s.to_string()))
    }
}

/// [`Topology::new`] was given no usable CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoUsableCpu;

impl fmt::Display for NoUsableCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the topology has no online CPU with a number below {}", crate::ids::MAX_CPUS)
    }
}

impl std::error::Error for NoUsableCpu {}

#[derive(Clone, Debug, PartialEq, Eq)]
struct CpuSlot {
    info: CpuInfo,
    mask: CpuMask,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Core {
    cpus: CpuMask,
    cluster: ClusterId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Cluster {
    cpus: CpuMask,
    llc: LlcId,
    cores: Vec<CoreId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Llc {
    cpus: CpuMask,
    node: NodeId,
    clusters: Vec<ClusterId>,
    cores: Vec<CoreId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    cpus: CpuMask,
    kernel: u32,
    llcs: Vec<LlcId>,
}

/// The machine: every online CPU with its core, cluster, LLC and node. `Display` prints it as a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    online: CpuMask,
    by_cpu: Vec<Option<CpuSlot>>,
    cores: Vec<Core>,
    clusters: Vec<Cluster>,
    llcs: Vec<Llc>,
    nodes: Vec<Node>,
    smt: usize,
    asymmetric: bool,
    assumptions: Vec<String>,
}

impl Topology {
    /// Builds the tables from `cpus`, in any order. `assumptions` is what their reader had to assume, one short
    /// sentence each; what is assumed here to make the levels nest is added to them.
    pub fn new(cpus: &[RawCpu], assumptions: Vec<String>) -> Result<Self, NoUsableCpu> {
        let t = build::tables(cpus, assumptions);
        if t.online.is_empty() { Err(NoUsableCpu) } else { Ok(t) }
    }

    /// A regular machine for tests and the simulator: CPUs numbered without holes, node by node, SMT siblings side
    /// by side, as QEMU numbers them. A zero counts as 1. See [`Grid`] for clusters and other numberings.
    pub fn grid(nodes: usize, llcs_per_node: usize, cores_per_llc: usize, smt: usize) -> Self {
        Grid::new(nodes, llcs_per_node, cores_per_llc, smt).build()
    }

    /// The online CPUs.
    pub fn cpus(&self) -> &CpuMask {
        &self.online
    }

    /// Where `cpu` is; `None` if it is offline or unknown.
    #[inline]
    pub fn cpu(&self, cpu: CpuId) -> Option<&CpuInfo> {
        self.slot(cpu).map(|s| &s.info)
    }

    #[inline]
    fn slot(&self, cpu: CpuId) -> Option<&CpuSlot> {
        self.by_cpu.get(cpu.index()).and_then(Option::as_ref)
    }

    /// One more than the highest CPU number: the length of a table that is indexed by CPU number.
    pub fn cpu_slots(&self) -> usize {
        self.by_cpu.len()
    }

    /// How many CPUs are online.
    pub fn nr_cpus(&self) -> usize {
        self.online.count()
    }

    /// How many physical cores have an online CPU.
    pub fn nr_cores(&self) -> usize {
        self.cores.len()
    }

    /// How many clusters there are; as many as LLCs where the machine has none.
    pub fn nr_clusters(&self) -> usize {
        self.clusters.len()
    }

    /// How many last-level caches there are.
    pub fn nr_llcs(&self) -> usize {
        self.llcs.len()
    }

    /// How many NUMA nodes have CPUs.
    pub fn nr_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The cores, in order.
    pub fn cores(&self) -> impl ExactSizeIterator<Item = CoreId> + use<> {
        (0..self.cores.len() as u16).map(CoreId)
    }

    /// The clusters, in order.
    pub fn clusters(&self) -> impl ExactSizeIterator<Item = ClusterId> + use<> {
        (0..self.clusters.len() as u16).map(ClusterId)
    }

    /// The LLCs, in order.
    pub fn llcs(&self) -> impl ExactSizeIterator<Item = LlcId> + use<> {
        (0..self.llcs.len() as u16).map(LlcId)
    }

    /// The nodes, in order.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u16).map(NodeId)
    }

    /// The CPUs of a core: its SMT siblings.
    pub fn core_cpus(&self, core: CoreId) -> &CpuMask {
        self.cores.get(core.index()).map_or(&NO_CPUS, |c| &c.cpus)
    }

    /// The CPUs of a cluster.
    pub fn cluster_cpus(&self, cluster: ClusterId) -> &CpuMask {
        self.clusters.get(cluster.index()).map_or(&NO_CPUS, |c| &c.cpus)
    }

    /// The CPUs of an LLC.
    pub fn llc_cpus(&self, llc: LlcId) -> &CpuMask {
        self.llcs.get(llc.index()).map_or(&NO_CPUS, |l| &l.cpus)
    }

    /// The CPUs of a node.
    pub fn node_cpus(&self, node: NodeId) -> &CpuMask {
        self.nodes.get(node.index()).map_or(&NO_CPUS, |n| &n.cpus)
    }

    /// The cluster that holds `core`.
    pub fn core_cluster(&self, core: CoreId) -> Option<ClusterId> {
        self.cores.get(core.index()).map(|c| c.cluster)
    }

    /// The LLC that holds `cluster`.
    pub fn cluster_llc(&self, cluster: ClusterId) -> Option<LlcId> {
        self.clusters.get(cluster.index()).map(|c| c.llc)
    }

    /// The node that holds `llc`.
    pub fn llc_node(&self, llc: LlcId) -> Option<NodeId> {
        self.llcs.get(llc.index()).map(|l| l.node)
    }

    /// The LLCs of a node, in order.
    pub fn node_llcs(&self, node: NodeId) -> &[LlcId] {
        self.nodes.get(node.index()).map_or(&[], |n| &n.llcs)
    }

    /// The clusters of an LLC, in order; just one where it has none.
    pub fn llc_clusters(&self, llc: LlcId) -> &[ClusterId] {
        self.llcs.get(llc.index()).map_or(&[], |l| &l.clusters)
    }

    /// The cores of an LLC, in order.
    pub fn llc_cores(&self, llc: LlcId) -> &[CoreId] {
        self.llcs.get(llc.index()).map_or(&[], |l| &l.cores)
    }

    /// The cores of a cluster, in order.
    pub fn cluster_cores(&self, cluster: ClusterId) -> &[CoreId] {
        self.clusters.get(cluster.index()).map_or(&[], |c| &c.cores)
    }

    /// The kernel's number of a node, to show to people.
    pub fn kernel_node(&self, node: NodeId) -> Option<u32> {
        self.nodes.get(node.index()).map(|n| n.kernel)
    }

    /// The node that the kernel calls `kernel`, if it has CPUs.
    pub fn node_of_kernel(&self, kernel: u32) -> Option<NodeId> {
        self.nodes.iter().position(|n| n.kernel == kernel).map(|i| NodeId(i as u16))
    }

    /// Whether any LLC is divided into clusters.
    pub fn has_clusters(&self) -> bool {
        self.clusters.len() > self.llcs.len()
    }

    /// Whether any core has more than one online CPU.
    pub fn has_smt(&self) -> bool {
        self.smt > 1
    }

    /// The largest number of online CPUs in a core.
    pub fn smt_width(&self) -> usize {
        self.smt
    }

    /// Whether CPUs differ in capacity.
    pub fn is_asymmetric(&self) -> bool {
        self.asymmetric
    }

    /// What was assumed where the machine described itself oddly, one short sentence each.
    pub fn assumptions(&self) -> &[String] {
        &self.assumptions
    }

    /// The CPUs that share the `level` of `cpu`; empty if `cpu` is offline or unknown.
    #[inline]
    pub fn domain(&self, cpu: CpuId, level: Level) -> &CpuMask {
        let Some(slot) = self.slot(cpu) else { return &NO_CPUS };
        match level {
            Level::Node => self.node_cpus(slot.info.node),
            Level::Llc => self.llc_cpus(slot.info.llc),
            Level::Cluster => self.cluster_cpus(slot.info.cluster),
            Level::Core => self.core_cpus(slot.info.core),
            Level::Cpu => &slot.mask,
        }
    }

    /// How far apart two CPUs are; [`Distance::Machine`] if either is offline or unknown.
    #[inline]
    pub fn distance(&self, a: CpuId, b: CpuId) -> Distance {
        let (Some(a), Some(b)) = (self.cpu(a), self.cpu(b)) else { return Distance::Machine };
        if a.id == b.id {
            Distance::Same
        } else if a.core == b.core {
            Distance::Core
        } else if a.cluster == b.cluster && self.llc_clusters(a.llc).len() > 1 {
            Distance::Cluster
        } else if a.llc == b.llc {
            Distance::Llc
        } else if a.node == b.node {
            Distance::Node
        } else {
            Distance::Machine
        }
    }
}
