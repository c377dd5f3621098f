//! First come, first served, until it panics. Not among the named ones: for the guest test of what a panic does to a machine.

use super::fifo::Fifo;
use crate::event::{Answers, ProcessEvent, Ready, Runnable};
use crate::ids::Ns;
use crate::policy::Policy;

/// Tasks that become runnable until then: some seconds of a loaded machine.
const TASKS: u64 = 5000;

pub(super) struct Panics {
    fifo: Fifo,
    seen: u64,
}

impl Panics {
    pub(super) fn new(fifo: Fifo) -> Self {
        Panics { fifo, seen: 0 }
    }
}

impl Policy for Panics {
    fn process(&mut self, now: Ns, event: &ProcessEvent, out: &mut Answers) {
        self.fifo.process(now, event, out);
    }

    fn enqueue(&mut self, now: Ns, task: &Runnable, out: &mut Answers) {
        self.seen += 1;
        assert!(self.seen < TASKS, "as this policy is meant to");
        self.fifo.enqueue(now, task, out);
    }

    fn dispatch(&mut self, now: Ns, ready: &Ready, out: &mut Answers) {
        self.fifo.dispatch(now, ready, out);
    }

    fn waiting(&self) -> usize {
        self.fifo.waiting()
    }
}
