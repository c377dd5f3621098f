//! What can be known of a policy's state from outside, by what it was told and what it answered: who waits, what each
//! CPU was given, where the homes are. And whether an answer broke a rule.

use super::call::Call;
use crate::event::{Dispatch, Notice, ProcessEvent, Runnable};
use crate::ids::{CpuId, MS, Ns, Pid, Tid, US};
use crate::topology::Topology;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Lines of each kind that are shown.
const LINES: usize = 8;

/// See the head of this file.
#[derive(Debug, Default)]
pub struct View {
    topology: Topology,
    waiting: BTreeMap<Tid, (Runnable, Ns)>,
    /// Per CPU: what it was last given, and when.
    sent: BTreeMap<CpuId, (Tid, Ns)>,
    homes: BTreeMap<Pid, CpuId>,
    names: BTreeMap<Tid, String>,
    /// Longest time from enqueue to dispatch, ns.
    pub longest_wait: Ns,
    /// Answers that broke a rule, and the first of them in words.
    pub faults: u64,
    pub first_fault: Option<String>,
}

impl View {
    /// Of a policy that is new.
    pub fn new(topology: &Topology) -> Self {
        View { topology: topology.clone(), ..View::default() }
    }

    /// A call is made.
    pub fn call(&mut self, call: &Call) {
        match call {
            Call::Process(_, ProcessEvent::Thread { tid, comm, .. }) => {
                self.names.insert(*tid, comm.to_string());
            }
            Call::Process(_, ProcessEvent::Exec { pid, comm, .. }) => {
                self.names.insert(Tid(pid.0), comm.to_string());
            }
            Call::Process(_, ProcessEvent::Exit { tid, .. }) => {
                self.waiting.remove(tid);
                self.names.remove(tid);
            }
            Call::Enqueue(now, r) => {
                self.waiting.insert(r.tid, (*r, *now));
            }
            Call::RestoreHome(pid, home) => {
                self.homes.insert(*pid, *home);
            }
            Call::Observe(..) | Call::Dispatch(..) => {}
        }
    }

    /// It was answered.
    pub fn answer(&mut self, now: Ns, dispatch: &[Dispatch], notices: &[Notice]) {
        for d in dispatch {
            let waited = self.waiting.remove(&d.tid);
            if let Some(rule) = self.broken(d, waited.as_ref().map(|(r, _)| r)) {
                self.faults += 1;
                let text = || format!("{rule}: {} at {now} ns", sent(d, now));
                self.first_fault.get_or_insert_with(text);
            }
            if let Some((_, since)) = waited {
                self.longest_wait = self.longest_wait.max(now.saturating_sub(since));
            }
            self.sent.insert(d.cpu, (d.tid, now));
        }
        for n in notices {
            match n {
                Notice::Adopted { pid, home, .. } | Notice::Moved { pid, to: home, .. } => {
                    self.homes.insert(*pid, *home);
                }
                Notice::Left { pid, .. } => {
                    self.homes.remove(pid);
                }
            }
        }
    }

    fn broken(&self, d: &Dispatch, r: Option<&Runnable>) -> Option<&'static str> {
        let Some(r) = r else { return Some("sent although it does not wait") };
        // A task without any CPU of this machine has to go somewhere.
        let nowhere = !r.allowed.intersects(self.topology.cpus());
        match d {
            _ if d.generation != r.generation => Some("sent by an older record"),
            _ if d.slice_ns == 0 => Some("sent without a slice"),
            _ if !nowhere && !r.allowed.has(d.cpu) => Some("sent outside its affinity mask"),
            _ if !nowhere && self.topology.cpu(d.cpu).is_none() => Some("sent to a CPU that is not there"),
            _ => None,
        }
    }

    /// The state in words, a few lines of each kind.
    pub fn text(&self, now: Ns) -> String {
        let mut text = String::new();
        let mut oldest: Vec<_> = self.waiting.values().collect();
        oldest.sort_by_key(|(r, since)| (*since, r.tid));
        let _ =
            writeln!(text, "  {} tasks wait{}", oldest.len(), if oldest.is_empty() { "" } else { ", oldest first:" });
        for (r, since) in oldest.iter().take(LINES) {
            let cause = if r.cause == crate::event::Cause::Wakeup { "woken" } else { "slice over" };
            let waited = now.saturating_sub(*since) / US;
            let (name, mask) = (self.name(r.tid), r.allowed.and(self.topology.cpus()));
            let _ = writeln!(
                text,
                "    {name}: {cause}, waits {waited} us, last on CPU {}, may use {mask}, weight {}, generation {}",
                r.cpu, r.weight, r.generation
            );
        }
        let mut latest: Vec<_> = self.sent.iter().collect();
        latest.sort_by_key(|(cpu, (_, at))| (std::cmp::Reverse(*at), **cpu));
        let _ = writeln!(text, "  {} CPUs were given tasks, latest first:", latest.len());
        for (cpu, (tid, at)) in latest.iter().take(LINES) {
            let _ = writeln!(text, "    CPU {cpu}: {}, {} us ago", self.name(*tid), now.saturating_sub(*at) / US);
        }
        let _ = writeln!(text, "  {} homes", self.homes.len());
        for (pid, home) in self.homes.iter().take(LINES) {
            let _ = writeln!(text, "    {}: CPU {home}", self.name(Tid(pid.0)));
        }
        text
    }

    fn name(&self, tid: Tid) -> String {
        self.names.get(&tid).map_or_else(|| format!("{tid}"), |name| format!("{tid} {name}"))
    }
}

/// A dispatch in words.
pub fn sent(d: &Dispatch, now: Ns) -> String {
    let Dispatch { tid, cpu, slice_ns, vtime, generation, reason } = d;
    let later = vtime.wrapping_sub(now) as i64;
    format!(
        "thread {tid} to CPU {cpu} ({}), slice {} us, order now{later:+} ns, generation {generation}",
        reason.name(),
        slice_ns / US
    )
}

/// A time since the first call, in seconds with microseconds.
pub fn seconds(span: Ns) -> String {
    format!("{}.{:06} s", span / (1000 * MS), span / US % 1_000_000)
}
