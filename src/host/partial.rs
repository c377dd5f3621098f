//! `--partial`: switches the threads of matched processes to SCHED_EXT, and back at the end.

use crate::host::procstat::Stat;
use crate::host::scan;
use crate::host::sched_policy::{SCHED_EXT, get, set};
use crate::ids::{Pid, Tid};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The fair classes; a real-time or deadline thread keeps its own.
const FAIR: [i32; 3] = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE];

/// Whose policy we changed.
#[derive(Debug)]
pub struct Switched {
    proc: PathBuf,
    /// Threads that we switched: when they started (against reused ids) and what they had.
    old: BTreeMap<Tid, (u64, i32)>,
    /// Threads that had SCHED_EXT before us: not ours to change.
    theirs: BTreeMap<Tid, u64>,
}

impl Switched {
    /// Notes who is SCHED_EXT already, below `proc`.
    pub fn new(proc: &Path) -> Self {
        let mut switched = Switched { proc: proc.to_owned(), old: BTreeMap::new(), theirs: BTreeMap::new() };
        switched.each_ext(|s, tid, start| {
            s.theirs.insert(tid, start);
        });
        switched
    }

    /// Switches all threads of a process. Threads and children that they create later inherit the class. Returns how
    /// many were switched.
    pub fn switch(&mut self, pid: Pid) -> usize {
        let mut count = 0;
        // Again until a pass finds nothing: a thread may be created meanwhile by one not switched yet.
        for _ in 0..10 {
            let before = count;
            for tid in scan::threads(&self.proc, pid) {
                let Some(stat) = Stat::read(&self.proc.join(format!("{pid}/task/{tid}/stat"))) else { continue };
                let policy = get(tid);
                if FAIR.contains(&(policy & !libc::SCHED_RESET_ON_FORK))
                    && set(tid, SCHED_EXT | policy & libc::SCHED_RESET_ON_FORK, 0)
                {
                    self.old.insert(tid, (stat.start_ticks, policy));
                    count += 1;
                }
            }
            if count == before {
                break;
            }
        }
        count
    }

    /// Gives everybody back what they had; those who inherited SCHED_EXT get SCHED_OTHER. Returns how many.
    pub fn restore(&mut self) -> usize {
        let mut count = 0;
        // Twice: a thread may be created while we look.
        for _ in 0..2 {
            self.each_ext(|s, tid, start| count += usize::from(s.give_back(tid, start)));
        }
        self.old.clear();
        count
    }

    /// A process is no instance any more: its threads get back what they had. Nothing to do if it has gone.
    pub fn release(&mut self, pid: Pid) {
        for tid in scan::threads(&self.proc, pid) {
            let stat = Stat::read(&self.proc.join(format!("{pid}/task/{tid}/stat")));
            if let Some(stat) = stat.filter(|s| s.policy == SCHED_EXT as u64) {
                self.give_back(tid, stat.start_ticks);
            }
        }
    }

    fn give_back(&self, tid: Tid, start: u64) -> bool {
        if self.theirs.get(&tid) == Some(&start) {
            return false;
        }
        let flag = get(tid).max(0) & libc::SCHED_RESET_ON_FORK;
        let old = self.old.get(&tid).filter(|(at, _)| *at == start);
        set(tid, old.map_or(libc::SCHED_OTHER | flag, |(_, policy)| *policy), 0)
    }

    fn each_ext(&mut self, mut f: impl FnMut(&mut Self, Tid, u64)) {
        for pid in scan::numbers(&self.proc).unwrap_or_default() {
            for tid in scan::threads(&self.proc, Pid(pid)) {
                let stat = Stat::read(&self.proc.join(format!("{pid}/task/{tid}/stat")));
                if let Some(stat) = stat.filter(|s| s.policy == SCHED_EXT as u64) {
                    f(self, tid, stat.start_ticks);
                }
            }
        }
    }
}

/// For the dispatcher when its host was killed: nobody is left who knows what they had before, so every SCHED_EXT thread
/// gets the default, SCHED_OTHER.
pub fn release_all(proc: &Path) {
    Switched { proc: proc.to_owned(), old: BTreeMap::new(), theirs: BTreeMap::new() }.restore();
}

/// Makes the calling thread SCHED_EXT, so that its sleeps and wake-ups are events for the dispatcher.
pub fn join() -> bool {
    set(Tid(0), SCHED_EXT, 0)
}

/// Undoes [`join`].
pub fn leave() -> bool {
    set(Tid(0), libc::SCHED_OTHER, 0)
}
