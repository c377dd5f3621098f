//! Every task that wakes up goes to the least loaded CPU it may use. Each CPU has a queue of its own, first come,
//! first served; a CPU that finds its queue empty takes from the others.
//!
//! Its weakness, on purpose: a task's own past counts against its last CPU, so that a lone task wanders. That is what a
//! home is for.

use super::cpu_queues::CpuQueues;
use super::{ready_cpus, reason, untracked};
use crate::cpumask::CpuMask;
use crate::event::{Answers, Cause, Dispatch, ProcessEvent, Ready, Runnable, Spent};
use crate::ids::{CpuId, Ns, Tid};
use crate::limits::FULL_LOAD;
use crate::load::Load;
use crate::policy::Policy;
use crate::queue::Slot;
use crate::soft_domain::Settings;
use crate::table::Table;
use crate::topology::Topology;

/// Tasks of one queue that a CPU from elsewhere looks at: bounds a pass when masks forbid it the tasks in front.
const LOOK: usize = 64;

/// Loads closer than this count as equal, and the nearer CPU wins, in 1/1024 of a CPU. (A guess.)
const EQUAL: u32 = FULL_LOAD / 8;

/// A task that waits; forgotten when it is sent.
#[derive(Clone, Copy, Debug, Default)]
struct Task {
    tid: Tid,
    cpu: CpuId,
    allowed: CpuMask,
    generation: u64,
}

/// See the head of this file.
#[derive(Debug)]
pub struct LeastLoaded {
    topology: Topology,
    tasks: Table<Task>,
    queues: CpuQueues,
    /// CPUs that were given a task and have not asked for another since.
    busy: CpuMask,
    /// Per CPU number.
    loads: Vec<Load>,
    half_life: Ns,
    slice_ns: Ns,
}

impl LeastLoaded {
    /// A policy for this machine; of the settings it uses the slice, the load's half-life and the number of tasks.
    pub fn new(topology: &Topology, settings: &Settings) -> Self {
        LeastLoaded {
            tasks: Table::new(settings.max_tasks),
            queues: CpuQueues::new(topology, settings.max_tasks),
            busy: CpuMask::EMPTY,
            loads: vec![Load::default(); topology.cpu_slots()],
            half_life: settings.limits.load_half_life_ns,
            slice_ns: settings.limits.slice_ns.max(1),
            topology: topology.clone(),
        }
    }

    /// What waits for the CPU, what it was given, and how busy it has been: 1024 = one task that never sleeps.
    fn load(&self, cpu: CpuId) -> u32 {
        let tasks = self.queues.len(cpu) as u32 + u32::from(self.busy.has(cpu));
        tasks.saturating_mul(FULL_LOAD).saturating_add(self.loads.get(cpu.index()).map_or(0, Load::last))
    }

    fn least_loaded(&self, usable: &CpuMask, last: CpuId) -> Option<CpuId> {
        usable.iter().min_by_key(|c| (self.load(*c) / EQUAL, self.topology.distance(last, *c), *c))
    }

    fn forget(&mut self, tid: Tid) {
        if let Some(slot) = self.tasks.slot(tid.0) {
            self.queues.remove(slot);
            self.tasks.remove(tid.0);
        }
    }

    fn send(&mut self, now: Ns, slot: Slot, cpu: CpuId, out: &mut Answers) {
        let Task { tid, cpu: last, allowed, generation } = *self.tasks.get(slot);
        self.forget(tid);
        self.busy.set(cpu);
        let reason = reason(&self.topology, &allowed, last, cpu);
        out.dispatch.push(Dispatch { tid, cpu, slice_ns: self.slice_ns, vtime: now, generation, reason });
    }
}

impl Policy for LeastLoaded {
    fn process(&mut self, _now: Ns, event: &ProcessEvent, _out: &mut Answers) {
        if let ProcessEvent::Exit { tid, .. } = event {
            self.forget(*tid);
        }
    }

    fn enqueue(&mut self, now: Ns, r: &Runnable, out: &mut Answers) {
        self.forget(r.tid);
        let usable = r.allowed.and(self.topology.cpus());
        let stays = r.cause == Cause::SliceEnd && usable.has(r.cpu);
        let cpu = if stays { Some(r.cpu) } else { self.least_loaded(&usable, r.cpu) };
        let task = Task { tid: r.tid, cpu: r.cpu, allowed: r.allowed, generation: r.generation };
        let Some((cpu, slot)) = cpu.and_then(|c| Some((c, self.tasks.slot_or_insert(r.tid.0, task)?))) else {
            out.dispatch.push(untracked(now, r, self.slice_ns));
            return;
        };
        self.queues.insert(cpu, slot, 0);
    }

    fn observe(&mut self, now: Ns, cpu: CpuId, spent: &Spent) {
        if let Some(load) = self.loads.get_mut(cpu.index()) {
            load.advance(now, spent.home_ns.saturating_add(spent.other_ns), self.half_life);
        }
    }

    fn dispatch(&mut self, now: Ns, ready: &Ready, out: &mut Answers) {
        let mut free = ready_cpus(&self.topology, ready);
        self.busy = self.busy.minus(&free);
        for cpu in free.and(&self.queues.waiting()).iter() {
            if let Some(slot) = self.queues.first(cpu) {
                free.clear(cpu);
                self.send(now, slot, cpu, out);
            }
        }
        for queue in self.queues.waiting().iter() {
            let mut next = self.queues.first(queue);
            for _ in 0..LOOK {
                let Some(slot) = next.filter(|_| !free.is_empty()) else { break };
                next = self.queues.next(slot);
                let task = self.tasks.get(slot);
                if let Some(cpu) = self.least_loaded(&free.and(&task.allowed), task.cpu) {
                    free.clear(cpu);
                    self.send(now, slot, cpu, out);
                }
            }
        }
    }

    fn waiting(&self) -> usize {
        self.queues.total()
    }
}
