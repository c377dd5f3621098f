//! How big each core is, relative to the biggest online.

use super::files::Files;
use crate::cpumask::CpuMask;
use crate::ids::{CpuId, MAX_CPUS};
use crate::topology::FULL_CAPACITY;
use std::collections::BTreeMap;
use std::path::Path;

/// Cores whose highest frequencies differ by less than this are one kind: favoured cores of one kind boost a few
/// per cent higher (5.2 against 5.0 GHz on an i7-1370P). A guess that fits the machines at hand.
const SAME_KIND_PERCENT: i64 = 10;

/// What an E-core is taken as where Intel's core types are known and nothing else: CPPC of an i7-1370P says
/// 39/64 of a P-core. A guess awaiting a second machine.
const E_CORE_GUESS: u16 = 640;

/// Cores that are alike.
struct Kind {
    cpus: CpuMask,
    /// The highest frequency of any, kHz.
    frequency: i64,
    /// The highest value of CPPC's scale of any, if every CPU of the kind has one.
    cppc: Option<i64>,
}

/// The capacity of every CPU, indexed by CPU number; [`FULL_CAPACITY`] for CPUs that are not online.
pub(super) fn read(devices: &Path, online: &CpuMask, files: &mut Files, notes: &mut Vec<String>) -> Vec<u16> {
    let cpu_dir = devices.join("system/cpu");
    let mut per_cpu = |name: &str| -> BTreeMap<CpuId, i64> {
        let read = |cpu: CpuId| Some((cpu, files.number(&cpu_dir.join(format!("cpu{cpu}/{name}")))?));
        online.iter().filter_map(read).filter(|(_, value)| *value > 0).collect()
    };
    let stated = per_cpu("cpu_capacity");
    if stated.len() == online.count() {
        return scaled(stated.iter().map(|(cpu, value)| (CpuMask::of(*cpu), *value)));
    }
    let kinds = kinds(&per_cpu("cpufreq/cpuinfo_max_freq"), &per_cpu("acpi_cppc/highest_perf"), online);
    let e_cores = files.list(&devices.join("cpu_atom/cpus")).unwrap_or_default().and(online);
    let p_cores = online.minus(&e_cores);

    if kinds.len() <= 1 {
        if e_cores.is_empty() || p_cores.is_empty() {
            return scaled(std::iter::empty());
        }
        notes.push(format!(
            "CPUs {e_cores} are E-cores of unknown capacity: taken as {E_CORE_GUESS} of {FULL_CAPACITY}."
        ));
        return scaled([(e_cores, i64::from(E_CORE_GUESS)), (p_cores, i64::from(FULL_CAPACITY))].into_iter());
    }

    // Frequency finds the kinds; CPPC, where it orders them alike, knows better how far they are apart. Alone it
    // would divide AMD's machines, where it ranks cores of one kind.
    let all_have_cppc = kinds.iter().all(|k| k.cppc.is_some());
    let capacities = if all_have_cppc && kinds.windows(2).all(|k| k[0].cppc < k[1].cppc) {
        notes.push("The kernel states no core sizes: CPPC's highest performance is taken.".to_string());
        scaled(kinds.iter().filter_map(|k| Some((k.cpus, k.cppc?))))
    } else {
        let but = if all_have_cppc { ", though CPPC orders the cores otherwise" } else { "" };
        notes.push(format!("The kernel states no core sizes: the highest frequencies are taken{but}."));
        scaled(kinds.iter().map(|k| (k.cpus, k.frequency)))
    };
    let smallest_p = p_cores.iter().map(|c| capacities[c.index()]).min();
    if smallest_p.is_some_and(|p| e_cores.iter().any(|c| capacities[c.index()] >= p)) {
        notes.push(format!("CPUs {e_cores} are called E-cores but do not look smaller than all others."));
    }
    capacities
}

/// The kinds of cores by frequency, slowest first.
fn kinds(frequency: &BTreeMap<CpuId, i64>, cppc: &BTreeMap<CpuId, i64>, online: &CpuMask) -> Vec<Kind> {
    // A CPU without cpufreq beside others that have it (the 2-CPU Arm board) is taken as one of the fastest.
    let fastest = frequency.values().max().copied().unwrap_or_default();
    let mut cpus: Vec<(i64, CpuId)> =
        online.iter().map(|c| (frequency.get(&c).copied().unwrap_or(fastest), c)).collect();
    cpus.sort_unstable();
    let mut kinds: Vec<Kind> = Vec::new(); // fastest first
    for (frequency, cpu) in cpus.into_iter().rev() {
        let near = |top: i64| i128::from(frequency) * 100 > i128::from(top) * i128::from(100 - SAME_KIND_PERCENT);
        match kinds.last_mut() {
            Some(kind) if near(kind.frequency) || frequency == kind.frequency => kind.cpus.set(cpu),
            _ => kinds.push(Kind { cpus: CpuMask::of(cpu), frequency, cppc: None }),
        }
    }
    for kind in &mut kinds {
        let values: Option<Vec<i64>> = kind.cpus.iter().map(|c| cppc.get(&c).copied()).collect();
        kind.cppc = values.and_then(|v| v.into_iter().max());
    }
    kinds.reverse();
    kinds
}

/// A table of capacities from groups of CPUs with any positive scale: the biggest gets [`FULL_CAPACITY`], none 0.
fn scaled(groups: impl Iterator<Item = (CpuMask, i64)> + Clone) -> Vec<u16> {
    let full = i128::from(FULL_CAPACITY);
    let biggest = groups.clone().map(|(_, value)| i128::from(value)).max().unwrap_or(1).max(1);
    let mut table = vec![FULL_CAPACITY; MAX_CPUS];
    for (cpus, value) in groups {
        let capacity = (i128::from(value) * full / biggest).clamp(1, full);
        for cpu in cpus.iter() {
            table[cpu.index()] = u16::try_from(capacity).unwrap_or(FULL_CAPACITY);
        }
    }
    table
}
