//! What a policy answered to one call.

use super::bytes::{Bad, In, Out};
use crate::event::{Answers, Dispatch, Hint, MoveReason, Notice, Reason, Urgent};
use crate::ids::Ns;

/// How full the answers were before a call: what lies beyond was given by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    dispatch: usize,
    hints: usize,
    notices: usize,
    urgent: usize,
}

impl Mark {
    /// Before a call.
    pub fn of(out: &Answers) -> Self {
        let Answers { dispatch, hints, notices, urgent } = out;
        Mark { dispatch: dispatch.len(), hints: hints.len(), notices: notices.len(), urgent: urgent.len() }
    }
}

/// The answers to one call, as they are in `Answers` beyond a [`Mark`].
#[derive(Clone, Copy, Debug)]
pub struct Fresh<'a> {
    first: bool,
    dispatch: &'a [Dispatch],
    hints: &'a [Hint],
    notices: &'a [Notice],
    urgent: &'a [Urgent],
    waiting: u64,
}

impl<'a> Fresh<'a> {
    /// What came into `out` since `mark`; afterwards `waiting` tasks waited.
    pub fn since(mark: &Mark, out: &'a Answers, waiting: usize) -> Self {
        Fresh {
            first: *mark == Mark::default(),
            dispatch: out.dispatch.get(mark.dispatch..).unwrap_or_default(),
            hints: out.hints.get(mark.hints..).unwrap_or_default(),
            notices: out.notices.get(mark.notices..).unwrap_or_default(),
            urgent: out.urgent.get(mark.urgent..).unwrap_or_default(),
            waiting: waiting as u64,
        }
    }

    /// Of a call that cannot be answered.
    pub fn nothing(waiting: usize) -> Self {
        Fresh { first: false, dispatch: &[], hints: &[], notices: &[], urgent: &[], waiting: waiting as u64 }
    }

    /// The notices among them.
    pub fn notices(&self) -> &'a [Notice] {
        self.notices
    }

    /// The dispatches among them.
    pub fn dispatch(&self) -> &'a [Dispatch] {
        self.dispatch
    }

    /// Most bytes that they take when encoded.
    pub(super) fn most_bytes(&self) -> usize {
        64 + self.dispatch.len() * 48 + self.hints.len() * 16 + self.notices.len() * 80 + self.urgent.len() * 8
    }

    pub(super) fn encode(&self, now: Ns, o: &mut Out) {
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        o.byte(
            bit(self.first, FIRST)
                | bit(!self.dispatch.is_empty(), DISPATCHES)
                | bit(!self.hints.is_empty(), HINTS)
                | bit(!self.notices.is_empty(), NOTICES)
                | bit(!self.urgent.is_empty(), URGENT),
        );
        o.int(self.waiting);
        list(o, self.dispatch, |o, d| {
            o.tid(d.tid);
            o.cpu(d.cpu);
            o.int(d.slice_ns);
            o.time(now, d.vtime);
            o.int(d.generation);
            o.byte(d.reason as u8);
        });
        list(o, self.hints, |o, h| {
            o.tid(h.tid);
            o.cpu(h.cpu);
            o.byte(h.rank);
            o.byte(bit(h.sticky, 1) | bit(h.home, 2));
        });
        list(o, self.notices, notice);
        list(o, self.urgent, |o, u| {
            o.cpu(u.cpu);
            o.byte(u.rank);
        });
    }

    /// The same as a value of its own.
    pub fn to_given(&self) -> Given {
        Given {
            first: self.first,
            dispatch: self.dispatch.to_vec(),
            hints: self.hints.to_vec(),
            notices: self.notices.to_vec(),
            urgent: self.urgent.to_vec(),
            waiting: self.waiting,
        }
    }
}

/// The same, out of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// The buffers were empty before: a new pass, or the first call of one.
    pub first: bool,
    /// Tasks sent.
    pub dispatch: Vec<Dispatch>,
    /// Hints that changed.
    pub hints: Vec<Hint>,
    /// Notices.
    pub notices: Vec<Notice>,
    /// CPUs that should look for work.
    pub urgent: Vec<Urgent>,
    /// Tasks that waited after the call.
    pub waiting: u64,
}

impl Given {
    /// Whether a policy answered just the same; who called it, and when its buffers were emptied, is not compared.
    pub fn same(&self, fresh: &Fresh) -> bool {
        self.dispatch == fresh.dispatch
            && self.hints == fresh.hints
            && self.notices == fresh.notices
            && self.urgent == fresh.urgent
            && self.waiting == fresh.waiting
    }

    pub(super) fn decode(now: Ns, i: &mut In) -> Result<Given, Bad> {
        let flags = i.byte()?;
        if flags & !(FIRST | DISPATCHES | HINTS | NOTICES | URGENT) != 0 {
            return Err(Bad("answers of an unknown kind"));
        }
        let waiting = i.int()?;
        let dispatch = take_list(flags & DISPATCHES, i, |i| {
            Ok(Dispatch {
                tid: i.tid()?,
                cpu: i.cpu()?,
                slice_ns: i.int()?,
                vtime: i.time(now)?,
                generation: i.int()?,
                reason: take_reason(i.byte()?)?,
            })
        })?;
        let hints = take_list(flags & HINTS, i, |i| {
            let (tid, cpu, rank, bits) = (i.tid()?, i.cpu()?, i.byte()?, i.byte()?);
            Ok(Hint { tid, cpu, rank, sticky: bits & 1 != 0, home: bits & 2 != 0 })
        })?;
        let notices = take_list(flags & NOTICES, i, take_notice)?;
        let urgent = take_list(flags & URGENT, i, |i| Ok(Urgent { cpu: i.cpu()?, rank: i.byte()? }))?;
        Ok(Given { first: flags & FIRST != 0, dispatch, hints, notices, urgent, waiting })
    }
}

const FIRST: u8 = 1;
const DISPATCHES: u8 = 2;
const HINTS: u8 = 4;
const NOTICES: u8 = 8;
const URGENT: u8 = 16;

fn list<T>(o: &mut Out, items: &[T], mut put: impl FnMut(&mut Out, &T)) {
    if !items.is_empty() {
        o.int(items.len() as u64);
        items.iter().for_each(|item| put(o, item));
    }
}

/// Memory is taken as items come: a count that is too high ends with the bytes.
fn take_list<T>(present: u8, i: &mut In, mut take: impl FnMut(&mut In) -> Result<T, Bad>) -> Result<Vec<T>, Bad> {
    if present == 0 {
        return Ok(Vec::new());
    }
    let n = i.int()?;
    (0..n).map(|_| take(i)).collect()
}

fn take_reason(code: u8) -> Result<Reason, Bad> {
    Reason::ALL.into_iter().find(|r| *r as u8 == code).ok_or(Bad("an unknown reason"))
}

const ADOPTED: u8 = 1;
const LEFT: u8 = 2;
const MOVED: u8 = 3;

fn notice(o: &mut Out, n: &Notice) {
    match n {
        Notice::Adopted { pid, service, name, home } => {
            o.byte(ADOPTED);
            o.pid(*pid);
            o.int((*service).into());
            o.name(name);
            o.cpu(*home);
        }
        Notice::Left { pid, home } => {
            o.byte(LEFT);
            o.pid(*pid);
            o.cpu(*home);
        }
        Notice::Moved { pid, from, to, load, why } => {
            o.byte(MOVED);
            o.pid(*pid);
            o.cpu(*from);
            o.cpu(*to);
            o.int(load.0.into());
            o.int(load.1.into());
            o.byte(*why as u8);
        }
    }
}

fn take_notice(i: &mut In) -> Result<Notice, Bad> {
    let kind = i.byte()?;
    let pid = i.pid()?;
    Ok(match kind {
        ADOPTED => Notice::Adopted { pid, service: i.small()?, name: i.name()?, home: i.cpu()? },
        LEFT => Notice::Left { pid, home: i.cpu()? },
        MOVED => {
            let (from, to, load, code) = (i.cpu()?, i.cpu()?, (i.small()?, i.small()?), i.byte()?);
            let why =
                MoveReason::ALL.into_iter().find(|w| *w as u8 == code).ok_or(Bad("an unknown reason of a move"))?;
            Notice::Moved { pid, from, to, load, why }
        }
        _ => return Err(Bad("a notice of an unknown kind")),
    })
}
