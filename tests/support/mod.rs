//! What several tests need: the captured machines, made-up sysfs trees, and what holds for every topology.
#![allow(dead_code)] // each test binary uses a part of it

pub mod fake_sys;
pub mod lstopo;

use soft_domain::cpumask::CpuMask;
use soft_domain::ids::{CpuId, MAX_CPUS};
use soft_domain::topology::{Distance, Level, Topology};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A captured machine: its files and what hwloc makes of them.
pub struct Machine {
    /// The name of its tarball, without the ending.
    pub name: String,
    /// Where `sys/devices/system` is.
    pub root: PathBuf,
    /// hwloc's text.
    pub lstopo: String,
    _dir: tempfile::TempDir,
}

/// Unpacks the captured machine called `name` from `../shared/topologies`.
pub fn machine(name: &str) -> Machine {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/topologies");
    let tarball = folder.join(format!("{name}.tar.bz2"));
    let file = std::fs::File::open(&tarball).unwrap_or_else(|e| {
        panic!(
            "\n*** {} cannot be opened ({e}).\n*** The tests of captured machines need the project's shared folder \
             beside the repository, as ../shared/topologies.\n",
            tarball.display()
        )
    });
    let dir = temporary_folder();
    tar::Archive::new(bzip2::read::BzDecoder::new(file)).unpack(dir.path()).expect("a readable tarball");
    let unpacked = std::fs::read_dir(dir.path()).expect("the unpacked folder").next();
    let root = unpacked.expect("one folder in the tarball").expect("a readable folder").path();
    let lstopo = std::fs::read_to_string(folder.join(format!("{name}.lstopo.txt"))).expect("the text beside it");
    Machine { name: name.to_string(), root, lstopo, _dir: dir }
}

/// The names of the captured machines.
pub const MACHINES: [&str; 8] = [
    "128arm-2pa2n8cluster4co",
    "16em64t-4s2c2t-offlines",
    "20em64t-hybrid-1p6c2t+2ca4co1t",
    "256ppc-8n8s4t",
    "2arm-2c",
    "48amd64-4pa2n6c-sparse",
    "64amd64-4s2n4ca2co",
    "8em64t-2s2ca2c-buggynuma",
];

/// A temporary folder, in memory where there is such a place: the trees are thousands of tiny files.
pub fn temporary_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary folder")
}

/// A list such as `0-3,8` as a mask.
pub fn cpus(list: &str) -> CpuMask {
    soft_domain::host::cpulist::parse_list(list).expect("a CPU list")
}

/// The CPU sets of a level, as text in the order of ids.
pub fn sets(t: &Topology, level: Level) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let first_of = |c: &CpuId| seen.insert(t.domain(*c, level).first());
    t.cpus().iter().filter(first_of).map(|c| t.domain(c, level).to_string()).collect()
}

/// Checks what holds for every topology: the levels nest, each partitions the CPUs, ids are dense and in the order of
/// their lowest CPU, the tables agree with each other, and foreign ids are harmless.
pub fn check(t: &Topology) {
    let levels = [
        (Level::Node, t.nodes().map(|n| *t.node_cpus(n)).collect::<Vec<_>>()),
        (Level::Llc, t.llcs().map(|l| *t.llc_cpus(l)).collect()),
        (Level::Cluster, t.clusters().map(|c| *t.cluster_cpus(c)).collect()),
        (Level::Core, t.cores().map(|c| *t.core_cpus(c)).collect()),
        (Level::Cpu, t.cpus().iter().map(CpuMask::of).collect()),
    ];
    for (level, masks) in &levels {
        let all = masks.iter().fold(CpuMask::EMPTY, |all, m| {
            assert!(!m.is_empty(), "an empty {level}");
            assert!(!all.intersects(m), "two {level}s share a CPU");
            all.or(m)
        });
        assert_eq!(all, *t.cpus(), "the {level}s are not all CPUs");
        assert!(masks.windows(2).all(|m| m[0].first() < m[1].first()), "{level} ids are not in order");
    }
    assert_eq!(t.has_clusters(), t.nr_clusters() > t.nr_llcs());
    assert_eq!(t.has_smt(), t.cores().any(|c| t.core_cpus(c).count() > 1));
    assert_eq!(t.cpu_slots(), t.cpus().iter().last().map_or(0, |c| c.index() + 1));

    for cpu in t.cpus().iter() {
        let i = t.cpu(cpu).expect("an online CPU is known");
        assert_eq!(i.id, cpu);
        let chain = [t.core_cpus(i.core), t.cluster_cpus(i.cluster), t.llc_cpus(i.llc), t.node_cpus(i.node)];
        assert!(chain[0].has(cpu) && chain.windows(2).all(|w| w[0].is_subset_of(w[1])), "CPU {cpu} does not nest");
        let up = (t.core_cluster(i.core), t.cluster_llc(i.cluster), t.llc_node(i.llc));
        assert_eq!(up, (Some(i.cluster), Some(i.llc), Some(i.node)));
        assert!(t.cluster_cores(i.cluster).contains(&i.core) && t.llc_cores(i.llc).contains(&i.core));
        assert!(t.llc_clusters(i.llc).contains(&i.cluster) && t.node_llcs(i.node).contains(&i.llc));
        assert_eq!(t.core_cpus(i.core).iter().position(|c| c == cpu), Some(usize::from(i.smt)), "rank of CPU {cpu}");
        assert!(i.capacity <= 1024, "capacity of CPU {cpu}");
        assert_eq!(t.domain(cpu, Level::Cpu), &CpuMask::of(cpu));
        for (level, mask) in Level::ALL.into_iter().rev().skip(1).zip(chain).map(|(l, m)| (l, *m)) {
            assert_eq!(*t.domain(cpu, level), mask);
        }
    }
    let lists = t.nodes().map(|n| t.node_llcs(n).len()).sum::<usize>();
    assert_eq!(lists, t.nr_llcs());
    assert_eq!(t.llcs().map(|l| t.llc_clusters(l).len()).sum::<usize>(), t.nr_clusters());
    assert_eq!(t.clusters().map(|c| t.cluster_cores(c).len()).sum::<usize>(), t.nr_cores());

    let some: Vec<CpuId> = t.cpus().iter().step_by(1 + t.nr_cpus() / 40).collect();
    for (a, b) in some.iter().flat_map(|a| some.iter().map(move |b| (*a, *b))) {
        let d = t.distance(a, b);
        assert_eq!(d, t.distance(b, a));
        let inside = |level| t.domain(a, level).has(b);
        let want = match () {
            () if a == b => Distance::Same,
            () if inside(Level::Core) => Distance::Core,
            () if inside(Level::Cluster) && t.domain(a, Level::Cluster) != t.domain(a, Level::Llc) => Distance::Cluster,
            () if inside(Level::Llc) => Distance::Llc,
            () if inside(Level::Node) => Distance::Node,
            () => Distance::Machine,
        };
        assert_eq!(d, want, "distance of {a} and {b}");
    }

    for foreign in [MAX_CPUS as u16, u16::MAX, (0..).find(|c| !t.cpus().has(CpuId(*c))).unwrap_or(MAX_CPUS as u16)] {
        let foreign = CpuId(foreign);
        assert!(t.cpu(foreign).is_none());
        assert!(Level::ALL.iter().all(|l| t.domain(foreign, *l).is_empty()));
        assert_eq!(t.distance(foreign, foreign), Distance::Machine);
    }
    assert!(t.to_string().lines().count() > t.nr_llcs());
}
