//! First come, first served, machine-wide: any ready CPU takes the oldest task that may run there.

use crate::event::{Answers, Dispatch, ProcessEvent, Ready, Reason, Runnable};
use crate::ids::{MS, Ns};
use crate::policy::Policy;
use std::collections::VecDeque;

/// One queue for the whole machine.
#[derive(Debug)]
pub struct Fifo {
    queue: VecDeque<Runnable>,
    slice_ns: Ns,
}

impl Fifo {
    /// Room for `tasks` waiting tasks; slices of `slice_ns` (ns), 5 ms if 0.
    pub fn new(tasks: usize, slice_ns: Ns) -> Self {
        Fifo { queue: VecDeque::with_capacity(tasks), slice_ns: if slice_ns == 0 { 5 * MS } else { slice_ns } }
    }
}

impl Policy for Fifo {
    fn process(&mut self, _now: Ns, event: &ProcessEvent, _out: &mut Answers) {
        if let ProcessEvent::Exit { tid, .. } = event {
            self.queue.retain(|t| t.tid != *tid);
        }
    }

    fn enqueue(&mut self, _now: Ns, task: &Runnable, _out: &mut Answers) {
        self.queue.retain(|t| t.tid != task.tid);
        self.queue.push_back(*task);
    }

    fn dispatch(&mut self, now: Ns, ready: &Ready, out: &mut Answers) {
        let mut cpus = ready.idle;
        if let Some(cpu) = ready.asking {
            cpus.set(cpu);
        }
        let slice_ns = self.slice_ns;
        self.queue.retain(|t| {
            let last = Some(t.cpu).filter(|c| cpus.has(*c));
            let Some(cpu) = last.or_else(|| cpus.and(&t.allowed).first()) else {
                return true;
            };
            cpus.clear(cpu);
            out.dispatch.push(Dispatch {
                tid: t.tid,
                cpu,
                slice_ns,
                vtime: now,
                generation: t.generation,
                reason: Reason::InLlc,
            });
            false
        });
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }
}
