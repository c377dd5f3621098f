//! Crowded LLCs: the domain of a process that is no instance follows the load when the imbalance lasts.

use super::SoftDomain;
use crate::ids::{LlcId, MS, Ns};
use crate::queue::{NONE, Slot};

/// How long an imbalance lasts before somebody moves, and again before the next one does, ns. (A guess: some slices, so
/// that a burst of short tasks has gone by then.)
const LASTS: Ns = 40 * MS;

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

    /// The oldest waiting task that has its process for itself, is no instance, is not on its way yet, and may use the other
    /// LLC.
    fn movable(&self, from: LlcId, to: LlcId) -> Option<Slot> {
        let mut next = self.queues.oldest(from.index());
        for _ in 0..LOOK {
            let slot = next?;
            let task = self.tasks.get(slot);
            if task.process != NONE && task.allowed.intersects(self.topology.llc_cpus(to)) {
                let process = self.domains.processes.get(task.process);
                if process.instance.is_none() && process.threads <= 1 && !process.kthread && process.llc == Some(from) {
                    return Some(slot);
                }
            }
            next = self.queues.newer(slot);
        }
        None
    }
}
