//! A task runs its program, one operation after the other, until it computes, sleeps or ends.

use super::machine::Machine;
use super::program::{Channel, Op};
use super::task::{State, TaskId, task_of, tid_of};
use crate::cpumask::CpuMask;
use crate::event::ProcessEvent;
use crate::ids::{CpuId, Ns, Pid, Tid, US};

/// Operations in a row that take no time; after so many the task computes for a microsecond, so that a program which
/// never runs nor sleeps still lets time go by.
const MOST_IN_A_ROW: usize = 1000;

/// Tasks that can be made in one run, dead ones included: a fork bomb shall not eat the host's memory.
const MOST_TASKS: usize = 1 << 20;

/// What an operation leads to.
enum After {
    /// The next operation follows at once.
    Next,
    /// The task computes now.
    Compute,
    /// The task leaves its CPU: it sleeps, has ended, or its slice is over.
    Leave,
    /// Its CPU is no longer in its mask.
    Move,
}

impl Machine {
    /// The current work of `task`, which runs on `cpu`, is done: on with its program.
    pub(super) fn step(&mut self, cpu: CpuId, task: TaskId) {
        let program = self.tasks[task].program.clone();
        let mut spent = 0;
        for _ in 0..MOST_IN_A_ROW {
            let pc = self.tasks[task].pc;
            let op = program.get(pc).unwrap_or(&Op::Exit);
            self.tasks[task].pc = pc + 1;
            match self.execute(task, op, &mut spent) {
                After::Next => {}
                After::Compute => {
                    self.compute(cpu, task, spent);
                    return;
                }
                After::Leave => {
                    self.reschedule(cpu, spent);
                    return;
                }
                After::Move => {
                    self.tasks[task].state = State::Blocked;
                    self.reschedule(cpu, spent);
                    self.requeue(task);
                    return;
                }
            }
        }
        self.tasks[task].work_left = US;
        self.compute(cpu, task, spent);
    }

    fn compute(&mut self, cpu: CpuId, task: TaskId, spent: Ns) {
        let now = self.now;
        let c = &mut self.cpus[cpu.index()];
        (c.accounted, c.work_from) = (now, now + spent);
        self.set_rate(cpu, task);
        self.arm(cpu, task);
    }

    fn execute(&mut self, task: TaskId, op: &Op, spent: &mut Ns) -> After {
        let now = self.now + *spent;
        let t = &mut self.tasks[task];
        match *op {
            Op::Run { ns, spread } => {
                (t.work_left, t.by_the_clock) = (t.rng.around(ns, spread), false);
                return After::Compute;
            }
            Op::RunTime(ns) => {
                (t.work_left, t.by_the_clock) = (ns, true);
                return After::Compute;
            }
            Op::Sleep { ns, spread } => {
                let until = now + t.rng.around(ns, spread);
                return self.sleep_until(task, until);
            }
            Op::Timer { timer, period, absolute } => {
                let slot = &mut t.timers[timer];
                let until = slot.unwrap_or(now).saturating_add(period);
                *slot = Some(if absolute { until } else { until.max(now) });
                if until > now {
                    return self.sleep_until(task, until);
                }
            }
            Op::Wait(channel) => {
                let c = &mut self.channels[channel];
                if c.tokens == 0 {
                    return self.block(task, channel);
                }
                c.tokens -= 1;
            }
            Op::Post(channel) => {
                if !self.wake_one(task, channel, spent) {
                    self.channels[channel].tokens += 1;
                }
            }
            Op::Block(channel) => return self.block(task, channel),
            Op::Signal(channel) => {
                self.wake_one(task, channel, spent);
            }
            Op::Broadcast(channel) => while self.wake_one(task, channel, spent) {},
            Op::Barrier { channel, users } => {
                if self.channels[channel].waiters.len() + 1 < users as usize {
                    return self.block(task, channel);
                }
                while self.wake_one(task, channel, spent) {}
            }
            Op::Yield => {
                t.slice = 0;
                return After::Leave;
            }
            Op::Send => t.sent_at = Some(now),
            Op::Count(n) => {
                t.tally.requests += n;
                if let Some(sent) = t.sent_at.take() {
                    t.tally.response.add(now.saturating_sub(sent));
                }
            }
            Op::Fork(template) => self.fork(task, template, spent),
            Op::Exec(comm) => {
                t.comm = comm;
                *spent += self.costs.exec;
                let pid = Pid(tid_of(t.leader));
                self.process_events.push_back(ProcessEvent::Exec { pid, comm, exe: comm });
            }
            Op::SetMask(mask) => return self.set_own_mask(task, mask),
            Op::Rebind { task: other, mask } => {
                if other == task {
                    return self.set_own_mask(task, mask);
                }
                self.rebind(other, mask);
            }
            Op::SetWeight(weight) => t.weight = weight,
            Op::Repeat { to, times, counter } => {
                let done = &mut t.loops[counter];
                *done += 1;
                if *done < times {
                    t.pc = to;
                } else {
                    *done = 0;
                }
            }
            Op::Jump(to) => t.pc = to,
            Op::Exit => return self.exit(task),
        }
        After::Next
    }

    fn sleep_until(&mut self, task: TaskId, until: Ns) -> After {
        self.wake_later(task, None, until, until);
        After::Leave
    }

    fn block(&mut self, task: TaskId, channel: Channel) -> After {
        self.tasks[task].state = State::Blocked;
        self.channels[channel].waiters.push_back(task);
        After::Leave
    }

    /// Wakes the first waiter; whether there was one. The waker pays for it and waits for its turn at the ring.
    fn wake_one(&mut self, waker: TaskId, channel: Channel, spent: &mut Ns) -> bool {
        let Some(waiter) = self.channels[channel].waiters.pop_front() else { return false };
        let begun = self.now + *spent;
        let held_up = self.queued.take_turn(begun, &self.costs);
        self.totals.ring_wait_ns += held_up;
        *spent += self.costs.wake_up + held_up;
        self.wake_by(waiter, waker, begun, self.now + *spent);
        true
    }

    fn fork(&mut self, parent: TaskId, template: usize, spent: &mut Ns) {
        *spent += self.costs.fork;
        // Beyond the bound it fails, as in the kernel.
        let room = self.tasks.len() < MOST_TASKS;
        let Some(spec) = self.templates.get(template).filter(|_| room).cloned() else { return };
        self.totals.forks += 1;
        let child = self.tasks.len();
        // Until it execs it is a copy of its parent, on its parent's CPU.
        let (cpu, comm) = (self.tasks[parent].cpu, self.tasks[parent].comm);
        let mut task = self.make_task(child, child, &spec, cpu);
        task.comm = comm;
        self.tasks.push(task);
        self.note_process(child, parent, comm);
        let at = self.now + *spent;
        self.wake_later(child, Some(parent), at, at);
    }

    fn exit(&mut self, task: TaskId) -> After {
        let leader = self.tasks[task].leader;
        self.tasks[leader].threads = self.tasks[leader].threads.saturating_sub(1);
        let last = self.tasks[leader].threads == 0;
        self.tasks[task].state = State::Dead;
        self.tasks[task].ended = Some(self.now);
        let (tid, pid) = (Tid(tid_of(task)), Pid(tid_of(leader)));
        self.process_events.push_back(ProcessEvent::Exit { tid, pid, last });
        After::Leave
    }

    fn usable(&self, mask: &CpuMask) -> bool {
        mask.intersects(self.topology.cpus())
    }

    fn set_own_mask(&mut self, task: TaskId, mask: CpuMask) -> After {
        // The kernel refuses a mask without a CPU.
        if self.usable(&mask) {
            self.tasks[task].allowed = mask;
            if !mask.has(self.tasks[task].cpu) {
                return After::Move;
            }
        }
        After::Next
    }

    /// Another task's mask changes: a waiting one is enqueued again with a new generation, a running one is moved.
    fn rebind(&mut self, task: TaskId, mask: CpuMask) {
        if task >= self.tasks.len() || !self.usable(&mask) {
            return;
        }
        self.tasks[task].allowed = mask;
        match self.tasks[task].state {
            State::Blocked | State::Waking | State::Dead => {}
            State::Running(cpu) => {
                if !mask.has(cpu) {
                    self.account(cpu);
                    self.tasks[task].state = State::Blocked;
                    self.reschedule(cpu, 0);
                    self.requeue(task);
                }
            }
            State::Queued | State::OnCpuQueue(_) | State::OnSharedQueue => {
                self.dequeue(task);
                self.requeue(task);
            }
        }
    }

    /// The policy heard that a task has gone: it owes nothing for it any more.
    pub(super) fn exit_was_told(&mut self, tid: Tid) {
        if let Some(t) = task_of(tid.0).and_then(|t| self.tasks.get_mut(t)) {
            t.exit_told = true;
            if std::mem::take(&mut t.with_policy) {
                self.nr_with_policy -= 1;
            }
        }
    }
}
