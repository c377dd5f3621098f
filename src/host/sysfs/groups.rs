//! Cores, clusters and LLCs: which CPUs say that they share one.

use super::files::{Files, Stem};
use crate::cpumask::CpuMask;
use crate::ids::{CpuId, MAX_CPUS};
use std::collections::BTreeSet;
use std::path::Path;

/// Keys of the groups of each CPU, indexed by CPU number: the number of a CPU of the group, the lowest as a rule.
pub(super) struct Groups {
    pub core: Vec<u32>,
    pub cluster: Vec<Option<u32>>,
    pub llc: Vec<u32>,
}

/// A cache of the CPU whose folder describes it.
#[derive(Clone, Copy)]
struct Cache {
    level: i64,
    cpus: CpuMask,
}

/// Reads all three kinds; `nodes` are the CPUs' node numbers.
pub(super) fn read(
    cpu_dir: &Path,
    online: &CpuMask,
    nodes: &[u32],
    files: &mut Files,
    notes: &mut Vec<String>,
) -> Groups {
    let cpus: Vec<CpuId> = online.iter().collect();
    let core = cores(cpu_dir, online, files, notes);
    let caches: Vec<(CpuId, Vec<Cache>)> = cpus.iter().map(|c| (*c, caches(cpu_dir, *c, online, files))).collect();
    let llcs = llcs(&caches, &core, online);
    let llc = complete(cpu_dir, &llcs, &core, nodes, online, files, notes);
    let cluster = clusters(cpu_dir, &caches, &llcs, &core, online, files, notes);
    Groups { core, cluster, llc }
}

fn table<T: Clone>(empty: T) -> Vec<T> {
    vec![empty; MAX_CPUS]
}

fn lowest(mask: &CpuMask, or: CpuId) -> u32 {
    u32::from(mask.first().unwrap_or(or).0)
}

/// How many cores the CPUs of `mask` belong to.
fn nr_cores(mask: &CpuMask, core: &[u32]) -> usize {
    mask.iter().map(|c| core[c.index()]).collect::<BTreeSet<_>>().len()
}

fn cores(cpu_dir: &Path, online: &CpuMask, files: &mut Files, notes: &mut Vec<String>) -> Vec<u32> {
    let names = [Stem::new("core_cpus_list", "core_cpus"), Stem::new("thread_siblings_list", "thread_siblings")];
    let mut masks = table(None);
    let mut ids = table(None);
    for cpu in online.iter() {
        let dir = cpu_dir.join(format!("cpu{cpu}/topology"));
        masks[cpu.index()] = files.sharers(&dir, &names, cpu).map(|m| m.and(online));
        ids[cpu.index()] = files.number(&dir.join("core_id")).filter(|id| *id >= 0);
    }
    let core = agreed(&masks, online, "cores", notes);

    // Siblings with core ids of their own are cores that share something: AMD's compute units.
    let mut split = table(0);
    let mut units = CpuMask::EMPTY;
    for cpu in online.iter() {
        let mates = || online.iter().filter(|c| core[c.index()] == core[cpu.index()]);
        let same_id = |c: &CpuId| ids[c.index()] == ids[cpu.index()];
        if mates().all(|c| ids[c.index()].is_some()) && !mates().all(|c| same_id(&c)) {
            units.set(cpu);
            let own: CpuMask = mates().filter(same_id).collect();
            split[cpu.index()] = lowest(&own, cpu);
        } else {
            split[cpu.index()] = core[cpu.index()];
        }
    }
    if !units.is_empty() {
        notes.push(format!("CPUs {units} are called SMT siblings but have core ids of their own: taken as cores."));
    }
    split
}

/// A key for each CPU from what each says about its group, which is all that its members need to agree on.
fn agreed(masks: &[Option<CpuMask>], online: &CpuMask, what: &str, notes: &mut Vec<String>) -> Vec<u32> {
    let mut keys = table(0);
    let mut formed = table(CpuMask::EMPTY);
    for cpu in online.iter() {
        let key = masks[cpu.index()].map_or(u32::from(cpu.0), |m| lowest(&m, cpu));
        keys[cpu.index()] = key;
        formed[key as usize].set(cpu);
    }
    let odd: CpuMask =
        online.iter().filter(|c| masks[c.index()].is_some_and(|m| m != formed[keys[c.index()] as usize])).collect();
    if !odd.is_empty() {
        notes.push(format!(
            "The {what} of CPUs {odd} contradict each other: CPUs that name the same lowest CPU go together."
        ));
    }
    keys
}

/// The data and unified caches of a CPU.
fn caches(cpu_dir: &Path, cpu: CpuId, online: &CpuMask, files: &mut Files) -> Vec<Cache> {
    let dir = cpu_dir.join(format!("cpu{cpu}/cache"));
    let indices = files.numbered(&dir, "index").unwrap_or_default();
    let mut found = Vec::new();
    for index in indices {
        let dir = dir.join(format!("index{index}"));
        if files.text(&dir.join("type")).is_some_and(|t| t == "Instruction") {
            continue;
        }
        let Some(level) = files.number(&dir.join("level")) else { continue };
        if let Some(cpus) = files.sharers(&dir, &[Stem::new("shared_cpu_list", "shared_cpu_map")], cpu) {
            found.push(Cache { level, cpus: cpus.and(online) });
        }
    }
    found
}

/// The LLC of each CPU, where one is known: the highest cache that any CPU says it is under. The E-cores of some
/// laptops are outside the L3 and share an L2; that is their LLC.
fn llcs(caches: &[(CpuId, Vec<Cache>)], core: &[u32], online: &CpuMask) -> Vec<Option<Cache>> {
    let mut best: Vec<Option<Cache>> = table(None);
    let shared = |c: &Cache| c.level >= 3 || (c.level == 2 && nr_cores(&c.cpus, core) > 1);
    let highest = |list: &[Cache]| list.iter().filter(|c| shared(c)).max_by_key(|c| c.level).copied();
    for (cpu, list) in caches {
        best[cpu.index()] = highest(list);
    }
    // A CPU that says less than its mates do (an L3 missing here only) is believed to be under theirs.
    for (_, list) in caches {
        let Some(cache) = highest(list) else { continue };
        for cpu in cache.cpus.and(online).iter() {
            let slot = &mut best[cpu.index()];
            if slot.is_none_or(|own| own.level < cache.level) {
                *slot = Some(cache);
            }
        }
    }
    best
}

/// Keys for every CPU: those of the known LLCs, and a believable stand-in for CPUs without one.
fn complete(
    cpu_dir: &Path,
    llcs: &[Option<Cache>],
    core: &[u32],
    nodes: &[u32],
    online: &CpuMask,
    files: &mut Files,
    notes: &mut Vec<String>,
) -> Vec<u32> {
    let masks: Vec<Option<CpuMask>> = llcs.iter().map(|l| l.map(|c| c.cpus)).collect();
    let mut keys = agreed(&masks, online, "last-level caches", notes);
    let unknown: CpuMask = online.iter().filter(|c| masks[c.index()].is_none()).collect();
    let (mut joined, mut by_package, mut by_node) = (CpuMask::EMPTY, CpuMask::EMPTY, CpuMask::EMPTY);
    for cpu in unknown.iter() {
        let node: CpuMask = online.iter().filter(|c| nodes[c.index()] == nodes[cpu.index()]).collect();
        let package = package(cpu_dir, cpu, online, files).map(|p| p.and(&node));
        // Hypervisors like to give each CPU a package of its own; that says nothing about caches.
        let package = package.filter(|p| nr_cores(p, core) > 1 || *p == node);
        let region = package.unwrap_or(node);
        let others: BTreeSet<u32> = region.minus(&unknown).iter().map(|c| keys[c.index()]).collect();
        keys[cpu.index()] = match (others.first(), others.len()) {
            (Some(only), 1) => {
                joined.set(cpu);
                *only
            }
            _ => {
                if package.is_some() { &mut by_package } else { &mut by_node }.set(cpu);
                lowest(&region.and(&unknown), cpu)
            }
        };
    }
    let mut say = |cpus: CpuMask, taken: &str| {
        if !cpus.is_empty() {
            notes.push(format!("CPUs {cpus} describe no cache that cores share: {taken}."));
        }
    };
    say(joined, "taken as under the only LLC around them");
    say(by_package, "their package is taken as an LLC");
    say(by_node, "their NUMA node is taken as an LLC");
    keys
}

/// The CPUs of the die or package of `cpu`, where sysfs knows.
fn package(cpu_dir: &Path, cpu: CpuId, online: &CpuMask, files: &mut Files) -> Option<CpuMask> {
    let dir = cpu_dir.join(format!("cpu{cpu}/topology"));
    let has_dies = files.number(&dir.join("die_id")).is_some_and(|id| id >= 0);
    let die = if has_dies { files.sharers(&dir, &[Stem::new("die_cpus_list", "die_cpus")], cpu) } else { None };
    let names = [Stem::new("package_cpus_list", "package_cpus"), Stem::new("core_siblings_list", "core_siblings")];
    die.or_else(|| files.sharers(&dir, &names, cpu)).map(|p| p.and(online))
}

/// The clusters as the kernel names them; on kernels that name none, the CPUs that share the cache below the LLC.
fn clusters(
    cpu_dir: &Path,
    caches: &[(CpuId, Vec<Cache>)],
    llcs: &[Option<Cache>],
    core: &[u32],
    online: &CpuMask,
    files: &mut Files,
    notes: &mut Vec<String>,
) -> Vec<Option<u32>> {
    let mut masks = table(None);
    for cpu in online.iter() {
        let dir = cpu_dir.join(format!("cpu{cpu}/topology"));
        masks[cpu.index()] =
            files.sharers(&dir, &[Stem::new("cluster_cpus_list", "cluster_cpus")], cpu).map(|m| m.and(online));
    }
    if masks.iter().all(Option::is_none) {
        let mut real = false;
        for (cpu, list) in caches {
            let Some(llc) = llcs[cpu.index()] else { continue };
            let below = list.iter().filter(|c| (2..llc.level).contains(&c.level)).max_by_key(|c| c.level);
            masks[cpu.index()] = below.map(|c| c.cpus);
            real |= below.is_some_and(|c| nr_cores(&c.cpus, core) > 1 && c.cpus != llc.cpus);
        }
        if real {
            notes.push("The kernel names no clusters: cores that share the cache below the LLC are one.".to_string());
        }
    }
    let keys = agreed(&masks, online, "clusters", notes);
    masks.iter().zip(keys).map(|(mask, key)| mask.map(|_| key)).collect()
}
