//! A task becomes runnable: the core's wake-up, and the shim's `.enqueue()`.

use super::cpu::Current;
use super::event_queue::Event;
use super::machine::Machine;
use super::task::{State, TaskId, tid_of};
use crate::cpumask::CpuMask;
use crate::event::{Cause, Runnable};
use crate::ids::{CpuId, Ns, Tid};
use crate::topology::Level;

impl Machine {
    /// `task` is woken, by a timer or by the running task `waker`: begun at `begun`, and it becomes runnable at `at`.
    pub(super) fn wake_later(&mut self, task: TaskId, waker: Option<TaskId>, begun: Ns, at: Ns) {
        self.tasks[task].state = State::Waking;
        self.tasks[task].woken_at = Some(begun);
        self.tasks[task].waker = waker.map(tid_of);
        self.tasks[task].woken_on = waker.map(|w| self.tasks[w].cpu);
        self.events.push(at, Event::Wake(task));
    }

    /// `task` is woken by the running task `waker`. The kernel (`ttwu_queue_cond`) leaves the rest to the woken task's CPU, by an
    /// interrupt, if that idles or has another LLC: until it comes nobody else sees the task.
    pub(super) fn wake_by(&mut self, task: TaskId, waker: TaskId, begun: Ns, at: Ns) {
        let from = self.tasks[waker].cpu;
        let cpu = self.tasks[task].cpu;
        let idle = self.cpus[cpu.index()].current == Current::Idle;
        let here = cpu == from || !self.tasks[task].allowed.has(cpu);
        if here || !idle && self.topology.domain(from, Level::Llc).has(cpu) {
            return self.wake_later(task, Some(waker), begun, at);
        }
        self.tasks[task].state = State::Waking;
        self.tasks[task].woken_at = Some(begun);
        self.tasks[task].waker = Some(tid_of(waker));
        self.tasks[task].woken_on = None;
        let delay = if idle { self.costs.idle_exit } else { self.costs.kick };
        self.events.push(at + delay, Event::WakeOn(cpu, task));
    }

    /// The wake-up of `task` arrives, on the CPU `on` if by an interrupt there. The shim keeps the task where it last ran
    /// and asks the policy.
    pub(super) fn wake(&mut self, task: TaskId, on: Option<CpuId>) {
        if self.tasks[task].state != State::Waking {
            return;
        }
        self.totals.woken += 1;
        self.tasks[task].exec_runtime = 0;
        self.keep_inside_mask(task);
        self.enqueue(task, true);
        let cpu = self.tasks[task].cpu;
        if self.cpus[cpu.index()].current == Current::Idle {
            // The core switches an idle CPU that gets a task.
            if on == Some(cpu) { self.reschedule(cpu, 0) } else { self.interrupt(cpu) }
        } else {
            self.eyes_woken(task);
        }
    }

    /// A task that was taken out of its queue, or off a CPU that it may not use any more, is enqueued again.
    pub(super) fn requeue(&mut self, task: TaskId) {
        self.keep_inside_mask(task);
        self.enqueue(task, false);
        let cpu = self.tasks[task].cpu;
        if self.cpus[cpu.index()].current == Current::Idle {
            self.interrupt(cpu);
        }
    }

    fn keep_inside_mask(&mut self, task: TaskId) {
        let t = &mut self.tasks[task];
        if !t.allowed.has(t.cpu) {
            t.cpu = t.allowed.and(self.topology.cpus()).first().unwrap_or(t.cpu);
        }
    }

    /// The shim's `.enqueue()`: a record for the policy; without room in the ring the task goes to the machine-wide
    /// queue, and nobody is told.
    pub(super) fn enqueue(&mut self, task: TaskId, wake_up: bool) {
        let known = self.topology.cpus();
        let t = &self.tasks[task];
        let usable = t.allowed.and(known);
        // What the loop tells the policy: the shim gives the count alone, src/affinity.rs asks for the mask.
        let allowed = match usable.count() {
            n if n == known.count() => CpuMask::ALL,
            1 => CpuMask::of(t.cpu),
            _ => t.allowed,
        };
        if t.kernel && usable.count() == 1 {
            // Per-CPU threads of the kernel wait for nobody's decision, and go first.
            let cpu = t.cpu;
            self.totals.kernel_dispatches += 1;
            self.tasks[task].slice = self.costs.shim_slice;
            self.set_state(task, State::OnCpuQueue(cpu));
            self.cpus[cpu.index()].queue.insert(0, task);
            return;
        }
        let record = Runnable {
            tid: Tid(tid_of(task)),
            cpu: t.cpu,
            allowed,
            cause: if wake_up || t.start_ts == 0 { Cause::Wakeup } else { Cause::SliceEnd },
            since_wakeup_ns: t.exec_runtime,
            stint_ns: t.stop_ts.saturating_sub(t.start_ts),
            started: t.start_ts,
            waker: t.waker.filter(|_| wake_up).map(Tid),
            weight: t.weight,
            generation: t.enq_cnt + 1,
        };
        if self.queued.push(record) {
            self.tasks[task].enq_cnt += 1;
            self.set_state(task, State::Queued);
        } else {
            self.totals.congested += 1;
            self.tasks[task].slice = self.costs.shim_slice;
            self.set_state(task, State::OnSharedQueue);
            self.shared.push_back(task);
        }
    }

    /// Takes a waiting task out of whatever queue of the kernel it is in.
    pub(super) fn dequeue(&mut self, task: TaskId) {
        match self.tasks[task].state {
            State::OnCpuQueue(cpu) => self.cpus[cpu.index()].queue.remove(task),
            State::OnSharedQueue => self.shared.retain(|t| *t != task),
            _ => {}
        }
    }
}
