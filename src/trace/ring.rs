//! A ring of records in shared memory: the dispatch process writes, the host process reads. One of each at a time.
//!
//! The writer makes no system call, never waits and allocates nothing: a record for which there is no room is refused.
//! The reader trusts nothing: a length that makes no sense empties the ring and is told.

use super::record::MOST_BYTES;
use super::recorder::Sink;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// "sd-ring" and the version of the layout.
const MAGIC: u64 = u64::from_le_bytes(*b"sd-ring\x01");

/// Bytes for records: about a quarter of a million, half a second of a busy machine.
pub const BYTES: usize = 32 << 20;

/// A word in a cache line of its own.
#[repr(C, align(64))]
struct Line(AtomicU64);

/// What lies in front of the records.
#[repr(C)]
struct Head {
    magic: AtomicU64,
    /// Words for records, a power of two.
    words: AtomicU64,
    /// Calls that were lost and that no record tells of yet; the writer's.
    lost: Line,
    /// Words ever written; the writer's.
    head: Line,
    /// Words ever read; the reader's.
    tail: Line,
}

/// One process's view of the ring. A record is a word with its length, then its bytes, filled up to whole words.
pub struct Ring {
    at: NonNull<Head>,
    words: usize,
    fd: OwnedFd,
}

// SAFETY: all access goes through atomics.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

/// The ring holds something that no recorder has written. It was emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonsense;

impl Ring {
    /// An empty one with room for about `bytes` bytes; for the host.
    pub fn create(bytes: usize) -> io::Result<Self> {
        let words = (bytes / 8).next_power_of_two();
        let fd = rustix::fs::memfd_create("scx_soft_domain_record", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, size(words) as u64)?;
        // Nobody can shrink it under us: reading a mapping beyond the end would be a SIGBUS.
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let ring = Ring { at: map(fd.as_fd(), words)?, words, fd };
        ring.head().words.store(words as u64, Relaxed);
        ring.head().magic.store(MAGIC, Release);
        Ok(ring)
    }

    /// The ring behind `fd`, which the host made; for the dispatcher. All pages are present afterwards.
    pub fn open(fd: OwnedFd) -> io::Result<Self> {
        let len = usize::try_from(rustix::fs::fstat(&fd)?.st_size).unwrap_or(0);
        let words = len.saturating_sub(size_of::<Head>()) / 8;
        if !words.is_power_of_two() || size(words) != len {
            return Err(io::Error::other(format!("the ring of records has {len} bytes")));
        }
        let ring = Ring { at: map(fd.as_fd(), words)?, words, fd };
        let head = ring.head();
        if head.magic.load(Acquire) != MAGIC || head.words.load(Relaxed) != words as u64 {
            return Err(io::Error::other("the ring of records has another version"));
        }
        Ok(ring)
    }

    /// To hand on to the dispatcher.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn head(&self) -> &Head {
        // SAFETY: mapped in `map` and never unmapped while `self` lives; only atomics in it.
        unsafe { self.at.as_ref() }
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        let at = at as usize & (self.words - 1);
        // SAFETY: `map` has mapped `words` words behind the head; `at` is below that, as `words` is a power of two.
        unsafe { self.at.add(1).cast::<AtomicU64>().add(at).as_ref() }
    }

    /// Words that are free; a tail that makes no sense reads as full.
    fn free(&self) -> u64 {
        let used = self.head().head.0.load(Relaxed).wrapping_sub(self.head().tail.0.load(Acquire));
        (self.words as u64).saturating_sub(used)
    }

    /// For the host: the oldest record into `buf`. `false`: there is none now.
    pub fn take(&self, buf: &mut Vec<u8>) -> Result<bool, Nonsense> {
        buf.clear();
        let (head, tail) = (self.head().head.0.load(Acquire), self.head().tail.0.load(Relaxed));
        let used = head.wrapping_sub(tail);
        if used == 0 {
            return Ok(false);
        }
        let len = self.word(tail).load(Relaxed);
        let words = len.div_ceil(8).saturating_add(1);
        if used > self.words as u64 || words > used || len > MOST_BYTES as u64 {
            self.head().tail.0.store(head, Release);
            return Err(Nonsense);
        }
        for i in 1..words {
            buf.extend_from_slice(&self.word(tail.wrapping_add(i)).load(Relaxed).to_le_bytes());
        }
        buf.truncate(len as usize);
        self.head().tail.0.store(tail.wrapping_add(words), Release);
        Ok(true)
    }

    /// For the host: the calls lost that no record tells of; 0 from now on.
    pub fn take_lost(&self) -> u64 {
        self.head().lost.0.swap(0, Relaxed)
    }
}

impl Sink for Ring {
    fn put(&mut self, record: &[u8]) -> bool {
        let words = record.len().div_ceil(8) as u64 + 1;
        if words > self.free() {
            return false;
        }
        let head = self.head().head.0.load(Relaxed);
        self.word(head).store(record.len() as u64, Relaxed);
        for (i, bytes) in (1..).zip(record.chunks(8)) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.word(head.wrapping_add(i)).store(u64::from_le_bytes(word), Relaxed);
        }
        self.head().head.0.store(head.wrapping_add(words), Release);
        true
    }

    fn room(&self) -> usize {
        self.free() as usize * 8
    }

    fn set_lost(&mut self, calls: u64) {
        self.head().lost.0.store(calls, Relaxed);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this size; no reference outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), size(self.words)) };
    }
}

/// Bytes of the whole memory.
fn size(words: usize) -> usize {
    size_of::<Head>() + words * 8
}

/// Maps the memory, all pages present, so that the dispatcher never faults in it.
fn map(fd: BorrowedFd<'_>, words: usize) -> io::Result<NonNull<Head>> {
    let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
    // SAFETY: a fresh mapping at an address of the kernel's choice (page-aligned, as `Head` needs 64); the file has this
    // size, as both callers checked.
    let at = unsafe { rustix::mm::mmap(std::ptr::null_mut(), size(words), prot, flags, fd, 0) }?;
    NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mmap gave address 0"))
}

#[cfg(test)]
impl Ring {
    /// What no recorder writes.
    pub(super) fn spoil(&mut self) {
        self.word(self.head().head.0.load(Relaxed)).store(u64::MAX, Relaxed);
        self.head().head.0.fetch_add(2, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn pair(bytes: usize) -> (Ring, Ring) {
        let host = Ring::create(bytes).unwrap();
        let dispatcher = Ring::open(host.fd().try_clone_to_owned().unwrap()).unwrap();
        (host, dispatcher)
    }

    proptest! {
        #[test]
        fn records_come_out_in_order_and_what_does_not_fit_is_refused(
            ops in proptest::collection::vec(proptest::option::of(proptest::collection::vec(any::<u8>(), 0..200)), 0..200)
        ) {
            let (host, mut dispatcher) = pair(1024);
            let (mut model, mut buf) = (VecDeque::new(), Vec::new());
            for op in ops {
                match op {
                    Some(record) => {
                        let used: usize = model.iter().map(|r: &Vec<u8>| r.len().div_ceil(8) * 8 + 8).sum();
                        let fits = used + record.len().div_ceil(8) * 8 + 8 <= 1024;
                        prop_assert_eq!(dispatcher.room(), 1024 - used);
                        prop_assert_eq!(dispatcher.put(&record), fits);
                        if fits {
                            model.push_back(record);
                        }
                    }
                    None => {
                        let got = host.take(&mut buf).unwrap().then(|| buf.clone());
                        prop_assert_eq!(got, model.pop_front());
                    }
                }
            }
        }

        #[test]
        fn any_memory_is_read_without_harm(head in any::<u64>(), tail in any::<u64>(), near in any::<bool>(), fill in any::<u64>()) {
            let (host, dispatcher) = pair(1024);
            (0..128).for_each(|i| dispatcher.word(i).store(fill.rotate_left(i as u32), Relaxed));
            let tail = if near { head.wrapping_sub(tail % 200) } else { tail };
            dispatcher.head().head.0.store(head, Relaxed);
            dispatcher.head().tail.0.store(tail, Relaxed);
            let mut buf = Vec::new();
            // Every step takes at least one word.
            let steps = (0..200).take_while(|_| matches!(host.take(&mut buf), Ok(true))).count();
            prop_assert!(steps <= 128);
        }
    }

    #[test]
    fn two_threads_pass_every_record_that_was_not_refused() {
        let (host, mut dispatcher) = pair(4096);
        let writer = std::thread::spawn(move || {
            let (mut sent, mut refused) = (0u64, 0u64);
            while sent < 100_000 {
                let len = 8 + (sent % 90) as usize;
                let mut record = vec![sent as u8; len];
                record[..8].copy_from_slice(&sent.to_le_bytes());
                if dispatcher.put(&record) {
                    sent += 1;
                } else {
                    refused += 1;
                    std::thread::yield_now();
                }
            }
            refused
        });
        let (mut next, mut buf) = (0u64, Vec::new());
        while next < 100_000 {
            if !host.take(&mut buf).unwrap() {
                std::thread::yield_now();
                continue;
            }
            let number = u64::from_le_bytes(buf[..8].try_into().unwrap());
            assert_eq!((number, buf.len()), (next, 8 + (next % 90) as usize));
            assert!(buf[8..].iter().all(|b| *b == next as u8));
            next += 1;
        }
        let refused = writer.join().unwrap();
        assert!(!host.take(&mut buf).unwrap(), "{refused} were refused");
    }

    #[test]
    fn memory_of_another_size_or_version_is_refused() {
        let fd = rustix::fs::memfd_create("short", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&fd, 1000).unwrap();
        assert!(Ring::open(fd).is_err());
        let host = Ring::create(64).unwrap();
        host.head().magic.store(MAGIC + 1, Relaxed);
        assert!(Ring::open(host.fd().try_clone_to_owned().unwrap()).is_err());
    }
}
