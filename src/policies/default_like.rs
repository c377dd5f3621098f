//! Roughly the kernel's default scheduler (EEVDF), for comparison in the simulator. Approximate: a woken task takes its
//! last CPU or an idle one of that LLC, else it waits in the queue of its last CPU; short tasks preempt long ones by
//! hints; queues are evened out every few ms. Not modelled: groups, energy, wake affinity to the waker, balancing by
//! level of the tree, eligibility (the bound on lag stands for it).

use super::cpu_queues::CpuQueues;
use super::{ready_cpus, reason, untracked};
use crate::cpumask::CpuMask;
use crate::event::{Answers, Cause, Dispatch, Hint, MAX_URGENT, ProcessEvent, Ready, Runnable, Urgent};
use crate::ids::{CpuId, MS, Ns, Tid};
use crate::limits::Limits;
use crate::policy::Policy;
use crate::queue::Slot;
use crate::soft_domain::Settings;
use crate::table::Table;
use crate::topology::Topology;

/// The kernel balances a busy small domain every few ms, larger ones less often.
const BALANCE_EVERY: Ns = 4 * MS;
/// Moves per balancing, and tasks looked at for one.
const MOVES: usize = 8;
const LOOK: usize = 32;

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    tid: Tid,
    cpu: CpuId,
    allowed: CpuMask,
    generation: u64,
    weight: u32,
    enqueued_at: Ns,
    cause: Option<Cause>,
    /// CPU time at nice 0 on the clock of its queue's CPU, ns.
    vtime: u64,
    /// The CPU of that clock.
    clock_of: CpuId,
    started: Ns,
    /// Usual run time between sleeps, ns.
    burst: Ns,
    hinted: (CpuId, u8),
}

impl Task {
    /// log2 of its usual run time between sleeps, us.
    fn rank(&self) -> u8 {
        (self.burst >> 10).checked_ilog2().unwrap_or(0) as u8
    }
}

/// See the head of this file.
#[derive(Debug)]
pub struct DefaultLike {
    topology: Topology,
    limits: Limits,
    tasks: Table<Task>,
    /// By virtual deadline, each with its clock.
    queues: CpuQueues,
    clocks: Vec<u64>,
    balance_due: Ns,
}

impl DefaultLike {
    /// A policy for this machine; of the settings it uses slice, lag, age bound and the number of tasks.
    pub fn new(topology: &Topology, settings: &Settings) -> Self {
        DefaultLike {
            limits: settings.limits,
            tasks: Table::new(settings.max_tasks),
            queues: CpuQueues::new(topology, settings.max_tasks),
            clocks: vec![0; topology.cpu_slots()],
            balance_due: 0,
            topology: topology.clone(),
        }
    }

    /// Puts a task into the queue of `cpu`, with what it is owed or owes there.
    fn wait(&mut self, slot: Slot, cpu: CpuId) {
        let clock = |c: CpuId| self.clocks.get(c.index()).copied().unwrap_or(0);
        let Limits { slice_ns, lag_ns, .. } = self.limits;
        let task = self.tasks.get_mut(slot);
        task.vtime = clock(cpu).saturating_add(task.vtime).saturating_sub(clock(task.clock_of));
        task.vtime = task.vtime.max(clock(cpu).saturating_sub(lag_ns));
        task.clock_of = cpu;
        let request = slice_ns.saturating_mul(100) / u64::from(task.weight.max(1));
        self.queues.insert(cpu, slot, task.vtime.saturating_add(request));
    }

    fn send(&mut self, now: Ns, slot: Slot, cpu: CpuId, out: &mut Answers) {
        self.queues.remove(slot);
        let Task { tid, cpu: last, allowed, generation, vtime, clock_of, .. } = *self.tasks.get(slot);
        if let Some(clock) = self.clocks.get_mut(clock_of.index()) {
            *clock = (*clock).max(vtime);
        }
        let (slice_ns, reason) = (self.limits.slice_ns.max(1), reason(&self.topology, &allowed, last, cpu));
        out.dispatch.push(Dispatch { tid, cpu, slice_ns, vtime: now, generation, reason });
    }

    /// Evens out the longest and the shortest queue, the running task counted, where they differ by 2 or more.
    fn balance(&mut self, free: &CpuMask) {
        let mut from_any = self.queues.waiting();
        for _ in 0..MOVES {
            let tasks = |c: &CpuId| self.queues.len(*c) + usize::from(!free.has(*c));
            let busiest = from_any.iter().max_by_key(|c| (tasks(c), std::cmp::Reverse(*c)));
            let idlest = self.topology.cpus().iter().min_by_key(|c| (tasks(c), *c));
            let (Some(from), Some(to)) = (busiest, idlest) else { return };
            if tasks(&from) < tasks(&to) + 2 {
                return;
            }
            let may = |s: &Slot| self.tasks.get(*s).allowed.has(to);
            let queue = std::iter::successors(self.queues.first(from), |s| self.queues.next(*s));
            match queue.take(LOOK).find(may) {
                Some(slot) => self.wait(slot, to),
                // Pinned there: try another queue.
                None => from_any.clear(from),
            }
        }
    }

    /// An idle CPU for a task that waits in another queue: one whose whole core is free, if there is one.
    fn idle_near(&self, task: &Task, free: &CpuMask) -> Option<CpuId> {
        let llc = self.topology.cpu(task.cpu)?.llc;
        let near = free.and(&task.allowed).and(self.topology.llc_cpus(llc));
        let whole =
            |c: &CpuId| self.topology.cpu(*c).is_some_and(|i| self.topology.core_cpus(i.core).is_subset_of(free));
        near.iter().find(whole).or_else(|| near.first())
    }
}

impl Policy for DefaultLike {
    fn process(&mut self, _now: Ns, event: &ProcessEvent, _out: &mut Answers) {
        if let ProcessEvent::Exit { tid, .. } = event
            && let Some(slot) = self.tasks.slot(tid.0)
        {
            self.queues.remove(slot);
            self.tasks.remove(tid.0);
        }
    }

    fn enqueue(&mut self, now: Ns, r: &Runnable, out: &mut Answers) {
        let usable = r.allowed.and(self.topology.cpus());
        let Some(cpu) = Some(r.cpu).filter(|c| usable.has(*c)).or_else(|| usable.first()) else {
            self.tasks.slot(r.tid.0).into_iter().for_each(|s| self.queues.remove(s));
            out.dispatch.push(untracked(now, r, self.limits.slice_ns));
            return;
        };
        let fresh = Task { tid: r.tid, clock_of: cpu, vtime: self.clocks[cpu.index()], ..Task::default() };
        let Some(slot) = self.tasks.slot_or_insert(r.tid.0, fresh) else {
            out.dispatch.push(untracked(now, r, self.limits.slice_ns));
            return;
        };
        let task = self.tasks.get_mut(slot);
        let ran = if r.started == task.started { 0 } else { r.stint_ns };
        task.vtime = task.vtime.saturating_add(ran.saturating_mul(100) / u64::from(r.weight.max(1)));
        (task.cpu, task.allowed, task.generation, task.weight) = (r.cpu, r.allowed, r.generation, r.weight);
        (task.started, task.enqueued_at, task.cause) = (r.started, now, Some(r.cause));
        let burst = if r.cause == Cause::Wakeup { ran } else { r.since_wakeup_ns };
        task.burst = task.burst / 4 * 3 + burst / 4;
        let rank = task.rank();
        if task.hinted != (cpu, rank) {
            task.hinted = (cpu, rank);
            out.hints.push(Hint { tid: r.tid, cpu, rank, sticky: false, home: false });
        }
        self.wait(slot, cpu);
    }

    fn dispatch(&mut self, now: Ns, ready: &Ready, out: &mut Answers) {
        let mut free = ready_cpus(&self.topology, ready);
        if now >= self.balance_due {
            self.balance_due = now.saturating_add(BALANCE_EVERY);
            self.balance(&free);
        }
        for cpu in free.and(&self.queues.waiting()).iter() {
            // Over the age bound, the oldest; else the earliest deadline.
            let late = |s: &Slot| now.saturating_sub(self.tasks.get(*s).enqueued_at) > self.limits.age_bound_ns;
            let oldest = self.queues.oldest(cpu).filter(late);
            let Some(slot) = oldest.or_else(|| self.queues.first(cpu)) else { continue };
            free.clear(cpu);
            self.send(now, slot, cpu, out);
        }
        for queue in self.queues.waiting().iter() {
            let mut next = self.queues.first(queue);
            for _ in 0..LOOK {
                let Some(slot) = next.filter(|_| !free.is_empty()) else { break };
                next = self.queues.next(slot);
                if let Some(cpu) = self.idle_near(self.tasks.get(slot), &free) {
                    free.clear(cpu);
                    self.send(now, slot, cpu, out);
                }
            }
            // The first of the queue may preempt.
            if let Some(task) = self.queues.first(queue).map(|s| self.tasks.get(s))
                && task.cause == Some(Cause::Wakeup)
                && out.urgent.len() < MAX_URGENT
            {
                out.urgent.push(Urgent { cpu: queue, rank: task.rank() });
            }
        }
    }

    fn waiting(&self) -> usize {
        self.queues.total()
    }
}
