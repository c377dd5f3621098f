//! Simulated machines by name or by shape.

use crate::ids::MAX_CPUS;
use crate::topology::{FULL_CAPACITY, Grid, Numbering, RawCpu, Topology};

type Make = fn() -> Topology;

/// Name, what it is, how it is made.
const PRESETS: &[(&str, &str, Make)] = &[
    ("epyc-9654-2s", "two sockets of 12 L3s of 8 cores with SMT, one node per socket: 384 CPUs", || {
        Grid::new(2, 12, 8, 2).numbering(Numbering::SiblingsLast).build()
    }),
    ("xeon-2s", "two sockets of 56 cores with SMT on one L3 each: 224 CPUs", || {
        Grid::new(2, 1, 56, 2).numbering(Numbering::SiblingsLast).build()
    }),
    ("kunpeng-920", "four nodes of 32 cores on one L3, in clusters of 4: 128 CPUs", || {
        Grid::new(4, 1, 32, 1).clusters(8).build()
    }),
    ("hybrid-laptop", "6 fast cores with SMT and 8 slow ones in clusters of 4, one L3: 20 CPUs", hybrid),
    ("cloud-2cpu", "a guest on the two siblings of one core", || Grid::new(1, 1, 1, 2).build()),
];

/// Capacity of the slow cores of the hybrid laptop; reports give 0.55 to 0.7 of a fast one.
const SLOW: u16 = FULL_CAPACITY / 8 * 5;

fn hybrid() -> Topology {
    let cpu = |id: u32, core: u32, cluster: u32, capacity| RawCpu {
        id,
        core,
        cluster: Some(cluster),
        llc: 0,
        node: 0,
        capacity,
    };
    let fast = (0..12).map(|id| cpu(id, id / 2, id / 2, FULL_CAPACITY));
    let slow = (0..8).map(|i| cpu(12 + i, 6 + i, 6 + i / 4, SLOW));
    let cpus: Vec<RawCpu> = fast.chain(slow).collect();
    Topology::new(&cpus, Vec::new()).unwrap_or_default()
}

/// The machine that `text` names: a preset, or `nodes=4,llcs=6,cores=16,smt=1[,clusters=N]`. The error is one line.
pub fn topology(text: &str) -> Result<Topology, String> {
    if let Some((_, _, make)) = PRESETS.iter().find(|(name, ..)| *name == text) {
        return Ok(make());
    }
    let names: Vec<&str> = PRESETS.iter().map(|(name, ..)| *name).collect();
    let usage = || {
        format!(
            "topology '{text}': write nodes=4,llcs=6,cores=16,smt=1 (LLCs per node, cores per LLC), or one of {}",
            names.join(", ")
        )
    };
    let (mut nodes, mut llcs, mut cores, mut smt, mut clusters) = (1, 1, None, 1, 1);
    for pair in text.split(',') {
        let (key, value) = pair.split_once('=').ok_or_else(usage)?;
        let n: usize =
            value.parse().ok().filter(|n| (1..=MAX_CPUS).contains(n)).ok_or_else(|| {
                format!("topology '{text}': {key}={value} is not a whole number from 1 to {MAX_CPUS}")
            })?;
        match key {
            "nodes" => nodes = n,
            "llcs" => llcs = n,
            "cores" => cores = Some(n),
            "smt" => smt = n,
            "clusters" => clusters = n,
            _ => return Err(usage()),
        }
    }
    let cores = cores.ok_or_else(usage)?;
    let cpus = nodes * llcs * cores * smt;
    if cpus > MAX_CPUS {
        return Err(format!(
            "topology '{text}' has {cpus} CPUs: the shim knows {MAX_CPUS} at most, so make it smaller"
        ));
    }
    if clusters > cores {
        return Err(format!("topology '{text}' has more clusters than cores in an LLC: lower clusters="));
    }
    Ok(Grid::new(nodes, llcs, cores, smt).clusters(clusters).build())
}

/// For `--help`: the presets, one a line.
pub fn table() -> String {
    PRESETS.iter().map(|(name, about, _)| format!("  {name:<14} {about}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_the_machines_that_they_name() {
        let shape = |name: &str| {
            let t = topology(name).unwrap();
            (t.nr_cpus(), t.nr_nodes(), t.nr_llcs(), t.nr_clusters(), t.smt_width())
        };
        assert_eq!(shape("epyc-9654-2s"), (384, 2, 24, 24, 2));
        assert_eq!(shape("xeon-2s"), (224, 2, 2, 2, 2));
        assert_eq!(shape("kunpeng-920"), (128, 4, 4, 32, 1));
        assert_eq!(shape("hybrid-laptop"), (20, 1, 1, 8, 2));
        assert_eq!(shape("cloud-2cpu"), (2, 1, 1, 1, 2));
        assert_eq!(shape("nodes=4,llcs=6,cores=16,smt=1"), (384, 4, 24, 24, 1));
    }

    #[test]
    fn an_impossible_topology_is_refused_with_the_reason() {
        let cases = [
            ("nodes=0,cores=1", "1 to 1024"),
            ("nodes=1024,cores=1024", "1048576 CPUs"),
            ("cores=4,clusters=5", "clusters"),
            ("foo", "cloud-2cpu"),
            ("cpus=4", "nodes=4"),
            ("nodes=2", "cores=16"),
        ];
        for (text, word) in cases {
            let error = topology(text).unwrap_err();
            assert!(error.contains(word) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
