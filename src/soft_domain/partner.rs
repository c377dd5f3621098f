//! Partners: two processes that wake each other, a service and its client, say, or the ends of a pipe, live in one LLC
//! while they fit: a wake-up across LLCs costs an interrupt and cold caches.

use super::SoftDomain;
use crate::cpumask::{Both, CpuMask, Set};
use crate::event::{Answers, MoveReason};
use crate::ids::{LlcId, Ns, Tid};
use crate::limits::FULL_LOAD;
use crate::queue::{NONE, Slot};

/// Wake-ups by one thread, less those by all others, that make it the partner; and after as many more the process tries to
/// join it, again and again. (A guess: some ms of a busy pair.)
const PARTNER: u8 = 32;

impl SoftDomain {
    /// `waker` woke a thread of `process`. The majority is found with one candidate and one count (Boyer and Moore, 1981);
    /// the count is bounded, so that a new partner is soon seen.
    pub(super) fn note_waker(&mut self, now: Ns, process: Slot, waker: Tid, out: &mut Answers) {
        let p = self.domains.processes.get_mut(process);
        if p.kthread || p.threads > 1 && p.instance.is_none() {
            return;
        }
        if p.partner == waker {
            p.votes += 1;
        } else if p.votes == 0 {
            (p.partner, p.votes) = (waker, 1);
        } else {
            p.votes -= 1;
        }
        if p.votes >= 2 * PARTNER {
            p.votes = PARTNER;
            if p.instance.is_some() {
                self.exchange_homes(now, process, out);
            } else {
                self.join(now, process);
            }
        }
    }

    /// The process that mostly wakes this one, and the CPUs that the thread which does may use.
    fn partner_of(&self, process: Slot) -> Option<(Slot, Both<&CpuMask, &CpuMask>)> {
        let p = self.domains.processes.get(process);
        let thread = self.tasks.slot(p.partner.0).filter(|_| p.votes >= PARTNER)?;
        let other = Some(self.tasks.get(thread).process).filter(|o| *o != NONE && *o != process)?;
        (!self.domains.processes.get(other).kthread).then(|| (other, self.usable(thread, self.topology.cpus())))
    }

    fn domain_of(&self, process: Slot) -> Option<LlcId> {
        let p = self.domains.processes.get(process);
        p.instance.map(|i| self.llc_of(i.home)).or(p.llc)
    }

    /// Whether a process that is no instance lives where its partner does.
    pub(super) fn is_with_partner(&self, process: Slot) -> bool {
        let here = self.domain_of(process);
        self.partner_of(process).is_some_and(|(other, _)| here.is_some() && self.domain_of(other) == here)
    }

    /// A process that is no instance goes to its partner's LLC if there is room. Of two that could the younger goes.
    fn join(&mut self, now: Ns, process: Slot) {
        let Some((other, _)) = self.partner_of(process) else { return };
        let (p, partner) = (self.domains.processes.get(process), self.domains.processes.get(other));
        let (Some(from), Some(to)) = (p.llc, self.domain_of(other)) else { return };
        let stays = partner.instance.is_some() || partner.pid < p.pid;
        let cpus = self.topology.llc_cpus(to);
        if from == to || !stays || !self.allowed(process).intersects(cpus) {
            return;
        }
        let own = p.load.at(now, 0, self.limits().load_half_life_ns);
        let homes = cpus.and(self.domains.home_mask());
        let open = cpus.minus(&homes);
        let fits = if homes.is_empty() || open.is_empty() {
            // An eighth of a CPU is noise.
            let then = self.llc_load(now, to) + own / cpus.count().max(1) as u32;
            then <= FULL_LOAD * 7 / 8 || then <= self.llc_load(now, from) + FULL_LOAD / 8
        } else {
            // In nobody's way: where the CPUs beside the homes are busy it would run on a home again and again.
            open.iter().any(|c| self.cpus.lasting_load(c) + own <= FULL_LOAD / 2)
        };
        if fits {
            self.domains.processes.get_mut(process).llc = Some(to);
        }
    }

    /// The one LLC that the partner of an instance is confined to, if it is.
    fn partner_confined_to(&self, process: Slot) -> Option<LlcId> {
        let (_, mask) = self.partner_of(process)?;
        let llc = self.llc_of(mask.lowest()?);
        (!mask.except(self.topology.llc_cpus(llc)).any()).then_some(llc)
    }

    /// An instance whose partner may run only in another LLC changes homes with one that lives there and has no such reason
    /// to: the spread stays as it is, and both move once.
    fn exchange_homes(&mut self, now: Ns, process: Slot, out: &mut Answers) {
        let Some(mine) = self.domains.processes.get(process).instance else { return };
        let here = self.llc_of(mine.home);
        let Some(there) = self.partner_confined_to(process).filter(|l| *l != here) else { return };
        let settle = self.limits().home_settle_ns;
        let settled = |moved_at: Ns| moved_at == 0 || now.saturating_sub(moved_at) >= settle;
        let allowed = self.allowed(process);
        let open = |slot: &Slot| {
            let theirs = self.domains.processes.get(*slot).instance.filter(|i| self.llc_of(i.home) == there);
            theirs.is_some_and(|i| settled(i.moved_at) && allowed.has(i.home) && self.allowed(*slot).has(mine.home))
                && self.partner_confined_to(*slot) != Some(there)
        };
        let wish = |slot: &Slot| self.partner_confined_to(*slot) != Some(here);
        let Some(other) = self.domains.instances.iter().copied().filter(open).min_by_key(wish) else { return };
        let Some(theirs) = self.domains.processes.get(other).instance.filter(|_| settled(mine.moved_at)) else {
            return;
        };
        self.move_home(now, process, theirs.home, MoveReason::Exchange, out);
        self.move_home(now, other, mine.home, MoveReason::Exchange, out);
        self.domains.update(process, |i| i.base = there);
        self.domains.update(other, |i| i.base = here);
    }
}
