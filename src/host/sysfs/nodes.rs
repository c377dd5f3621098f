//! Which NUMA node a CPU is in.

use super::files::Files;
use crate::cpumask::CpuMask;
use crate::ids::CpuId;
use std::path::Path;

/// The kernel's node number of every CPU, indexed by CPU number; meaningful for online CPUs only.
pub(super) fn read(node_dir: &Path, online: &CpuMask, files: &mut Files, notes: &mut Vec<String>) -> Vec<u32> {
    let mut node_of: Vec<Option<u32>> = vec![None; crate::ids::MAX_CPUS];
    let numbers = files.numbered(node_dir, "node").unwrap_or_default();
    let (mut without_cpus, mut twice) = (Vec::new(), CpuMask::EMPTY);
    for node in &numbers {
        let dir = node_dir.join(format!("node{node}"));
        let cpus = files.list(&dir.join("cpulist")).or_else(|| files.map(&dir.join("cpumap"))).unwrap_or_default();
        let cpus = cpus.and(online);
        if cpus.is_empty() {
            without_cpus.push(*node);
        }
        for cpu in cpus.iter() {
            match node_of[cpu.index()] {
                Some(_) => twice.set(cpu),
                None => node_of[cpu.index()] = Some(*node),
            }
        }
    }

    if !twice.is_empty() {
        notes.push(format!("CPUs {twice} are listed by several NUMA nodes: the lowest node counts."));
    }
    match without_cpus.as_slice() {
        _ if without_cpus.len() == numbers.len() => (),
        [] => (),
        [one] => notes.push(format!("NUMA node {one} has no online CPUs: ignored.")),
        [first, .., last] => {
            let n = without_cpus.len();
            notes.push(format!("{n} NUMA nodes between {first} and {last} have no online CPUs: ignored."));
        }
    }
    let homeless: CpuMask = online.iter().filter(|c| node_of[c.index()].is_none()).collect();
    let first = node_of.iter().flatten().min().copied();
    if first.is_none() {
        let why = if numbers.is_empty() { "There is no NUMA node folder" } else { "No NUMA node lists an online CPU" };
        notes.push(format!("{why}: one node with every CPU."));
    } else if !homeless.is_empty() {
        let node = first.unwrap_or_default();
        notes.push(format!("CPUs {homeless} are in no NUMA node: taken as in node {node}."));
    }
    (0..node_of.len())
        .map(|i| node_of[i].filter(|_| online.has(CpuId(i as u16))).or(first).unwrap_or_default())
        .collect()
}
