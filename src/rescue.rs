//! Helps tasks out from behind a real-time task that holds their CPU.
//!
//! A real-time task that never sleeps keeps everything that must run on its CPU from running; since 6.12 the kernel
//! throttles only on behalf of its own fair class. A kernel thread bound to that CPU, say the one that completes the
//! disk's requests, then stops whoever waits for it, and after 5 s the watchdog ends us (a known limit of sched_ext
//! schedulers). `eyes.bpf.c` sees such tasks; here they are lifted above the real-time task for a moment, as `stalld`
//! does it. The dispatch thread itself, when a real-time task took its CPU from it, is moved to another CPU.
//!
//! The watchdog forgets that a task has waited only when it runs as one of ours. Lifted whenever it wakes up, and back
//! before the next time, a task would be taken for one that has waited all along (seen: "failed to run for 9.6 s" of a
//! kernel thread that had run twice a second). So a lifted task gets its policy back while it runs; one that sleeps keeps
//! the other one as long as the real-time task holds the CPU.
//!
//! A thread of the dispatch process, because its memory is locked: help that must first be read from disk would wait
//! for what it shall help. It is a real-time thread itself (see [`realtime`](crate::realtime)).

use crate::eyes_skel::types;
use anyhow::{Context, Result};
use libbpf_rs::{MapHandle, RingBufferBuilder};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::CpuSet;
use soft_domain::channel::{Channel, MOST_LIFTED, Stuck};
use soft_domain::host::sched_policy::{self, SCHED_EXT};
use soft_domain::ids::{CpuId, MAX_CPUS, Tid};
use std::cell::RefCell;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a lifted task may run before it is put back, and how often we look. It takes the kernel side two looks to see it
/// again (50 ms each while somebody waits).
const LIFT: Duration = Duration::from_millis(20);

/// The CPU has not been seen with a real-time task for so long: it is free of them.
const FREE: Duration = Duration::from_secs(1);

/// Tasks told of at a time.
const BATCH: usize = 64;

// SAFETY: plain integers; any bit pattern is valid.
unsafe impl plain::Plain for types::eyes_stuck {}

/// Starts the helper; before the attach, for what it does there needs memory. `cpus` is the memory of `eyes.bpf.c`,
/// `scheduler` the dispatch thread.
pub fn start(events: MapHandle, cpus: &MapHandle, scheduler: Tid, channel: Arc<Channel>) -> Result<()> {
    let cpus = Cpus::map(cpus)?;
    std::thread::Builder::new().name("scx_sd_rescue".into()).spawn(move || {
        let batch = Rc::new(RefCell::new(Vec::with_capacity(BATCH)));
        let sink = batch.clone();
        let mut ring = RingBufferBuilder::new();
        let added = ring.add(&events, move |data| {
            let mut sink = sink.borrow_mut();
            if let (Ok(stuck), true) = (plain::from_bytes::<types::eyes_stuck>(data), sink.len() < BATCH) {
                sink.push(*stuck);
            }
            0
        });
        if added.is_err() {
            return;
        }
        let Ok(ring) = ring.build() else { return };
        let own = Tid(rustix::thread::gettid().as_raw_nonzero().get());
        let mut helper = Helper { cpus, channel, own, lifted: [const { None }; MOST_LIFTED] };
        loop {
            let wait = if helper.lifted.iter().all(Option::is_none) { Duration::MAX } else { LIFT };
            // Interrupted by a signal: so what.
            let _ = ring.poll(wait);
            for stuck in batch.borrow_mut().drain(..) {
                let tid = Tid(stuck.tid as i32);
                let who = Stuck { tid, cpu: CpuId(stuck.cpu as u16), holder: Tid(stuck.holder as i32) };
                let helped = if tid == scheduler { step_aside(tid, who.cpu) } else { helper.lift(&stuck) };
                helper.channel.stuck(&who, helped);
            }
            helper.look();
        }
    })?;
    Ok(())
}

/// A task that is a real-time one for a moment. The policy that it had is in the channel.
#[derive(Clone, Copy)]
struct Lifted {
    tid: Tid,
    policy: i32,
    /// Where it was stuck.
    cpu: usize,
    since: Instant,
    /// When a real-time task had that CPU last.
    held: Instant,
}

struct Helper {
    cpus: Cpus,
    channel: Arc<Channel>,
    /// Our own thread, which is a real-time one too.
    own: Tid,
    /// By slot of the channel.
    lifted: [Option<Lifted>; MOST_LIFTED],
}

impl Helper {
    /// Makes the task a real-time one of the priority that it needs. `false`: there is none, or it is gone.
    fn lift(&mut self, stuck: &types::eyes_stuck) -> bool {
        let tid = Tid(stuck.tid as i32);
        let policy = sched_policy::get(tid);
        let ours = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE, SCHED_EXT];
        let slot = self.lifted.iter().position(Option::is_none);
        let Some(slot) = slot.filter(|_| stuck.priority != 0 && ours.contains(&(policy & !libc::SCHED_RESET_ON_FORK)))
        else {
            return false;
        };
        // Before the change: whoever is left then knows.
        self.channel.set_lifted(slot, Some((tid, policy)));
        let done = sched_policy::lift(tid, stuck.priority as i32);
        if done {
            let now = Instant::now();
            self.lifted[slot] = Some(Lifted { tid, policy, cpu: stuck.cpu as usize, since: now, held: now });
        } else {
            self.channel.set_lifted(slot, None);
        }
        done
    }

    /// Puts those back whose time is over.
    fn look(&mut self) {
        for slot in 0..MOST_LIFTED {
            let Some(l) = &mut self.lifted[slot] else { continue };
            let now = Instant::now();
            let other = self.cpus.current(l.cpu).filter(|t| *t != self.own);
            if other.is_some_and(sched_policy::is_realtime) {
                l.held = now;
            }
            let over = now - l.since >= LIFT && self.cpus.runs(l.tid);
            if over || now - l.held >= FREE {
                sched_policy::put_back(l.tid, l.policy);
                self.channel.set_lifted(slot, None);
                self.lifted[slot] = None;
            }
        }
    }
}

/// Moves the dispatch thread off `cpu`. Its affinity is as before afterwards.
fn step_aside(scheduler: Tid, cpu: CpuId) -> bool {
    let Some(pid) = rustix::process::Pid::from_raw(scheduler.0) else { return false };
    let Ok(all) = rustix::thread::sched_getaffinity(Some(pid)) else { return false };
    let mut others: CpuSet = all;
    others.unset(cpu.index());
    let moved = others.count() > 0 && rustix::thread::sched_setaffinity(Some(pid), &others).is_ok();
    rustix::thread::sched_setaffinity(Some(pid), &all).is_ok() && moved
}

/// A mapping of our own of what every CPU does, never unmapped: that of `Eyes` goes while this thread still looks.
struct Cpus(*const types::bss);

// SAFETY: the memory is only read, word by word, and outlives everybody.
unsafe impl Send for Cpus {}

impl Cpus {
    fn map(bss: &MapHandle) -> Result<Self> {
        let (prot, flags) = (ProtFlags::READ, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a fresh mapping at an address of the kernel's choice. The skeleton made sure that the map holds a
        // `types::bss`.
        let at =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), size_of::<types::bss>(), prot, flags, bss.as_fd(), 0) };
        Ok(Cpus(at.context("mapping the eyes' .bss")?.cast()))
    }

    /// The thread that `cpu` runs; `None` if it is idle.
    fn current(&self, cpu: usize) -> Option<Tid> {
        // SAFETY: inside the mapping, since an array's index is checked; the kernel side writes whole words.
        let tid = unsafe { (&raw const (*self.0).cpus[cpu % MAX_CPUS].tid).read_volatile() };
        (tid != 0).then_some(Tid(tid as i32))
    }

    /// Whether a CPU runs this thread now.
    fn runs(&self, tid: Tid) -> bool {
        (0..MAX_CPUS).any(|cpu| self.current(cpu) == Some(tid))
    }
}
