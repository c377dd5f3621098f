//! The shared memory between the host process and the dispatcher: the only way in which the two talk.
//!
//! The dispatcher never makes a system call here, never waits and never allocates: every field is an atomic that one
//! side writes and the other reads. What does not fit is dropped and counted.
//!
//! ```text
//!   dispatcher  ── phase, end, counters, homes ──>  host
//!               ── ring of notices ──────────────>
//!               <── stop ─────────────────────────
//! ```
//!
//! The homes outlive a dispatcher: its successor, started after CPU hotplug or a stall, finds them.
//!
//! The host trusts nothing that it reads: indices are bounded, unknown kinds skipped, texts cleaned. A dispatcher
//! gone wild can make it print nonsense, but not crash, hang or write outside this memory.

mod homes;
mod record;
mod resting;
mod text;

use crate::event::Notice;
use crate::ids::{CpuId, MAX_CPUS, Ns, Pid, Tid};
use crate::stats::{COUNTERS, Counters};
use homes::Homes;
use record::{Record, WORDS};
use resting::Resting;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering::*};
use text::Text;

pub use resting::{MOST_RESTING, Realtime};

/// "softdom" and the version of the layout.
const MAGIC: u64 = u64::from_le_bytes(*b"softdom\x01");

/// Notices that wait for the host at most; it looks twice a second.
pub const RING: usize = 1024;

/// How far a dispatcher has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Phase {
    /// It loads and looks around; the kernel still schedules.
    Starting = 0,
    /// It is attached and schedules the machine.
    Running = 1,
    /// It has seen that it shall end, or that the kernel has ended it, and tidies up.
    Ending = 3,
    /// It is detached; [`Channel::end`] tells why.
    Ended = 2,
}

/// Why a dispatcher ended, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum EndKind {
    /// The host asked for it.
    Asked = 1,
    /// The kernel ended it.
    Ejected = 2,
    /// It could not start, or gave up by itself.
    Failed = 3,
    /// It panicked.
    Crashed = 4,
}

/// Why a dispatcher ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// In one word.
    pub kind: EndKind,
    /// The kernel's `scx_exit_kind`; 0 if it was not the kernel.
    pub kernel_kind: i32,
    /// The kernel's exit code, where it gives one.
    pub kernel_code: i64,
    /// The kernel asks for a fresh start: the set of CPUs changed.
    pub restart: bool,
    /// In words.
    pub text: String,
}

/// What lies in the memory. All zeros is a valid empty one but for the magic.
#[repr(C)]
struct Shared {
    magic: AtomicU64,
    size: AtomicU64,
    stop: AtomicU32,
    phase: AtomicU32,
    end_kind: AtomicU32,
    end_restart: AtomicU32,
    end_kernel_kind: AtomicI32,
    /// Process id of the host.
    host: AtomicI32,
    /// Tasks helped from behind a real-time task, and those that could not be; then the last one: its thread id and
    /// CPU << 32, and the thread id of the real-time task.
    rescued: AtomicU64,
    not_rescued: AtomicU64,
    last_stuck: AtomicU64,
    last_holder: AtomicI32,
    resting: Resting,
    end_kernel_code: AtomicI64,
    end_text: Text,
    counters: [AtomicU64; COUNTERS],
    homes: Homes,
    /// Records ever written; the dispatcher's.
    head: Line,
    /// Records ever read; the host's.
    tail: Line,
    ring: [Record; RING],
}

/// A word in a cache line of its own.
#[repr(C, align(64))]
struct Line(AtomicU64);

/// One process's view of the memory.
pub struct Channel {
    shared: NonNull<Shared>,
    fd: OwnedFd,
}

// SAFETY: all access goes through atomics.
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}

impl Channel {
    /// A new memory, empty; for the host.
    pub fn create() -> io::Result<Self> {
        let fd = rustix::fs::memfd_create("scx_soft_domain", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, size_of::<Shared>() as u64)?;
        // Nobody can shrink it under us: reading a mapping beyond the end would be a SIGBUS.
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let channel = Channel { shared: map(fd.as_fd())?, fd };
        channel.shared().size.store(size_of::<Shared>() as u64, Relaxed);
        channel.shared().host.store(rustix::process::getpid().as_raw_nonzero().get(), Relaxed);
        channel.shared().magic.store(MAGIC, Release);
        Ok(channel)
    }

    /// The memory behind `fd`, which the host made; for the dispatcher. All pages are present afterwards.
    pub fn open(fd: OwnedFd) -> io::Result<Self> {
        let size = rustix::fs::fstat(&fd)?.st_size;
        if size != size_of::<Shared>() as i64 {
            return Err(io::Error::other(format!("the channel has {size} bytes, not {}", size_of::<Shared>())));
        }
        let channel = Channel { shared: map(fd.as_fd())?, fd };
        let shared = channel.shared();
        if shared.magic.load(Acquire) != MAGIC || shared.size.load(Relaxed) != size as u64 {
            return Err(io::Error::other("the channel has another version"));
        }
        Ok(channel)
    }

    /// To hand on to the dispatcher.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn shared(&self) -> &Shared {
        // SAFETY: mapped in `map` with this size and never unmapped while `self` lives; only atomics in it, for
        // which every bit pattern is valid, so that the other process may write at any time.
        unsafe { self.shared.as_ref() }
    }
}

/// The dispatcher's side. No system call, no wait, no allocation.
impl Channel {
    /// Whether the host wants the dispatcher to detach.
    #[inline]
    pub fn stop_requested(&self) -> bool {
        self.shared().stop.load(Relaxed) != 0
    }

    /// Tells how far the dispatcher is.
    pub fn set_phase(&self, phase: Phase) {
        self.shared().phase.store(phase as u32, Release);
    }

    /// Tells why it ends; before `set_phase(Ended)`.
    pub fn set_end(&self, end: &End) {
        let s = self.shared();
        s.end_kernel_kind.store(end.kernel_kind, Relaxed);
        s.end_kernel_code.store(end.kernel_code, Relaxed);
        s.end_restart.store(end.restart.into(), Relaxed);
        s.end_text.set(&end.text);
        s.end_kind.store(end.kind as u32, Release);
    }

    /// Sends a notice of the time `now` (ns, monotonic clock). `false`: the ring is full and it is lost; count it.
    #[inline]
    #[must_use]
    pub fn notice(&self, now: Ns, notice: &Notice) -> bool {
        let s = self.shared();
        let head = s.head.0.load(Relaxed);
        // A tail that makes no sense reads as full.
        if head.wrapping_sub(s.tail.0.load(Acquire)) >= RING as u64 {
            return false;
        }
        s.ring[head as usize % RING].set(&record::encode(now, notice));
        s.head.0.store(head.wrapping_add(1), Release);
        true
    }

    /// Shows the counters to the host.
    pub fn publish(&self, counters: &Counters) {
        for (to, from) in self.shared().counters.iter().zip(&counters.0) {
            to.store(*from, Relaxed);
        }
    }

    /// A task `tid` could not run on `cpu` because the real-time task `holder` has it; `helped`: it can now. For one
    /// thread, the helper of [`Stuck`]'s tasks.
    pub fn stuck(&self, stuck: &Stuck, helped: bool) {
        let s = self.shared();
        s.last_stuck.store(u64::from(stuck.tid.0 as u32) | u64::from(stuck.cpu.0) << 32, Relaxed);
        s.last_holder.store(stuck.holder.0, Relaxed);
        if helped { &s.rescued } else { &s.not_rescued }.fetch_add(1, Release);
    }

    /// Notes that a real-time task rests for a moment; `None`: it does no more. For one thread; slots are 0 to
    /// [`MOST_RESTING`] - 1.
    pub fn set_resting(&self, slot: usize, task: Option<Realtime>) {
        self.shared().resting.set(slot, task);
    }

    /// Keeps the home of an instance for a successor; `None` when it has none any more. `false`: no room.
    pub fn set_home(&self, pid: Pid, home: Option<CpuId>) -> bool {
        self.shared().homes.set(pid, home)
    }
}

/// A task that cannot run because a real-time task holds its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The task.
    pub tid: Tid,
    /// The CPU.
    pub cpu: CpuId,
    /// The real-time task.
    pub holder: Tid,
}

/// Both sides.
impl Channel {
    /// Stuck tasks that were helped, stuck tasks that were not, the last of them all. What makes no sense as a CPU is
    /// cut to one.
    pub fn rescues(&self) -> (u64, u64, Stuck) {
        let s = self.shared();
        let (helped, not) = (s.rescued.load(Acquire), s.not_rescued.load(Acquire));
        let last = s.last_stuck.load(Relaxed);
        let (tid, cpu) = (Tid(last as u32 as i32), CpuId((last >> 32) as u16 % MAX_CPUS as u16));
        (helped, not, Stuck { tid, cpu, holder: Tid(s.last_holder.load(Relaxed)) })
    }

    /// The real-time tasks that rest, by slot.
    pub fn resting(&self) -> impl Iterator<Item = (usize, Realtime)> {
        self.shared().resting.all()
    }

    /// The process that made the channel.
    pub fn host(&self) -> Pid {
        Pid(self.shared().host.load(Relaxed))
    }

    /// The homes known, in no particular order.
    pub fn homes(&self) -> Vec<(Pid, CpuId)> {
        self.shared().homes.all()
    }
}

/// The host's side.
impl Channel {
    /// Asks the dispatcher to detach; it may take some time.
    pub fn request_stop(&self) {
        self.shared().stop.store(1, Release);
    }

    /// Makes ready for a fresh dispatcher: everything but homes and unread notices is cleared.
    pub fn begin(&self) {
        let s = self.shared();
        s.stop.store(0, Relaxed);
        s.end_kind.store(0, Relaxed);
        s.end_text.set("");
        s.counters.iter().chain([&s.rescued, &s.not_rescued]).for_each(|c| c.store(0, Relaxed));
        s.phase.store(Phase::Starting as u32, Release);
    }

    /// How far the dispatcher is; what makes no sense counts as ended.
    pub fn phase(&self) -> Phase {
        match self.shared().phase.load(Acquire) {
            0 => Phase::Starting,
            1 => Phase::Running,
            3 => Phase::Ending,
            _ => Phase::Ended,
        }
    }

    /// Why the dispatcher ended, if it said so.
    pub fn end(&self) -> Option<End> {
        let s = self.shared();
        let kind = match s.end_kind.load(Acquire) {
            1 => EndKind::Asked,
            2 => EndKind::Ejected,
            3 => EndKind::Failed,
            4 => EndKind::Crashed,
            _ => return None,
        };
        Some(End {
            kind,
            kernel_kind: s.end_kernel_kind.load(Relaxed),
            kernel_code: s.end_kernel_code.load(Relaxed),
            restart: s.end_restart.load(Relaxed) != 0,
            text: s.end_text.get(),
        })
    }

    /// The counters as published last.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        for (to, from) in counters.0.iter_mut().zip(&self.shared().counters) {
            *to = from.load(Relaxed);
        }
        counters
    }

    /// The oldest unread notice and its time (ns, monotonic clock). Records of unknown kinds are skipped.
    pub fn next_notice(&self) -> Option<(Ns, Notice)> {
        let s = self.shared();
        // Bounded: a writer that races ahead does not keep us here.
        for _ in 0..RING {
            let (head, mut tail) = (s.head.0.load(Acquire), s.tail.0.load(Relaxed));
            if head == tail {
                return None;
            }
            if head.wrapping_sub(tail) > RING as u64 {
                tail = head.wrapping_sub(RING as u64);
            }
            let words: [u64; WORDS] = s.ring[tail as usize % RING].get();
            s.tail.0.store(tail.wrapping_add(1), Release);
            if let Some(notice) = record::decode(&words) {
                return Some(notice);
            }
        }
        None
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this size; no reference outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.shared.as_ptr().cast(), size_of::<Shared>()) };
    }
}

/// Maps the memory, all pages present, so that the dispatcher never faults in it.
fn map(fd: BorrowedFd<'_>) -> io::Result<NonNull<Shared>> {
    let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
    // SAFETY: a fresh mapping at an address of the kernel's choice (page-aligned, as `Shared` needs at most 64); the
    // file has the size of `Shared`, as both callers checked.
    let at = unsafe { rustix::mm::mmap(std::ptr::null_mut(), size_of::<Shared>(), prot, flags, fd, 0) }?;
    NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mmap gave address 0"))
}

#[cfg(test)]
mod tests;
