//! Helps tasks out from behind a real-time task that holds their CPU.
//!
//! A real-time task that never sleeps keeps everything that must run on its CPU from running. Kernels before 6.12 throttled
//! such tasks to 95% of a CPU; since then they do so on behalf of their own fair class only, until a later one (7.x) does
//! it for sched_ext too. A kernel thread bound to that CPU, say the one that completes the disk's requests, then stops
//! whoever waits for it, and after 5 s the watchdog ends us (a known limit of sched_ext schedulers).
//!
//! `eyes.bpf.c` sees who waits; here the real-time task gets the old 95%: it is one of ours for [`WINDOW`] once per
//! [`PERIOD`], while somebody waits behind it, unless the administrator has turned throttling off
//! (`kernel.sched_rt_runtime_us` is -1). To make the waiting ones real-time tasks instead, as `stalld` does it, is no way: the
//! watchdog forgets that a task has waited only when it runs as one of ours (seen: "failed to run for 9.6 s" of a kernel
//! thread that had run twice a second).
//!
//! The dispatch thread itself, when a real-time task took its CPU from it, is moved to another CPU.
//!
//! A thread of the dispatch process, because its memory is locked: help that must first be read from disk would wait
//! for what it shall help. It is a real-time thread itself (see [`realtime`](crate::realtime)).

use crate::eyes_skel::types;
use anyhow::{Context, Result};
use libbpf_rs::{MapHandle, RingBufferBuilder};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::CpuSet;
use soft_domain::channel::{Channel, MOST_RESTING, Realtime, Stuck};
use soft_domain::host::sched_policy;
use soft_domain::ids::{CpuId, MAX_CPUS, Tid};
use std::cell::RefCell;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the real-time tasks of a CPU rest: four slices.
const WINDOW: Duration = Duration::from_millis(20);

/// From one rest to the next at least: with the window 5%, the kernel's own share (1 - `sched_rt_runtime_us` by
/// `sched_rt_period_us`, 950,000 by 1,000,000), in shorter pieces.
const PERIOD: Duration = Duration::from_millis(400);

/// How often we look meanwhile whether another real-time task has come.
const LOOK: Duration = Duration::from_millis(2);

/// Tasks told of at a time.
const BATCH: usize = 64;

/// Turns throttling off where it is -1.
const RT_RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";

// SAFETY: plain integers; any bit pattern is valid.
unsafe impl plain::Plain for types::eyes_stuck {}

/// Starts the helper; before the attach, for what it does there needs memory. `cpus` is the memory of `eyes.bpf.c`,
/// `scheduler` the dispatch thread.
pub fn start(events: MapHandle, cpus: &MapHandle, scheduler: Tid, channel: Arc<Channel>) -> Result<()> {
    let cpus = Cpus::map(cpus)?;
    let throttle = std::fs::read_to_string(RT_RUNTIME).map_or(true, |text| text.trim() != "-1");
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
        let mut helper = Helper { cpus, channel, resting: [const { None }; MOST_RESTING], began: vec![None; MAX_CPUS] };
        loop {
            let wait = if helper.resting.iter().all(Option::is_none) { Duration::MAX } else { LOOK };
            // Interrupted by a signal: so what.
            let _ = ring.poll(wait);
            for stuck in batch.borrow_mut().drain(..) {
                let (tid, holder) = (Tid(stuck.tid as i32), Tid(stuck.holder as i32));
                let cpu = CpuId((stuck.cpu as usize % MAX_CPUS) as u16);
                let helped = match () {
                    () if tid == scheduler => Some(step_aside(tid, cpu)),
                    () if throttle => helper.begin(cpu.index(), holder),
                    () => Some(false),
                };
                if let Some(helped) = helped {
                    helper.channel.stuck(&Stuck { tid, cpu, holder }, helped);
                }
            }
            helper.look();
        }
    })?;
    Ok(())
}

struct Helper {
    cpus: Cpus,
    channel: Arc<Channel>,
    /// Who rests, and on which CPU it was; by slot of the channel.
    resting: [Option<(Realtime, usize)>; MOST_RESTING],
    /// When the last rest on a CPU began, per CPU.
    began: Vec<Option<Instant>>,
}

impl Helper {
    /// A task waits behind `holder` on `cpu`. Whether it is helped; `None`: not yet again.
    fn begin(&mut self, cpu: usize, holder: Tid) -> Option<bool> {
        let now = Instant::now();
        if self.began[cpu].is_some_and(|at| now - at < PERIOD) {
            return None;
        }
        self.began[cpu] = Some(now);
        Some(self.rest(cpu, holder))
    }

    /// `false`: it is no real-time task of FIFO or RR (a deadline task, or one that has borrowed its priority).
    fn rest(&mut self, cpu: usize, holder: Tid) -> bool {
        let Some(slot) = self.resting.iter().position(Option::is_none) else { return false };
        let Some(task) = sched_policy::realtime(holder) else { return false };
        // Before the change: whoever is left then knows.
        self.channel.set_resting(slot, Some(task));
        let done = sched_policy::rest(&task);
        if done {
            self.resting[slot] = Some((task, cpu));
        } else {
            self.channel.set_resting(slot, None);
        }
        done
    }

    /// Others rest too that have come in the place of one that does; who has rested long enough goes on.
    fn look(&mut self) {
        let now = Instant::now();
        for slot in 0..MOST_RESTING {
            let Some((task, cpu)) = self.resting[slot] else { continue };
            if self.began[cpu].is_some_and(|at| now - at < WINDOW) {
                if let Some(other) = self.cpus.realtime(cpu) {
                    self.rest(cpu, other);
                }
            } else {
                sched_policy::put_back(&task);
                self.channel.set_resting(slot, None);
                self.resting[slot] = None;
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

    /// The real-time thread of user space, not ours, that `cpu` runs, if it does.
    fn realtime(&self, cpu: usize) -> Option<Tid> {
        // SAFETY: inside the mapping, since an array's index is checked; the kernel side writes whole words.
        let (realtime, tid) = unsafe {
            let cpu = &raw const (*self.0).cpus[cpu % MAX_CPUS];
            ((&raw const (*cpu).realtime).read_volatile(), (&raw const (*cpu).tid).read_volatile())
        };
        (realtime != 0).then_some(Tid(tid as i32))
    }
}
