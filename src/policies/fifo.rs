//! First come, first served, machine-wide: any ready CPU takes the oldest task that may run there.

use super::{ready_cpus, reason, untracked};
use crate::event::{Answers, Dispatch, ProcessEvent, Ready, Runnable};
use crate::ids::{Ns, Tid};
use crate::policy::Policy;
use crate::soft_domain::Settings;
use crate::topology::Topology;
use std::collections::VecDeque;

/// One queue for the whole machine.
#[derive(Debug)]
pub struct Fifo {
    topology: Topology,
    queue: VecDeque<Runnable>,
    /// Most tasks that wait; more would make the queue allocate.
    room: usize,
    slice_ns: Ns,
}

impl Fifo {
    /// A policy for this machine; of the settings it uses the slice and the number of tasks.
    pub fn new(topology: &Topology, settings: &Settings) -> Self {
        Fifo {
            topology: topology.clone(),
            queue: VecDeque::with_capacity(settings.max_tasks),
            room: settings.max_tasks,
            slice_ns: settings.limits.slice_ns.max(1),
        }
    }

    fn forget(&mut self, tid: Tid) {
        if let Some(at) = self.queue.iter().position(|t| t.tid == tid) {
            self.queue.remove(at);
        }
    }
}

impl Policy for Fifo {
    fn process(&mut self, _now: Ns, event: &ProcessEvent, _out: &mut Answers) {
        if let ProcessEvent::Exit { tid, .. } = event {
            self.forget(*tid);
        }
    }

    fn enqueue(&mut self, now: Ns, task: &Runnable, out: &mut Answers) {
        self.forget(task.tid);
        if self.queue.len() < self.room && task.allowed.intersects(self.topology.cpus()) {
            self.queue.push_back(*task);
        } else {
            out.dispatch.push(untracked(now, task, self.slice_ns));
        }
    }

    fn dispatch(&mut self, now: Ns, ready: &Ready, out: &mut Answers) {
        let mut free = ready_cpus(&self.topology, ready);
        let mut at = 0;
        while at < self.queue.len() && !free.is_empty() {
            let t = &self.queue[at];
            let usable = free.and(&t.allowed);
            let Some(cpu) = Some(t.cpu).filter(|c| usable.has(*c)).or_else(|| usable.first()) else {
                at += 1;
                continue;
            };
            free.clear(cpu);
            out.dispatch.push(Dispatch {
                tid: t.tid,
                cpu,
                slice_ns: self.slice_ns,
                vtime: now,
                generation: t.generation,
                reason: reason(&self.topology, &t.allowed, t.cpu, cpu),
            });
            self.queue.remove(at);
        }
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }
}
