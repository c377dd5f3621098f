//! Notices as fixed-size records.

use crate::event::{MoveReason, Name, Notice};
use crate::ids::{CpuId, MAX_CPUS, Ns, Pid};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Words of a record: time; kind, why, service; pid; CPUs; loads; 4 words of name. The name is cut at 31 bytes.
pub const WORDS: usize = 9;

/// One place of the ring. Who may read it is decided by the ring's head and tail.
#[repr(C)]
pub struct Record([AtomicU64; WORDS]);

impl Record {
    pub fn set(&self, words: &[u64; WORDS]) {
        self.0.iter().zip(words).for_each(|(to, from)| to.store(*from, Relaxed));
    }

    pub fn get(&self) -> [u64; WORDS] {
        std::array::from_fn(|i| self.0[i].load(Relaxed))
    }
}

const ADOPTED: u64 = 1;
const LEFT: u64 = 2;
const MOVED: u64 = 3;

pub fn encode(now: Ns, notice: &Notice) -> [u64; WORDS] {
    let mut w = [0; WORDS];
    w[0] = now;
    match notice {
        Notice::Adopted { pid, service, name, home } => {
            w[1] = ADOPTED | u64::from(*service) << 16;
            w[2] = pid.0 as u32 as u64;
            w[3] = u64::from(home.0);
            let mut bytes = [0; 32];
            bytes[..name.bytes().len()].copy_from_slice(name.bytes());
            for (word, chunk) in w[5..].iter_mut().zip(bytes.chunks_exact(8)) {
                *word = chunk.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b));
            }
        }
        Notice::Left { pid, home } => {
            w[1] = LEFT;
            w[2] = pid.0 as u32 as u64;
            w[3] = u64::from(home.0);
        }
        Notice::Moved { pid, from, to, load, why } => {
            w[1] = MOVED | (*why as u64) << 8;
            w[2] = pid.0 as u32 as u64;
            w[3] = u64::from(from.0) | u64::from(to.0) << 16;
            w[4] = u64::from(load.0) | u64::from(load.1) << 32;
        }
    }
    w
}

/// `None` for anything that [`encode`] does not make.
pub fn decode(w: &[u64; WORDS]) -> Option<(Ns, Notice)> {
    let pid = Pid(i32::try_from(w[2]).ok()?);
    let cpu = |shift: u32| Some(CpuId((w[3] >> shift) as u16)).filter(|c| c.index() < MAX_CPUS);
    let notice = match w[1] & 0xff {
        ADOPTED => {
            let mut bytes = [0; 32];
            for (chunk, word) in bytes.chunks_exact_mut(8).zip(&w[5..]) {
                chunk.copy_from_slice(&word.to_le_bytes());
            }
            Notice::Adopted { pid, service: (w[1] >> 16) as u16, name: Name::new(&bytes), home: cpu(0)? }
        }
        LEFT => Notice::Left { pid, home: cpu(0)? },
        MOVED => Notice::Moved {
            pid,
            from: cpu(0)?,
            to: cpu(16)?,
            load: (w[4] as u32, (w[4] >> 32) as u32),
            why: why((w[1] >> 8) as u8)?,
        },
        _ => return None,
    };
    Some((w[0], notice))
}

fn why(code: u8) -> Option<MoveReason> {
    MoveReason::ALL.into_iter().find(|r| *r as u8 == code)
}
