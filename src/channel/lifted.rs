//! Tasks that are real-time ones for a moment (src/rescue.rs of the binary), with the policy that they had: whoever is left
//! puts them back.

use crate::ids::Tid;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// Tasks lifted at a time.
pub const MOST_LIFTED: usize = 256;

/// A thread id with its policy << 32 each; 0 = free.
#[repr(C)]
pub(super) struct Lifted([AtomicU64; MOST_LIFTED]);

impl Lifted {
    pub fn set(&self, slot: usize, task: Option<(Tid, i32)>) {
        let word = task.map_or(0, |(tid, policy)| u64::from(tid.0 as u32) | u64::from(policy as u32) << 32);
        self.0[slot % MOST_LIFTED].store(word, Release);
    }

    pub fn all(&self) -> impl Iterator<Item = (usize, (Tid, i32))> {
        let words = self.0.iter().map(|w| w.load(Acquire)).enumerate();
        words.filter(|(_, w)| *w != 0).map(|(slot, w)| (slot, (Tid(w as u32 as i32), (w >> 32) as u32 as i32)))
    }
}
