//! Crowded LLCs: the domain of a process that is no instance follows the load when the imbalance lasts.

use super::SoftDomain;
use crate::cpumask::Set;
use crate::ids::{CpuId, LlcId, MS, Ns};
use crate::limits::FULL_LOAD;
use crate::queue::{NONE, Slot};

/// How long an imbalance lasts before somebody moves, and again before the next one does, ns. (A guess: some slices, so
/// that a burst of short tasks has gone by then.)
const LASTS: Ns = 40 * MS;

/// A process is cramped if it is sent to somebody's home in more than one of three wake-ups (one of two beside its
/// partner): each adds 2 (1), any other takes 1 away, and at this sum it looks for another LLC. (A guess: some ms of a
/// busy client.)
const CRAMPED: u8 = 8;

/// Tasks of a queue that are looked at for one that may move.
const LOOK: usize = 16;

impl SoftDomain {
    /// Gives the process of one waiting task the least crowded LLC instead of the most crowded one, if the two differ by
    /// more than the task itself. Called every few ms; instances stay with their homes.
    pub(super) fn balance_llcs(&mut self, now: Ns) {
        // Runnable tasks per CPU, compared as fractions.
        let crowd = |llc: LlcId| {
            let cpus = self.topology.llc_cpus(llc);
            let running = cpus.iter().filter(|c| self.cpus.current(*c).is_some()).count();
            (self.queues.len(llc.index()) + running, cpus.count().max(1))
        };
        let less = |a: &LlcId, b: &LlcId| {
            let ((ra, na), (rb, nb)) = (crowd(*a), crowd(*b));
            (ra * nb).cmp(&(rb * na)).then(a.0.cmp(&b.0))
        };
        let Some(from) = self.topology.llcs().filter(|l| !self.queues.is_empty(l.index())).max_by(less) else {
            self.uneven_since = 0;
            return;
        };
        let Some(to) = self.topology.llcs().min_by(less) else { return };
        let ((most, n), (least, m)) = (crowd(from), crowd(to));
        if most * m < (least + 2) * n {
            self.uneven_since = 0;
        } else if self.uneven_since == 0 {
            self.uneven_since = now;
        } else if now.saturating_sub(self.uneven_since) >= LASTS
            && let Some(slot) = self.movable(from, to)
        {
            // It still waits its turn where it is, and goes there when it has run: the order of no queue changes.
            let process = self.tasks.get(slot).process;
            self.domains.processes.get_mut(process).llc = Some(to);
            self.uneven_since = now;
        }
    }

    /// A task that has no home was sent to `cpu`. If that keeps being somebody's home, its process gets an LLC with a CPU
    /// that is nobody's and clearly less loaded: two clients beside one server displace it again and again, while the
    /// LLC of another server has room.
    pub(super) fn note_cramped(&mut self, slot: Slot, cpu: CpuId) {
        let of = self.tasks.get(slot).process;
        if of == NONE {
            return;
        }
        let on_home = self.domains.homes_on(cpu) > 0;
        let process = self.domains.processes.get(of);
        if process.instance.is_some() || process.kthread || process.threads > 1 || !on_home && process.cramped == 0 {
            return;
        }
        // Whose partner lives elsewhere goes first.
        let more = if on_home && self.is_with_partner(of) { 1 } else { 2 };
        let process = self.domains.processes.get_mut(of);
        process.cramped = if on_home { process.cramped + more } else { process.cramped.saturating_sub(1) };
        let Some(llc) = process.llc.filter(|_| process.cramped >= CRAMPED) else { return };
        process.cramped = 0;
        let open = self.usable(slot, self.topology.cpus()).except(self.domains.home_mask());
        let load = |c: CpuId| self.cpus.lasting_load(c);
        let here = open.both(self.topology.llc_cpus(llc)).each().map(load).min().unwrap_or(FULL_LOAD);
        let node = self.topology.llc_node(llc);
        let far = |c: CpuId| self.topology.llc_node(self.llc_of(c)) != node;
        let elsewhere = open.except(self.topology.llc_cpus(llc));
        let best = elsewhere.each().min_by_key(|c| (load(*c), far(*c), c.0));
        if let Some(best) = best.filter(|c| load(*c) + self.limits().home_margin <= here) {
            let to = self.llc_of(best);
            self.domains.processes.get_mut(of).llc = Some(to);
        }
    }

    /// The oldest waiting task that has its process for itself, is no instance, is not on its way yet, and may use the other
    /// LLC; rather one that has no partner here.
    fn movable(&self, from: LlcId, to: LlcId) -> Option<Slot> {
        let mut next = self.queues.oldest(from.index());
        let mut second = None;
        for _ in 0..LOOK {
            let Some(slot) = next else { break };
            let task = self.tasks.get(slot);
            if task.process != NONE && self.usable(slot, self.topology.llc_cpus(to)).any() {
                let process = self.domains.processes.get(task.process);
                if process.instance.is_none() && process.threads <= 1 && !process.kthread && process.llc == Some(from) {
                    if !self.is_with_partner(task.process) {
                        return Some(slot);
                    }
                    second = second.or(Some(slot));
                }
            }
            next = self.queues.newer(slot);
        }
        second
    }
}
