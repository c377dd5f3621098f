//! Homes: given, kept inside the mask, moved, and given back.

use super::{Reach, SoftDomain};
use crate::cpumask::{CpuMask, Set};
use crate::domain::Instance;
use crate::event::{Answers, MoveReason, Name, Notice};
use crate::ids::{CpuId, LlcId, MS, Ns, Pid};
use crate::limits::FULL_LOAD;
use crate::queue::Slot;
use crate::stats::Counter;
use crate::topology::{Distance, Level};

/// How often the homes are looked at, ns.
const TEND_EVERY: Ns = 10 * MS;

/// How long after our start, or its own, a home stays where it is: until then the loads are those of the start itself,
/// and of the kernel's own placement before it.
const SETTLE_IN: Ns = 500 * MS;

/// How long after the last instance came or left the spread is made even: a service that is restarted takes the home
/// that it left, and nobody moves.
const SPREAD_AFTER: Ns = 500 * MS;

/// Homes that move in one look to make the spread even: hundreds may have to when half of a fleet ends, and it shall
/// be even a second after.
const SPREAD_AT_ONCE: usize = 16;

impl SoftDomain {
    /// A process runs another program: it may become an instance, stay one, or stop being one.
    pub(super) fn exec(&mut self, now: Ns, pid: Pid, comm: Name, exe: Name, out: &mut Answers) {
        let Some(slot) = self.domains.process(pid) else { return };
        let process = self.domains.processes.get_mut(slot);
        process.comm = comm;
        // Another program: what it was is no guide to where it should be.
        (process.llc, process.votes, process.cramped) = (None, 0, 0);
        let service = self.settings.services.iter().position(|p| p.matches(&comm, &exe)).filter(|_| !process.kthread);
        match (service, process.instance) {
            (Some(service), None) => self.adopt(now, slot, service as u16, out),
            (Some(service), Some(instance)) if instance.service != service as u16 => {
                self.leave(now, slot, out);
                self.adopt(now, slot, service as u16, out);
            }
            (Some(_), Some(_)) | (None, None) => {}
            (None, Some(_)) => self.leave(now, slot, out),
        }
    }

    fn adopt(&mut self, now: Ns, slot: Slot, service: u16, out: &mut Answers) {
        let process = *self.domains.processes.get(slot);
        // Its mask as far as we know; the first enqueue of its main thread corrects it.
        let allowed = self.allowed(slot);
        let load = |c: CpuId| self.cpus.load(c);
        let Some(home) = self.domains.choose(&self.topology, &allowed, load) else { return };
        let restricted = allowed != *self.topology.cpus();
        let base = self.llc_of(home);
        self.domains.adopt(slot, Instance { service, home, base, restricted, adopted_at: now, ..Instance::default() });
        (self.population_changed, self.even) = (now, false);
        self.counters.add(Counter::InstancesAdopted);
        out.notices.push(Notice::Adopted { pid: process.pid, service, name: process.comm, home });
    }

    /// The home that an earlier scheduler had given to `pid`.
    pub(super) fn adopt_at(&mut self, pid: Pid, home: CpuId) {
        if self.topology.cpu(home).is_none() {
            return;
        }
        if let Some(slot) = self.domains.processes.slot(pid.0)
            && self.domains.processes.get(slot).instance.is_some()
        {
            self.domains.rehome(slot, home, 0);
            let base = self.llc_of(home);
            self.domains.update(slot, |i| i.base = base);
            self.even = false;
        }
    }

    /// The process is no instance any more; its home is free.
    pub(super) fn leave(&mut self, now: Ns, slot: Slot, out: &mut Answers) {
        if let Some(instance) = self.domains.leave(slot, now) {
            (self.population_changed, self.even) = (now, false);
            self.counters.add(Counter::InstancesLeft);
            let pid = self.domains.processes.get(slot).pid;
            out.notices.push(Notice::Left { pid, home: instance.home });
        }
    }

    /// The mask wins: a home outside it moves at once.
    pub(super) fn follow_mask(&mut self, now: Ns, slot: Slot, allowed: &CpuMask, out: &mut Answers) {
        let Some(instance) = self.domains.processes.get(slot).instance else { return };
        let allowed = allowed.and(self.topology.cpus());
        let restricted = allowed != *self.topology.cpus();
        if restricted != instance.restricted {
            self.domains.update(slot, |i| i.restricted = restricted);
            self.even = false;
        }
        if allowed.has(instance.home) || allowed.is_empty() {
            return;
        }
        let load = |c: CpuId| self.cpus.load(c);
        // No further than it must. It is restricted now, so the spread does not count it.
        let near = allowed.and(self.topology.domain(instance.home, Level::Llc));
        let in_node = allowed.and(self.topology.domain(instance.home, Level::Node));
        let nearest = [near, in_node].into_iter().find(|m| !m.is_empty()).unwrap_or(allowed);
        if let Some(to) = self.domains.choose(&self.topology, &nearest, load) {
            self.move_home(now, slot, to, MoveReason::Mask, out);
            let base = self.llc_of(to);
            self.domains.update(slot, |i| i.base = base);
            self.even = false;
        }
    }

    pub(super) fn move_home(&mut self, now: Ns, slot: Slot, to: CpuId, why: MoveReason, out: &mut Answers) {
        let process = self.domains.processes.get(slot);
        let Some(instance) = process.instance else { return };
        let from = instance.home;
        if from == to {
            // An instance away from its base that is based, for an even spread, where it already lives.
            return;
        }
        let load = (self.others_on(slot, from, now), self.cpus.load(to));
        out.notices.push(Notice::Moved { pid: process.pid, from, to, load, why });
        self.counters.add(match self.topology.distance(from, to) {
            Distance::Machine => Counter::MovesAcrossNode,
            Distance::Node => Counter::MovesAcrossLlc,
            _ => Counter::MovesInLlc,
        });
        self.domains.rehome(slot, to, now);
        if let Some(task) = self.tasks.slot(self.domains.processes.get(slot).pid.0) {
            self.hint(task, now, out);
        }
    }

    /// Looks at every instance: less loaded CPU, taken LLC, way back; then at the spread.
    pub(super) fn tend_homes(&mut self, now: Ns, out: &mut Answers) {
        self.homes_due = now.saturating_add(TEND_EVERY);
        if self.began_at == 0 {
            self.began_at = now;
        }
        if now.saturating_sub(self.began_at) < SETTLE_IN {
            return;
        }
        for i in 0..self.domains.instances.len() {
            let Some(slot) = self.domains.instances.get(i).copied() else { break };
            let adopted_at = self.domains.processes.get(slot).instance.map_or(0, |i| i.adopted_at);
            if now.saturating_sub(adopted_at) < SETTLE_IN {
                continue;
            }
            if !self.move_inside_llc(now, slot, out) {
                self.leave_taken_llc(now, slot, out);
                self.return_to_base(now, slot, out);
            }
        }
        if !self.even && now >= self.spread_due() {
            self.spread(now, out);
        }
    }

    /// When the spread may be made even.
    pub(super) fn spread_due(&self) -> Ns {
        self.population_changed.saturating_add(SPREAD_AFTER).max(self.began_at.saturating_add(SETTLE_IN))
    }

    fn spread(&mut self, now: Ns, out: &mut Answers) {
        for _ in 0..SPREAD_AT_ONCE {
            let to = self.domains.uneven(&self.topology).and_then(|(slot, llc)| {
                let home = self.home_in(llc, self.topology.llc_cpus(llc))?;
                Some((slot, llc, home))
            });
            let Some((slot, llc, home)) = to else {
                self.even = true;
                return;
            };
            self.move_home(now, slot, home, MoveReason::Spread, out);
            self.domains.update(slot, |i| i.base = llc);
        }
    }

    fn home_in(&self, llc: LlcId, allowed: &CpuMask) -> Option<CpuId> {
        self.domains.choose_in(&self.topology, llc, allowed, |c| self.cpus.load(c))
    }

    pub(super) fn allowed(&self, slot: Slot) -> CpuMask {
        let pid = self.domains.processes.get(slot).pid;
        let main = self.tasks.slot(pid.0).filter(|t| self.tasks.get(*t).reach == Reach::Narrow);
        main.map_or(*self.topology.cpus(), |t| self.usable(t, self.topology.cpus()).mask())
    }

    /// What an instance meets on its home, 1/1024 CPU: the load of others and the other homes there. Compare with
    /// [`Domains::cost`](crate::domain::Domains::cost).
    fn cost_here(&self, now: Ns, slot: Slot, home: CpuId) -> u32 {
        self.domains.cost_of(self.domains.homes_on(home).saturating_sub(1), self.others_on(slot, home, now))
    }

    fn is_better(&self, now: Ns, slot: Slot, cpu: CpuId) -> bool {
        let Some(instance) = self.domains.processes.get(slot).instance else { return false };
        let there = self.domains.cost(cpu, self.cpus.lasting_load(cpu));
        there + self.limits().home_margin <= self.cost_here(now, slot, instance.home)
    }

    /// To the CPU of the LLC where it would meet least, if that is better by the margin, has been so for a while, and the
    /// last move is old enough.
    fn move_inside_llc(&mut self, now: Ns, slot: Slot, out: &mut Answers) -> bool {
        let Some(instance) = self.domains.processes.get(slot).instance else { return false };
        let limits = *self.limits();
        let home = self.topology.domain(instance.home, self.settings.level);
        let cpus = self.topology.llc_cpus(self.llc_of(instance.home)).and(&self.allowed(slot)).minus(home);
        let homes = self.domains.homes_on(instance.home);
        let cost = |c: CpuId| self.domains.cost(c, self.cpus.lasting_load(c));
        // Not onto a CPU that would then be home to more than this one is: two services on one CPU and none on the other
        // is worse than a stranger on either. Nor to one that its instance has just left: it may be restarting.
        let open = |c: &CpuId| self.domains.homes_on(*c) < homes && !self.domains.just_left(*c, now);
        let best = cpus.iter().filter(open).min_by_key(|c| (cost(*c), c.0));
        let best = best.filter(|c| self.is_better(now, slot, *c));
        // Small differences must last; a hog at home is plain at once: what runs long counts twice, it does not give way.
        let here = self.cost_here(now, slot, instance.home) + self.cpus.long_load(instance.home);
        let plain = best.is_some_and(|c| cost(c) + self.cpus.long_load(c) + 2 * limits.home_margin <= here);
        let since = since(best.is_some(), instance.crowded_since, now);
        self.domains.update(slot, |i| i.crowded_since = since);
        let settled = instance.moved_at == 0 || now.saturating_sub(instance.moved_at) >= limits.home_settle_ns;
        let lasted = plain || now.saturating_sub(since) >= limits.home_crowded_ns;
        let Some(to) = best.filter(|_| settled && lasted) else {
            return false;
        };
        self.move_home(now, slot, to, MoveReason::LessLoaded, out);
        true
    }

    /// Out of an LLC that is busy and mostly taken by others for a while, to one that has room. Only those count as takers
    /// that run long: a service's own clients keep a CPU busy too, but sleep while the service works.
    fn leave_taken_llc(&mut self, now: Ns, slot: Slot, out: &mut Answers) {
        let Some(instance) = self.domains.processes.get(slot).instance else { return };
        let limits = *self.limits();
        let allowed = self.allowed(slot);
        let here = self.llc_of(instance.home);
        let cpus = self.topology.llc_cpus(here).and(&allowed);
        let all = cpus.count() as u32 * FULL_LOAD;
        let sum = |load: &dyn Fn(CpuId) -> u32| cpus.iter().map(load).sum::<u32>();
        let left = all.saturating_sub(sum(&|c| self.cpus.load(c)));
        let taken = left <= limits.llc_left && 8 * sum(&|c| self.cpus.long_load(c)) >= 5 * all;
        let since = since(taken, instance.taken_since, now);
        self.domains.update(slot, |i| i.taken_since = since);
        if !taken || now.saturating_sub(since) < limits.llc_taken_ns {
            return;
        }
        let load = |c: CpuId| self.cpus.load(c);
        let node = self.topology.llc_node(here);
        let room = |l: &LlcId| {
            self.topology.llc_cpus(*l).and(&allowed).iter().map(load).min().unwrap_or(u32::MAX) < limits.llc_free
        };
        let to = self
            .topology
            .llcs()
            .filter(|l| *l != here && room(l))
            .min_by_key(|l| (self.topology.llc_node(*l) != node, self.llc_load(now, *l), l.0))
            .and_then(|l| self.home_in(l, &allowed));
        if let Some(to) = to.filter(|to| self.is_better(now, slot, *to)) {
            self.move_home(now, slot, to, MoveReason::LlcTaken, out);
        }
    }

    /// Back to the LLC it was given first, once that has had room for a while.
    fn return_to_base(&mut self, now: Ns, slot: Slot, out: &mut Answers) {
        let Some(instance) = self.domains.processes.get(slot).instance else { return };
        if self.llc_of(instance.home) == instance.base {
            return;
        }
        let limits = *self.limits();
        let allowed = self.allowed(slot);
        let cpus = self.topology.llc_cpus(instance.base).and(&allowed);
        let free = cpus.iter().any(|c| self.cpus.load(c) < limits.llc_free || self.is_better(now, slot, c));
        let since = since(free, instance.free_since, now);
        self.domains.update(slot, |i| i.free_since = since);
        if free
            && now.saturating_sub(since) >= limits.llc_free_ns
            && let Some(to) = self.home_in(instance.base, &allowed)
        {
            self.move_home(now, slot, to, MoveReason::Return, out);
        }
    }
}

/// Since when something holds, given whether it does now and what was known before; 0 = it does not.
fn since(holds: bool, before: Ns, now: Ns) -> Ns {
    match (holds, before) {
        (false, _) => 0,
        (true, 0) => now,
        (true, before) => before,
    }
}
