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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn stat(comm: &[u8], flags: u64) -> Vec<u8> {
        let mut line = b"1 (".to_vec();
        line.extend(comm);
        line.extend(format!(") S 7 0 0 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 9").bytes());
        line.extend(b" 0".repeat(30));
        line
    }

    /// A process with its threads below `root`.
    fn process(root: &Path, pid: i32, comm: &[u8], exe: Option<&str>, threads: &[i32]) {
        let dir = root.join(pid.to_string());
        for tid in [pid].iter().chain(threads) {
            let task = dir.join(format!("task/{tid}"));
            fs::create_dir_all(&task).unwrap();
            fs::write(task.join("stat"), stat(comm, 0)).unwrap();
        }
        fs::write(dir.join("stat"), stat(comm, if exe.is_none() { 0x20_0000 } else { 0 })).unwrap();
        if let Some(exe) = exe {
            symlink(exe, dir.join("exe")).unwrap();
        }
    }

    fn events(root: &Path) -> Vec<ProcessEvent> {
        let mut events = Vec::new();
        scan(root, &mut |e| events.push(*e)).unwrap();
        events
    }

    #[test]
    fn every_thread_and_every_program_is_told_in_order() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 20, b"valkey-server", Some("/usr/bin/valkey-server (deleted)"), &[22, 21]);
        process(root.path(), 3, b"kworker/0:1", None, &[]);
        fs::create_dir_all(root.path().join("sys")).unwrap();
        fs::create_dir_all(root.path().join("-5")).unwrap();
        let thread = |tid, pid, comm: &str, kthread| ProcessEvent::Thread {
            tid: Tid(tid),
            pid: Pid(pid),
            parent: Pid(7),
            comm: Name::new(comm.as_bytes()),
            kthread,
        };
        let valkey = Name::new(b"valkey-server");
        assert_eq!(
            events(root.path()),
            [
                thread(3, 3, "kworker/0:1", true),
                thread(20, 20, "valkey-server", false),
                ProcessEvent::Exec { pid: Pid(20), comm: valkey, exe: valkey },
                thread(21, 20, "valkey-server", false),
                thread(22, 20, "valkey-server", false),
            ]
        );
        assert_eq!(threads(root.path(), Pid(20)), [Tid(20), Tid(21), Tid(22)]);
        assert_eq!(threads(root.path(), Pid(99)), []);
    }

    #[test]
    fn what_vanishes_or_makes_no_sense_is_skipped() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 5, b"lives", Some("/bin/lives"), &[6]);
        fs::create_dir_all(root.path().join("8/task")).unwrap();
        fs::create_dir_all(root.path().join("9")).unwrap();
        fs::write(root.path().join("9/stat"), "9 (half").unwrap();
        fs::write(root.path().join("5/task/6/stat"), "").unwrap();
        assert_eq!(events(root.path()).len(), 2);
        assert!(scan(&root.path().join("none"), &mut |_| ()).is_err());
    }

    #[test]
    fn instances_are_told_with_the_first_pattern_that_matches() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 5, b"redis-server", Some("/bin/redis"), &[]);
        process(root.path(), 6, b"main", Some("/opt/memcached"), &[]);
        process(root.path(), 7, b"redis-server", None, &[]);
        let patterns = ["redis*", "memcached", "*"].map(|p| Pattern::new(p).unwrap());
        assert_eq!(instances(root.path(), &patterns[..2]).unwrap(), [(Pid(5), 0), (Pid(6), 1)]);
    }

    #[test]
    fn this_very_process_is_found_on_the_real_machine() {
        let me = std::process::id() as i32;
        let mut seen = false;
        scan(Path::new("/proc"), &mut |e| seen |= matches!(e, ProcessEvent::Exec { pid, .. } if pid.0 == me)).unwrap();
        assert!(seen);
    }

    proptest! {
        #[test]
        fn hostile_names_come_through_whole(comm in proptest::collection::vec(1u8.., 1..16)) {
            let root = tempfile::tempdir().unwrap();
            process(root.path(), 5, &comm, Some("/bin/x"), &[]);
            let name = Name::new(&comm);
            let told = events(root.path());
            prop_assert!(
                matches!(told[1], ProcessEvent::Exec { pid: Pid(5), comm, .. } if comm == name),
                "{:?}", told
            );
        }
    }
}
