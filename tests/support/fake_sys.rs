//! Made-up sysfs trees in a temporary folder.

use soft_domain::cpumask::CpuMask;
use soft_domain::host::sysfs::{SysfsError, read_topology};
use soft_domain::topology::Topology;
use std::fs;
use std::path::{Path, PathBuf};

/// A folder that looks like `/sys`; removed when dropped.
pub struct FakeSys {
    dir: tempfile::TempDir,
}

impl FakeSys {
    /// Nothing but the CPU folder.
    pub fn empty() -> Self {
        let dir = super::temporary_folder();
        fs::create_dir_all(dir.path().join("devices/system/cpu")).expect("the CPU folder");
        FakeSys { dir }
    }

    /// What a new kernel shows of the machine `t`, with a private L2, and an `id` of 0 in every cache, as in guests.
    pub fn of(t: &Topology) -> Self {
        let sys = Self::empty();
        sys.cpu("online", &t.cpus().to_string());
        sys.cpu("possible", "0-8191");
        for i in t.cpus().iter().filter_map(|c| t.cpu(c)) {
            let core = t.core_cpus(i.core);
            sys.cpu(&format!("cpu{}/online", i.id), "1");
            sys.topology(i.id.0, "core_id", &i.core.to_string());
            sys.topology(i.id.0, "core_cpus_list", &core.to_string());
            sys.topology(i.id.0, "thread_siblings_list", &core.to_string());
            sys.topology(i.id.0, "package_cpus_list", &t.node_cpus(i.node).to_string());
            sys.topology(i.id.0, "cluster_cpus_list", &t.cluster_cpus(i.cluster).to_string());
            sys.cpu(&format!("cpu{}/cpu_capacity", i.id), &i.capacity.to_string());
            sys.cache(i.id.0, 0, 1, "Data", core);
            sys.cache(i.id.0, 1, 1, "Instruction", core);
            sys.cache(i.id.0, 2, 2, "Unified", core);
            sys.cache(i.id.0, 3, 3, "Unified", t.llc_cpus(i.llc));
        }
        for n in t.nodes() {
            sys.node(t.kernel_node(n).expect("a node"), &t.node_cpus(n).to_string());
        }
        sys
    }

    /// The folder to give as root.
    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    /// Reads it as the scheduler does.
    pub fn read(&self) -> Result<Topology, SysfsError> {
        read_topology(self.root())
    }

    /// Writes a file below `devices`, folders included.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root().join("devices").join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, content).expect("a file");
    }

    /// Writes a file below the CPU folder.
    pub fn cpu(&self, path: &str, text: &str) {
        self.write(&format!("system/cpu/{path}"), format!("{text}\n"));
    }

    /// Writes a file of a CPU's topology folder.
    pub fn topology(&self, cpu: u16, file: &str, text: &str) {
        self.cpu(&format!("cpu{cpu}/topology/{file}"), text);
    }

    /// Describes a cache of a CPU.
    pub fn cache(&self, cpu: u16, index: u32, level: u32, kind: &str, shared: &CpuMask) {
        let dir = format!("cpu{cpu}/cache/index{index}");
        self.cpu(&format!("{dir}/level"), &level.to_string());
        self.cpu(&format!("{dir}/type"), kind);
        self.cpu(&format!("{dir}/id"), "0");
        self.cpu(&format!("{dir}/shared_cpu_list"), &shared.to_string());
    }

    /// Describes a NUMA node.
    pub fn node(&self, node: u32, list: &str) {
        self.write(&format!("system/node/node{node}/cpulist"), format!("{list}\n"));
    }

    /// Removes a file or a folder below `devices`.
    pub fn remove(&self, path: &str) {
        let path = self.root().join("devices").join(path);
        if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }

    /// Every file, in a fixed order.
    pub fn files(&self) -> Vec<PathBuf> {
        fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(dir).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() { walk(&path, found) } else { found.push(path) }
            }
        }
        let mut found = Vec::new();
        walk(self.root(), &mut found);
        found.sort();
        found
    }
}
