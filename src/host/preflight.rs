//! What must hold before the scheduler may attach. Each check that fails says what is wrong and what to do.

use crate::host::exit::{Exit, Failure};
use crate::host::sysfs::read_topology;
use crate::topology::Topology;
use rustix::thread::CapabilitySet;
use std::path::Path;

/// `PROC_PID_INIT_INO` of the kernel's include/linux/proc_ns.h: the initial pid namespace.
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// The capabilities that it takes, and what for.
const CAPABILITIES: [(CapabilitySet, &str, &str); 5] = [
    (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN", "attach a scheduler"),
    (CapabilitySet::SYS_NICE, "CAP_SYS_NICE", "set scheduling classes"),
    (CapabilitySet::SYS_RESOURCE, "CAP_SYS_RESOURCE", "lift the limit of locked memory"),
    (CapabilitySet::IPC_LOCK, "CAP_IPC_LOCK", "lock its memory"),
    (CapabilitySet::SYS_PTRACE, "CAP_SYS_PTRACE", "read the names of programs"),
];

/// Where the machine is; elsewhere in tests.
#[derive(Clone, Copy, Debug)]
pub struct Roots<'a> {
    /// `/proc`.
    pub proc: &'a Path,
    /// `/sys`.
    pub sys: &'a Path,
}

impl Default for Roots<'_> {
    fn default() -> Self {
        Roots { proc: Path::new("/proc"), sys: Path::new("/sys") }
    }
}

/// One check: what it is about, and what came of it.
#[derive(Clone, Debug)]
pub struct Check {
    /// What was looked at.
    pub about: &'static str,
    /// What was found.
    pub result: Result<String, Failure>,
}

/// All checks, in the order in which their failures count. `shim_topology` is the second reader of the topology,
/// the one in the scx crates, which the scheduler cannot attach without.
pub fn checks(roots: Roots<'_>, shim_topology: &dyn Fn() -> Result<(), String>) -> Vec<Check> {
    vec![
        Check { about: "sched_ext", result: sched_ext(roots.sys) },
        Check { about: "BTF", result: btf(roots.sys) },
        Check { about: "permission", result: permission() },
        Check { about: "pid namespace", result: pid_namespace(roots.proc) },
        Check { about: "topology", result: topology(roots.sys).map(|t| t.summary()) },
        Check { about: "topology, as the scx crates read it", result: scx_topology(shim_topology) },
        Check { about: "other scheduler", result: no_other(roots.sys) },
    ]
}

/// The first failure, if any.
pub fn first_failure(checks: &[Check]) -> Option<&Failure> {
    checks.iter().find_map(|c| c.result.as_ref().err())
}

/// The name of the attached scheduler, as the kernel tells it.
pub fn attached(sys: &Path) -> Option<String> {
    let read = |name: &str| std::fs::read_to_string(sys.join("kernel/sched_ext").join(name)).ok();
    let state = read("state")?;
    if state.trim() == "disabled" {
        return None;
    }
    let name = read("root/ops").map(|n| n.trim().escape_default().to_string()).filter(|n| !n.is_empty());
    Some(name.unwrap_or_else(|| format!("a scheduler without a name, state {}", state.trim().escape_default())))
}

/// The topology, or what is wrong with it.
pub fn topology(sys: &Path) -> Result<Topology, Failure> {
    read_topology(sys).map_err(|e| Failure::new(Exit::Unfit, e.to_string()))
}

fn permission() -> Result<String, Failure> {
    let user = rustix::process::geteuid();
    let failure = |text| Err(Failure::new(Exit::Permission, text));
    if !user.is_root() {
        return failure(format!(
            "not root: attaching a scheduler takes root, and this is user {}; run it with sudo",
            user.as_raw()
        ));
    }
    let have = rustix::thread::capabilities(None).map_or(CapabilitySet::all(), |c| c.effective);
    let lockable = rustix::process::getrlimit(rustix::process::Resource::Memlock).maximum.is_none();
    for (capability, name, what) in CAPABILITIES {
        let about_memory = capability == CapabilitySet::SYS_RESOURCE || capability == CapabilitySet::IPC_LOCK;
        let spared = lockable && about_memory;
        if !spared && !have.contains(capability) {
            return failure(format!(
                "root without {name}, which it takes to {what}; run it outside the container, or grant {name}"
            ));
        }
    }
    Ok("root, with the capabilities that it takes".into())
}

fn sched_ext(sys: &Path) -> Result<String, Failure> {
    let dir = sys.join("kernel/sched_ext");
    if dir.is_dir() {
        return Ok(format!("kernel {}", kernel_release()));
    }
    Err(Failure::new(
        Exit::Unfit,
        format!(
            "this kernel ({}) has no sched_ext: there is no {}; boot one of version 6.12 or later that was built with \
             CONFIG_SCHED_CLASS_EXT=y",
            kernel_release(),
            dir.display()
        ),
    ))
}

fn btf(sys: &Path) -> Result<String, Failure> {
    let file = sys.join("kernel/btf/vmlinux");
    match std::fs::File::open(&file) {
        Ok(_) => Ok(format!("{}", file.display())),
        Err(e) => Err(Failure::new(
            Exit::Unfit,
            format!(
                "this kernel's type information (BTF) cannot be read: {}: {e}; boot a kernel built with \
                 CONFIG_DEBUG_INFO_BTF=y",
                file.display()
            ),
        )),
    }
}

fn pid_namespace(proc: &Path) -> Result<String, Failure> {
    let file = proc.join("self/ns/pid");
    let inode = match rustix::fs::stat(&file) {
        Ok(stat) => stat.st_ino,
        Err(e) => {
            return Err(Failure::new(
                Exit::Unfit,
                format!(
                    "cannot tell the pid namespace: {}: {e}; mount /proc (mount -t proc proc /proc)",
                    file.display()
                ),
            ));
        }
    };
    if inode == INITIAL_PID_NAMESPACE {
        return Ok("the initial one".into());
    }
    Err(Failure::new(
        Exit::Unfit,
        "not in the initial pid namespace: the kernel's process ids would mean other processes here; start it outside \
         the container (docker run --pid=host)",
    ))
}

fn scx_topology(read: &dyn Fn() -> Result<(), String>) -> Result<String, Failure> {
    read().map(|()| "readable".into()).map_err(|why| {
        Failure::new(
            Exit::Unfit,
            format!(
                "the scx crates cannot read this machine's topology ({why}), and the scheduler cannot attach without; \
                 compare the files that it names below /sys/devices/system with 'scx_soft_domain check'"
            ),
        )
    })
}

fn no_other(sys: &Path) -> Result<String, Failure> {
    match attached(sys) {
        None => Ok("none attached".into()),
        Some(name) => Err(Failure::new(
            Exit::Occupied,
            format!("another sched_ext scheduler is attached: {name}; stop it first, the kernel takes one at a time"),
        )),
    }
}

/// The running kernel's release.
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn sys(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn an_attached_scheduler_is_named() {
        let name = |files: &[(&str, &str)]| attached(sys(files).path());
        let (state, ops) = ("kernel/sched_ext/state", "kernel/sched_ext/root/ops");
        assert_eq!(name(&[]), None);
        assert_eq!(name(&[(state, "disabled\n")]), None);
        assert_eq!(name(&[(state, "enabled\n"), (ops, "rusty_1.1.4\n")]).unwrap(), "rusty_1.1.4");
        assert_eq!(name(&[(state, "enabled\n"), (ops, "a\x1b[31m\n")]).unwrap(), "a\\u{1b}[31m");
        assert!(name(&[(state, "disabling\n")]).unwrap().contains("disabling"));
    }

    #[test]
    fn every_missing_thing_has_its_cause_remedy_and_code() {
        let empty = sys(&[]);
        for failure in [sched_ext(empty.path()), btf(empty.path())].map(Result::unwrap_err) {
            assert_eq!(failure.exit, Exit::Unfit);
            assert!(failure.text.contains(&*empty.path().to_string_lossy()), "{failure}");
            assert!(failure.text.contains("boot"), "{failure}");
            assert!(!failure.text.contains('\n'), "{failure}");
        }
        assert!(topology(empty.path()).unwrap_err().text.contains("topology"));
        assert!(scx_topology(&|| Err("panicked".into())).unwrap_err().text.contains("(panicked)"));
        assert_eq!(pid_namespace(empty.path()).unwrap_err().exit, Exit::Unfit);
    }

    #[test]
    fn the_initial_pid_namespace_is_told_from_others() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("self/ns")).unwrap();
        fs::write(dir.path().join("self/ns/pid"), "").unwrap();
        assert!(pid_namespace(dir.path()).unwrap_err().text.contains("--pid=host"));
    }
}
