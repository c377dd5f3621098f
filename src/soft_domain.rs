//! The soft-domain policy: every instance has a home, every other process a home LLC.
//!
//! One turn, in the order of this file:
//! 1. events: a task that became runnable is charged for what it ran, gets a deadline and waits in the queue of its
//!    domain's LLC (or of its only CPU);
//! 2. a pass over the CPUs that can take work: each queue from the earliest deadline on, every task to the best free
//!    CPU for it: home, its LLC, and after a wait another LLC or node;
//! 3. now and then the homes: back inside the mask, to a less loaded CPU, out of a taken LLC and back, even spread; and
//!    the LLCs of all others, where some are more crowded.
//!
//! Invariants: a task is in at most one queue; every waiting task is dispatched, superseded or exits; a task goes only
//! to a CPU of its mask; nothing here allocates once it is made.

mod balance;
mod behind;
mod homes;
mod partner;
mod place;
mod task;
mod waiting;

use crate::cpumask::CpuMask;
use crate::cpus::Cpus;
use crate::domain::{Domains, Process};
use crate::event::{Answers, Cause, Dispatch, Hint, Name, ProcessEvent, Ready, Reason, Runnable, Spent};
use crate::ids::{CpuId, LlcId, Ns, Pid, Tid, US};
use crate::limits::{FULL_LOAD, Limits};
use crate::load::Load;
use crate::policy::Policy;
use crate::queue::{NONE, Queues, Slot};
use crate::service::Pattern;
use crate::stats::{Counter, Counters};
use crate::table::Table;
use crate::topology::{Level, Topology};
use task::{Reach, Task};

/// What the policy is made from.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Patterns of instances.
    pub services: Vec<Pattern>,
    /// What a home is.
    pub level: Level,
    /// Thresholds.
    pub limits: Limits,
    /// Tasks and processes that can be tracked.
    pub max_tasks: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { services: Vec::new(), level: Level::Cpu, limits: Limits::default(), max_tasks: 1 << 16 }
    }
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct SoftDomain {
    topology: Topology,
    settings: Settings,
    tasks: Table<Task>,
    /// By slot of a task: its affinity mask, if that is narrow. Apart from the tasks, for it is as large and seldom needed.
    masks: Vec<CpuMask>,
    domains: Domains,
    cpus: Cpus,
    /// Queue numbers: LLCs first, then one per CPU number for tasks that have only that CPU.
    queues: Queues,
    /// Per LLC: the virtual time that new and long asleep tasks start from.
    clocks: Vec<u64>,
    /// Per LLC: load promised to processes that were just sent there and have not shown theirs yet.
    promised: Vec<Load>,
    /// LLCs, and CPUs, whose queue has a task.
    waiting_llcs: CpuMask,
    waiting_cpus: CpuMask,
    /// LLCs whose queue has a task that is not bound to them, see `waiting.rs`.
    unbound_llcs: CpuMask,
    /// The arrival before the last change of a process: of tasks that wait since earlier it is not known whether they are
    /// bound; and whether there may be such tasks.
    processes_changed: u64,
    unknown: bool,
    /// Before these no task can have waited longer than the age bound, or long enough to leave its LLC.
    overdue_due: Ns,
    spill_due: Ns,
    /// When the homes are looked at next.
    homes_due: Ns,
    /// When CPUs are next looked through for slices that are over.
    expired_due: Ns,
    /// When the homes were first looked at.
    began_at: Ns,
    /// When the last instance came or left.
    population_changed: Ns,
    /// The spread was even when it was looked at, and no instance came, left or got another base since.
    even: bool,
    /// Since when LLCs are crowded unevenly; 0 = they are not.
    uneven_since: Ns,
    counters: Counters,
}

impl SoftDomain {
    /// A policy for this machine.
    pub fn new(topology: &Topology, settings: Settings) -> Self {
        let slots = settings.max_tasks;
        SoftDomain {
            tasks: Table::new(slots),
            masks: vec![CpuMask::EMPTY; slots],
            domains: Domains::new(topology, slots),
            cpus: Cpus::new(topology, settings.limits.load_half_life_ns),
            queues: Queues::new(topology.nr_llcs() + topology.cpu_slots(), slots),
            clocks: vec![0; topology.nr_llcs()],
            promised: vec![Load::default(); topology.nr_llcs()],
            waiting_llcs: CpuMask::EMPTY,
            waiting_cpus: CpuMask::EMPTY,
            unbound_llcs: CpuMask::EMPTY,
            processes_changed: 0,
            unknown: false,
            overdue_due: 0,
            spill_due: 0,
            homes_due: 0,
            expired_due: 0,
            began_at: 0,
            population_changed: 0,
            even: true,
            uneven_since: 0,
            counters: Counters::default(),
            topology: topology.clone(),
            settings,
        }
    }

    /// Every instance with its service's number, name and home, in the order of adoption.
    pub fn placement(&self) -> impl Iterator<Item = (Pid, u16, Name, CpuId)> + '_ {
        self.domains.instances.iter().filter_map(|s| {
            let p = self.domains.processes.get(*s);
            p.instance.map(|i| (p.pid, i.service, p.comm, i.home))
        })
    }

    fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    fn llc_of(&self, cpu: CpuId) -> LlcId {
        self.topology.cpu(cpu).map_or(LlcId(0), |c| c.llc)
    }

    fn pinned_queue(&self, cpu: CpuId) -> usize {
        self.topology.nr_llcs() + cpu.index()
    }

    /// Whether the task follows the home of its process: an instance's main thread does, and every thread of it
    /// where a home is more than a CPU.
    fn home_of(&self, task: &Task) -> Option<CpuId> {
        if task.process == NONE {
            return None;
        }
        let process = self.domains.processes.get(task.process);
        let main = process.pid.0 == task.tid.0 || self.settings.level != Level::Cpu;
        process.instance.filter(|_| main).map(|i| i.home)
    }

    /// The LLC whose queue the task waits in: its domain's, unless its mask excludes that.
    fn queue_llc(&self, task: &Task, allowed: &CpuMask) -> LlcId {
        let own = self.llc_of(task.cpu);
        if task.process == NONE {
            return own;
        }
        let process = self.domains.processes.get(task.process);
        let domain = process.instance.map(|i| self.llc_of(i.home)).or(process.llc).unwrap_or(own);
        let open = task.reach == Reach::Anywhere || self.topology.llc_cpus(domain).intersects(allowed);
        if open { domain } else { own }
    }

    /// Virtual deadline: virtual start plus what it usually runs, at most one slice, by weight. Earliest deadline
    /// first with a bound on the credit of sleepers, after EEVDF (Stoica and Abdel-Wahab, 1995).
    fn deadline(&mut self, now: Ns, task: &mut Task, llc: LlcId, ran: Ns) -> u64 {
        let weight = u64::from(task.weight.max(1));
        // Without a division for the usual weight.
        let by_weight = |ns: Ns| if weight == 100 { ns.min(u64::MAX / 100) } else { ns.saturating_mul(100) / weight };
        let Limits { slice_ns, slice_min_ns, lag_ns, .. } = *self.limits();
        let clock = self.clocks.get(llc.index()).copied().unwrap_or(0);
        let from = self.clocks.get(task.clock_of.index()).copied().unwrap_or(0);
        if task.clock_of != llc {
            task.vtime = clock.saturating_add(task.vtime).saturating_sub(from);
            task.clock_of = llc;
        }
        // A sleeper keeps a little credit, and its debt is forgotten while it sleeps, as fast as time goes by: tasks that
        // ran much before they slept, long ago, would wait for many short bursts of others; but naps between bursts shall
        // not make two tasks starve a third.
        // Among tasks that do not sleep the debt must reach over the longest deadline, one slice: else the first of a
        // heavy task would always come before the deadline of a light one.
        let slept =
            if task.cause == Some(Cause::SliceEnd) { 0 } else { now.saturating_sub(task.sent_at).saturating_sub(ran) };
        let debt = by_weight(2 * slice_ns).max(2 * slice_ns).saturating_sub(slept);
        let (least, most) = (clock.saturating_sub(lag_ns), clock.saturating_add(debt));
        task.vtime = task.vtime.saturating_add(by_weight(ran)).clamp(least, most);
        let request = by_weight(task.burst.max(task.charged).clamp(slice_min_ns / 4, slice_ns));
        task.vtime.saturating_add(request.min(slice_ns))
    }

    /// Tells the kernel side where the task's next wake-up should look, if that changed.
    fn hint(&mut self, slot: Slot, now: Ns, out: &mut Answers) {
        let task = self.tasks.get(slot);
        let home = self.home_of(task);
        let hint = Hint {
            tid: task.tid,
            cpu: home.unwrap_or(task.cpu),
            rank: task.rank(),
            sticky: home.is_some_and(|h| self.waits_for(task.process, h, now)),
            home: home.is_some(),
        };
        if task.hint != Some(hint) {
            self.tasks.get_mut(slot).hint = Some(hint);
            out.hints.push(hint);
        }
    }

    /// An instance waits for a home that is mostly its own. Where others hold the home, any CPU of the LLC takes its
    /// tasks until the home moves.
    fn waits_for(&self, process: Slot, home: CpuId, now: Ns) -> bool {
        self.settings.level == Level::Cpu && self.others_on(process, home, now) < FULL_LOAD / 2
    }

    /// Load on `cpu` that is not the instance's own: that of tasks that have no home there, and of other instances
    /// that share it.
    fn others_on(&self, process: Slot, cpu: CpuId, now: Ns) -> u32 {
        let others = self.cpus.other_load(cpu);
        if self.domains.homes_on(cpu) < 2 {
            return others;
        }
        let own = self.domains.processes.get(process).load.at(now, 0, self.limits().load_half_life_ns);
        others + self.cpus.home_load(cpu).saturating_sub(own)
    }

    /// A thread that was seen runnable before we heard of its creation was taken for a process of its own.
    fn forget_guess(&mut self, now: Ns, process: Slot, tid: Tid, out: &mut Answers) {
        if process == NONE {
            return;
        }
        let p = self.domains.processes.get(process);
        if p.pid.0 == tid.0 && p.threads == 0 {
            self.leave(now, process, out);
            self.domains.processes.remove(tid.0);
        }
    }

    fn send_untracked(&mut self, now: Ns, r: &Runnable, out: &mut Answers) {
        self.counters.add(Counter::SentUntracked);
        out.dispatch.push(Dispatch {
            tid: r.tid,
            cpu: r.cpu,
            slice_ns: self.limits().slice_ns.max(1),
            vtime: now,
            generation: r.generation,
            reason: Reason::Untracked,
        });
    }

    fn send(&mut self, now: Ns, slot: Slot, cpu: CpuId, reason: Reason, out: &mut Answers) {
        let queue = self.unwait(slot);
        let task = self.tasks.get_mut(slot);
        task.sent_at = now;
        let Task { tid, generation, vtime, enqueued_at, clock_of: llc, .. } = *task;
        if let Some(clock) = self.clocks.get_mut(llc.index()) {
            // The clock follows the least served task that still waits.
            if vtime > *clock {
                let next = self.queues.first(llc.index()).map_or(u64::MAX, |s| self.tasks.get(s).vtime);
                *clock = (*clock).max(vtime.min(next));
            }
        }
        let limits = self.limits();
        let waiting = queue.map_or(0, |q| self.queues.len(q)) as u64;
        // Tasks for each CPU that wait; without a division where few do.
        let crowd = if waiting == 0 { 0 } else { waiting / self.topology.llc_cpus(llc).count().max(1) as u64 };
        let slice_ns = if crowd == 0 { limits.slice_ns } else { limits.slice_ns / (1 + crowd) };
        let slice_ns = slice_ns.max(limits.slice_min_ns).max(1);
        out.dispatch.push(Dispatch {
            tid,
            cpu,
            slice_ns,
            // The queue of a CPU is first come, first served: by deadline, a task of little weight that waits behind
            // another there would see every later one go first.
            vtime: now,
            generation,
            reason,
        });
        self.counters.add(Counter::sent(reason));
        let waited = now.saturating_sub(enqueued_at) / US;
        if waited > self.counters.get(Counter::LongestWaitUs) {
            self.counters.set(Counter::LongestWaitUs, waited);
        }
        if matches!(reason, Reason::Behind | Reason::HomeBehind | Reason::MaskBehind) {
            self.cpus.sent_behind(cpu, slot);
        } else {
            self.cpus.sent(cpu, slot, now);
        }
    }
}

impl Policy for SoftDomain {
    fn process(&mut self, now: Ns, event: &ProcessEvent, out: &mut Answers) {
        self.note_processes_change();
        match *event {
            ProcessEvent::Thread { tid, pid, comm, kthread, .. } => {
                let Some(process) = self.domains.process(pid) else { return };
                let p = self.domains.processes.get_mut(process);
                if p.threads == 0 {
                    (p.comm, p.kthread) = (comm, kthread);
                }
                let new = self.tasks.slot(tid.0).is_none();
                let task = Task { tid, process, weight: 100, ..Task::default() };
                match self.tasks.slot_or_insert(tid.0, task) {
                    Some(slot) => {
                        // A thread that was queued before we knew its process.
                        let old = std::mem::replace(&mut self.tasks.get_mut(slot).process, process);
                        if new || old != process {
                            self.domains.processes.get_mut(process).threads += 1;
                            self.forget_guess(now, old, tid, out);
                        }
                    }
                    None => self.counters.add(Counter::TasksLost),
                }
            }
            ProcessEvent::Exec { pid, comm, exe } => self.exec(now, pid, comm, exe, out),
            ProcessEvent::Exit { tid, pid, last } => {
                if let Some(slot) = self.tasks.slot(tid.0) {
                    if self.unwait(slot).is_some() {
                        self.counters.add(Counter::ExitedQueued);
                    }
                    let Task { cpu, process, .. } = *self.tasks.get(slot);
                    self.cpus.came_back(cpu, slot, now);
                    self.tasks.remove(tid.0);
                    if pid.0 != tid.0 {
                        self.forget_guess(now, process, tid, out);
                    }
                    if let Some(p) = self.domains.processes.slot(pid.0) {
                        let p = self.domains.processes.get_mut(p);
                        p.threads = p.threads.saturating_sub(1);
                    }
                }
                if last && let Some(slot) = self.domains.processes.slot(pid.0) {
                    self.leave(now, slot, out);
                    self.domains.processes.remove(pid.0);
                }
            }
        }
    }

    fn enqueue(&mut self, now: Ns, r: &Runnable, out: &mut Answers) {
        self.counters.add(Counter::Enqueued);
        let fresh = || Task { tid: r.tid, process: NONE, weight: 100, ..Task::default() };
        let Some(slot) = self.tasks.slot(r.tid.0).or_else(|| self.tasks.slot_or_insert(r.tid.0, fresh())) else {
            // No room: it runs where it was, without a domain.
            self.counters.add(Counter::TasksLost);
            self.send_untracked(now, r, out);
            return;
        };
        if self.unwait(slot).is_some() {
            self.counters.add(Counter::Superseded);
        }
        let cpus = self.topology.cpus();
        let anywhere = cpus.is_subset_of(&r.allowed);
        if !anywhere && !r.allowed.intersects(cpus) {
            // Only CPUs that came online after we looked: no queue of ours leads there.
            self.send_untracked(now, r, out);
            return;
        }
        let only = if anywhere { cpus.only() } else { r.allowed.and(cpus).only() };
        let mut task = *self.tasks.get(slot);
        let ran = task.charge(r);
        self.cpus.came_back(r.cpu, slot, now);
        (task.cpu, task.generation, task.weight) = (r.cpu, r.generation, r.weight);
        task.reach = if anywhere { Reach::Anywhere } else { Reach::Narrow };
        if !anywhere {
            self.masks[slot as usize] = r.allowed;
        }
        (task.cause, task.enqueued_at) = (Some(r.cause), now);
        if task.process == NONE {
            self.note_processes_change();
            task.process = self.domains.process(Pid(r.tid.0)).unwrap_or(NONE);
        }
        if task.process != NONE {
            let half_life = self.limits().load_half_life_ns;
            let level = self.settings.level;
            let process: &mut Process = self.domains.processes.get_mut(task.process);
            process.load.advance(now, ran, half_life);
            if let (Some(home), true) = (self.home_of(&task), ran > 0) {
                let at_home = self.topology.domain(home, level).has(r.cpu);
                self.counters.add(if at_home { Counter::HomeRuns } else { Counter::AwayRuns });
            }
            let Process { pid, instance, .. } = *self.domains.processes.get(task.process);
            if instance.is_some_and(|i| pid.0 == r.tid.0 && (!anywhere || i.restricted)) {
                self.follow_mask(now, task.process, &r.allowed, out);
            }
        }
        if let (Some(waker), true) = (r.waker, task.process != NONE) {
            self.note_waker(now, task.process, waker, out);
        }
        let llc = self.queue_llc(&task, &r.allowed);
        let deadline = self.deadline(now, &mut task, llc, ran);
        *self.tasks.get_mut(slot) = task;
        let queue = only.map_or(llc.index(), |cpu| self.pinned_queue(cpu));
        self.wait(queue, slot, deadline);
        self.hint(slot, now, out);
    }

    fn observe(&mut self, now: Ns, cpu: CpuId, spent: &Spent) {
        self.cpus.observe(now, cpu, spent);
    }

    fn dispatch(&mut self, now: Ns, ready: &Ready, out: &mut Answers) {
        self.cpus.found_idle(&ready.idle);
        if let Some(cpu) = ready.asking {
            if ready.next {
                // Without one behind it, the current task as we know it is next: it was sent and has not begun.
                self.cpus.next_begins(cpu, now);
            } else {
                self.cpus.vacate(cpu);
            }
        }
        self.place(now, ready, out);
        if now >= self.homes_due {
            self.balance_llcs(now);
            self.tend_homes(now, out);
        }
    }

    fn waiting(&self) -> usize {
        self.queues.total()
    }

    fn due(&self) -> Ns {
        if self.even { Ns::MAX } else { self.spread_due().max(self.homes_due) }
    }

    fn restore_home(&mut self, pid: Pid, home: CpuId) {
        self.adopt_at(pid, home);
    }

    fn counters(&self) -> Option<&Counters> {
        Some(&self.counters)
    }
}
