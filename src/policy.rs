//! The seam between a scheduling policy and whatever feeds it: the kernel, the simulator, a recording.

use crate::event::{Answers, ProcessEvent, Ready, Runnable, Spent};
use crate::ids::{CpuId, MS, Ns, Pid};
use crate::stats::Counters;

/// How often [`Policy::observe`] is called, ns.
pub const OBSERVE_EVERY: Ns = 10 * MS;

/// A whole scheduling policy. One thread calls it; time is an argument and never goes backwards.
///
/// A policy owns every task from [`Policy::enqueue`] until it answers a `Dispatch` for it, sees a newer
/// `enqueue` of the same thread (which supersedes the older one) or its exit.
pub trait Policy {
    /// Threads and processes come, exec and go. Arrives before the first `enqueue` of the thread wherever the
    /// kernel told us in time.
    fn process(&mut self, now: Ns, event: &ProcessEvent, out: &mut Answers);

    /// A task became runnable and waits for a decision. `out` takes hints and notices; dispatches belong to
    /// [`Policy::dispatch`].
    fn enqueue(&mut self, now: Ns, task: &Runnable, out: &mut Answers);

    /// How `cpu` has spent its time since the last such call. Comes for every CPU every [`OBSERVE_EVERY`] while there
    /// are events.
    fn observe(&mut self, _now: Ns, _cpu: CpuId, _spent: &Spent) {}

    /// CPUs can take tasks: the answers of this pass go to `out`. Called after every batch of events.
    fn dispatch(&mut self, now: Ns, ready: &Ready, out: &mut Answers);

    /// Tasks that wait for a decision now.
    fn waiting(&self) -> usize;

    /// When it next wants a turn although nothing happens, `Ns::MAX` = not before something does. Looked at after every
    /// turn; kept within some ms once another turn was less than [`LOOK_EVERY`](crate::rules::LOOK_EVERY) ago, else
    /// within that.
    fn due(&self) -> Ns {
        Ns::MAX
    }

    /// The home that the instance had under an earlier scheduler. Called after the events of the first scan and before
    /// all others.
    fn restore_home(&mut self, _pid: Pid, _home: CpuId) {}

    /// The policy's own counters, if it keeps any.
    fn counters(&self) -> Option<&Counters> {
        None
    }
}

/// So that what takes any policy also takes one that was chosen by name.
impl<P: Policy + ?Sized> Policy for Box<P> {
    fn process(&mut self, now: Ns, event: &ProcessEvent, out: &mut Answers) {
        (**self).process(now, event, out);
    }

    fn enqueue(&mut self, now: Ns, task: &Runnable, out: &mut Answers) {
        (**self).enqueue(now, task, out);
    }

    fn observe(&mut self, now: Ns, cpu: CpuId, spent: &Spent) {
        (**self).observe(now, cpu, spent);
    }

    fn dispatch(&mut self, now: Ns, ready: &Ready, out: &mut Answers) {
        (**self).dispatch(now, ready, out);
    }

    fn waiting(&self) -> usize {
        (**self).waiting()
    }

    fn due(&self) -> Ns {
        (**self).due()
    }

    fn restore_home(&mut self, pid: Pid, home: CpuId) {
        (**self).restore_home(pid, home);
    }

    fn counters(&self) -> Option<&Counters> {
        (**self).counters()
    }
}
