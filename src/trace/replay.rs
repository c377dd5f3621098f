//! Gives a recording to the policy again and compares every answer.

use super::call::Call;
use super::given::{Fresh, Given, Mark};
use super::header::Header;
use super::reader::{Damage, Item, Reader};
use super::record::{self, Record};
use super::view::{View, seconds, sent};
use super::{Totals, what_if::percent};
use crate::event::Answers;
use crate::ids::{MAX_CPUS, Ns};
use crate::policies;
use crate::policy::Policy;
use std::fmt;
use std::io::Read;

/// Makes the policy for a header; `None`: there is none of that name.
pub type Build<'a> = dyn FnMut(&Header) -> Option<Box<dyn Policy>> + 'a;

/// The policy that was recorded.
pub fn same_policy(header: &Header) -> Option<Box<dyn Policy>> {
    policies::build(&header.policy, &header.topology, &header.settings)
}

/// How the file ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Closed in order.
    Closed(Totals),
    /// Here it stops making sense.
    Damaged(Damage),
}

/// The first answer that differs.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Number of the call, 1 = the first of the file.
    pub number: u64,
    /// Its time, and since the first call, ns.
    pub now: Ns,
    /// Since the first call, ns.
    pub since_start: Ns,
    /// The call.
    pub call: Call,
    /// As it was answered then.
    pub recorded: Given,
    /// As it was answered now.
    pub got: Given,
    /// What was known then of the policy's state, before the answer.
    pub state: String,
}

/// What a replay found.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// Calls given, whatever came of them.
    pub calls: u64,
    /// Of these: the answers were not the recorded ones.
    pub differing: u64,
    /// Answers in the recording: dispatches, hints, notices, urgent tasks.
    pub answers: [u64; 4],
    /// Fresh policies after the first: the scheduler was restarted.
    pub restarts: u64,
    /// Gaps in the recording, and the calls lost in them.
    pub gaps: u64,
    /// Calls lost in gaps.
    pub dropped: u64,
    /// Calls after a gap: their policy started from a snapshot, so that differences prove nothing...
    pub apart: u64,
    /// ...and how many of these were answered differently.
    pub apart_differing: u64,
    /// Longest wait for a decision in the replay, ns.
    pub longest_wait: Ns,
    /// Answers of the replay that broke a rule, ...
    pub faults: u64,
    /// ...and the first of them.
    pub first_fault: Option<String>,
    /// Checksum of all answers of the replay.
    pub digest: u32,
    /// From the first call to the last, ns.
    pub span: Ns,
    /// The first answer that differs.
    pub first: Option<Difference>,
    /// How the file ended.
    pub ending: Option<Ending>,
}

impl Replay {
    /// Every answer is as recorded, and nothing is missing in between.
    pub fn identical(&self) -> bool {
        self.differing == 0 && self.gaps == 0
    }
}

/// A file names a policy that this program does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPolicy(pub String);

impl fmt::Display for NoPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = policies::NAMES.iter().map(|(name, _)| *name).collect();
        let name = self.0.escape_debug();
        write!(f, "there is no policy '{name}' in this program: choose one with --policy: {}", names.join(", "))
    }
}

impl std::error::Error for NoPolicy {}

/// The policy under test and what is known of it.
struct Subject {
    policy: Box<dyn Policy>,
    view: View,
    out: Answers,
}

impl Subject {
    fn new(header: &Header, build: &mut Build) -> Result<Self, NoPolicy> {
        let policy = build(header).ok_or_else(|| NoPolicy(header.policy.clone()))?;
        Ok(Subject { policy, view: View::new(&header.topology), out: Answers::with_capacity(2 * MAX_CPUS) })
    }
}

/// Reads to the end, or to the damage.
pub fn replay<R: Read>(reader: &mut Reader<R>, build: &mut Build) -> Result<Replay, NoPolicy> {
    let mut r = Replay::default();
    let mut header = reader.header().clone();
    let mut subject = Subject::new(&header, build)?;
    let mut digest = crc32fast::Hasher::new();
    let (mut buf, mut start, mut after_gap) = (Vec::with_capacity(record::MOST_BYTES), None, false);
    r.ending = loop {
        let item = match reader.step() {
            Ok(Some(item)) => item,
            Ok(None) => break None,
            Err(damage) => break Some(Ending::Damaged(damage)),
        };
        match item {
            Item::End(totals) => break Some(Ending::Closed(totals)),
            Item::Begin(h) => {
                header = *h;
                r.end_of(&subject);
                subject = Subject::new(&header, build)?;
                r.restarts += 1;
                after_gap = false;
            }
            Item::Record(Record::Gap { dropped }) => {
                r.gaps += 1;
                r.dropped = r.dropped.saturating_add(dropped);
                r.end_of(&subject);
                subject = Subject::new(&header, build)?;
                after_gap = true;
            }
            Item::Record(Record::Snapshot(call)) => {
                let Subject { policy, view, out } = &mut subject;
                out.clear();
                view.call(&call);
                call.give(policy.as_mut(), out);
                view.answer(call.now().unwrap_or(0), &out.dispatch, &out.notices);
            }
            Item::Record(Record::SnapshotEnd(_)) => {}
            Item::Record(Record::Call(call, given)) => {
                let now = call.now().or(start).unwrap_or(0);
                start = start.or(call.now());
                let first = start.unwrap_or(now);
                r.span = now.saturating_sub(first).max(r.span);
                r.count(&given);
                let Subject { policy, view, out } = &mut subject;
                if given.first {
                    out.clear();
                }
                view.call(&call);
                let mark = Mark::of(out);
                call.give(policy.as_mut(), out);
                let fresh = match call {
                    Call::Observe(..) | Call::RestoreHome(..) => Fresh::nothing(policy.waiting()),
                    _ => Fresh::since(&mark, out, policy.waiting()),
                };
                if !given.same(&fresh) {
                    let number = r.calls;
                    r.differs(after_gap, || Difference {
                        number,
                        now,
                        since_start: now.saturating_sub(first),
                        call,
                        recorded: given,
                        got: fresh.to_given(),
                        state: view.text(now),
                    });
                }
                r.apart += u64::from(after_gap);
                view.answer(now, fresh.dispatch(), fresh.notices());
                if record::encode_call(&mut buf, &call, &fresh) {
                    digest.update(&buf);
                }
            }
        }
    };
    r.end_of(&subject);
    r.digest = digest.finalize();
    Ok(r)
}

impl Replay {
    fn count(&mut self, given: &Given) {
        self.calls += 1;
        let lists = [given.dispatch.len(), given.hints.len(), given.notices.len(), given.urgent.len()];
        self.answers.iter_mut().zip(lists).for_each(|(sum, n)| *sum += n as u64);
    }

    fn differs(&mut self, after_gap: bool, difference: impl FnOnce() -> Difference) {
        if after_gap {
            self.apart_differing += 1;
        } else {
            self.differing += 1;
            self.first.get_or_insert_with(difference);
        }
    }

    /// One policy is done with.
    fn end_of(&mut self, subject: &Subject) {
        let view = &subject.view;
        self.longest_wait = self.longest_wait.max(view.longest_wait);
        self.faults += view.faults;
        if self.first_fault.is_none() {
            self.first_fault.clone_from(&view.first_fault);
        }
    }
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [dispatches, hints, notices, urgent] = self.answers;
        let compared = self.calls - self.apart;
        match &self.first {
            Some(first) => {
                writeln!(f, "DIFFERENT: {} of {compared} calls were answered otherwise. The first:", self.differing)?;
                first.fmt(f)?;
            }
            None if compared == 0 && self.apart == 0 => writeln!(f, "nothing to compare: no call was recorded")?,
            None => writeln!(f, "identical: {compared} calls in {}", seconds(self.span))?,
        }
        writeln!(f, "recorded: {dispatches} dispatches, {hints} hints, {notices} notices, {urgent} urgent tasks")?;
        if self.restarts > 0 {
            writeln!(f, "the scheduler was restarted {} times; each time a fresh policy began", self.restarts)?;
        }
        if self.gaps > 0 {
            let same = self.apart - self.apart_differing;
            writeln!(
                f,
                "{} gaps with {} calls lost: the {} calls after them were given to policies that began from a snapshot; \
                 {same} ({}) were answered as recorded, which proves nothing of the others",
                self.gaps,
                self.dropped,
                self.apart,
                percent(same, self.apart)
            )?;
        }
        if let Some(fault) = &self.first_fault {
            writeln!(f, "{} answers break a rule. The first: {fault}", self.faults)?;
        }
        writeln!(f, "longest wait for a decision: {} us", self.longest_wait / crate::ids::US)?;
        match &self.ending {
            Some(Ending::Damaged(damage)) => writeln!(f, "damaged: {damage}"),
            Some(Ending::Closed(totals)) if totals.dropped > self.dropped => {
                writeln!(f, "{} calls were lost at its end", totals.dropped - self.dropped)
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { number, now, since_start, call, recorded, got, state } = self;
        writeln!(f, "call {number} ({}), {} after the first, now = {now} ns", call.name(), seconds(*since_start))?;
        writeln!(f, "  {call:?}")?;
        pair(f, "dispatch", &recorded.dispatch, &got.dispatch, |d| sent(d, *now))?;
        pair(f, "hint", &recorded.hints, &got.hints, |h| format!("{h:?}"))?;
        pair(f, "notice", &recorded.notices, &got.notices, |n| format!("{n:?}"))?;
        pair(f, "urgent", &recorded.urgent, &got.urgent, |u| format!("{u:?}"))?;
        if recorded.waiting != got.waiting {
            writeln!(f, "  tasks that wait afterwards: recorded {}, now {}", recorded.waiting, got.waiting)?;
        }
        write!(f, "the state before the answer\n{state}")
    }
}

/// The first that differs in two lists.
fn pair<T: PartialEq>(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    recorded: &[T],
    got: &[T],
    words: impl Fn(&T) -> String,
) -> fmt::Result {
    if recorded == got {
        return Ok(());
    }
    let at = recorded.iter().zip(got).take_while(|(a, b)| a == b).count();
    let item = |list: &[T]| list.get(at).map_or_else(|| "none".to_owned(), &words);
    writeln!(f, "  {what} {} of {} (recorded), of {} (now):", at + 1, recorded.len(), got.len())?;
    writeln!(f, "    recorded: {}", item(recorded))?;
    writeln!(f, "    now:      {}", item(got))
}
