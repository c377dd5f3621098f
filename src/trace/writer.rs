//! Records into a file, chunk by chunk.

use super::bytes::Out;
use super::header::Header;
use super::{CHUNK_HEAD, Chunk, MAGIC, Totals, VERSION, record};
use lz4_flex::block::{compress_into, get_maximum_output_size};
use std::io::{self, Write};

/// A chunk is written when it has this many bytes before compression: the unit of what a damage can cost.
const FULL: usize = 64 << 10;

/// Writes a trace. Whatever ends the writer, what was flushed before is readable.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    raw: Vec<u8>,
    packed: Vec<u8>,
    /// Records in `raw`.
    records: u32,
    written: Totals,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        Ok(Self::resume(out))
    }

    /// Behind what a file begins with.
    pub(super) fn resume(out: W) -> Self {
        let raw = Vec::with_capacity(FULL + record::MOST_BYTES + 16);
        Writer { out, raw, packed: Vec::new(), records: 0, written: Totals::default() }
    }

    /// A fresh policy begins: first of all, and again after a restart.
    pub fn begin(&mut self, header: &Header) -> io::Result<()> {
        self.flush()?;
        self.raw.extend_from_slice(&header.encode());
        self.chunk(Chunk::Begin)
    }

    /// One record as `record::encode_..` made it. `dropped` calls are counted from the gaps.
    pub fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        Out(&mut self.raw).text(bytes);
        self.records += 1;
        self.written.records += 1;
        if let Some(dropped) = record::dropped(bytes) {
            self.written.dropped = self.written.dropped.saturating_add(dropped);
        }
        if self.raw.len() >= FULL { self.flush() } else { Ok(()) }
    }

    /// So many calls were lost of which no record tells.
    pub fn add_dropped(&mut self, calls: u64) {
        self.written.dropped = self.written.dropped.saturating_add(calls);
    }

    /// What was put so far.
    pub fn totals(&self) -> Totals {
        self.written
    }

    /// Hands everything to the file.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.records > 0 {
            self.chunk(Chunk::Records)?;
        }
        self.out.flush()
    }

    /// Closes the file: it says that nothing is missing at its end. `dropped` calls were lost after the last record.
    pub fn finish(mut self, dropped: u64) -> io::Result<W> {
        self.flush()?;
        self.add_dropped(dropped);
        let Totals { records, dropped } = self.written;
        let mut o = Out(&mut self.raw);
        o.int(records);
        o.int(dropped);
        self.chunk(Chunk::End)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn chunk(&mut self, kind: Chunk) -> io::Result<()> {
        self.packed.resize(get_maximum_output_size(self.raw.len()), 0);
        let len = compress_into(&self.raw, &mut self.packed).map_err(io::Error::other)?;
        let mut head = [0; CHUNK_HEAD];
        head[0] = kind as u8;
        head[4..8].copy_from_slice(&self.records.to_le_bytes());
        head[8..12].copy_from_slice(&(self.raw.len() as u32).to_le_bytes());
        head[12..16].copy_from_slice(&(len as u32).to_le_bytes());
        let crc = super::checksum(&head[..16], &self.packed[..len]);
        head[16..].copy_from_slice(&crc.to_le_bytes());
        self.raw.clear();
        self.records = 0;
        self.out.write_all(&head)?;
        self.out.write_all(&self.packed[..len])
    }
}
