//! Reads the topology of a machine from its sysfs, or from a captured copy of one.
//!
//! Firmware, hypervisors and old kernels describe machines oddly: files are missing, ids repeat, lists contradict
//! each other. This reader always arrives at one believable topology and says what it assumed; it gives up only if
//! there is no CPU folder at all. What it believes, in this order:
//! - **online**: `cpu/online`, less the CPUs whose own `online` file says 0;
//! - **core**: the sibling lists, unless the siblings have core ids of their own (AMD's compute units);
//! - **LLC**: the sharing list of the highest data or unified cache. Never a cache's `id`, which repeats in guests,
//!   and never a private L2 below no L3, which would make every core an island. Where that leaves a CPU without an
//!   LLC, its package is one, or its node;
//! - **cluster**: the cluster list, else the CPUs that share the cache below the LLC;
//! - **node**: the lowest node whose list has the CPU.
//!
//! [`Topology::new`] then makes the levels nest.

mod capacity;
mod copy;
mod files;
mod groups;
mod nodes;

pub use copy::{SaveError, save_topology};

use crate::cpumask::CpuMask;
use crate::host::sysfs::files::Files;
use crate::ids::{CpuId, MAX_CPUS};
use crate::topology::{RawCpu, Topology};
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// Why there is no topology. The text names the path, what was tried and what to do.
#[derive(Debug)]
pub enum SysfsError {
    /// The root has neither `devices/system/cpu` nor `sys/devices/system/cpu`.
    NoCpuFolder {
        /// The root that was given.
        root: PathBuf,
    },
    /// The CPU folder cannot be listed.
    Unlistable {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
    /// The CPU folder has no online CPU that we can address.
    NoOnlineCpu {
        /// The folder.
        path: PathBuf,
    },
}

impl fmt::Display for SysfsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SysfsError::NoCpuFolder { root } => {
                let root = root.display();
                write!(
                    f,
                    "cannot read the topology: there is neither {root}/devices/system/cpu nor \
                     {root}/sys/devices/system/cpu; mount sysfs (mount -t sysfs sysfs /sys) or name the folder of a \
                     captured sysfs"
                )
            }
            SysfsError::Unlistable { path, cause } => write!(
                f,
                "cannot read the topology: listing {} failed ({cause}); check that this user may read it",
                path.display()
            ),
            SysfsError::NoOnlineCpu { path } => write!(
                f,
                "cannot read the topology: {} has no folder cpu0 to cpu{} of an online CPU; check {}/online, or that \
                 the captured sysfs is complete",
                path.display(),
                MAX_CPUS - 1,
                path.display()
            ),
        }
    }
}

impl std::error::Error for SysfsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SysfsError::Unlistable { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

/// Reads the topology below `root`: normally `/sys`, or a folder that holds `devices/system` or
/// `sys/devices/system` of another machine. For the host process, before the attach and at hotplug.
pub fn read_topology(root: &Path) -> Result<Topology, SysfsError> {
    read(&devices(root)?, &mut Files::default())
}

/// Where below `root` the devices are.
fn devices(root: &Path) -> Result<PathBuf, SysfsError> {
    let devices = [root.join("devices"), root.join("sys/devices")].into_iter().find(|d| d.join("system/cpu").is_dir());
    devices.ok_or_else(|| SysfsError::NoCpuFolder { root: root.to_path_buf() })
}

fn read(devices: &Path, files: &mut Files) -> Result<Topology, SysfsError> {
    let cpu_dir = devices.join("system/cpu");
    let node_dir = devices.join("system/node");
    let mut notes = Vec::new();

    let online = online(&cpu_dir, files, &mut notes)?;
    let nodes = nodes::read(&node_dir, &online, files, &mut notes);
    let groups = groups::read(&cpu_dir, &online, &nodes, files, &mut notes);
    let capacities = capacity::read(devices, &online, files, &mut notes);
    files.tell(&mut notes);

    let at = |table: &[u32], cpu: CpuId| table.get(cpu.index()).copied().unwrap_or_default();
    let raw: Vec<RawCpu> = online
        .iter()
        .map(|cpu| RawCpu {
            id: u32::from(cpu.0),
            core: at(&groups.core, cpu),
            cluster: groups.cluster.get(cpu.index()).copied().flatten(),
            llc: at(&groups.llc, cpu),
            node: at(&nodes, cpu),
            capacity: capacities[cpu.index()],
        })
        .collect();
    Topology::new(&raw, notes).map_err(|_| SysfsError::NoOnlineCpu { path: cpu_dir })
}

/// The CPUs that are online and have numbers that we can address.
fn online(cpu_dir: &Path, files: &mut Files, notes: &mut Vec<String>) -> Result<CpuMask, SysfsError> {
    let numbers = files.numbered(cpu_dir, "cpu");
    let numbers = numbers.map_err(|cause| SysfsError::Unlistable { path: cpu_dir.to_path_buf(), cause })?;
    let (mut folders, mut beyond) = (CpuMask::EMPTY, 0);
    for number in numbers {
        match u16::try_from(number) {
            Ok(n) if usize::from(n) < MAX_CPUS => folders.set(CpuId(n)),
            _ => beyond += 1,
        }
    }
    if beyond > 0 {
        notes.push(format!("{beyond} CPUs with numbers from {MAX_CPUS} up are ignored: they cannot be addressed."));
    }

    let listed = files.list(&cpu_dir.join("online")).filter(|l| !l.is_empty());
    let mut online = match listed {
        Some(list) => list.and(&folders),
        None => {
            notes.push(
                "There is no list of online CPUs: every CPU folder counts that does not say offline.".to_string(),
            );
            folders
        }
    };
    for cpu in online.iter().collect::<Vec<_>>() {
        if files.number(&cpu_dir.join(format!("cpu{cpu}/online"))) == Some(0) {
            online.clear(cpu);
        }
    }
    if let Some(lost) = listed.map(|l| l.minus(&folders)).filter(|l| !l.is_empty()) {
        notes.push(format!("CPUs {lost} are listed as online but have no folder: left out."));
    }
    let off = folders.minus(&online);
    if online.is_empty() {
        return Err(SysfsError::NoOnlineCpu { path: cpu_dir.to_path_buf() });
    }
    if !off.is_empty() {
        notes.push(format!("CPUs {off} are offline and left out."));
    }
    Ok(online)
}
