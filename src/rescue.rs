//! Helps tasks out from behind a real-time task that holds their CPU.
//!
//! A real-time task that never sleeps keeps everything that must run on its CPU from running; since 6.12 the kernel
//! throttles only on behalf of its own fair class. A kernel thread bound to that CPU, say the one that completes the
//! disk's requests, then stops whoever waits for it, and after 5 s the watchdog ends us (a known limit of sched_ext
//! schedulers). `eyes.bpf.c` sees such tasks; here they are lifted above the real-time task for a moment, as `stalld`
//! does it. The dispatch thread itself, when a real-time task took its CPU from it,
//! is moved to another CPU.
//!
//! A thread of the dispatch process, because its memory is locked: help that must first be read from disk would wait
//! for what it shall help. It is a real-time thread itself (see [`realtime`](crate::realtime)).

use crate::eyes_skel::types;
use anyhow::Result;
use libbpf_rs::{MapHandle, RingBufferBuilder};
use rustix::thread::CpuSet;
use soft_domain::channel::{Channel, Stuck};
use soft_domain::host::partial::SCHED_EXT;
use soft_domain::ids::{CpuId, Tid};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a task is lifted. It takes the kernel side two looks to see it (50 ms each while somebody waits).
const LIFT: Duration = Duration::from_millis(20);

/// The same for kernel threads: they do little at a time, but often it takes many wake-ups until what somebody waits for is
/// done, and each would have to be seen first.
const LIFT_KTHREAD: Duration = Duration::from_millis(200);

/// Tasks helped at a time.
const MOST: usize = 64;

// SAFETY: plain integers; any bit pattern is valid.
unsafe impl plain::Plain for types::eyes_stuck {}

/// Starts the helper; before the attach, for what it does there needs memory. `scheduler` is the dispatch thread.
pub fn start(events: MapHandle, scheduler: Tid, channel: Arc<Channel>) -> Result<()> {
    std::thread::Builder::new().name("scx_sd_rescue".into()).spawn(move || {
        let batch = Rc::new(RefCell::new(Vec::with_capacity(MOST)));
        let sink = batch.clone();
        let mut ring = RingBufferBuilder::new();
        let added = ring.add(&events, move |data| {
            let mut sink = sink.borrow_mut();
            if let (Ok(stuck), true) = (plain::from_bytes::<types::eyes_stuck>(data), sink.len() < MOST) {
                sink.push(*stuck);
            }
            0
        });
        if added.is_err() {
            return;
        }
        let Ok(ring) = ring.build() else { return };
        let mut lifted: Vec<Lifted> = Vec::with_capacity(MOST);
        loop {
            let wait = if lifted.is_empty() { Duration::MAX } else { LIFT };
            // Interrupted by a signal: so what.
            let _ = ring.poll(wait);
            for stuck in batch.borrow_mut().drain(..) {
                let tid = Tid(stuck.tid as i32);
                let who = Stuck { tid, cpu: CpuId(stuck.cpu as u16), holder: Tid(stuck.holder as i32) };
                let helped = if tid == scheduler { step_aside(tid, who.cpu) } else { lift(&stuck, &mut lifted) };
                channel.stuck(&who, helped);
            }
            lifted.retain(|l| {
                let over = l.since.elapsed() >= l.time;
                if over {
                    put_back(l);
                }
                !over
            });
        }
    })?;
    Ok(())
}

/// A task that is a real-time one for a moment.
struct Lifted {
    tid: Tid,
    /// What it was before.
    policy: i32,
    since: Instant,
    time: Duration,
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

/// What a lifted task looks like; its children shall not inherit it.
const LIFTED: i32 = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;

/// Makes the task a real-time one of the priority that it needs. `false`: there is none, or it is gone.
fn lift(stuck: &types::eyes_stuck, lifted: &mut Vec<Lifted>) -> bool {
    let tid = Tid(stuck.tid as i32);
    let policy = policy(tid);
    let ours = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE, SCHED_EXT];
    if stuck.priority == 0 || !ours.contains(&(policy & !libc::SCHED_RESET_ON_FORK)) || lifted.len() == MOST {
        return false;
    }
    let done = set_policy(tid, LIFTED, stuck.priority as i32);
    if done {
        let time = if stuck.kthread != 0 { LIFT_KTHREAD } else { LIFT };
        lifted.push(Lifted { tid, policy, since: Instant::now(), time });
    }
    done
}

/// Unless somebody else has changed it meanwhile. Its nice value is as before: the kernel keeps that.
fn put_back(l: &Lifted) {
    if policy(l.tid) == LIFTED {
        set_policy(l.tid, l.policy, 0);
    }
}

fn policy(tid: Tid) -> i32 {
    // SAFETY: no memory.
    unsafe { libc::sched_getscheduler(tid.0) }
}

fn set_policy(tid: Tid, policy: i32, priority: i32) -> bool {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: a valid pointer to plain data.
    unsafe { libc::sched_setscheduler(tid.0, policy, &raw const param) == 0 }
}
