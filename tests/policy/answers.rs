//! Takes the answers of the policy, and checks each.

use super::{Home, Machine, State};
use soft_domain::cpumask::CpuMask;
use soft_domain::event::{Dispatch, MoveReason, Notice, Ready, Reason};
use soft_domain::limits::FULL_LOAD;
use soft_domain::policy::Policy;
use soft_domain::stats::Counter;
use std::fmt::Write;

impl<P: Policy> Machine<P> {
    pub(super) fn take_answers(&mut self, ready: Option<&Ready>) {
        let out = std::mem::take(&mut self.out);
        if let Some(log) = &mut self.log {
            writeln!(log, "{} {out:?}", self.now).expect("memory");
        }
        let mut free = ready.map_or(CpuMask::EMPTY, |r| r.asking.map_or(r.idle, |c| r.idle.or(&CpuMask::of(c))));
        for d in &out.dispatch {
            self.take_dispatch(d, &mut free, ready.is_some());
        }
        for h in &out.hints {
            self.hints.insert(h.tid.0, *h);
        }
        out.notices.iter().for_each(|n| self.take_notice(n));
        // One that looks for work may have a task in its own queue.
        if let Some(cpu) = ready.and_then(|r| r.asking) {
            free.clear(cpu);
        }
        self.start_next(out.dispatch.iter().map(|d| d.cpu));
        self.out = out;
        self.out.clear();
        self.check(&free);
    }

    fn take_dispatch(&mut self, d: &Dispatch, free: &mut CpuMask, in_pass: bool) {
        let (r, since) = self.held.remove(&d.tid.0).unwrap_or_else(|| panic!("{d:?} for a task that does not wait"));
        assert_eq!(d.generation, r.generation, "{d:?} of an older generation");
        assert!(self.t.cpu(d.cpu).is_some(), "{d:?} to no CPU");
        assert!(r.allowed.has(d.cpu), "{d:?} outside of {}", r.allowed);
        assert!(d.slice_ns > 0, "{d:?} without a slice");
        match d.reason {
            Reason::Behind | Reason::HomeBehind | Reason::MaskBehind => assert!(in_pass, "{d:?} outside of a pass"),
            Reason::Untracked => {}
            _ => {
                assert!(free.has(d.cpu), "{d:?} to a CPU that is not ready, or a second to one CPU");
                free.clear(d.cpu);
            }
        }
        let waited = self.now - since;
        self.longest_wait = self.longest_wait.max(waited);
        self.dispatched += 1;
        *self.by_reason.entry(d.reason).or_default() += 1;
        self.order += 1;
        self.tasks.get_mut(&d.tid.0).expect("a task").state = State::Sent(d.cpu);
        self.cpus[d.cpu.index()].queue.insert((d.vtime, self.order), (d.tid.0, d.slice_ns));
    }

    fn take_notice(&mut self, n: &Notice) {
        let now = self.now;
        match *n {
            Notice::Adopted { pid, home, .. } => {
                let old = self.homes.insert(pid.0, Home { cpu: home, moved_at: None });
                assert!(old.is_none(), "{n:?}: it has a home");
            }
            Notice::Left { pid, home } => {
                let old = self.homes.remove(&pid.0);
                assert_eq!(old.map(|h| h.cpu), Some(home), "{n:?}");
            }
            Notice::Moved { pid, from, to, load, why } => {
                let on = |cpu| self.homes.values().filter(|h| h.cpu == cpu).count() as u32 * (FULL_LOAD / 2);
                let (before, after) = (load.0 + on(from) - FULL_LOAD / 2, load.1 + on(to));
                let home = self.homes.get_mut(&pid.0).unwrap_or_else(|| panic!("{n:?} without a home"));
                assert!(home.cpu == from && from != to, "{n:?} from elsewhere");
                if why == MoveReason::LessLoaded {
                    // A home counts as half a CPU.
                    assert!(before >= after + self.limits.home_margin, "{n:?} does not lower the imbalance");
                    assert!(home.moved_at.is_none_or(|m| now - m >= self.limits.home_settle_ns), "{n:?} too soon");
                    assert_eq!(self.t.cpu(from).map(|c| c.llc), self.t.cpu(to).map(|c| c.llc), "{n:?} leaves its LLC");
                }
                *home = Home { cpu: to, moved_at: Some(now) };
                self.moves.push((why, pid.0, from, to));
            }
        }
    }

    /// What holds after every call; `free` are the CPUs of a pass that got nothing.
    pub(super) fn check(&self, free: &CpuMask) {
        assert_eq!(self.policy.waiting(), self.held.len(), "tasks that wait");
        for (tid, (r, since)) in self.held.iter().filter(|_| !free.is_empty()) {
            let waited = self.now - since;
            assert!(
                waited <= self.idle_bound || !r.allowed.intersects(free),
                "{tid} has waited {waited} ns although CPUs {} are free",
                r.allowed.and(free)
            );
        }
        if let Some(c) = self.policy.counters() {
            assert_eq!(c.get(Counter::Enqueued), self.enqueued);
            assert_eq!(c.sent(), self.dispatched);
            assert_eq!(c.get(Counter::Superseded), self.superseded);
            assert_eq!(c.get(Counter::ExitedQueued), self.exited);
            assert_eq!(self.enqueued, c.sent() + self.superseded + self.exited + self.policy.waiting() as u64);
        }
    }
}
