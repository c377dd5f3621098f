//! Reads the text that hwloc's `lstopo` prints: objects, indented below what holds them.

use soft_domain::cpumask::CpuMask;
use soft_domain::ids::CpuId;

/// An object of the text.
#[derive(Debug)]
pub struct Object {
    /// `Package`, `NUMANode`, `L3Cache`, `Group(Cluster)`, `Core`, `PU`, ...
    pub kind: String,
    /// Its operating-system number (`P#`), where it has one.
    pub number: Option<u32>,
    /// The CPUs below it; a NUMA node has those of what it hangs on.
    pub cpus: CpuMask,
}

/// Every object in the order of the text.
pub fn parse(text: &str) -> Vec<Object> {
    let mut objects: Vec<Object> = Vec::new();
    let mut open: Vec<(usize, usize)> = Vec::new(); // indentation, index
    let mut hangs_on: Vec<(usize, usize)> = Vec::new(); // node, what it hangs on
    for line in text.lines().take_while(|l| !l.starts_with("depth ")) {
        let indent = line.len() - line.trim_start().len();
        open.retain(|(i, _)| *i < indent);
        let kind = line.split_whitespace().next().unwrap_or_default().to_string();
        let number = line.split_once("(P#").map(|(_, rest)| rest.split([' ', ')']).next().unwrap_or_default());
        let number = number.and_then(|n| n.parse().ok());
        let index = objects.len();
        if kind == "NUMANode" {
            hangs_on.extend(open.last().map(|(_, holder)| (index, *holder)));
        }
        if kind == "PU" {
            let cpu = CpuId(number.and_then(|n| u16::try_from(n).ok()).expect("a PU has a number"));
            open.iter().for_each(|(_, holder)| objects[*holder].cpus.set(cpu));
            objects.push(Object { kind, number, cpus: CpuMask::of(cpu) });
        } else {
            objects.push(Object { kind, number, cpus: CpuMask::EMPTY });
        }
        open.push((indent, index));
    }
    for (node, holder) in hangs_on {
        objects[node].cpus = objects[holder].cpus;
    }
    objects
}

/// The CPU sets of one kind, in the order of their lowest CPU, as text.
pub fn sets(objects: &[Object], kind: &str) -> Vec<String> {
    let mut sets: Vec<CpuMask> = objects.iter().filter(|o| o.kind == kind).map(|o| o.cpus).collect();
    sets.sort_by_key(CpuMask::first);
    sets.iter().map(CpuMask::to_string).collect()
}
