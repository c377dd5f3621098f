//! What a recorder knows of the machine: enough to bring a new policy near the state of the present one. Fixed size.

use super::call::Call;
use super::given::Fresh;
use crate::event::{Name, Notice, ProcessEvent, Runnable};
use crate::ids::{CpuId, Ns, Pid, Tid};
use crate::queue::{NONE, Slot};
use crate::table::Table;

/// A thread. One that is not `told` was seen runnable before its creation was heard of.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    used: bool,
    told: bool,
    tid: Tid,
    pid: Pid,
    parent: Pid,
    comm: Name,
    kthread: bool,
    /// It waits for a decision, and the how manieth to do so it was.
    waits: Option<(u64, Runnable)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Process {
    used: bool,
    pid: Pid,
    /// Comm and executable, since its last exec.
    exec: Option<(Name, Name)>,
    home: Option<CpuId>,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Known {
    threads: Table<Thread>,
    processes: Table<Process>,
    /// Slots from here on were never used.
    threads_end: Slot,
    processes_end: Slot,
    arrivals: u64,
    /// For the order of those that wait.
    sorted: Vec<Slot>,
}

impl Known {
    /// Room for `tasks` threads and as many processes; more are left out of snapshots.
    pub fn new(tasks: usize) -> Self {
        Known {
            threads: Table::new(tasks),
            processes: Table::new(tasks),
            threads_end: 0,
            processes_end: 0,
            arrivals: 0,
            sorted: Vec::with_capacity(tasks),
        }
    }

    /// A call was made and answered.
    pub fn note(&mut self, call: &Call, given: &Fresh) {
        match call {
            Call::Process(_, event) => self.event(event),
            Call::Enqueue(_, r) => {
                self.arrivals += 1;
                let waits = Some((self.arrivals, *r));
                if let Some(t) = self.thread(r.tid) {
                    t.waits = waits;
                }
            }
            Call::RestoreHome(pid, home) => self.set_home(*pid, Some(*home)),
            Call::Observe(..) | Call::Dispatch(..) => {}
        }
        for d in given.dispatch() {
            if let Some(slot) = self.threads.slot(d.tid.0) {
                self.threads.get_mut(slot).waits = None;
            }
        }
        for notice in given.notices() {
            match notice {
                Notice::Adopted { pid, home, .. } | Notice::Moved { pid, to: home, .. } => {
                    self.set_home(*pid, Some(*home));
                }
                Notice::Left { pid, .. } => self.set_home(*pid, None),
            }
        }
    }

    fn event(&mut self, event: &ProcessEvent) {
        match *event {
            ProcessEvent::Thread { tid, pid, parent, comm, kthread } => {
                if let Some(t) = self.thread(tid) {
                    (t.told, t.pid, t.parent, t.comm, t.kthread) = (true, pid, parent, comm, kthread);
                }
            }
            ProcessEvent::Exec { pid, comm, exe } => {
                if let Some(p) = self.process(pid) {
                    p.exec = Some((comm, exe));
                }
            }
            ProcessEvent::Exit { tid, pid, last } => {
                if let Some(slot) = self.threads.slot(tid.0) {
                    *self.threads.get_mut(slot) = Thread::default();
                    self.threads.remove(tid.0);
                }
                if let Some(slot) = self.processes.slot(pid.0).filter(|_| last) {
                    *self.processes.get_mut(slot) = Process::default();
                    self.processes.remove(pid.0);
                }
            }
        }
    }

    fn thread(&mut self, tid: Tid) -> Option<&mut Thread> {
        let slot = self.threads.slot_or_insert(tid.0, Thread { used: true, tid, ..Thread::default() })?;
        self.threads_end = self.threads_end.max(slot + 1);
        Some(self.threads.get_mut(slot))
    }

    fn process(&mut self, pid: Pid) -> Option<&mut Process> {
        let slot = self.processes.slot_or_insert(pid.0, Process { used: true, pid, ..Process::default() })?;
        self.processes_end = self.processes_end.max(slot + 1);
        Some(self.processes.get_mut(slot))
    }

    fn set_home(&mut self, pid: Pid, home: Option<CpuId>) {
        if let Some(slot) = self.processes.slot(pid.0) {
            self.processes.get_mut(slot).home = home;
        } else if home.is_some()
            && let Some(p) = self.process(pid)
        {
            p.home = home;
        }
    }

    /// An upper bound of the bytes of a snapshot's records.
    pub fn most_bytes(&self) -> usize {
        (2 * self.threads.len() + 2 * self.processes.len() + 2) * (Call::MOST_BYTES + 16)
    }

    /// The calls that tell a new policy all this, in the order in which the first scan would: processes with their first
    /// threads, other threads, homes, then what waits, in the order of arrival. Stops when `put` says `false`.
    pub fn tell(&mut self, now: Ns, put: &mut dyn FnMut(&Call) -> bool) -> bool {
        let threads = (0..self.threads_end).map(|s| self.threads.get(s)).filter(|t| t.used && t.told);
        let processes = || (0..self.processes_end).map(|s| self.processes.get(s)).filter(|p| p.used);
        let thread = |t: &Thread| {
            let Thread { tid, pid, parent, comm, kthread, .. } = *t;
            Call::Process(now, ProcessEvent::Thread { tid, pid, parent, comm, kthread })
        };
        let exec =
            |p: &Process| p.exec.map(|(comm, exe)| Call::Process(now, ProcessEvent::Exec { pid: p.pid, comm, exe }));
        let first = |t: &&Thread| t.tid.0 == t.pid.0;
        let told = threads.clone().filter(first).all(|t| put(&thread(t)))
            && processes().filter_map(exec).all(|e| put(&e))
            && threads.filter(|t| !first(t)).all(|t| put(&thread(t)))
            && processes().filter_map(|p| Some(Call::RestoreHome(p.pid, p.home?))).all(|h| put(&h));
        if !told {
            return false;
        }
        self.sorted.clear();
        self.sorted.extend((0..self.threads_end).filter(|s| self.threads.get(*s).waits.is_some()));
        self.sorted.sort_unstable_by_key(|s| self.threads.get(*s).waits.map(|(order, _)| order));
        let waits = |s: &Slot| self.threads.get(*s).waits.map(|(_, r)| Call::Enqueue(now, r));
        self.sorted.iter().filter(|s| **s != NONE).filter_map(waits).all(|e| put(&e))
    }
}
