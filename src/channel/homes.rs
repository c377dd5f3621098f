//! The table of homes: pid -> CPU, one word per entry, so that no entry is ever half written.

use crate::ids::{CpuId, MAX_CPUS, Pid};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Instances whose homes survive a restart; more than one per CPU that the shim can address.
pub const HOMES: usize = 4096;

/// An entry lies in the window that starts at its pid's slot. A window is searched as a whole, so that removing an
/// entry leaves no trace. With the table half full, a full window is a matter of one in millions.
const WINDOW: usize = 64;

/// Each word: 0 = free, else pid << 32 | CPU.
#[repr(C)]
pub struct Homes([AtomicU64; HOMES]);

impl Homes {
    /// Sets or removes. `false`: no room in the window.
    pub fn set(&self, pid: Pid, home: Option<CpuId>) -> bool {
        if pid.0 <= 0 {
            return false;
        }
        let mut free = None;
        for i in 0..WINDOW {
            let slot = &self.0[(pid.index().wrapping_add(i)) % HOMES];
            let word = slot.load(Relaxed);
            if word >> 32 == pid.0 as u64 {
                slot.store(home.map_or(0, |c| encode(pid, c)), Relaxed);
                return true;
            }
            if word == 0 && free.is_none() {
                free = Some(slot);
            }
        }
        match (home, free) {
            (None, _) => true,
            (Some(cpu), Some(slot)) => {
                slot.store(encode(pid, cpu), Relaxed);
                true
            }
            (Some(_), None) => false,
        }
    }

    /// All entries that make sense.
    pub fn all(&self) -> Vec<(Pid, CpuId)> {
        self.0.iter().filter_map(|slot| decode(slot.load(Relaxed))).collect()
    }
}

fn encode(pid: Pid, cpu: CpuId) -> u64 {
    (pid.0 as u64) << 32 | u64::from(cpu.0)
}

fn decode(word: u64) -> Option<(Pid, CpuId)> {
    let pid = i32::try_from(word >> 32).ok().filter(|p| *p > 0)?;
    let cpu = u16::try_from(word as u32).ok().filter(|c| usize::from(*c) < MAX_CPUS)?;
    Some((Pid(pid), CpuId(cpu)))
}

#[cfg(test)]
impl Homes {
    /// Any words.
    pub fn fill(&self, next: &mut impl FnMut() -> u64) {
        self.0.iter().for_each(|slot| slot.store(next(), Relaxed));
    }
}
