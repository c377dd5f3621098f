//! Global deadline, in the manner of scx_rustland: one queue for the whole machine, earliest virtual deadline first,
//! any CPU.
//!
//! A task's virtual time is the CPU time it has had, by weight. Its deadline is that plus what it has used since it
//! last slept: a task that sleeps often has an early deadline, one that never sleeps a late one.

use super::{ready_cpus, reason, untracked};
use crate::cpumask::CpuMask;
use crate::event::{Answers, Cause, Dispatch, ProcessEvent, Ready, Runnable};
use crate::ids::{CpuId, Ns, Tid};
use crate::limits::Limits;
use crate::policy::Policy;
use crate::queue::{Queues, Slot};
use crate::soft_domain::Settings;
use crate::table::Table;
use crate::topology::Topology;

/// The one queue.
const ALL: usize = 0;

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    tid: Tid,
    cpu: CpuId,
    allowed: CpuMask,
    generation: u64,
    enqueued_at: Ns,
    /// CPU time at nice 0, ns; never far behind the clock.
    vtime: u64,
    /// Start of the stint that was charged last.
    started: Ns,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Deadline {
    topology: Topology,
    limits: Limits,
    tasks: Table<Task>,
    queues: Queues,
    /// Virtual time of the task that was sent last; those that slept start from here.
    clock: u64,
}

impl Deadline {
    /// A policy for this machine; of the settings it uses slices, lag, age bound and the number of tasks.
    pub fn new(topology: &Topology, settings: &Settings) -> Self {
        Deadline {
            topology: topology.clone(),
            limits: settings.limits,
            tasks: Table::new(settings.max_tasks),
            queues: Queues::new(1, settings.max_tasks),
            clock: 0,
        }
    }

    /// Sends the task to a CPU of `free`, if there is one for it: its last one if possible.
    fn send(&mut self, now: Ns, slot: Slot, free: &mut CpuMask, out: &mut Answers) {
        let task = *self.tasks.get(slot);
        let usable = free.and(&task.allowed);
        let Some(cpu) = Some(task.cpu).filter(|c| usable.has(*c)).or_else(|| usable.first()) else { return };
        free.clear(cpu);
        self.queues.remove(slot);
        self.clock = self.clock.max(task.vtime);
        let Limits { slice_ns, slice_min_ns, .. } = self.limits;
        out.dispatch.push(Dispatch {
            tid: task.tid,
            cpu,
            // The more tasks wait, the shorter; never 0.
            slice_ns: (slice_ns / (1 + self.queues.total() as u64)).max(slice_min_ns).max(1),
            vtime: now,
            generation: task.generation,
            reason: reason(&self.topology, &task.allowed, task.cpu, cpu),
        });
    }
}

impl Policy for Deadline {
    fn process(&mut self, _now: Ns, event: &ProcessEvent, _out: &mut Answers) {
        if let ProcessEvent::Exit { tid, .. } = event
            && let Some(slot) = self.tasks.slot(tid.0)
        {
            self.queues.remove(slot);
            self.tasks.remove(tid.0);
        }
    }

    fn enqueue(&mut self, now: Ns, r: &Runnable, out: &mut Answers) {
        let fresh = Task { tid: r.tid, vtime: self.clock, ..Task::default() };
        let Some(slot) = self.tasks.slot_or_insert(r.tid.0, fresh) else {
            out.dispatch.push(untracked(now, r, self.limits.slice_ns));
            return;
        };
        if !r.allowed.intersects(self.topology.cpus()) {
            // Only CPUs that we do not know: what waited before is superseded all the same.
            self.queues.remove(slot);
            out.dispatch.push(untracked(now, r, self.limits.slice_ns));
            return;
        }
        let Limits { slice_ns, lag_ns, .. } = self.limits;
        let by_weight = |ns: Ns| ns.saturating_mul(100) / u64::from(r.weight.max(1));
        let task = self.tasks.get_mut(slot);
        let ran = if r.started == task.started { 0 } else { r.stint_ns };
        (task.cpu, task.allowed, task.generation) = (r.cpu, r.allowed, r.generation);
        (task.started, task.enqueued_at) = (r.started, now);
        // Long sleep earns a bounded credit.
        task.vtime = task.vtime.saturating_add(by_weight(ran)).max(self.clock.saturating_sub(lag_ns));
        let burst = if r.cause == Cause::Wakeup { ran } else { r.since_wakeup_ns };
        let deadline = task.vtime.saturating_add(by_weight(burst.min(100 * slice_ns)));
        self.queues.insert(ALL, slot, deadline);
    }

    fn dispatch(&mut self, now: Ns, ready: &Ready, out: &mut Answers) {
        let mut free = ready_cpus(&self.topology, ready);
        // Tasks of little weight could wait for ever behind heavy ones: over the age bound the oldest goes first.
        let mut next = self.queues.oldest(ALL);
        while let Some(slot) = next.filter(|_| !free.is_empty()) {
            if now.saturating_sub(self.tasks.get(slot).enqueued_at) <= self.limits.age_bound_ns {
                break;
            }
            next = self.queues.newer(slot);
            self.send(now, slot, &mut free, out);
        }
        // As many steps as there are free CPUs, unless masks forbid them to the tasks in front.
        let mut next = self.queues.first(ALL);
        while let Some(slot) = next.filter(|_| !free.is_empty()) {
            next = self.queues.next(slot);
            self.send(now, slot, &mut free, out);
        }
    }

    fn waiting(&self) -> usize {
        self.queues.total()
    }
}
