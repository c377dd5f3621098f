//! A stint: a task on a CPU from switch to switch. How fast it goes, what the move costs, when it ends.

use super::cpu::Current;
use super::event_queue::Event;
use super::machine::Machine;
use super::task::{State, TaskId};
use crate::ids::{CpuId, Ns};
use crate::topology::{Distance, FULL_CAPACITY};

impl Machine {
    /// `task` was switched in on `cpu`; `spent` ns of the CPU are already used up.
    pub(super) fn begin_stint(&mut self, cpu: CpuId, task: TaskId, spent: Ns) {
        let now = self.now;
        let runs_at = now + spent + self.costs.context_switch;
        self.set_state(task, State::Running(cpu));
        let distance = self.tasks[task].last_ran.map_or(Distance::Same, |last| self.topology.distance(last, cpu));
        let refill = self.refill(task, distance);
        let node = self.topology.cpu(cpu).map(|c| c.node);
        let t = &mut self.tasks[task];
        // What it did not finish fetching here.
        let unpaid = std::mem::take(&mut t.unpaid_refill);
        let unpaid = if distance == Distance::Same { unpaid } else { 0 };
        debug_assert!(t.allowed.has(cpu), "the machine itself broke a mask");
        t.tally.moved(distance);
        t.tally.stints += 1;
        if let Some(woken) = t.woken_at.take() {
            t.tally.wakeups += 1;
            t.tally.latency.add(runs_at - woken);
            if let Some(watch) = &mut self.watch {
                watch.woken(runs_at - woken);
            }
            self.totals.woken_and_run += 1;
        }
        (t.cpu, t.last_ran, t.start_ts) = (cpu, Some(cpu), now);
        t.memory = t.memory.or(node);
        let c = &mut self.cpus[cpu.index()];
        (c.since, c.accounted, c.work_from) = (now, now, runs_at + refill + unpaid);
        self.renew_slice(cpu, task);
        self.set_rate(cpu, task);
        self.arm(cpu, task);
    }

    /// The books of what runs on `cpu` are closed for now; it goes on.
    pub(super) fn close(&mut self, cpu: CpuId) {
        match self.cpus[cpu.index()].current {
            Current::Idle => {}
            Current::Scheduler => {
                self.totals.scheduler_ns += self.now - self.dispatch_loop.since;
                self.dispatch_loop.since = self.now;
            }
            Current::Task(task) => {
                self.end_stint(cpu, task);
                self.cpus[cpu.index()].since = self.now;
            }
        }
    }

    /// Its books are closed: what it ran, and whether at home.
    pub(super) fn end_stint(&mut self, cpu: CpuId, task: TaskId) {
        self.account(cpu);
        let ran = self.now - self.cpus[cpu.index()].since;
        self.tasks[task].unpaid_refill = self.cpus[cpu.index()].work_from.saturating_sub(self.now);
        let home = self.homes.get(self.tasks[task].leader).copied().flatten();
        let t = &mut self.tasks[task];
        t.stop_ts = self.now;
        t.exec_runtime += ran;
        t.tally.cpu_ns += ran;
        if let Some(home) = home {
            t.tally.homed_ns += ran;
            if self.topology.domain(home, self.level).has(cpu) {
                t.tally.home_ns += ran;
            }
        }
        if t.state == State::Dead && task >= self.first_tasks {
            // Forked tasks can be many: only their sum is kept.
            let tally = std::mem::take(&mut t.tally);
            let service = &mut self.services[t.service];
            service.ended.absorb(&tally);
            service.ended_tasks += 1;
        }
    }

    /// Time to fetch the working set again after a move, ns.
    fn refill(&self, task: TaskId, distance: Distance) -> Ns {
        let c = &self.costs;
        let set = self.tasks[task].working_set_kib;
        match distance {
            Distance::Same | Distance::Core => 0,
            Distance::Cluster | Distance::Llc => set.min(c.private_cache) * c.refill_llc,
            Distance::Node => set.min(c.shared_cache) * c.refill_node,
            Distance::Machine => set.min(c.shared_cache) * c.refill_machine,
        }
    }

    /// The slice begins now and ends at the first tick after it is used up.
    pub(super) fn renew_slice(&mut self, cpu: CpuId, task: TaskId) {
        let used_up = self.now + self.tasks[task].slice.max(1);
        let late = self.ticks.below(self.costs.tick_jitter as u32 + 1);
        self.cpus[cpu.index()].slice_end = used_up.div_ceil(self.tick) * self.tick + Ns::from(late);
    }

    /// The current task goes on after the CPU has spent `spent` ns on something else.
    pub(super) fn go_on(&mut self, cpu: CpuId, spent: Ns) {
        let Current::Task(task) = self.cpus[cpu.index()].current else { return };
        self.account(cpu);
        let now = self.now;
        let c = &mut self.cpus[cpu.index()];
        c.work_from = c.work_from.max(now) + spent;
        self.arm(cpu, task);
    }

    /// Work done until now is subtracted.
    pub(super) fn account(&mut self, cpu: CpuId) {
        let now = self.now;
        let c = &mut self.cpus[cpu.index()];
        let Current::Task(task) = c.current else { return };
        if self.host.stopped(cpu) {
            return;
        }
        let from = c.accounted.max(c.work_from);
        if now > from {
            let done = (now - from) * c.rate / 1000;
            let left = &mut self.tasks[task].work_left;
            *left = left.saturating_sub(done);
        }
        c.accounted = c.accounted.max(now);
    }

    /// Speed of `task` on `cpu`: of the core, of a shared core, of remote memory.
    pub(super) fn set_rate(&mut self, cpu: CpuId, task: TaskId) {
        let t = &self.tasks[task];
        let mut rate = 1000;
        if let Some(info) = self.topology.cpu(cpu).filter(|_| !t.by_the_clock) {
            rate = rate * u64::from(info.capacity) / u64::from(FULL_CAPACITY);
            if self.topology.has_smt()
                && self.topology.core_cpus(info.core).iter().any(|c| c != cpu && !self.idle.has(c))
            {
                rate = rate * self.costs.smt_share / 1000;
            }
            if t.memory.is_some_and(|node| node != info.node) && t.working_set_kib > 0 {
                rate = rate * 1000 / (1000 + self.costs.remote_memory);
            }
        }
        self.cpus[cpu.index()].rate = rate.max(1);
    }

    /// `cpu` fell idle or busy: its siblings go faster or slower from now on.
    pub(super) fn retime_siblings(&mut self, cpu: CpuId) {
        let Some(info) = self.topology.cpu(cpu).filter(|_| self.topology.has_smt()) else { return };
        let siblings = *self.topology.core_cpus(info.core);
        for sibling in siblings.iter().filter(|c| *c != cpu) {
            if let Current::Task(task) = self.cpus[sibling.index()].current {
                self.account(sibling);
                self.set_rate(sibling, task);
                self.arm(sibling, task);
            }
        }
    }

    /// Sets the CPU's timer to the end of the work or of the slice.
    pub(super) fn arm(&mut self, cpu: CpuId, task: TaskId) {
        let left = self.tasks[task].work_left;
        let c = &mut self.cpus[cpu.index()];
        let done = c.work_from.max(c.accounted) + (left * 1000).div_ceil(c.rate);
        c.epoch = c.epoch.wrapping_add(1);
        let event = Event::Cpu(cpu, c.epoch);
        self.events.push(done.min(c.slice_end).max(self.now), event);
    }
}
