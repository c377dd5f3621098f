//! What another policy would have done on the same events. Open loop: whatever it decides, the machine goes on as it was
//! recorded, so this compares decisions, not their effects; for these there is the simulator.

use super::call::Call;
use super::header::Header;
use super::reader::{Item, Reader};
use super::record::Record;
use super::replay::{Build, Ending, NoPolicy};
use super::view::{View, seconds};
use crate::event::{Answers, Dispatch, Notice, ProcessEvent, Reason};
use crate::ids::{CpuId, MAX_CPUS, Ns, Tid, US};
use crate::topology::{Distance, Topology};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;

/// Distances as a table shows them.
const DISTANCES: [(Distance, &str); 6] = [
    (Distance::Same, "the same CPU"),
    (Distance::Core, "a sibling of the core"),
    (Distance::Cluster, "the same cluster"),
    (Distance::Llc, "the same LLC"),
    (Distance::Node, "another LLC of the node"),
    (Distance::Machine, "another node"),
];

/// One side of the comparison.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// Dispatches.
    pub sent: u64,
    /// By reason, in the order of [`Reason::ALL`].
    pub reasons: [u64; Reason::ALL.len()],
    /// From the task's last CPU, by distance.
    pub moves: [u64; DISTANCES.len()],
    /// Homes given or moved.
    pub homes: u64,
    /// Sum of the waits for a decision, ns.
    pub waited: Ns,
}

/// The comparison.
#[derive(Clone, Debug, Default)]
pub struct WhatIf {
    /// As recorded, and the other policy.
    pub recorded: Side,
    /// The other policy.
    pub other: Side,
    /// Records decided by both, by the distance of the two CPUs.
    pub apart: [u64; DISTANCES.len()],
    /// The recorded policy decided, the other had not when the task came back or ended.
    pub only_recorded: u64,
    /// The other way round.
    pub only_other: u64,
    /// The first few that went elsewhere, in words.
    pub examples: Vec<String>,
    /// Answers of the other policy that broke a rule, ...
    pub faults: u64,
    /// ...and the first.
    pub first_fault: Option<String>,
    /// How the file ended.
    pub ending: Option<Ending>,
}

/// A record that was enqueued and is not finished with.
#[derive(Clone, Copy, Debug)]
struct Open {
    generation: u64,
    last: CpuId,
    since: Ns,
    recorded: Option<CpuId>,
    other: Option<CpuId>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Recorded,
    Other,
}

/// Gives the recorded calls to the policy that `build` makes; keeps `examples` differences in words.
pub fn what_if<R: Read>(reader: &mut Reader<R>, build: &mut Build, examples: usize) -> Result<WhatIf, NoPolicy> {
    let mut header = reader.header().clone();
    let make = |build: &mut Build, header: &Header| build(header).ok_or_else(|| NoPolicy(header.policy.clone()));
    let mut policy = make(build, &header)?;
    let mut view = View::new(&header.topology);
    let mut out = Answers::with_capacity(2 * MAX_CPUS);
    let mut w = WhatIf::default();
    let (mut open, mut start) = (BTreeMap::new(), None);
    w.ending = loop {
        let item = match reader.step() {
            Ok(Some(item)) => item,
            Ok(None) => break None,
            Err(damage) => break Some(Ending::Damaged(damage)),
        };
        let (call, given) = match item {
            Item::End(totals) => break Some(Ending::Closed(totals)),
            Item::Begin(_) | Item::Record(Record::Gap { .. }) => {
                if let Item::Begin(h) = item {
                    header = *h;
                }
                w.end_of(&view);
                policy = make(build, &header)?;
                view = View::new(&header.topology);
                open.clear();
                continue;
            }
            Item::Record(Record::SnapshotEnd(_)) => continue,
            Item::Record(Record::Snapshot(call)) => (call, Default::default()),
            Item::Record(Record::Call(call, given)) => (call, given),
        };
        let now = call.now().or(start).unwrap_or(0);
        start = start.or(call.now());
        let since_start = now.saturating_sub(start.unwrap_or(now));
        out.clear();
        w.begin(&call, &mut open);
        view.call(&call);
        call.give(policy.as_mut(), &mut out);
        view.answer(now, &out.dispatch, &out.notices);
        let t = &header.topology;
        for (who, dispatch, notices) in
            [(Who::Recorded, &given.dispatch, &given.notices), (Who::Other, &out.dispatch, &out.notices)]
        {
            dispatch.iter().for_each(|d| w.decided(who, now, d, t, &mut open));
            let homes = |n: &&Notice| matches!(n, Notice::Adopted { .. } | Notice::Moved { .. });
            w.side(who).homes += notices.iter().filter(homes).count() as u64;
        }
        // What both have decided now.
        for d in given.dispatch.iter().chain(&out.dispatch) {
            w.close(d.tid, t, &mut open, since_start, examples);
        }
    };
    w.end_of(&view);
    Ok(w)
}

impl WhatIf {
    fn side(&mut self, who: Who) -> &mut Side {
        if who == Who::Recorded { &mut self.recorded } else { &mut self.other }
    }

    /// A task comes (back) or ends: whoever has not decided on its last record will not.
    fn begin(&mut self, call: &Call, open: &mut BTreeMap<Tid, Open>) {
        let old = match call {
            Call::Enqueue(now, r) => {
                let (generation, last, since) = (r.generation, r.cpu, *now);
                open.insert(r.tid, Open { generation, last, since, recorded: None, other: None })
            }
            Call::Process(_, ProcessEvent::Exit { tid, .. }) => open.remove(tid),
            _ => None,
        };
        if let Some(Open { recorded, other, .. }) = old {
            self.only_recorded += u64::from(recorded.is_some() && other.is_none());
            self.only_other += u64::from(other.is_some() && recorded.is_none());
        }
    }

    fn decided(&mut self, who: Who, now: Ns, d: &Dispatch, t: &Topology, open: &mut BTreeMap<Tid, Open>) {
        let side = self.side(who);
        side.sent += 1;
        side.reasons[d.reason as usize] += 1;
        let Some(o) = open.get_mut(&d.tid).filter(|o| o.generation == d.generation) else { return };
        side.moves[nth(t.distance(o.last, d.cpu))] += 1;
        side.waited = side.waited.saturating_add(now.saturating_sub(o.since));
        *(if who == Who::Recorded { &mut o.recorded } else { &mut o.other }) = Some(d.cpu);
    }

    fn close(&mut self, tid: Tid, t: &Topology, open: &mut BTreeMap<Tid, Open>, since_start: Ns, examples: usize) {
        let Some(Open { recorded: Some(a), other: Some(b), last, .. }) = open.get(&tid).copied() else { return };
        open.remove(&tid);
        let distance = t.distance(a, b);
        self.apart[nth(distance)] += 1;
        if distance != Distance::Same && self.examples.len() < examples {
            let at = seconds(since_start);
            self.examples.push(format!("{at}: thread {tid}, last on CPU {last}: to CPU {a}, now to CPU {b}"));
        }
    }

    fn end_of(&mut self, view: &View) {
        self.faults += view.faults;
        if self.first_fault.is_none() {
            self.first_fault.clone_from(&view.first_fault);
        }
    }
}

fn nth(distance: Distance) -> usize {
    DISTANCES.iter().position(|(d, _)| *d == distance).unwrap_or(0)
}

/// A share with one decimal, rounded down.
pub(super) fn percent(part: u64, whole: u64) -> String {
    let permille = u128::from(part) * 1000 / u128::from(whole.max(1));
    format!("{}.{}%", permille / 10, permille % 10)
}

impl fmt::Display for WhatIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (a, b) = (&self.recorded, &self.other);
        let both: u64 = self.apart.iter().sum();
        writeln!(f, "open loop: the machine goes on as recorded, whatever the other policy decides\n")?;
        writeln!(f, "{both} records decided by both, sent to")?;
        for ((_, name), n) in DISTANCES.iter().zip(self.apart).filter(|(_, n)| *n > 0) {
            writeln!(f, "  {name:<28} {n:>10}  {}", percent(n, both))?;
        }
        writeln!(
            f,
            "undecided when the task came back or ended: {} by the other policy, {} as recorded",
            self.only_recorded, self.only_other
        )?;
        writeln!(f, "\n{:<30} {:>10} {:>10}", "", "recorded", "other")?;
        writeln!(f, "{:<30} {:>10} {:>10}", "tasks sent", a.sent, b.sent)?;
        for (i, reason) in Reason::ALL.into_iter().enumerate().filter(|(i, _)| a.reasons[*i] + b.reasons[*i] > 0) {
            writeln!(f, "  {:<28} {:>10} {:>10}", reason.name(), a.reasons[i], b.reasons[i])?;
        }
        writeln!(f, "from the task's last CPU to")?;
        for (i, (_, name)) in DISTANCES.iter().enumerate().filter(|(i, _)| a.moves[*i] + b.moves[*i] > 0) {
            writeln!(f, "  {name:<28} {:>10} {:>10}", a.moves[i], b.moves[i])?;
        }
        let mean = |s: &Side| s.waited / s.moves.iter().sum::<u64>().max(1) / US;
        writeln!(f, "{:<30} {:>10} {:>10}", "mean wait for a decision, us", mean(a), mean(b))?;
        writeln!(f, "{:<30} {:>10} {:>10}", "homes given or moved", a.homes, b.homes)?;
        if !self.examples.is_empty() {
            writeln!(f, "\nthe first that went elsewhere")?;
            self.examples.iter().try_for_each(|e| writeln!(f, "  {e}"))?;
        }
        if let Some(fault) = &self.first_fault {
            writeln!(f, "\n{} answers of the other policy break a rule. The first: {fault}", self.faults)?;
        }
        if let Some(Ending::Damaged(damage)) = &self.ending {
            writeln!(f, "\ndamaged: {damage}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_down() {
        assert_eq!(
            (percent(2, 3), percent(0, 0), percent(u64::MAX, u64::MAX)),
            ("66.6%".into(), "0.0%".into(), "100.0%".into())
        );
    }
}
