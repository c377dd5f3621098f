//! Recordings: every call into the policy with its time, and what the policy answered, so that a run on a real kernel
//! can be given to the same policy again, to another one, or to a debugger.
//!
//! ```text
//!   Recorded<policy> --record--> Sink ... Writer --> file --> Reader --> replay
//!   (dispatch process)        (shared memory)  (host process)            compare
//! ```
//!
//! The file, version [`VERSION`], all integers little-endian:
//! - [`MAGIC`], the version (4 bytes), then chunks;
//! - a chunk: kind (1 byte), 3 zero bytes, number of records, bytes before and after compression, CRC-32 of the 16 bytes
//!   so far and of what follows (4 bytes each); then its content as one LZ4 block;
//! - kinds: *begin* (a fresh policy: see [`header::Header`]; the first chunk, and again after a restart), *records* (each
//!   a length and that many bytes, see [`record`]), *end* (how many records there are and how many calls were lost).
//!
//! A chunk stands for itself: a file that is cut off or damaged is good up to the damaged chunk.
//!
//! **Gaps.** Where the sink was full, calls are lost and counted. Nobody can save the state of a policy in general, and
//! the one that schedules the machine shall not be restarted because of its recording. So the recorder tells, after the
//! gap, what it would take to bring a new policy near that state ([`record::Record::Snapshot`]): threads and processes,
//! homes, waiting tasks. A replay goes on with a new policy from there, and counts what it then decides apart: loads,
//! virtual times and histories are not the same, so only a recording without gaps can be called identical.

mod bytes;
pub mod call;
pub mod cli;
pub mod dump;
pub mod freeze;
pub mod given;
pub mod header;
mod known;
pub mod reader;
pub mod record;
pub mod recorder;
pub mod recording;
pub mod replay;
pub mod ring;
mod view;
pub mod what_if;
pub mod writer;

pub use reader::{Item, Reader};
pub use recorder::{Recorded, Sink};
pub use writer::Writer;

use bytes::{Bad, In};

/// The first bytes of a trace.
pub const MAGIC: [u8; 8] = *b"sd-trace";

/// The version of the format. Only this one is read.
pub const VERSION: u32 = 1;

/// Bytes in front of each chunk.
const CHUNK_HEAD: usize = 20;

/// Most bytes of a chunk before compression; bounds what a reader reserves.
const MOST_RAW: usize = 1 << 20;

/// What a chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Chunk {
    Begin = 1,
    Records = 2,
    End = 3,
}

impl Chunk {
    const ALL: [Chunk; 3] = [Chunk::Begin, Chunk::Records, Chunk::End];
}

/// How much a recording holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records of all kinds.
    pub records: u64,
    /// Calls that were lost because the recorder was too slow.
    pub dropped: u64,
}

impl Totals {
    fn decode(bytes: &[u8]) -> Result<Totals, Bad> {
        let i = &mut In(bytes);
        Ok(Totals { records: i.int()?, dropped: i.int()? })
    }
}

fn checksum(head: &[u8], packed: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(head);
    crc.update(packed);
    crc.finalize()
}
