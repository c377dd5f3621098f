//! Affinity masks of the few tasks that have one. The shim tells only how many CPUs a task may use.

use soft_domain::cpumask::CpuMask;
use soft_domain::ids::{CpuId, MAX_CPUS, MS, Ns, Tid};
use soft_domain::topology::Topology;

/// Direct-mapped by the low bits of the thread id.
const SLOTS: usize = 4096;

/// A mask is asked for again after this long: a change that keeps the count of CPUs shows in no event. The kernel
/// bounces a task sent outside its mask, so a stale one costs little.
const FRESH: Ns = 100 * MS;

#[derive(Clone, Copy)]
struct Slot {
    tid: Tid,
    count: u64,
    read_at: Ns,
    mask: CpuMask,
}

/// Cache of masks.
pub struct Affinity {
    slots: Vec<Slot>,
    cpus: u64,
}

impl Affinity {
    /// Sized once.
    pub fn new(topology: &Topology) -> Self {
        Affinity {
            slots: vec![Slot { tid: Tid(0), count: 0, read_at: 0, mask: CpuMask::EMPTY }; SLOTS],
            cpus: topology.nr_cpus() as u64,
        }
    }

    /// The mask of a task that may use `count` CPUs and just was on `cpu`.
    pub fn of(&mut self, now: Ns, tid: Tid, cpu: CpuId, count: u64) -> CpuMask {
        if count >= self.cpus {
            return CpuMask::ALL;
        }
        if count == 1 {
            return CpuMask::of(cpu);
        }
        let slot = &mut self.slots[tid.0 as usize % SLOTS];
        let fresh = slot.tid == tid && slot.count == count && slot.mask.has(cpu);
        if !fresh || now.saturating_sub(slot.read_at) > FRESH {
            // A task that has gone meanwhile keeps its last CPU: its dispatch will find nobody.
            let mask = read(tid).unwrap_or(CpuMask::of(cpu));
            *slot = Slot { tid, count, read_at: now, mask };
        }
        slot.mask
    }
}

/// `sched_getaffinity` into memory of ours; the call never sleeps.
fn read(tid: Tid) -> Option<CpuMask> {
    let mut words = [0u64; MAX_CPUS / 64];
    // SAFETY: the buffer has the size that is passed.
    let n = unsafe { libc::syscall(libc::SYS_sched_getaffinity, tid.0, size_of_val(&words), words.as_mut_ptr()) };
    (n > 0).then(|| CpuMask::from_words(&words)).filter(|m| !m.is_empty())
}
