//! A whole scheduling policy, to copy and change: last in, first out, on the task's last CPU where that is free.
//! `cargo run --example my_policy` shows its decisions; docs/write-your-own-policy.md takes it to a real kernel.

use soft_domain::cpumask::CpuMask;
use soft_domain::event::{Answers, Cause, Dispatch, ProcessEvent, Ready, Reason, Runnable};
use soft_domain::ids::{CpuId, MS, Ns, Pid, Tid};
use soft_domain::policy::Policy;

struct Lifo {
    /// Tasks that wait for a decision, the latest at the end.
    stack: Vec<Runnable>,
    slice_ns: Ns,
}

impl Policy for Lifo {
    // Threads and processes come, exec and go. Who ends is forgotten.
    fn process(&mut self, _now: Ns, event: &ProcessEvent, _out: &mut Answers) {
        if let ProcessEvent::Exit { tid, .. } = event {
            self.stack.retain(|t| t.tid != *tid);
        }
    }

    // A task can run. A newer record of the same thread replaces the older one: the kernel has cancelled that.
    fn enqueue(&mut self, _now: Ns, task: &Runnable, _out: &mut Answers) {
        self.stack.retain(|t| t.tid != task.tid);
        self.stack.push(*task);
    }

    // These CPUs can take a task, one each.
    fn dispatch(&mut self, now: Ns, ready: &Ready, out: &mut Answers) {
        let mut free = ready.asking.map_or(ready.idle, |cpu| ready.idle.or(&CpuMask::of(cpu)));
        for i in (0..self.stack.len()).rev() {
            let task = self.stack[i];
            let usable = free.and(&task.allowed);
            let last = Some(task.cpu).filter(|cpu| usable.has(*cpu));
            let Some(cpu) = last.or_else(|| usable.first()) else { continue };
            free.clear(cpu);
            self.stack.remove(i);
            out.dispatch.push(Dispatch {
                tid: task.tid,
                cpu,
                slice_ns: self.slice_ns,
                vtime: now,
                generation: task.generation,
                reason: Reason::InLlc,
            });
        }
    }

    fn waiting(&self) -> usize {
        self.stack.len()
    }
}

/// Three tasks become runnable, of which the second may use CPU 1 only. CPUs 0 and 1 are free at 2 ms, and CPU 1 again at 7 ms.
fn main() {
    let mut policy = Lifo { stack: Vec::with_capacity(1024), slice_ns: 5 * MS };
    let mut out = Answers::with_capacity(64);
    for tid in 1..=3 {
        let comm = soft_domain::event::Name::new(b"worker");
        let (tid, pid, parent, kthread) = (Tid(tid), Pid(tid), Pid(0), false);
        policy.process(MS, &ProcessEvent::Thread { tid, pid, parent, comm, kthread }, &mut out);
        let allowed = if tid.0 == 2 { CpuMask::of(CpuId(1)) } else { CpuMask::ALL };
        let (cpu, cause, generation) = (CpuId(1), Cause::Wakeup, 1);
        let (since_wakeup_ns, stint_ns, started, waker, weight) = (0, 0, 0, None, 100);
        let task = Runnable { tid, cpu, allowed, cause, since_wakeup_ns, stint_ns, started, waker, weight, generation };
        policy.enqueue(MS, &task, &mut out);
    }
    for (now, asking, idle) in
        [(2 * MS, Some(CpuId(0)), CpuMask::of(CpuId(1))), (7 * MS, Some(CpuId(1)), CpuMask::EMPTY)]
    {
        out.clear();
        policy.dispatch(now, &Ready { asking, next: false, idle }, &mut out);
        println!("{} ms: {} wait; sent: {:?}", now / MS, policy.waiting(), out.dispatch);
    }
}
