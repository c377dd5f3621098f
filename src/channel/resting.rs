//! Real-time tasks that rest for a moment (src/rescue.rs of the binary), with the class that they have: whoever is left puts
//! them back.

use crate::ids::Tid;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// Tasks that rest at a time.
pub const MOST_RESTING: usize = 64;

/// A real-time task: its id, policy (maybe with SCHED_RESET_ON_FORK) and priority (1 to 99).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Realtime {
    /// The thread.
    pub tid: Tid,
    /// SCHED_FIFO or SCHED_RR.
    pub policy: i32,
    /// 1 to 99.
    pub priority: i32,
}

/// One word each: the thread id, policy << 32 (8 bits), the flag << 40, priority << 48; 0 = free.
#[repr(C)]
pub(super) struct Resting([AtomicU64; MOST_RESTING]);

impl Resting {
    pub fn set(&self, slot: usize, task: Option<Realtime>) {
        let word = task.map_or(0, |t| {
            let flag = u64::from(t.policy & libc::SCHED_RESET_ON_FORK != 0);
            let class = u64::from(t.policy as u8) | flag << 8 | u64::from(t.priority as u8) << 16;
            u64::from(t.tid.0 as u32) | class << 32
        });
        self.0[slot % MOST_RESTING].store(word, Release);
    }

    pub fn all(&self) -> impl Iterator<Item = (usize, Realtime)> {
        let words = self.0.iter().map(|w| w.load(Acquire)).enumerate();
        words.filter(|(_, w)| *w != 0).map(|(slot, w)| {
            let flag = if w >> 40 & 1 == 1 { libc::SCHED_RESET_ON_FORK } else { 0 };
            let (policy, priority) = (i32::from((w >> 32) as u8) | flag, i32::from((w >> 48) as u8));
            (slot, Realtime { tid: Tid(w as u32 as i32), policy, priority })
        })
    }
}
