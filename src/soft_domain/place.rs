//! The pass: waiting tasks meet free CPUs.

use super::SoftDomain;
use crate::cpumask::{CpuMask, Set};
use crate::event::{Answers, Cause, MAX_URGENT, Ready, Reason, Urgent};
use crate::ids::{CpuId, LlcId, MS, Ns};
use crate::limits::FULL_LOAD;
use crate::queue::{NONE, Slot};

/// Tasks of one queue that are looked at in a pass; the rest are seen in a later one. Bounds a pass when masks
/// forbid the free CPUs to the tasks in front.
const LOOK: usize = 32;

/// The same while a CPU of the queue's LLC stays free: a crowd that may use only other CPUs shall not hide the task
/// that may use this one.
const LOOK_FAR: usize = 512;

/// A slice that is over ends at the next tick: the longest there is (HZ=250), ns.
const TICK: Ns = 4 * MS;

/// Load that a process is thought to bring to the LLC that it was just given, 1/1024 CPU.
const PROMISE: u32 = FULL_LOAD / 2;

/// Tasks of the LLC's queue that may be due before one that has a single CPU.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rivals {
    /// They go first.
    First,
    /// They have had their turn.
    Served,
}

impl SoftDomain {
    /// Gives tasks to the CPUs of `ready`, at most one to each.
    pub(super) fn place(&mut self, now: Ns, ready: &Ready, out: &mut Answers) {
        if self.queues.total() == 0 {
            // Most turns of a machine that is not full.
            self.looks_for_expired(now);
            return;
        }
        self.unknown = self.unknown && self.waiting_llcs.iter().any(|l| self.is_unknown(LlcId(l.0)));
        let mut free = ready.idle.and(self.topology.cpus());
        if let Some(cpu) = ready.asking.filter(|c| self.topology.cpu(*c).is_some()) {
            // With another task behind the one that runs next, no other CPU would ever get these two.
            if !ready.next {
                free.set(cpu);
            }
        }
        self.place_overdue(now, &mut free, out);
        self.place_pinned(now, &mut free, Rivals::First, out);
        self.place_queues(now, ready.asking, &mut free, out);
        if self.queues.total() == 0 {
            // Most turns that had something to send.
            self.looks_for_expired(now);
            return;
        }
        // What stood before them did not want these CPUs.
        self.place_pinned(now, &mut free, Rivals::Served, out);
        self.spill(now, &mut free, out);
        if let Some(cpu) = ready.asking {
            self.send_back_displaced(now, cpu, out);
        }
        self.send_behind_short(now, out);
        self.tell_urgent(now, out);
    }

    /// Tasks of a free CPU's own LLC first. Mostly there is nothing left then for those of others, and nobody looks at them.
    fn place_queues(&mut self, now: Ns, asking: Option<CpuId>, free: &mut CpuMask, out: &mut Answers) {
        if free.is_empty() {
            return;
        }
        if let Some(llc) = self.waiting_llcs.only() {
            self.place_llc(now, LlcId(llc.0), asking, free, out);
            return;
        }
        let near = self.llcs_with(free);
        let mut from = 0;
        while !free.is_empty()
            && let Some(llc) = self.waiting_llcs.both(&near).at_or_above(from)
        {
            self.place_llc(now, LlcId(llc.0), asking, free, out);
            from = llc.index() + 1;
        }
        let mut from = 0;
        while !free.is_empty()
            && let Some(llc) = self.unbound().except(&near).at_or_above(from)
        {
            self.place_llc(now, LlcId(llc.0), asking, free, out);
            from = llc.index() + 1;
        }
    }

    /// LLCs with a CPU of `free`, at least those where tasks wait.
    fn llcs_with(&self, free: &CpuMask) -> CpuMask {
        // Through the shorter list: an idle machine has many free CPUs, a full one many queues.
        if free.count() < self.waiting_llcs.count() {
            free.iter().map(|cpu| CpuId(self.llc_of(cpu).0)).collect()
        } else {
            let has_free = |l: &CpuId| free.intersects(self.topology.llc_cpus(LlcId(l.0)));
            self.waiting_llcs.iter().filter(has_free).collect()
        }
    }

    /// The next task of each queue: if it woke up it is worth interrupting something long. And CPUs that go on with a
    /// task whose slice is over while others wait: several slices end at one tick, but only one of these CPUs finds the
    /// scheduler; the kernel side gives the tasks of the others a fresh slice without a word.
    fn tell_urgent(&mut self, now: Ns, out: &mut Answers) {
        if self.looks_for_expired(now) {
            // One at a time, the longest first: of several that are told at once all but one find the scheduler busy.
            let over = self.limits().slice_ns.saturating_add(TICK);
            let crowded = self.waiting_llcs.iter().flat_map(|l| self.topology.llc_cpus(LlcId(l.0)).iter());
            let started = crowded.filter_map(|c| self.cpus.current(c).map(|(_, since)| (since, c)));
            if let Some((_, cpu)) = started.min().filter(|(since, _)| now.saturating_sub(*since) > over) {
                out.urgent.push(Urgent { cpu, rank: 0 });
            }
        }
        let llcs = self.waiting_llcs.iter().map(CpuId::index);
        let cpus = self.waiting_cpus.iter().map(|c| self.pinned_queue(c));
        for queue in llcs.chain(cpus) {
            if out.urgent.len() >= MAX_URGENT {
                break;
            }
            self.tell_first(queue, out);
        }
    }

    /// Whether it is time again to look for slices that are over.
    fn looks_for_expired(&mut self, now: Ns) -> bool {
        let due = now >= self.expired_due;
        if due {
            self.expired_due = now.saturating_add(MS / 4);
        }
        due
    }

    fn tell_first(&self, queue: usize, out: &mut Answers) {
        let Some(slot) = self.queues.first(queue) else { return };
        let task = self.tasks.get(slot);
        let cpu = self.home_of(task).filter(|c| self.allows(slot, *c)).unwrap_or(task.cpu);
        // One that was running before has no claim to interrupt others, but to its CPU if that is idle by now.
        let rank = if task.cause == Some(Cause::Wakeup) { task.rank() } else { u8::MAX };
        if self.allows(slot, cpu) {
            out.urgent.push(Urgent { cpu, rank });
        }
    }

    fn put(&mut self, now: Ns, slot: Slot, cpu: CpuId, reason: Reason, free: &mut CpuMask, out: &mut Answers) {
        free.clear(cpu);
        self.send(now, slot, cpu, reason, out);
    }

    pub(super) fn waited(&self, slot: Slot, now: Ns) -> Ns {
        now.saturating_sub(self.tasks.get(slot).enqueued_at)
    }

    /// The age bound: the oldest of each queue, the longest wait first, so that no late crowd keeps the CPUs from the
    /// late tasks of another queue.
    fn place_overdue(&mut self, now: Ns, free: &mut CpuMask, out: &mut Answers) {
        let bound = self.limits().age_bound_ns;
        if now <= self.overdue_due {
            return;
        }
        self.overdue_due = self.oldest_since(now, &self.waiting_cpus).saturating_add(bound);
        let first = self.topology.nr_llcs();
        let mut last = None;
        for _ in 0..LOOK {
            let llcs = self.waiting_llcs.iter().map(CpuId::index);
            let pinned = free.both(&self.waiting_cpus).each().map(|c| first + c.index());
            let overdue = llcs.chain(pinned).filter_map(|queue| {
                let slot = self.queues.oldest(queue).filter(|s| self.waited(*s, now) > bound)?;
                let place = (self.tasks.get(slot).enqueued_at, queue);
                (last < Some(place)).then_some((place, slot))
            });
            let Some((place, slot)) = overdue.min().filter(|_| !free.is_empty()) else { return };
            last = Some(place);
            let usable = self.usable(slot, &*free);
            let near = usable.both(self.topology.llc_cpus(self.tasks.get(slot).clock_of));
            if let Some(cpu) = near.lowest().or_else(|| usable.lowest()) {
                self.put(now, slot, cpu, Reason::Overdue, free, out);
            }
        }
    }

    /// Since when the longest waiting task of the LLCs' queues, and of those of `cpus`, waits; `now` if none does.
    fn oldest_since(&self, now: Ns, cpus: &CpuMask) -> Ns {
        let queues = self.waiting_llcs.iter().map(CpuId::index).chain(cpus.iter().map(|c| self.pinned_queue(c)));
        queues.filter_map(|q| self.queues.oldest(q)).map(|s| self.tasks.get(s).enqueued_at).fold(now, Ns::min)
    }

    /// Tasks that have one CPU only, where they are due before the LLC's first.
    fn place_pinned(&mut self, now: Ns, free: &mut CpuMask, rivals: Rivals, out: &mut Answers) {
        if self.waiting_cpus.is_empty() {
            return;
        }
        let mut from = 0;
        while let Some(cpu) = free.both(&self.waiting_cpus).at_or_above(from) {
            from = cpu.index() + 1;
            let Some(slot) = self.queues.first(self.pinned_queue(cpu)) else { continue };
            let rival = self.queues.first(self.llc_of(cpu).index()).and_then(|s| self.queues.deadline(s));
            if rivals == Rivals::Served || self.queues.deadline(slot) <= rival.or(Some(u64::MAX)) {
                self.put(now, slot, cpu, Reason::Mask, free, out);
            }
        }
    }

    /// One LLC's queue from the earliest deadline on.
    fn place_llc(&mut self, now: Ns, llc: LlcId, asking: Option<CpuId>, free: &mut CpuMask, out: &mut Answers) {
        let mut near = free.intersects(self.topology.llc_cpus(llc));
        // Those that are not bound to free CPUs of the LLC and still to come.
        let mut unbound = self.unbound_in(llc);
        let all = unbound == usize::MAX;
        let mut next = self.queues.first(llc.index());
        for look in 0..LOOK_FAR {
            if !near && unbound == 0 {
                return;
            }
            let Some(slot) = next.filter(|_| look < LOOK || near) else { return };
            next = self.queues.next(slot);
            if !all {
                let marked = self.queues.is_marked(slot);
                unbound -= usize::from(marked);
                if !marked && !near {
                    debug_assert!(self.choose_cpu(now, slot, llc, asking, free).is_none());
                    continue;
                }
            }
            if let Some((cpu, reason)) = self.choose_cpu(now, slot, llc, asking, free) {
                self.settle_domain(now, slot, cpu);
                self.note_cramped(slot, cpu);
                if reason == Reason::HomeBehind {
                    self.send(now, slot, cpu, reason, out);
                } else {
                    self.put(now, slot, cpu, reason, free, out);
                    near = free.intersects(self.topology.llc_cpus(llc));
                }
            }
        }
    }

    /// The best CPU for a waiting task among the free ones that it may use, short of leaving its domain.
    fn choose_cpu(
        &self,
        now: Ns,
        slot: Slot,
        llc: LlcId,
        asking: Option<CpuId>,
        free: &CpuMask,
    ) -> Option<(CpuId, Reason)> {
        let task = self.tasks.get(slot);
        let homes = self.domains.home_mask();
        if let Some(home) = self.home_of(task) {
            let at_home = self.usable(slot, free.both(self.topology.domain(home, self.settings.level)));
            let prefer = [task.cpu, home].into_iter().find(|c| at_home.holds(*c)).or_else(|| at_home.lowest());
            if let Some(cpu) = prefer {
                return Some((cpu, Reason::Home));
            }
            let behind = self.may_wait_behind(now, slot, home, llc).then_some((home, Reason::HomeBehind));
            if behind.is_some() && self.waits_for(task.process, home, now) {
                return behind;
            }
            let near = self.usable(slot, free.both(self.topology.llc_cpus(llc)));
            let other = self.best_of(near.except(homes), free).or_else(|| self.best_of(near, free));
            return other.map(|c| (c, Reason::InLlc)).or(behind.filter(|_| self.ends_soon(now, home)));
        }
        let undecided = task.process != NONE && self.undecided(task.process);
        let within = if undecided { free } else { self.topology.llc_cpus(llc) };
        let near = self.usable(slot, free.both(within));
        let away = near.except(homes);
        if !away.any() && task.process != NONE && self.domains.processes.get(task.process).kthread {
            // No cache to lose: rather anywhere than in the way of a service.
            if let Some(cpu) = self.best_of(self.usable(slot, free).except(homes), free) {
                return Some((cpu, Reason::OtherLlc));
            }
        }
        if !near.any() {
            return None;
        }
        if undecided {
            return self.least_loaded_llc(now, &away.mask(), &near.mask(), task.cpu).map(|c| (c, Reason::InLlc));
        }
        // Its last CPU, unless that is a home and there is another; then the CPU that asks, which needs no kick.
        let wish = [Some(task.cpu), asking];
        self.pick(wish, away, free).or_else(|| self.pick(wish, near, free)).map(|c| (c, Reason::InLlc))
    }

    pub(super) fn undecided(&self, process: Slot) -> bool {
        let p = self.domains.processes.get(process);
        p.instance.is_none() && p.llc.is_none()
    }

    /// The first of `wish` that is in `cpus`, else the best of these.
    fn pick(&self, wish: [Option<CpuId>; 2], cpus: impl Set, free: &CpuMask) -> Option<CpuId> {
        wish.into_iter().flatten().find(|c| cpus.holds(*c)).or_else(|| self.best_of(cpus, free))
    }

    /// A CPU of `cpus` whose whole core is free, else its first.
    fn best_of(&self, cpus: impl Set, free: &CpuMask) -> Option<CpuId> {
        let whole =
            |c: &CpuId| self.topology.cpu(*c).is_some_and(|i| self.topology.core_cpus(i.core).is_subset_of(free));
        let first = cpus.lowest()?;
        if self.topology.has_smt() { cpus.each().find(whole).or(Some(first)) } else { Some(first) }
    }

    /// For a process without a domain yet: a CPU in the LLC with the least load and the fewest promises.
    fn least_loaded_llc(&self, now: Ns, away: &CpuMask, near: &CpuMask, last: CpuId) -> Option<CpuId> {
        let from = if away.is_empty() { near } else { away };
        let llc = self
            .topology
            .llcs()
            .filter(|l| self.topology.llc_cpus(*l).intersects(from))
            .min_by_key(|l| (self.llc_load(now, *l) / 64, *l != self.llc_of(last), l.0))?;
        let in_llc = from.both(self.topology.llc_cpus(llc));
        if in_llc.holds(last) { Some(last) } else { self.best_of(in_llc, from) }
    }

    /// Mean load of an LLC's CPUs with what was promised to it, and what waits there: 1024 = all busy.
    pub(super) fn llc_load(&self, now: Ns, llc: LlcId) -> u32 {
        let cpus = self.topology.llc_cpus(llc);
        let n = cpus.count().max(1) as u32;
        let busy: u32 = cpus.iter().map(|c| self.cpus.load(c)).sum();
        let half_life = 4 * self.limits().load_half_life_ns;
        let promised = self.promised.get(llc.index()).map_or(0, |p| p.at(now, 0, half_life));
        (busy + promised + self.queues.len(llc.index()) as u32 * FULL_LOAD) / n
    }

    /// A process that is no instance gets the LLC of the CPU where it first runs.
    fn settle_domain(&mut self, now: Ns, slot: Slot, cpu: CpuId) {
        let process = self.tasks.get(slot).process;
        if process == NONE || !self.undecided(process) {
            return;
        }
        let llc = self.llc_of(cpu);
        self.domains.processes.get_mut(process).llc = Some(llc);
        let half_life = 4 * self.limits().load_half_life_ns;
        if let Some(p) = self.promised.get_mut(llc.index()) {
            // The busy time that lifts an empty load to PROMISE is one half-life per factor of two.
            p.advance(now, 0, half_life);
            p.lift(PROMISE);
        }
    }

    /// CPUs that are still free take tasks of other LLCs that have waited long enough, oldest first.
    fn spill(&mut self, now: Ns, free: &mut CpuMask, out: &mut Answers) {
        let (to_llc, to_node) = (self.limits().spill_llc(), self.limits().spill_node_ns);
        if free.is_empty() || now < self.spill_due {
            return;
        }
        self.spill_due = self.oldest_since(now, &CpuMask::EMPTY).saturating_add(to_llc);
        let mut from = 0;
        while let Some(llc) = self.waiting_llcs.at_or_above(from).map(|c| LlcId(c.0)) {
            from = llc.index() + 1;
            let node = self.topology.llc_node(llc);
            let mut next = self.queues.oldest(llc.index());
            for _ in 0..LOOK {
                let Some(slot) = next.filter(|_| !free.is_empty()) else { break };
                next = self.queues.newer(slot);
                let waited = self.waited(slot, now);
                if waited < to_llc {
                    break;
                }
                let usable = self.usable(slot, &*free);
                let in_node = usable.both(node.map_or(&CpuMask::EMPTY, |n| self.topology.node_cpus(n)));
                if let Some(cpu) = self.best_of(in_node, free) {
                    self.put(now, slot, cpu, Reason::OtherLlc, free, out);
                } else if waited >= to_node
                    && let Some(cpu) = self.best_of(usable, free)
                {
                    self.put(now, slot, cpu, Reason::OtherNode, free, out);
                }
            }
        }
    }
}
