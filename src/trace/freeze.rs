//! A recorded incident as a test: a copy of the trace, cut where that is wanted, and beside it what its replay gives.

use super::header::Header;
use super::reader::{Damage, Item, Reader};
use super::record::Record;
use super::replay::Replay;
use super::writer::Writer;
use crate::ids::Ns;
use std::fmt;
use std::io::{self, Read, Write};

/// Name of the trace in the folder of a frozen one.
pub const TRACE: &str = "trace.sdt";
/// Name of the expectation beside it.
pub const EXPECT: &str = "expect.txt";

/// Where to stop; the whole trace by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Until {
    /// After so many calls.
    pub calls: Option<u64>,
    /// Before the first call that is later than this after the first one, ns.
    pub span: Option<Ns>,
}

/// What was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Calls.
    pub calls: u64,
    /// The original is damaged behind them.
    pub damage: Option<Damage>,
}

/// Copies a trace up to `until`, or up to its damage, into a file that is closed in order.
pub fn copy<R: Read, W: Write>(reader: &mut Reader<R>, out: W, until: Until) -> io::Result<Copied> {
    let mut writer = Writer::new(out)?;
    writer.begin(reader.header())?;
    let mut copied = Copied::default();
    let mut start = None;
    // Calls that were lost after the last record: told by the closing chunk alone.
    let mut dropped_last = 0;
    while until.calls.is_none_or(|most| copied.calls < most) {
        match reader.step() {
            Err(damage) => {
                copied.damage = Some(damage);
                break;
            }
            Ok(None) => break,
            Ok(Some(Item::End(totals))) => {
                dropped_last = totals.dropped.saturating_sub(writer.totals().dropped);
                break;
            }
            Ok(Some(Item::Begin(header))) => writer.begin(&header)?,
            Ok(Some(Item::Record(record))) => {
                if let Record::Call(call, _) = &record {
                    start = start.or(call.now());
                    let span = call.now().unwrap_or(0).saturating_sub(start.unwrap_or(0));
                    if until.span.is_some_and(|most| span > most) {
                        break;
                    }
                    copied.calls += 1;
                }
                writer.put(reader.bytes())?;
            }
        }
    }
    writer.finish(dropped_last)?;
    Ok(copied)
}

/// What a replay of a frozen trace shall give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expect(String);

impl Expect {
    /// What it gives now.
    pub fn of(header: &Header, replay: &Replay) -> Self {
        let Replay { calls, differing, apart_differing, gaps, answers: [dispatches, ..], faults, digest, .. } = replay;
        Expect(format!(
            "# What the replay of {TRACE} gives. Written by sdlab freeze; a change of the policy changes it: look at\n\
             # sdlab replay first, then freeze the trace again.\n\
             policy = {}\ncalls = {calls}\ndispatches = {dispatches}\ngaps = {gaps}\n\
             answered otherwise = {differing}\nanswered otherwise after a gap = {apart_differing}\n\
             broken rules = {faults}\nchecksum of all answers = {digest:08x}\n",
            header.policy.escape_debug()
        ))
    }

    /// As kept in the file. Line ends and comments do not matter.
    pub fn same(&self, text: &str) -> bool {
        let lines = |text: &str| -> Vec<String> {
            text.lines().map(|l| l.trim().to_owned()).filter(|l| !l.is_empty() && !l.starts_with('#')).collect()
        };
        lines(&self.0) == lines(text)
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
