//! A picture of a recording. It holds what the policy heard and said; what ran is worked out from that:
//! - exact: when the policy heard that a task is runnable, when it sent it where and why, homes, and of each stint that
//!   the task came back from its CPU and length as the kernel side measured them;
//! - worked out: when the stint began. The kernel side says it on its own clock, which is compared with ours by the
//!   shortest delay between the end of a stint and its report; the begin is then kept between the decision and the
//!   report. A span whose begin had to be moved for that, or that was cut because two of a CPU overlapped, is `guessed`;
//! - the last stint of a task that ended: from the decision to the exit, at most its slice; `guessed`;
//! - not shown: a stint whose task had not come back when the recording ended.

use super::MOST_SPANS;
use super::from_sim::scheduler;
use super::model::{Found, Mark, Moved, Process, Span, Task, Timeline, Wait};
use crate::event::{Cause, Dispatch, Notice, ProcessEvent, Reason, Runnable};
use crate::ids::{CpuId, MS, Ns, Pid, Tid};
use crate::trace::call::Call;
use crate::trace::given::Given;
use crate::trace::reader::{Damage, Item, Reader};
use crate::trace::record::Record;
use std::collections::BTreeMap;
use std::io::Read;

const ACCURACY: &str = "A recording of what the policy heard and said. Exact: decisions and their reasons, homes, the \
                        CPU and the length of each stint. Worked out: when a stint began, between its decision and the \
                        moment at which the task came back; paler where that had to be guessed. Not shown: stints whose \
                        task had not come back at the end. Latency and waiting count from when the scheduler heard that \
                        the task is runnable.";

/// A delay up to which the kernel side's clock is taken for ours, ns.
const SAME_CLOCK: i64 = MS as i64;

/// A decision that the task has not come back from.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Ns,
    cpu: CpuId,
    slice: Ns,
    reason: Reason,
    at_home: bool,
    /// When it became runnable, and whether it was woken.
    since: Ns,
    woken: bool,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    task: u32,
    /// Its newest record that waits for a decision.
    waits: Option<(Ns, CpuId, Cause)>,
    sent: Option<Sent>,
    /// Begin of the last stint that we know, on the kernel side's clock.
    started: Option<Ns>,
}

/// A stint that was reported. Times of the recording but for `started`.
#[derive(Clone, Copy, Debug)]
struct Stint {
    task: u32,
    cpu: CpuId,
    ns: Ns,
    started: Ns,
    sent: Sent,
    back: Ns,
}

#[derive(Debug, Default)]
struct Maker {
    timeline: Timeline,
    found: Found,
    threads: BTreeMap<Tid, Thread>,
    processes: BTreeMap<Pid, u32>,
    homes: BTreeMap<Pid, CpuId>,
    stints: Vec<Stint>,
    start: Option<Ns>,
    gaps: u64,
    restarts: u64,
}

/// Reads to the end, or to the damage.
pub fn timeline<R: Read>(title: String, reader: &mut Reader<R>) -> (Timeline, Option<Damage>) {
    let mut m = Maker::default();
    let header = reader.header();
    m.timeline.title = title;
    m.timeline.topology = header.topology.clone();
    m.timeline.facts = vec![("policy".into(), header.policy.clone()), ("recorded by".into(), header.about.clone())];
    m.timeline.accuracy = ACCURACY.to_owned();
    let (task, process) = scheduler();
    (m.timeline.tasks, m.timeline.processes) = (vec![task], vec![process]);
    let mut damage = None;
    while m.stints.len() + m.found.spans.len() < MOST_SPANS {
        match reader.step() {
            Ok(Some(Item::Record(Record::Call(call, given)))) => m.call(&call, Some(&given)),
            Ok(Some(Item::Record(Record::Snapshot(call)))) => m.call(&call, None),
            Ok(Some(Item::Record(Record::SnapshotEnd(_)))) => {}
            Ok(Some(Item::Record(Record::Gap { .. }))) => {
                m.gaps += 1;
                m.forget();
            }
            Ok(Some(Item::Begin(_))) => {
                m.restarts += 1;
                m.forget();
            }
            Ok(Some(Item::End(_)) | None) => return (m.finish(), None),
            Err(d) => {
                damage = Some(d);
                break;
            }
        }
    }
    if damage.is_none() {
        m.timeline.accuracy += " Cut: the recording goes on with more stints than a picture can hold.";
    }
    (m.finish(), damage)
}

impl Maker {
    /// Time since the first call, ns.
    fn at(&self, now: Ns) -> Ns {
        now.saturating_sub(self.start.unwrap_or(now))
    }

    /// What happened meanwhile is not known: who waits and who runs is told anew.
    fn forget(&mut self) {
        let at = self.timeline.length;
        for t in self.threads.values_mut() {
            self.found.waits.extend(t.waits.take().map(|(_, cpu, _)| Wait { at, cpu, begins: false }));
            (t.sent, t.started) = (None, None);
        }
    }

    /// `given` is `None` in a snapshot.
    fn call(&mut self, call: &Call, given: Option<&Given>) {
        if let Some(now) = call.now() {
            self.start.get_or_insert(now);
            self.timeline.length = self.timeline.length.max(self.at(now));
        }
        match call {
            Call::Process(now, event) => self.process(self.at(*now), event),
            Call::Enqueue(now, r) => self.enqueue(self.at(*now), r),
            Call::RestoreHome(pid, home) => {
                self.homes.insert(*pid, *home);
            }
            Call::Observe(..) | Call::Dispatch(..) => {}
        }
        let Some(given) = given else { return };
        let at = self.at(call.now().or(self.start).unwrap_or(0));
        for d in &given.dispatch {
            self.dispatch(at, d);
        }
        for n in &given.notices {
            self.notice(at, n);
        }
    }

    /// Its process's index; a new one if it is not known.
    fn process_of(&mut self, pid: Pid, name: &str) -> u32 {
        let processes = &mut self.timeline.processes;
        *self.processes.entry(pid).or_insert_with(|| {
            processes.push(Process { pid: pid.0, name: name.to_owned(), instance: false });
            processes.len() as u32 - 1
        })
    }

    fn thread(&mut self, tid: Tid) -> &mut Thread {
        let tasks = &mut self.timeline.tasks;
        self.threads.entry(tid).or_insert_with(|| {
            // Nobody told whose it is; perhaps that comes later.
            tasks.push(Task { tid: tid.0, process: u32::MAX, name: "?".into() });
            Thread { task: tasks.len() as u32 - 1, waits: None, sent: None, started: None }
        })
    }

    fn process(&mut self, at: Ns, event: &ProcessEvent) {
        match event {
            ProcessEvent::Thread { tid, pid, comm, .. } => {
                let name = comm.to_string();
                let process = self.process_of(*pid, &name);
                let task = self.thread(*tid).task as usize;
                if let Some(t) = self.timeline.tasks.get_mut(task) {
                    (t.process, t.name) = (process, name);
                }
            }
            ProcessEvent::Exec { pid, comm, .. } => {
                let name = comm.to_string();
                let process = self.process_of(*pid, &name) as usize;
                if let Some(p) = self.timeline.processes.get_mut(process) {
                    p.name.clone_from(&name);
                }
                let main = self.threads.get(&Tid(pid.0)).map(|t| t.task as usize);
                if let Some(t) = main.and_then(|t| self.timeline.tasks.get_mut(t)) {
                    t.name = name;
                }
            }
            ProcessEvent::Exit { tid, pid, last } => {
                if let Some(t) = self.threads.remove(tid) {
                    self.found.waits.extend(t.waits.map(|(_, cpu, _)| Wait { at, cpu, begins: false }));
                    self.found.spans.extend(t.sent.map(|s| Span {
                        cpu: s.cpu,
                        task: t.task,
                        start: s.at,
                        end: at.min(s.at.saturating_add(s.slice)),
                        waited: s.at.saturating_sub(s.since),
                        reason: Some(s.reason),
                        at_home: s.at_home,
                        guessed: true,
                    }));
                }
                if *last {
                    self.processes.remove(pid);
                    self.homes.remove(pid);
                }
            }
        }
    }

    fn enqueue(&mut self, at: Ns, r: &Runnable) {
        let t = self.thread(r.tid);
        let ran = r.stint_ns > 0 && t.started != Some(r.started);
        let (task, sent, before) = (t.task, t.sent.take(), t.waits.replace((at, r.cpu, r.cause)));
        t.started = Some(r.started);
        if let Some((since, cpu, _)) = before {
            debug_assert!(since <= at);
            self.found.waits.push(Wait { at, cpu, begins: false });
        }
        self.found.waits.push(Wait { at, cpu: r.cpu, begins: true });
        if let Some(sent) = sent.filter(|_| ran) {
            self.stints.push(Stint { task, cpu: r.cpu, ns: r.stint_ns, started: r.started, sent, back: at });
        }
    }

    fn dispatch(&mut self, at: Ns, d: &Dispatch) {
        let process =
            self.threads.get(&d.tid).and_then(|t| self.timeline.tasks.get(t.task as usize)).map(|t| t.process);
        let pid = process.and_then(|p| self.timeline.processes.get(p as usize)).map(|p| Pid(p.pid));
        let at_home = pid.and_then(|pid| self.homes.get(&pid)) == Some(&d.cpu);
        let Some(t) = self.threads.get_mut(&d.tid) else { return };
        let Some((since, cpu, cause)) = t.waits.take() else { return };
        let Dispatch { cpu: to, slice_ns: slice, reason, .. } = *d;
        t.sent = Some(Sent { at, cpu: to, slice, reason, at_home, since, woken: cause == Cause::Wakeup });
        self.found.waits.push(Wait { at, cpu, begins: false });
    }

    fn notice(&mut self, at: Ns, notice: &Notice) {
        let (pid, from, to) = match *notice {
            Notice::Adopted { pid, home, .. } => (pid, None, home),
            Notice::Moved { pid, from, to, .. } => (pid, Some(from), to),
            Notice::Left { pid, .. } => {
                self.homes.remove(&pid);
                return;
            }
        };
        self.homes.insert(pid, to);
        let process = self.process_of(pid, "?") as usize;
        if let Some(p) = self.timeline.processes.get_mut(process) {
            p.instance = true;
        }
        let task = self.thread(Tid(pid.0)).task;
        self.found.homes.extend(from.map(|from| Mark { at, what: Moved::Home, task, from, to }));
    }

    fn finish(mut self) -> Timeline {
        let processes = &mut self.timeline.processes;
        for t in self.timeline.tasks.iter_mut().filter(|t| t.process == u32::MAX) {
            processes.push(Process { pid: t.tid, name: t.name.clone(), instance: false });
            t.process = processes.len() as u32 - 1;
        }
        let start = self.start.unwrap_or(0);
        let delay = |s: &Stint| (start + s.back).wrapping_sub(s.started.wrapping_add(s.ns)) as i64;
        let shortest = self.stints.iter().map(delay).min().unwrap_or(0);
        let shift = if (0..=SAME_CLOCK).contains(&shortest) { 0 } else { shortest };
        for s in &self.stints {
            let told = s.started.wrapping_add(shift as u64).wrapping_sub(start);
            let latest = s.back.saturating_sub(s.ns).max(s.sent.at);
            // Before the first call: a wrapped difference is larger than any run.
            let told = if told > i64::MAX as u64 { 0 } else { told };
            let begin = told.clamp(s.sent.at, latest);
            let waited = begin.saturating_sub(s.sent.since);
            self.found.spans.push(Span {
                cpu: s.cpu,
                task: s.task,
                start: begin,
                end: begin.saturating_add(s.ns).min(s.back).max(begin),
                waited,
                reason: Some(s.sent.reason),
                at_home: s.sent.at_home && s.sent.cpu == s.cpu,
                guessed: begin != told,
            });
            let wait = |at: Ns, begins: bool| Wait { at, cpu: s.sent.cpu, begins };
            self.found.waits.extend([wait(s.sent.at, true), wait(begin, false)]);
            self.found.latencies.extend(s.sent.woken.then_some(waited));
        }
        for (name, n) in [("gaps", self.gaps), ("restarts", self.restarts)] {
            self.timeline.facts.extend((n > 0).then(|| (name.to_owned(), n.to_string())));
        }
        self.timeline.fill(self.found);
        self.timeline
    }
}
