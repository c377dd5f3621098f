//! Who is there: the processes and threads in `/proc`, as the events that would have told about them.
//!
//! For the start, before the attach. Processes come and go meanwhile: whatever vanishes is skipped. Names are chosen
//! by users and may hold any byte.

use crate::event::{Name, ProcessEvent};
use crate::host::procstat::Stat;
use crate::ids::{Pid, Tid};
use crate::service::Pattern;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Tells `f` of every thread below `root` (normally `/proc`): for each process `Thread` of its first thread, `Exec`
/// (but for kernel threads), then `Thread` of the others. Processes come in the order of their ids. Errs only when
/// `root` itself cannot be listed.
pub fn scan(root: &Path, f: &mut dyn FnMut(&ProcessEvent)) -> io::Result<()> {
    for pid in numbers(root)? {
        let dir = root.join(pid.to_string());
        let Some(stat) = Stat::read(&dir.join("stat")) else { continue };
        let (pid, parent) = (Pid(pid), Pid(stat.parent));
        f(&ProcessEvent::Thread { tid: Tid(pid.0), pid, parent, comm: stat.comm, kthread: stat.kthread });
        if !stat.kthread {
            f(&ProcessEvent::Exec { pid, comm: stat.comm, exe: executable(&dir) });
        }
        for tid in numbers(&dir.join("task")).unwrap_or_default() {
            if tid == pid.0 {
                continue;
            }
            let Some(stat) = Stat::read(&dir.join(format!("task/{tid}/stat"))) else { continue };
            f(&ProcessEvent::Thread { tid: Tid(tid), pid, parent, comm: stat.comm, kthread: stat.kthread });
        }
    }
    Ok(())
}

/// The processes that are instances now, each with the number of the first pattern that it matches.
pub fn instances(root: &Path, services: &[Pattern]) -> io::Result<Vec<(Pid, usize)>> {
    let mut found = Vec::new();
    scan(root, &mut |e| {
        if let ProcessEvent::Exec { pid, comm, exe } = e
            && let Some(service) = services.iter().position(|p| p.matches(comm, exe))
        {
            found.push((*pid, service));
        }
    })?;
    Ok(found)
}

/// The threads of a process; none if it has gone.
pub fn threads(root: &Path, pid: Pid) -> Vec<Tid> {
    numbers(&root.join(format!("{pid}/task"))).unwrap_or_default().into_iter().map(Tid).collect()
}

/// The folders of `dir` that are called by a positive number, in order.
pub fn numbers(dir: &Path) -> io::Result<Vec<i32>> {
    let mut numbers: Vec<i32> = std::fs::read_dir(dir)?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|n| *n > 0)
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Base name of the executable; empty where it cannot be told.
fn executable(dir: &Path) -> Name {
    let Ok(path) = std::fs::read_link(dir.join("exe")) else { return Name::default() };
    let base = path.file_name().map_or(&[][..], OsStr::as_bytes);
    // The kernel's mark of a program file that was replaced while it runs.
    Name::new(base.strip_suffix(b" (deleted)").unwrap_or(base))
}
