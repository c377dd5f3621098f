//! Made-up sysfs trees, each odd in one way that users of such schedulers have met (field notes: 195, 733, 275, 981,
//! 1715, 2325, 2745, 280, 147, 3384, 1893).

use crate::support::fake_sys::FakeSys;
use crate::support::{check, cpus, sets};
use soft_domain::ids::{CpuId, NodeId};
use soft_domain::topology::{Grid, Level, Numbering, RawCpu, Topology};

fn read(sys: &FakeSys) -> Topology {
    let t = sys.read().expect("a topology");
    check(&t);
    t
}

/// 8 CPUs, 2 nodes of 2 LLCs of 2 cores.
fn eight() -> FakeSys {
    FakeSys::of(&Topology::grid(2, 2, 2, 1))
}

fn assumed(t: &Topology, want: &[&str]) {
    assert_eq!(t.assumptions(), want);
}

#[test]
fn a_regular_tree_is_read_as_it_is_although_every_cache_id_is_0() {
    let t = read(&eight());
    assert_eq!(t, Topology::grid(2, 2, 2, 1));
    assumed(&t, &[]);
}

#[test]
fn the_folder_above_sys_is_a_root_too() {
    let sys = eight();
    std::fs::create_dir(sys.root().join("sys")).expect("sys");
    std::fs::rename(sys.root().join("devices"), sys.root().join("sys/devices")).expect("moved");
    assert_eq!(read(&sys), Topology::grid(2, 2, 2, 1));
}

#[test]
fn without_cache_files_the_package_is_the_llc() {
    let sys = eight();
    (0..8).for_each(|c| sys.remove(&format!("system/cpu/cpu{c}/cache")));
    let t = read(&sys);
    assert_eq!(sets(&t, Level::Llc), ["0-3", "4-7"]);
    assumed(&t, &["CPUs 0-7 describe no cache that cores share: their package is taken as an LLC."]);
}

#[test]
fn without_cache_files_and_packages_of_several_cores_the_node_is_the_llc() {
    let sys = eight();
    for c in 0..8 {
        sys.remove(&format!("system/cpu/cpu{c}/cache"));
        sys.topology(c, "package_cpus_list", &c.to_string());
    }
    let t = read(&sys);
    assert_eq!(sets(&t, Level::Llc), ["0-3", "4-7"]);
    assumed(&t, &["CPUs 0-7 describe no cache that cores share: their NUMA node is taken as an LLC."]);
}

#[test]
fn a_private_l2_below_no_l3_is_no_llc_but_a_shared_one_is() {
    let sys = eight();
    (0..8).for_each(|c| sys.remove(&format!("system/cpu/cpu{c}/cache/index3")));
    assert_eq!(sets(&read(&sys), Level::Llc), ["0-3", "4-7"]);
    (0..4).for_each(|c| sys.cache(c, 2, 2, "Unified", &cpus(if c < 2 { "0-1" } else { "2-3" })));
    assert_eq!(sets(&read(&sys), Level::Llc), ["0-1", "2-3", "4-7"]);
}

#[test]
fn a_cpu_whose_l3_is_missing_is_under_the_l3_that_names_it_or_the_only_one_around() {
    let sys = eight();
    sys.remove("system/cpu/cpu1/cache/index3");
    let t = read(&sys);
    assert_eq!(t, Topology::grid(2, 2, 2, 1));
    assumed(&t, &[]);

    // The same where the two cores share an L2, which is no LLC while the other says that there is an L3 above it.
    let sys = FakeSys::of(&Topology::grid(1, 1, 4, 1));
    (2..4).for_each(|c| sys.cache(c, 2, 2, "Unified", &cpus("2-3")));
    (2..4).for_each(|c| sys.remove(&format!("system/cpu/cpu{c}/cache/index3")));
    assert_eq!(sets(&read(&sys), Level::Llc), ["0-3"]);

    let sys = FakeSys::of(&Topology::grid(1, 1, 4, 1));
    (0..3).for_each(|c| sys.cache(c, 3, 3, "Unified", &cpus("0-2")));
    sys.remove("system/cpu/cpu3/cache");
    let t = read(&sys);
    assert_eq!(sets(&t, Level::Llc), ["0-3"]);
    assumed(&t, &["CPUs 3 describe no cache that cores share: taken as under the only LLC around them."]);
}

#[test]
fn only_masks_and_a_nul_at_their_end_are_enough() {
    let sys = eight();
    for path in sys.files() {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let Some(stem) = name.strip_suffix("_list").or(name.strip_suffix("list")) else { continue };
        let mask = cpus(std::fs::read_to_string(&path).expect("a file").trim());
        let map = match stem {
            "shared_cpu" | "cpu" => {
                format!("{stem}_map").replace("cpu_map", "cpumap").replace("shared_cpumap", "shared_cpu_map")
            }
            _ => stem.to_string(),
        };
        std::fs::write(path.with_file_name(map), format!("{:08x}\n\0", mask.words()[0])).expect("a file");
        std::fs::remove_file(&path).expect("removed");
    }
    assert_eq!(read(&sys), Topology::grid(2, 2, 2, 1));
}

#[test]
fn without_a_node_folder_there_is_one_node() {
    let sys = eight();
    sys.remove("system/node");
    let t = read(&sys);
    assert_eq!((sets(&t, Level::Node), t.kernel_node(NodeId(0)), t.nr_llcs()), (vec!["0-7".to_string()], Some(0), 4));
    assumed(&t, &["There is no NUMA node folder: one node with every CPU."]);
}

#[test]
fn nodes_without_cpus_are_ignored_and_node_0_may_be_absent() {
    let sys = eight();
    sys.remove("system/node/node0");
    sys.node(3, "0-3");
    sys.node(17, "");
    let t = read(&sys);
    assert_eq!(sets(&t, Level::Node), ["0-3", "4-7"]);
    assert_eq!((t.kernel_node(NodeId(0)), t.kernel_node(NodeId(1))), (Some(3), Some(1)));
    assert_eq!((t.node_of_kernel(3), t.node_of_kernel(0)), (Some(NodeId(0)), None));
    assumed(&t, &["NUMA node 17 has no online CPUs: ignored."]);
}

#[test]
fn a_cpu_in_no_node_goes_to_the_lowest_node_with_cpus() {
    let sys = eight();
    sys.node(0, "");
    let t = read(&sys);
    assert_eq!((sets(&t, Level::Node), t.kernel_node(NodeId(0))), (vec!["0-7".to_string()], Some(1)));
    assumed(&t, &["NUMA node 0 has no online CPUs: ignored.", "CPUs 0-3 are in no NUMA node: taken as in node 1."]);
}

#[test]
fn an_llc_that_spans_two_nodes_is_two() {
    let sys = eight();
    (0..8).for_each(|c| sys.cache(c, 3, 3, "Unified", &cpus("0-7")));
    let t = read(&sys);
    assert_eq!(sets(&t, Level::Llc), ["0-3", "4-7"]);
    assumed(&t, &["1 LLC spans several nodes: taken as 2, one in each."]);
}

#[test]
fn caches_that_contradict_each_other_are_still_one_topology() {
    let sys = eight();
    sys.cache(1, 3, 3, "Unified", &cpus("1-2"));
    let t = read(&sys);
    assert_eq!(sets(&t, Level::Llc), ["0", "1", "2-3", "4-5", "6-7"]);
    assumed(
        &t,
        &["The last-level caches of CPUs 0-1 contradict each other: CPUs that name the same lowest CPU go together."],
    );
}

#[test]
fn interleaved_and_sparse_cpu_numbers_keep_their_places() {
    let machine = Grid::new(2, 2, 4, 2).numbering(Numbering::NodesInterleaved).sparse(3, 5).build();
    let t = read(&FakeSys::of(&machine));
    assert_eq!(t, machine);
    assert_eq!(t.node_cpus(NodeId(0)).iter().take(3).map(|c| c.0).collect::<Vec<_>>(), [3, 13, 23]);
    assert_eq!(t.cpus().first(), Some(CpuId(3)));
}

#[test]
fn offline_cpus_and_switched_off_smt_leave_cores_of_one_cpu() {
    let sys = FakeSys::of(&Grid::new(1, 2, 2, 2).numbering(Numbering::SiblingsLast).build());
    sys.cpu("online", "0-3");
    (4..8).for_each(|c| sys.cpu(&format!("cpu{c}/online"), "0"));
    let t = read(&sys);
    assert_eq!((t.nr_cores(), t.nr_cpus(), t.has_smt()), (4, 4, false));
    assumed(&t, &["CPUs 4-7 are offline and left out."]);
    // Gone between the two reads: its own file is the newer word.
    sys.cpu("cpu2/online", "0");
    assert_eq!(read(&sys).cpus(), &cpus("0-1,3"));
}

#[test]
fn a_cpu_that_is_listed_as_online_without_a_folder_is_left_out() {
    let sys = eight();
    sys.cpu("online", "0-7,9");
    let t = read(&sys);
    assert_eq!(t, Topology::new(&Grid::new(2, 2, 2, 1).raw(), t.assumptions().to_vec()).expect("a topology"));
    assumed(&t, &["CPUs 9 are listed as online but have no folder: left out."]);
}

#[test]
fn the_largest_machine_that_the_shim_can_address_fits() {
    // 1,024 CPUs, 24 nodes, 128 LLCs of 8 CPUs: nodes of 5 or 6 LLCs.
    let raw = (0..1024).map(|id| RawCpu {
        id,
        core: id / 2,
        cluster: None,
        llc: id / 8,
        node: (id / 8) * 24 / 128,
        capacity: 1024,
    });
    let machine = Topology::new(&raw.collect::<Vec<_>>(), vec![]).expect("a topology");
    let sys = FakeSys::of(&machine);
    sys.topology(1024, "core_cpus_list", "1024");
    let t = read(&sys);
    assert_eq!([t.nr_nodes(), t.nr_llcs(), t.nr_cores(), t.nr_cpus()], [24, 128, 512, 1024]);
    assert_eq!(t.domain(CpuId(1023), Level::Llc), &cpus("1016-1023"));
    assumed(&t, &["1 CPUs with numbers from 1024 up are ignored: they cannot be addressed."]);
}

/// 4 big cores and 4 small ones without a word about capacity.
fn hybrid() -> FakeSys {
    let sys = FakeSys::of(&Topology::grid(1, 1, 8, 1));
    (0..8).for_each(|c| sys.remove(&format!("system/cpu/cpu{c}/cpu_capacity")));
    sys.cpu("cpu0/cpufreq/cpuinfo_max_freq", "5200000");
    (1..4).for_each(|c| sys.cpu(&format!("cpu{c}/cpufreq/cpuinfo_max_freq"), "5000000"));
    (4..8).for_each(|c| sys.cpu(&format!("cpu{c}/cpufreq/cpuinfo_max_freq"), "3900000"));
    sys
}

fn capacities(t: &Topology) -> Vec<u16> {
    t.cpus().iter().filter_map(|c| t.cpu(c)).map(|c| c.capacity).collect()
}

#[test]
fn core_sizes_come_from_the_kernel_else_cppc_else_frequency() {
    let sys = hybrid();
    let t = read(&sys);
    assert_eq!(capacities(&t), [1024, 1024, 1024, 1024, 768, 768, 768, 768]);
    assumed(&t, &["The kernel states no core sizes: the highest frequencies are taken."]);

    (0..8).for_each(|c| sys.cpu(&format!("cpu{c}/acpi_cppc/highest_perf"), if c < 4 { "64" } else { "32" }));
    assert_eq!(capacities(&read(&sys))[3..5], [1024, 512]);

    (0..8).for_each(|c| sys.cpu(&format!("cpu{c}/acpi_cppc/highest_perf"), if c < 4 { "32" } else { "64" }));
    let t = read(&sys);
    assert_eq!(capacities(&t)[3..5], [1024, 768]);
    assumed(
        &t,
        &[
            "The kernel states no core sizes: the highest frequencies are taken, though CPPC orders the cores otherwise.",
        ],
    );

    (0..8).for_each(|c| sys.cpu(&format!("cpu{c}/cpu_capacity"), if c < 4 { "400" } else { "100" }));
    let t = read(&sys);
    assert_eq!(capacities(&t), [1024, 1024, 1024, 1024, 256, 256, 256, 256]);
    assumed(&t, &[]);

    // Never 0: work is divided by it.
    sys.cpu("cpu7/cpu_capacity", "1");
    (0..7).for_each(|c| sys.cpu(&format!("cpu{c}/cpu_capacity"), &i64::MAX.to_string()));
    assert_eq!(capacities(&read(&sys))[6..], [1024, 1]);
}

#[test]
fn intels_core_types_are_the_second_source() {
    let sys = hybrid();
    sys.write("cpu_atom/cpus", "0-3\n");
    let t = read(&sys);
    let doubt = "CPUs 0-3 are called E-cores but do not look smaller than all others.";
    assert_eq!(t.assumptions().last().map(String::as_str), Some(doubt));

    sys.write("cpu_atom/cpus", "4-7\n");
    assert_eq!(read(&sys).assumptions().len(), 1);
    (0..8).for_each(|c| sys.remove(&format!("system/cpu/cpu{c}/cpufreq")));
    let t = read(&sys);
    assert_eq!(capacities(&t)[3..5], [1024, 640]);
    assumed(&t, &["CPUs 4-7 are E-cores of unknown capacity: taken as 640 of 1024."]);
}

#[test]
fn amds_ranking_of_equal_cores_makes_no_small_cores() {
    let sys = FakeSys::of(&Topology::grid(1, 1, 4, 1));
    for c in 0..4 {
        sys.remove(&format!("system/cpu/cpu{c}/cpu_capacity"));
        sys.cpu(&format!("cpu{c}/acpi_cppc/highest_perf"), &(166 + 20 * c).to_string());
        sys.cpu(&format!("cpu{c}/cpufreq/cpuinfo_max_freq"), "4700000");
    }
    assert!(!read(&sys).is_asymmetric());
}

#[test]
fn errors_name_the_path_the_cause_and_the_remedy() {
    let sys = FakeSys::empty();
    let root = sys.root().display().to_string();
    let text = sys.read().expect_err("no CPU").to_string();
    assert_eq!(
        text,
        format!(
            "cannot read the topology: {root}/devices/system/cpu has no folder cpu0 to cpu1023 of an online CPU; check {root}/devices/system/cpu/online, or that the captured sysfs is complete"
        )
    );
    sys.remove("system");
    let text = sys.read().expect_err("no folder").to_string();
    assert_eq!(
        text,
        format!(
            "cannot read the topology: there is neither {root}/devices/system/cpu nor {root}/sys/devices/system/cpu; mount sysfs (mount -t sysfs sysfs /sys) or name the folder of a captured sysfs"
        )
    );
}
