//! Records out of a file, up to its end or to the first damage. The file is foreign input: nothing in it makes the
//! reader panic, or take more memory than one chunk.

use super::bytes::{Bad, In};
use super::header::Header;
use super::record::{self, Record};
use super::{CHUNK_HEAD, Chunk, MAGIC, MOST_RAW, Totals, VERSION};
use lz4_flex::block::{decompress_into, get_maximum_output_size};
use std::fmt;
use std::io::{self, Read};

/// What a file holds, in order.
#[allow(clippy::large_enum_variant)] // nearly all are records, one at a time: a box each would cost more
#[derive(Clone, Debug)]
pub enum Item {
    /// A fresh policy begins.
    Begin(Box<Header>),
    /// A record.
    Record(Record),
    /// The recording was closed in order. Nothing follows.
    End(Totals),
}

/// Where a file stops making sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// First byte of the chunk that is damaged, or the length of a file that just ends.
    pub at: u64,
    /// Records before it; they are good.
    pub records: u64,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}; the {} records before it are good", self.what, self.at, self.records)
    }
}

/// Why a file is no trace that we can read.
#[derive(Debug)]
pub enum OpenError {
    /// Reading failed.
    Io(io::Error),
    /// Empty, or something else.
    Foreign(&'static str),
    /// Written by another version of this program.
    Version(u32),
    /// Its first chunk is damaged.
    Damage(Damage),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Io(e) => write!(f, "cannot read it: {e}"),
            OpenError::Foreign(what) => write!(f, "this is no trace: {what}"),
            OpenError::Version(v) => write!(
                f,
                "the trace has format version {v}, this program reads version {VERSION}: use the program that recorded it"
            ),
            OpenError::Damage(d) => write!(f, "the trace has no readable header: {d}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// Reads a trace.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    header: Header,
    /// Where the next chunk begins.
    at: u64,
    /// Where the present one began.
    chunk_at: u64,
    packed: Vec<u8>,
    raw: Vec<u8>,
    /// What of `raw` was taken, and the records that are left in it.
    taken: usize,
    left: u32,
    /// The last record in `raw`.
    last: std::ops::Range<usize>,
    read: Totals,
    over: bool,
}

impl<R: Read> Reader<R> {
    /// Checks that it is a trace, and reads the header.
    pub fn open(mut input: R) -> Result<Self, OpenError> {
        let mut start = [0; MAGIC.len() + 4];
        let got = fill(&mut input, &mut start).map_err(OpenError::Io)?;
        let (magic, version) = start.split_at(MAGIC.len());
        match got {
            0 => return Err(OpenError::Foreign("the file is empty")),
            n if n < start.len() || magic != MAGIC => return Err(OpenError::Foreign("it begins otherwise")),
            _ => {}
        }
        let version = version.iter().rev().fold(0, |v, b| v << 8 | u32::from(*b));
        if version != VERSION {
            return Err(OpenError::Version(version));
        }
        let (packed, raw, at) = (Vec::new(), Vec::new(), start.len() as u64);
        let (read, header) = (Totals::default(), Header::nowhere());
        let mut r =
            Reader { input, header, at, chunk_at: at, packed, raw, taken: 0, left: 0, last: 0..0, read, over: false };
        match r.step() {
            Ok(Some(Item::Begin(header))) => r.header = *header,
            Ok(_) => return Err(OpenError::Foreign("its first chunk is no header")),
            Err(d) => return Err(OpenError::Damage(d)),
        }
        Ok(r)
    }

    /// What the recording began with.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The last record as bytes.
    pub fn bytes(&self) -> &[u8] {
        self.raw.get(self.last.clone()).unwrap_or_default()
    }

    /// The next item; `None` after the end. A damage is told once and ends it.
    pub fn step(&mut self) -> Result<Option<Item>, Damage> {
        if self.over {
            return Ok(None);
        }
        let item = self.item();
        self.over = matches!(item, Err(_) | Ok(Item::End(_)));
        item.map(Some)
    }

    fn item(&mut self) -> Result<Item, Damage> {
        while self.left == 0 {
            match self.chunk()? {
                Chunk::Records if self.left > 0 => {}
                Chunk::Records => return Err(self.damage("a chunk without records")),
                Chunk::Begin => {
                    let header = Header::decode(&self.raw).map_err(|Bad(what)| self.damage(what))?;
                    return Ok(Item::Begin(Box::new(header)));
                }
                Chunk::End => {
                    let totals = Totals::decode(&self.raw).map_err(|Bad(what)| self.damage(what))?;
                    if totals.records != self.read.records {
                        return Err(self.damage("the closing chunk counts other records than there are"));
                    }
                    return Ok(Item::End(totals));
                }
            }
        }
        let record = self.record().map_err(|Bad(what)| self.damage(what))?;
        self.read.records += 1;
        Ok(Item::Record(record))
    }

    fn record(&mut self) -> Result<Record, Bad> {
        let rest = self.raw.get(self.taken..).unwrap_or_default();
        let mut i = In(rest);
        let bytes = i.text(record::MOST_BYTES)?;
        let end = self.raw.len() - i.0.len();
        self.last = end - bytes.len()..end;
        let record = record::decode(bytes)?;
        self.taken = end;
        self.left -= 1;
        if self.left == 0 && end != self.raw.len() {
            return Err(Bad("a chunk has bytes after its last record"));
        }
        Ok(record)
    }

    /// Reads the next chunk into `raw`.
    fn chunk(&mut self) -> Result<Chunk, Damage> {
        self.chunk_at = self.at;
        let mut head = [0; CHUNK_HEAD];
        match fill(&mut self.input, &mut head) {
            Err(e) => return Err(self.damage(&format!("cannot read on: {e}"))),
            Ok(0) => {
                return Err(
                    self.damage("the file ends without its closing chunk (the recorder was killed or still runs)")
                );
            }
            Ok(n) if n < head.len() => return Err(self.damage("the file is cut off inside a chunk")),
            Ok(_) => {}
        }
        let word = |at: usize| head[at..at + 4].iter().rev().fold(0, |v, b| v << 8 | u32::from(*b));
        let (records, raw_len, packed_len, crc) = (word(4), word(8) as usize, word(12) as usize, word(16));
        let kind = Chunk::ALL.into_iter().find(|k| *k as u8 == head[0]);
        let Some(kind) = kind.filter(|_| raw_len <= MOST_RAW && packed_len <= get_maximum_output_size(MOST_RAW)) else {
            return Err(self.damage("what follows is no chunk"));
        };
        self.packed.resize(packed_len, 0);
        match fill(&mut self.input, &mut self.packed) {
            Err(e) => return Err(self.damage(&format!("cannot read on: {e}"))),
            Ok(n) if n < packed_len => return Err(self.damage("the file is cut off inside a chunk")),
            Ok(_) => {}
        }
        if super::checksum(&head[..16], &self.packed) != crc {
            return Err(self.damage("the checksum of a chunk is wrong"));
        }
        self.raw.resize(raw_len, 0);
        let unpacked = decompress_into(&self.packed, &mut self.raw).ok() == Some(raw_len);
        if !unpacked || (kind != Chunk::Records && records != 0) {
            return Err(self.damage("a chunk cannot be unpacked"));
        }
        (self.taken, self.left) = (0, records);
        self.at += (CHUNK_HEAD + packed_len) as u64;
        Ok(kind)
    }

    fn damage(&self, what: &str) -> Damage {
        Damage { at: self.chunk_at, records: self.read.records, what: what.to_owned() }
    }
}

/// As many bytes as there are, up to the length of `buf`.
fn fill(input: &mut impl Read, buf: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < buf.len() {
        match input.read(&mut buf[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}
