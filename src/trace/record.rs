//! The records of a trace.

use super::bytes::{Bad, In, Out};
use super::call::Call;
use super::given::{Fresh, Given};
use crate::ids::Ns;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A call and what the policy answered.
    Call(Call, Given),
    /// So many calls are missing here. A snapshot follows, for a policy that starts anew.
    Gap {
        /// Calls that were not recorded since the last record.
        dropped: u64,
    },
    /// A part of a snapshot: a call that brings a new policy near the state of the one that ran on.
    Snapshot(Call),
    /// The snapshot is complete; calls follow.
    SnapshotEnd(Ns),
}

const CALL: u8 = 0;
const GAP: u8 = 1;
const SNAPSHOT: u8 = 2;
const SNAPSHOT_END: u8 = 3;

/// The longest record, in bytes: a pass over 1,024 CPUs with their tasks, hints and notices has room.
pub const MOST_BYTES: usize = 192 << 10;

/// The call and its answers into `buf`, which is emptied first. `false`: it would be longer than [`MOST_BYTES`], and
/// `buf` stays empty. Does not allocate where `buf` has that capacity.
pub fn encode_call(buf: &mut Vec<u8>, call: &Call, given: &Fresh) -> bool {
    buf.clear();
    if 1 + Call::MOST_BYTES + given.most_bytes() > MOST_BYTES {
        return false;
    }
    let mut o = Out(buf);
    o.byte(CALL);
    call.encode(&mut o);
    given.encode(call.now().unwrap_or(0), &mut o);
    true
}

/// A part of a snapshot, as [`encode_call`].
pub fn encode_snapshot(buf: &mut Vec<u8>, call: &Call) {
    buf.clear();
    let mut o = Out(buf);
    o.byte(SNAPSHOT);
    call.encode(&mut o);
}

/// The end of a snapshot.
pub fn encode_snapshot_end(buf: &mut Vec<u8>, now: Ns) {
    buf.clear();
    let mut o = Out(buf);
    o.byte(SNAPSHOT_END);
    o.int(now);
}

/// A gap.
pub fn encode_gap(buf: &mut Vec<u8>, dropped: u64) {
    buf.clear();
    let mut o = Out(buf);
    o.byte(GAP);
    o.int(dropped);
}

/// The calls that an encoded record says were lost.
pub fn dropped(bytes: &[u8]) -> Option<u64> {
    let i = &mut In(bytes);
    (i.byte() == Ok(GAP)).then(|| i.int().ok()).flatten()
}

/// Takes a record apart; every byte belongs to it.
pub fn decode(bytes: &[u8]) -> Result<Record, Bad> {
    let i = &mut In(bytes);
    let record = match i.byte()? {
        CALL => {
            let call = Call::decode(i)?;
            Record::Call(call, Given::decode(call.now().unwrap_or(0), i)?)
        }
        GAP => Record::Gap { dropped: i.int()? },
        SNAPSHOT => Record::Snapshot(Call::decode(i)?),
        SNAPSHOT_END => Record::SnapshotEnd(i.int()?),
        _ => return Err(Bad("a record of an unknown kind")),
    };
    if i.is_empty() { Ok(record) } else { Err(Bad("a record is too long")) }
}
