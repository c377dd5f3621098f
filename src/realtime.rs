//! The threads of the dispatch process beside the dispatch thread are real-time ones: they must not depend on it.
//!
//! They sleep in one system call each (the warden, and one that the shim's crate starts for Ctrl-C), but they share the open
//! files. When the process is killed, the kernel detaches the scheduler once the last of its threads is gone; as sched_ext
//! tasks they would wait for the dispatch thread that is dead already, and the whole machine with them, until the watchdog
//! acts (measured: 4 to 5 s).

use soft_domain::host::sched_policy;
use soft_domain::ids::Tid;
use std::fs;
use std::io;

/// The lowest real-time priority is above every sched_ext task.
const PRIORITY: i32 = 1;

/// Makes all threads of this process real-time ones, but `scheduler` and the caller, who is about to end. Reads `/proc`: never
/// to be called by the dispatch thread. Errors: no right to do so (CAP_SYS_NICE; a cgroup without real-time budget).
pub fn all_but(scheduler: Tid) -> io::Result<()> {
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    for entry in fs::read_dir("/proc/self/task")? {
        let tid = entry?.file_name().to_string_lossy().parse().map_err(io::Error::other)?;
        let other = tid != own && tid != scheduler.0;
        if other && !sched_policy::set(Tid(tid), libc::SCHED_FIFO, PRIORITY) {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
