//! Writes down every stint of a run, for pictures. A machine that is not watched pays a test of an `Option` at each
//! switch.

use super::cpu::Current;
use super::machine::{BOOT, Machine};
use super::task::{State, Task, TaskId, tid_of};
use crate::event::{Name, Notice, Reason};
use crate::ids::{CpuId, Ns};

/// A task, or the scheduler's thread, on a CPU from switch to switch. Times are ns since the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stint {
    /// The CPU.
    pub cpu: CpuId,
    /// The task's index in [`Watch::tasks`]; `None`: the scheduler's thread.
    pub task: Option<u32>,
    /// Switched in.
    pub start: Ns,
    /// Switched out.
    pub end: Ns,
    /// How long it had been runnable before, ns.
    pub waited: Ns,
    /// Why the policy sent it there; `None` if the policy was not asked.
    pub reason: Option<Reason>,
    /// The CPU was the home of its process.
    pub at_home: bool,
}

/// A task begins or ceases to wait in line for a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// When, ns since the start of the run.
    pub at: Ns,
    /// The CPU: where it was sent, until then where it last ran.
    pub cpu: CpuId,
    /// It begins.
    pub begins: bool,
}

/// The home of a process was given (`from` is `None`) or moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Homed {
    /// When, ns since the start of the run.
    pub at: Ns,
    /// The process: its main thread's index in [`Watch::tasks`].
    pub leader: u32,
    /// The home that it had.
    pub from: Option<CpuId>,
    /// The home that it has now.
    pub to: CpuId,
}

/// Who runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The thread.
    pub tid: i32,
    /// Index of the main thread of its process.
    pub leader: u32,
    /// Its comm at the end of the run.
    pub comm: Name,
}

/// Everything that was seen, each list in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// By the time of their end.
    pub stints: Vec<Stint>,
    /// Lines in front of CPUs.
    pub waits: Vec<Wait>,
    /// Homes.
    pub homes: Vec<Homed>,
    /// From the begin of each wake-up to the first instruction, ns: as in the results.
    pub latencies: Vec<Ns>,
    /// All tasks there were.
    pub tasks: Vec<Watched>,
    /// Time that was watched, ns; shorter than the run if there were too many stints.
    pub length: Ns,
    /// There were.
    pub cut: bool,
    /// Stints that it may keep.
    room: usize,
    open: Vec<Option<Stint>>,
    lines: Vec<Option<CpuId>>,
    reasons: Vec<Option<Reason>>,
}

fn slot<T>(list: &mut Vec<Option<T>>, at: usize) -> &mut Option<T> {
    if at >= list.len() {
        list.resize_with(at + 1, || None);
    }
    &mut list[at]
}

impl Watch {
    /// Whether there is room for what happens at `at`; if not, the watch ends there.
    fn goes_on(&mut self, at: Ns) -> bool {
        if !self.cut && self.stints.len() >= self.room {
            (self.cut, self.length) = (true, at);
        }
        !self.cut
    }

    /// The policy's decision for `task` reached the queue of a CPU.
    pub(super) fn sent(&mut self, task: TaskId, reason: Reason) {
        *slot(&mut self.reasons, task) = Some(reason);
    }

    /// `task` waits for `cpu` from now on; `None`: for none.
    pub(super) fn in_line(&mut self, now: Ns, task: TaskId, cpu: Option<CpuId>) {
        let at = now - BOOT;
        let before = std::mem::replace(slot(&mut self.lines, task), cpu);
        if before == cpu || self.cut {
            return;
        }
        self.waits.extend(before.map(|cpu| Wait { at, cpu, begins: false }));
        self.waits.extend(cpu.map(|cpu| Wait { at, cpu, begins: true }));
    }

    pub(super) fn woken(&mut self, latency: Ns) {
        if !self.cut {
            self.latencies.push(latency);
        }
    }

    /// What runs on `cpu` leaves it, and `next` comes.
    fn switched(&mut self, cpu: CpuId, at: Ns, next: Option<Stint>) {
        let mut last = slot(&mut self.open, cpu.index()).take();
        if self.goes_on(at) {
            last.iter_mut().for_each(|s| s.end = at);
            self.stints.extend(last);
            *slot(&mut self.open, cpu.index()) = next;
        } else if let Some(s) = last {
            *slot(&mut self.open, cpu.index()) = Some(s);
        }
    }
}

impl Machine {
    /// From now on everything is written down, at most `stints` stints.
    pub fn watch(&mut self, stints: usize) {
        let mut watch = Watch { room: stints, ..Watch::default() };
        for (task, home) in self.homes.iter().enumerate() {
            let at = self.now - BOOT;
            watch.homes.extend(home.map(|to| Homed { at, leader: task as u32, from: None, to }));
        }
        self.watch = Some(Box::new(watch));
    }

    /// What was seen, with the stints that go on cut here. `None` if nobody watched.
    pub fn take_watch(&mut self) -> Option<Watch> {
        let mut watch = *self.watch.take()?;
        if !watch.cut {
            watch.length = self.now - BOOT;
        }
        for mut stint in std::mem::take(&mut watch.open).into_iter().flatten().filter(|s| s.start <= watch.length) {
            stint.end = watch.length;
            watch.stints.push(stint);
        }
        let length = watch.length;
        watch.homes.retain(|h| h.at <= length);
        let told = |(id, t): (usize, &Task)| Watched { tid: tid_of(id), leader: t.leader as u32, comm: t.comm };
        watch.tasks = self.tasks.iter().enumerate().map(told).collect();
        Some(watch)
    }

    /// A switch on `cpu`: to be called before the task is marked as running.
    pub(super) fn watch_switch(&mut self, cpu: CpuId, next: Current) {
        let Some(watch) = &mut self.watch else { return };
        let at = self.now - BOOT;
        let stint = Stint { cpu, task: None, start: at, end: at, waited: 0, reason: None, at_home: false };
        let next = match next {
            Current::Idle => None,
            Current::Scheduler => Some(stint),
            Current::Task(task) => {
                let t = &self.tasks[task];
                let waited = if t.waits() { self.now - t.waits_since } else { 0 };
                let reason = slot(&mut watch.reasons, task).take();
                let at_home = self.homes.get(t.leader).copied().flatten() == Some(cpu);
                Some(Stint { task: Some(task as u32), waited, reason, at_home, ..stint })
            }
        };
        watch.switched(cpu, at, next);
    }

    /// The state of `task` has changed.
    pub(super) fn watch_line(&mut self, task: TaskId) {
        let Some(watch) = &mut self.watch else { return };
        let t = &self.tasks[task];
        let cpu = match t.state {
            State::OnCpuQueue(cpu) => Some(cpu),
            State::Queued | State::OnSharedQueue => Some(t.cpu),
            _ => None,
        };
        watch.in_line(self.now, task, cpu);
    }

    /// The policy gave or moved a home.
    pub(super) fn watch_home(&mut self, notice: &Notice) {
        let Some(watch) = &mut self.watch else { return };
        let (pid, from, to) = match *notice {
            Notice::Adopted { pid, home, .. } => (pid, None, home),
            Notice::Moved { pid, from, to, .. } => (pid, Some(from), to),
            Notice::Left { .. } => return,
        };
        if let Some(leader) = super::task::task_of(pid.0).filter(|t| *t < self.tasks.len()) {
            watch.homes.push(Homed { at: self.now - BOOT, leader: leader as u32, from, to });
        }
    }
}
