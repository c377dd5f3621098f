//! What holds for every topology, however random or spoilt its source.

use crate::support::fake_sys::FakeSys;
use crate::support::{MACHINES, check, machine};
use proptest::prelude::*;
use soft_domain::host::sysfs::read_topology;
use soft_domain::ids::MAX_CPUS;
use soft_domain::topology::{Grid, NoUsableCpu, Numbering, RawCpu, Topology};
use std::collections::BTreeSet;

fn raw_cpu() -> impl Strategy<Value = RawCpu> {
    (0u32..1100, 0u32..40, prop::option::of(0u32..6), 0u32..5, 0u32..4, 0u16..=1024)
        .prop_map(|(id, core, cluster, llc, node, capacity)| RawCpu { id, core, cluster, llc, node, capacity })
}

fn grid() -> impl Strategy<Value = Grid> {
    let numbering = prop_oneof![
        Just(Numbering::SiblingsTogether),
        Just(Numbering::SiblingsLast),
        Just(Numbering::NodesInterleaved)
    ];
    (1usize..4, 1usize..4, 1usize..6, 1usize..3, 1usize..4, numbering, 0usize..9, 1usize..8).prop_map(
        |(nodes, llcs, cores, smt, clusters, numbering, first, stride)| {
            Grid::new(nodes, llcs, cores, smt).clusters(clusters).numbering(numbering).sparse(first, stride)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_the_keys_say_the_levels_nest(raw in prop::collection::vec(raw_cpu(), 0..80)) {
        let usable: BTreeSet<u32> = raw.iter().map(|c| c.id).filter(|id| (*id as usize) < MAX_CPUS).collect();
        match Topology::new(&raw, vec![]) {
            Err(NoUsableCpu) => prop_assert!(usable.is_empty()),
            Ok(t) => {
                check(&t);
                prop_assert_eq!(t.cpus().iter().map(|c| u32::from(c.0)).collect::<BTreeSet<_>>(), usable);
                // An LLC is exactly the CPUs of one LLC key in one node, whatever cores and clusters say.
                let mut first = raw.clone();
                first.sort_by_key(|c| c.id);
                first.dedup_by_key(|c| c.id);
                first.retain(|c| (c.id as usize) < MAX_CPUS);
                let llcs: BTreeSet<(u32, u32)> = first.iter().map(|c| (c.node, c.llc)).collect();
                let nodes: BTreeSet<u32> = first.iter().map(|c| c.node).collect();
                prop_assert_eq!((t.nr_llcs(), t.nr_nodes()), (llcs.len(), nodes.len()));
            }
        }
    }

    #[test]
    fn the_order_of_the_input_does_not_matter(grid in grid(), seed in any::<u64>()) {
        let mut raw = grid.raw();
        let t = Topology::new(&raw, vec![]).expect("a topology");
        raw.sort_by_key(|c| (u64::from(c.id) + 1).wrapping_mul(seed | 1) >> 7);
        prop_assert_eq!(Topology::new(&raw, vec![]).expect("a topology"), t);
    }

    #[test]
    fn a_machine_that_nests_is_taken_without_assumptions(grid in grid()) {
        let t = grid.build();
        check(&t);
        prop_assert!(t.assumptions().is_empty(), "{:?}", t.assumptions());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_machine_written_to_files_is_read_back(grid in grid()) {
        let t = grid.build();
        prop_assert_eq!(FakeSys::of(&t).read().expect("a topology"), t);
    }

    #[test]
    fn no_content_of_any_file_stops_the_reader(
        spoilt in prop::collection::vec((any::<prop::sample::Index>(), spoil()), 1..60),
    ) {
        let sys = FakeSys::of(&Grid::new(2, 2, 2, 2).clusters(2).build());
        let files = sys.files();
        for (which, spoil) in spoilt {
            let path = which.get(&files);
            let done = match spoil {
                Spoil::Remove => std::fs::remove_file(path),
                Spoil::Write(bytes) => std::fs::write(path, bytes),
                Spoil::Copy(from) => std::fs::copy(from.get(&files), path).map(|_| ()),
            };
            let _ = done; // the file may be gone already
        }
        match sys.read() {
            Ok(t) => check(&t),
            Err(e) => prop_assert!(e.to_string().starts_with("cannot read the topology: "), "{}", e),
        }
    }
}

#[derive(Clone, Debug)]
enum Spoil {
    Remove,
    Write(Vec<u8>),
    Copy(prop::sample::Index),
}

fn spoil() -> impl Strategy<Value = Spoil> {
    prop_oneof![
        Just(Spoil::Remove),
        prop::collection::vec(any::<u8>(), 0..30).prop_map(Spoil::Write),
        "[0-9a-fx,:/ -]{0,12}".prop_map(|s| Spoil::Write(s.into_bytes())),
        any::<prop::sample::Index>().prop_map(Spoil::Copy),
    ]
}

#[test]
fn captured_machines_with_spoilt_files_are_still_one_topology() {
    // Every file that ends like this one is gone, or says something silly.
    let kinds = ["online", "_list", "siblings", "core_id", "level", "type", "map", "cpulist", "max_freq", "perf"];
    for name in MACHINES.into_iter().filter(|n| !n.starts_with("128") && !n.starts_with("256")) {
        let m = machine(name);
        let mut files = Vec::new();
        let mut folders = vec![m.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
                let kind = entry.file_type().expect("a type");
                if kind.is_dir() { folders.push(entry.path()) } else { files.push(entry.path()) }
            }
        }
        for (i, kind) in kinds.into_iter().enumerate() {
            for path in files.iter().filter(|p| p.to_string_lossy().ends_with(kind)) {
                if i % 2 == 0 { std::fs::remove_file(path) } else { std::fs::write(path, "-7,banana") }
                    .expect("spoilt");
            }
            check(&read_topology(&m.root).unwrap_or_else(|e| panic!("{name} without {kind}: {e}")));
        }
    }
}
