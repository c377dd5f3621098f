//! From [`RawCpu`]s to tables: makes ids dense and the levels nest.
//!
//! The outer level wins: a thing that straddles two things of the level above it becomes two. Nodes are the most
//! believable (memory is allocated by them), then LLCs, clusters and cores.

use super::{Cluster, Core, CpuInfo, CpuSlot, Llc, Node, RawCpu, Topology};
use crate::cpumask::CpuMask;
use crate::ids::{ClusterId, CoreId, CpuId, LlcId, MAX_CPUS, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Gives each new key the next number.
struct Dense<K>(BTreeMap<K, u16>);

impl<K: Ord> Dense<K> {
    fn new() -> Self {
        Dense(BTreeMap::new())
    }

    fn of(&mut self, key: K) -> u16 {
        let next = self.0.len() as u16; // at most MAX_CPUS keys
        *self.0.entry(key).or_insert(next)
    }
}

/// Builds everything; the result is empty if no CPU is usable.
pub(super) fn tables(cpus: &[RawCpu], mut assumptions: Vec<String>) -> Topology {
    let cpus = usable(cpus, &mut assumptions);
    let real_clusters = llcs_with_clusters(&cpus);

    let (mut nodes, mut llcs, mut clusters, mut cores) = (Dense::new(), Dense::new(), Dense::new(), Dense::new());
    let mut t = Topology::default();
    let mut straddling = Straddling::default();
    for c in &cpus {
        let node = nodes.of(c.node);
        let llc = llcs.of((node, c.llc));
        let own_cluster = if real_clusters.contains(&(c.node, c.llc)) { c.cluster } else { None };
        let cluster = clusters.of((llc, own_cluster));
        let core = cores.of((cluster, c.core));
        straddling.see(c, own_cluster, llc, cluster, core);

        let (id, core, cluster, llc, node) =
            (CpuId(c.id as u16), CoreId(core), ClusterId(cluster), LlcId(llc), NodeId(node));
        if t.nodes.len() == node.index() {
            t.nodes.push(Node { cpus: CpuMask::EMPTY, kernel: c.node, llcs: vec![] });
        }
        if t.llcs.len() == llc.index() {
            t.llcs.push(Llc { cpus: CpuMask::EMPTY, node, clusters: vec![], cores: vec![] });
            t.nodes[node.index()].llcs.push(llc);
        }
        if t.clusters.len() == cluster.index() {
            t.clusters.push(Cluster { cpus: CpuMask::EMPTY, llc, cores: vec![] });
            t.llcs[llc.index()].clusters.push(cluster);
        }
        if t.cores.len() == core.index() {
            t.cores.push(Core { cpus: CpuMask::EMPTY, cluster });
            t.clusters[cluster.index()].cores.push(core);
            t.llcs[llc.index()].cores.push(core);
        }
        // CPUs come in the order of their numbers, so those already in the core are the ranks before this one.
        let rank = t.cores[core.index()].cpus.count();
        t.smt = t.smt.max(rank + 1);
        let info =
            CpuInfo { id, core, cluster, llc, node, smt: rank.min(u8::MAX as usize) as u8, capacity: c.capacity };
        t.by_cpu.resize(id.index() + 1, None);
        t.by_cpu[id.index()] = Some(CpuSlot { info, mask: CpuMask::of(id) });
        t.asymmetric |= c.capacity != cpus[0].capacity;
        for mask in [
            &mut t.online,
            &mut t.cores[core.index()].cpus,
            &mut t.clusters[cluster.index()].cpus,
            &mut t.llcs[llc.index()].cpus,
            &mut t.nodes[node.index()].cpus,
        ] {
            mask.set(id);
        }
    }
    straddling.tell(&mut assumptions);
    t.assumptions = assumptions;
    t
}

/// The CPUs that we can address, each once, in the order of their numbers.
fn usable(cpus: &[RawCpu], assumptions: &mut Vec<String>) -> Vec<RawCpu> {
    let mut sorted = cpus.to_vec();
    sorted.sort_by_key(|c| c.id); // stable: of two with one number the first stays
    let all = sorted.len();
    sorted.dedup_by_key(|c| c.id);
    if sorted.len() < all {
        assumptions.push("Some CPUs were named twice; the first of each counts.".to_string());
    }
    let all = sorted.len();
    sorted.retain(|c| (c.id as usize) < MAX_CPUS);
    if sorted.len() < all {
        assumptions.push(format!("{} CPUs with numbers from {MAX_CPUS} up are ignored.", all - sorted.len()));
    }
    sorted
}

/// The LLCs (node and key) whose clusters mean something: more than one, and at least one of several cores. x86
/// kernels also call a lone core, or a whole LLC, a cluster.
fn llcs_with_clusters(cpus: &[RawCpu]) -> BTreeSet<(u32, u32)> {
    let mut cores_of: BTreeMap<(u32, u32), BTreeMap<Option<u32>, BTreeSet<u32>>> = BTreeMap::new();
    for c in cpus {
        cores_of.entry((c.node, c.llc)).or_default().entry(c.cluster).or_default().insert(c.core);
    }
    cores_of.retain(|_, clusters| {
        clusters.len() > 1 && clusters.iter().any(|(key, cores)| key.is_some() && cores.len() > 1)
    });
    cores_of.into_keys().collect()
}

/// Notices what the keys call one thing and nesting makes several.
#[derive(Default)]
struct Straddling {
    llcs: BTreeMap<u32, BTreeSet<u16>>,
    clusters: BTreeMap<u32, BTreeSet<u16>>,
    cores: BTreeMap<u32, BTreeSet<u16>>,
}

impl Straddling {
    fn see(&mut self, c: &RawCpu, own_cluster: Option<u32>, llc: u16, cluster: u16, core: u16) {
        self.llcs.entry(c.llc).or_default().insert(llc);
        if let Some(key) = own_cluster {
            self.clusters.entry(key).or_default().insert(cluster);
        }
        self.cores.entry(c.core).or_default().insert(core);
    }

    fn tell(&self, assumptions: &mut Vec<String>) {
        let mut say = |groups: &BTreeMap<u32, BTreeSet<u16>>, one: &str, many: &str, outer: &str| {
            let split = groups.values().filter(|parts| parts.len() > 1);
            let (n, parts) = split.fold((0, 0), |(n, parts), p| (n + 1, parts + p.len()));
            if n > 0 {
                let things = if n == 1 { format!("1 {one} spans") } else { format!("{n} {many} span") };
                assumptions.push(format!("{things} several {outer}: taken as {parts}, one in each."));
            }
        };
        say(&self.llcs, "LLC", "LLCs", "nodes");
        say(&self.clusters, "cluster", "clusters", "LLCs");
        say(&self.cores, "core", "cores", "clusters or LLCs");
    }
}
