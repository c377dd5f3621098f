//! The captured machines: our tree must agree with what hwloc made of each.

use crate::support::{MACHINES, check, cpus, lstopo, machine, sets};
use soft_domain::host::sysfs::read_topology;
use soft_domain::ids::{CpuId, NodeId};
use soft_domain::topology::{Distance, Level, Topology};

/// What we make of a machine and what lstopo's text says, side by side.
struct Seen {
    t: Topology,
    text: Vec<lstopo::Object>,
}

impl Seen {
    fn of(name: &str) -> Self {
        let m = machine(name);
        let t = read_topology(&m.root).unwrap_or_else(|e| panic!("{}: {e}", m.name));
        check(&t);
        Seen { t, text: lstopo::parse(&m.lstopo) }
    }

    /// Nodes, LLCs, clusters, cores and CPUs.
    fn counts(&self) -> [usize; 5] {
        let t = &self.t;
        [t.nr_nodes(), t.nr_llcs(), t.nr_clusters(), t.nr_cores(), t.nr_cpus()]
    }

    /// Our CPU sets of `level` are those of the text's `kind`.
    fn agrees(&self, level: Level, kind: &str) {
        assert_eq!(sets(&self.t, level), lstopo::sets(&self.text, kind), "{level} against {kind}");
    }

    fn nodes_agree(&self) {
        self.agrees(Level::Node, "NUMANode");
        let numbers = |o: &lstopo::Object| (o.kind == "NUMANode").then_some(o.number).flatten();
        let text: Vec<u32> = self.text.iter().filter_map(numbers).collect();
        let ours: Vec<u32> = self.t.nodes().filter_map(|n| self.t.kernel_node(n)).collect();
        assert_eq!(ours, text, "node numbers");
    }

    fn assumed(&self, want: &[&str]) {
        let got = self.t.assumptions();
        assert_eq!(got.len(), want.len(), "{got:#?}");
        for (got, want) in got.iter().zip(want) {
            assert!(got.contains(want), "{got} has no {want}");
        }
    }
}

#[test]
fn every_captured_machine_is_tested() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/topologies");
    let listing = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("*** {}: {e} ***", folder.display()));
    let name = |f: std::io::Result<std::fs::DirEntry>| f.ok()?.file_name().into_string().ok();
    let mut names: Vec<String> = listing.filter_map(name).collect();
    names.retain_mut(|n| n.strip_suffix(".tar.bz2").map(str::to_string).inspect(|s| *n = s.clone()).is_some());
    names.sort();
    assert_eq!(names, MACHINES);
}

#[test]
fn kunpeng_920_has_clusters_of_four_cores_in_an_llc_that_covers_a_node() {
    let m = Seen::of("128arm-2pa2n8cluster4co");
    assert_eq!(m.counts(), [4, 4, 32, 128, 128]);
    m.nodes_agree();
    m.agrees(Level::Llc, "L3Cache");
    m.agrees(Level::Cluster, "Group(Cluster)");
    m.agrees(Level::Core, "Core");
    assert_eq!(m.t.domain(CpuId(77), Level::Cluster), &cpus("76-79"));
    assert_eq!(m.t.domain(CpuId(77), Level::Llc), &cpus("64-95"));
    assert_eq!(m.t.distance(CpuId(77), CpuId(76)), Distance::Cluster);
    assert_eq!(m.t.distance(CpuId(77), CpuId(80)), Distance::Llc);
    assert!(m.t.has_clusters() && !m.t.has_smt() && !m.t.is_asymmetric());
    m.assumed(&[]);
}

#[test]
fn offline_cpus_of_the_xeon_are_left_out() {
    let m = Seen::of("16em64t-4s2c2t-offlines");
    assert_eq!(m.counts(), [1, 4, 4, 7, 12]);
    m.nodes_agree();
    m.agrees(Level::Llc, "L3Cache");
    m.agrees(Level::Llc, "Package");
    m.agrees(Level::Core, "Core");
    m.agrees(Level::Cpu, "PU");
    assert_eq!(sets(&m.t, Level::Llc), ["0,4,8,12", "1,9", "3,7,11,15", "6,10"]);
    assert_eq!(sets(&m.t, Level::Core), ["0,8", "1,9", "3,11", "4,12", "6", "7,15", "10"]);
    assert_eq!(m.t.cpu(CpuId(12)).map(|c| c.smt), Some(1));
    assert!(m.t.cpu(CpuId(13)).is_none() && m.t.has_smt() && !m.t.has_clusters());
    m.assumed(&["no list of online CPUs", "CPUs 2,5,13-14 are offline"]);
}

#[test]
fn the_hybrid_has_big_and_small_cores_and_the_small_ones_share_an_l2() {
    let m = Seen::of("20em64t-hybrid-1p6c2t+2ca4co1t");
    assert_eq!(m.counts(), [1, 1, 8, 14, 20]);
    m.nodes_agree();
    m.agrees(Level::Llc, "L3Cache");
    m.agrees(Level::Cluster, "L2Cache");
    m.agrees(Level::Core, "Core");
    assert_eq!(sets(&m.t, Level::Cluster), ["0-1", "2-3", "4-5", "6-7", "8-9", "10-11", "12-15", "16-19"]);
    assert!(m.t.is_asymmetric() && m.t.has_smt());
    // The text's two kinds of CPU; some P-cores boost to 5.2 GHz and are of the same kind all the same.
    let big = m.t.cpus().iter().filter(|c| m.t.cpu(*c).is_some_and(|c| c.capacity == 1024)).collect();
    assert_eq!(cpus("0-11"), big);
    // 39 of 67 on CPPC's scale.
    assert!(cpus("12-19").iter().all(|c| m.t.cpu(c).is_some_and(|c| c.capacity == 39 * 1024 / 67)));
    m.assumed(&["CPPC"]);
}

#[test]
fn power7_has_an_llc_for_each_core_of_four_threads_and_holes_in_its_node_numbers() {
    let m = Seen::of("256ppc-8n8s4t");
    assert_eq!(m.counts(), [8, 64, 64, 64, 256]);
    m.nodes_agree();
    m.agrees(Level::Llc, "L3Cache");
    m.agrees(Level::Core, "Core");
    let nodes: Vec<u32> = m.t.nodes().filter_map(|n| m.t.kernel_node(n)).collect();
    assert_eq!(nodes, [0, 1, 4, 5, 8, 9, 12, 13]);
    assert_eq!(m.t.node_of_kernel(12), Some(NodeId(6)));
    assert_eq!(m.t.node_cpus(NodeId(6)), &cpus("192-223"));
    assert_eq!(m.t.domain(CpuId(203), Level::Llc), &cpus("200-203"));
    assert_eq!((m.t.smt_width(), m.t.cpu(CpuId(203)).map(|c| c.smt)), (4, Some(3)));
    m.assumed(&["no list of online CPUs"]);
}

#[test]
fn the_arm_board_without_cache_and_node_files_is_one_llc_in_one_node() {
    let m = Seen::of("2arm-2c");
    assert_eq!(m.counts(), [1, 1, 1, 2, 2]);
    m.nodes_agree();
    m.agrees(Level::Llc, "Package");
    m.agrees(Level::Core, "Core");
    // Only CPU 0 states a frequency, which makes no difference between the two.
    assert!(!m.t.is_asymmetric());
    m.assumed(&["no NUMA node folder", "CPUs 0-1 describe no cache that cores share: their package"]);
}

#[test]
fn the_opteron_has_node_numbers_up_to_73() {
    let m = Seen::of("48amd64-4pa2n6c-sparse");
    assert_eq!(m.counts(), [8, 8, 8, 48, 48]);
    m.nodes_agree();
    m.agrees(Level::Llc, "L3Cache");
    m.agrees(Level::Core, "Core");
    let nodes: Vec<u32> = m.t.nodes().filter_map(|n| m.t.kernel_node(n)).collect();
    assert_eq!(nodes, [0, 1, 2, 33, 34, 45, 72, 73]);
    assert_eq!(m.t.node_cpus(NodeId(5)), &cpus("30-35"));
    assert!(m.t.to_string().contains("\nnode 45  CPUs 30-35\n"), "{}", m.t);
    m.assumed(&[]);
}

#[test]
fn bulldozer_modules_are_clusters_of_two_cores_though_the_kernel_calls_them_siblings() {
    let m = Seen::of("64amd64-4s2n4ca2co");
    assert_eq!(m.counts(), [8, 8, 32, 64, 64]);
    m.nodes_agree();
    m.agrees(Level::Llc, "L3Cache");
    m.agrees(Level::Cluster, "L2Cache");
    m.agrees(Level::Core, "Core");
    assert!(!m.t.has_smt() && m.t.has_clusters());
    assert_eq!(m.t.domain(CpuId(43), Level::Cluster), &cpus("42-43"));
    m.assumed(&["core ids of their own", "names no clusters", "64 files contradict the masks"]);
}

#[test]
fn the_xeon_whose_eight_nodes_all_list_every_cpu_has_one_node() {
    let m = Seen::of("8em64t-2s2ca2c-buggynuma");
    assert_eq!(m.counts(), [1, 4, 4, 8, 8]);
    m.nodes_agree();
    m.agrees(Level::Llc, "L2Cache");
    m.agrees(Level::Core, "Core");
    assert_eq!(sets(&m.t, Level::Llc), ["0,2", "1,3", "4,6", "5,7"]);
    m.assumed(&["CPUs 0-7 are listed by several NUMA nodes"]);
}
