//! The host of a guest that has fewer CPUs than the guest: the guest's CPUs take turns on them.
//!
//! A guest CPU that has something to do waits for a CPU of the host like any thread there; who had least comes first and
//! keeps it for a slice. The guest sees none of that: its clock goes on, the time counts as its task's, and interrupts
//! wait until its CPU goes on. With `host-cpus` 0 the machine is a real one and nothing here happens.

use super::cpu::Current;
use super::event_queue::Event;
use super::machine::Machine;
use super::rng::Rng;
use super::task::TaskId;
use crate::cpumask::CpuMask;
use crate::ids::{CpuId, Ns};

/// How much a slice of the host is longer or shorter than `host-slice`, permille (a guess).
const HOST_SLICE_SPREAD: u32 = 500;

/// A guest's CPU as its host sees it.
#[derive(Clone, Debug, Default)]
struct Thread {
    /// Host time that it has had; after a sleep no less than the least of those that wait or run.
    had: Ns,
    /// When it last got a CPU of the host.
    since: Ns,
    /// When it last lost one in the middle of something.
    stopped: Option<Ns>,
    /// What the scheduler's thread had still to do then, ns.
    step_left: Ns,
    /// Only the slice of this number counts.
    turn: u32,
    asked: bool,
    preempted: bool,
    wakes: Vec<TaskId>,
}

/// Who is on the host's CPUs.
#[derive(Debug)]
pub struct Host {
    cpus: usize,
    running: CpuMask,
    waiting: CpuMask,
    threads: Vec<Thread>,
    slices: Rng,
}

impl Host {
    /// A host of `cpus` CPUs, 0 = none, for a machine of so many CPU numbers.
    pub fn new(cpus: u64, cpu_slots: usize, slices: Rng) -> Self {
        let threads = vec![Thread::default(); if cpus == 0 { 0 } else { cpu_slots }];
        Host { cpus: cpus as usize, running: CpuMask::EMPTY, waiting: CpuMask::EMPTY, threads, slices }
    }

    /// The CPU exists only while the host runs it, and that is not now.
    pub fn stopped(&self, cpu: CpuId) -> bool {
        self.cpus > 0 && !self.running.has(cpu)
    }

    fn first(&self) -> Option<CpuId> {
        self.waiting.iter().min_by_key(|c| (self.threads[c.index()].had, *c))
    }
}

impl Machine {
    /// Whether `cpu` can handle `event` now. If not, it will be asked again when the host lets it run.
    pub(super) fn on_host(&mut self, cpu: CpuId, event: Event) -> bool {
        if !self.host.stopped(cpu) {
            return true;
        }
        let active = self.host.running.or(&self.host.waiting);
        let least = active.iter().map(|c| self.host.threads[c.index()].had).min().unwrap_or(0);
        let room = self.host.running.count() < self.host.cpus;
        let thread = &mut self.host.threads[cpu.index()];
        if room && thread.stopped.is_none() {
            // At once, in the order in which a real machine would.
            thread.had = thread.had.max(least);
            self.host_give(cpu);
            return true;
        }
        match event {
            Event::Reschedule(_) => thread.asked = true,
            Event::Preempt(_) => thread.preempted = true,
            Event::WakeOn(_, task) => thread.wakes.push(task),
            // Timers are set anew when it goes on.
            _ => return false,
        }
        if !self.host.waiting.has(cpu) {
            thread.had = thread.had.max(least);
            self.host.waiting.set(cpu);
            self.host_fill();
        }
        false
    }

    /// `cpu` has handled what there was: if it idles now, its thread on the host sleeps.
    pub(super) fn host_rest(&mut self, cpu: CpuId) {
        if self.host.running.has(cpu) && self.cpus[cpu.index()].current == Current::Idle {
            self.host_take(cpu);
            self.host_fill();
        }
    }

    /// The slice of `cpu` on the host is over.
    pub(super) fn host_slice(&mut self, cpu: CpuId, turn: u32) {
        if !self.host.running.has(cpu) || self.host.threads[cpu.index()].turn != turn {
            return;
        }
        self.host_take(cpu);
        let had = self.host.threads[cpu.index()].had;
        match self.host.first() {
            Some(other) if self.host.threads[other.index()].had <= had => {
                self.host_stop(cpu);
                self.host.waiting.set(cpu);
                self.host_fill();
            }
            _ => self.host_give(cpu),
        }
    }

    fn host_take(&mut self, cpu: CpuId) {
        self.host.running.clear(cpu);
        let thread = &mut self.host.threads[cpu.index()];
        thread.had += self.now - thread.since;
    }

    fn host_give(&mut self, cpu: CpuId) {
        self.host.running.set(cpu);
        let thread = &mut self.host.threads[cpu.index()];
        thread.since = self.now;
        thread.turn = thread.turn.wrapping_add(1);
        // Never the same twice: else the guest's ticks and the host's slices can stay in step for seconds.
        let slice = self.host.slices.around(self.costs.host_slice, HOST_SLICE_SPREAD);
        self.events.push(self.now + slice.max(1), Event::HostSlice(cpu, thread.turn));
    }

    fn host_fill(&mut self) {
        while self.host.running.count() < self.host.cpus
            && let Some(cpu) = self.host.first()
        {
            self.host.waiting.clear(cpu);
            self.host_give(cpu);
            self.host_go_on(cpu);
        }
    }

    /// In the middle of something.
    fn host_stop(&mut self, cpu: CpuId) {
        // While it still counts as running.
        self.host.running.set(cpu);
        self.account(cpu);
        self.host.running.clear(cpu);
        let left = self.dispatch_loop.step_at.saturating_sub(self.now);
        let thread = &mut self.host.threads[cpu.index()];
        (thread.stopped, thread.step_left) = (Some(self.now), left);
        let c = &mut self.cpus[cpu.index()];
        c.epoch = c.epoch.wrapping_add(1);
    }

    fn host_go_on(&mut self, cpu: CpuId) {
        let thread = &mut self.host.threads[cpu.index()];
        let (asked, preempted) = (std::mem::take(&mut thread.asked), std::mem::take(&mut thread.preempted));
        let (stopped, step_left) = (thread.stopped.take(), thread.step_left);
        if let Some(stopped) = stopped {
            self.totals.stolen_ns += self.now - stopped;
            match self.cpus[cpu.index()].current {
                Current::Idle => {}
                Current::Scheduler => self.time_step(cpu, step_left),
                Current::Task(task) => {
                    let now = self.now;
                    let c = &mut self.cpus[cpu.index()];
                    // What it was fetching, or the switch, goes on as well.
                    if c.work_from > stopped {
                        c.work_from += now - stopped;
                    }
                    c.accounted = now;
                    self.arm(cpu, task);
                }
            }
        }
        for task in std::mem::take(&mut self.host.threads[cpu.index()].wakes) {
            self.events.push(self.now, Event::WakeOn(cpu, task));
        }
        if preempted {
            self.events.push(self.now, Event::Preempt(cpu));
        }
        if asked {
            self.events.push(self.now, Event::Reschedule(cpu));
        }
    }
}
