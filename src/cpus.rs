//! What the policy believes each CPU does: what it was last given, and how busy it has been.

use crate::cpumask::{CpuMask, Set};
use crate::event::Spent;
use crate::ids::{CpuId, Ns};
use crate::load::Load;
use crate::queue::{NONE, Slot};
use crate::topology::Topology;

/// How much longer than the load itself its slow form lasts: long enough that tasks which take turns on the CPUs make
/// none of them seem free. (A guess.)
const SLOW: u64 = 8;

/// How busy a CPU is.
#[derive(Clone, Copy, Debug, Default)]
struct Loads {
    /// Load by tasks whose home it is, by all others, and by those of them that run long.
    home: Load,
    other: Load,
    long: Load,
    /// All load, forgotten more slowly.
    slow: Load,
}

/// What a CPU was given: few bytes, for all CPUs of an LLC are looked at again and again.
#[derive(Clone, Copy, Debug)]
struct Given {
    /// The task that was sent to run, [`NONE`] when it has come back or the CPU fell idle.
    current: Slot,
    /// When it was sent.
    since: Ns,
    /// A task sent to wait behind it.
    behind: Slot,
}

/// All CPUs, by number.
#[derive(Clone, Debug)]
pub struct Cpus {
    given: Vec<Given>,
    loads: Vec<Loads>,
    /// CPUs with a current task: those to look at when they turn out to be idle.
    occupied: CpuMask,
    half_life: Ns,
}

impl Cpus {
    /// All idle and unloaded.
    pub fn new(topology: &Topology, half_life: Ns) -> Self {
        let slots = topology.cpu_slots();
        Cpus {
            given: vec![Given { current: NONE, since: 0, behind: NONE }; slots],
            loads: vec![Loads::default(); slots],
            occupied: CpuMask::EMPTY,
            half_life,
        }
    }

    /// `slot` was sent to `cpu` to run next.
    pub fn sent(&mut self, cpu: CpuId, slot: Slot, now: Ns) {
        if let Some(c) = self.given.get_mut(cpu.index()) {
            (c.current, c.since) = (slot, now);
            self.occupied.set(cpu);
        }
    }

    /// `slot` was sent to `cpu` to wait behind its current task.
    pub fn sent_behind(&mut self, cpu: CpuId, slot: Slot) {
        if let Some(c) = self.given.get_mut(cpu.index()) {
            c.behind = slot;
        }
    }

    /// `slot`, last sent to `cpu`, came back.
    pub fn came_back(&mut self, cpu: CpuId, slot: Slot, now: Ns) {
        let Some(c) = self.given.get_mut(cpu.index()) else { return };
        if c.current == slot {
            (c.current, c.since) = (std::mem::replace(&mut c.behind, NONE), now);
        } else if c.behind == slot {
            c.behind = NONE;
        }
        if c.current == NONE {
            self.occupied.clear(cpu);
        }
    }

    /// How `cpu` has spent its time since the last observation.
    pub fn observe(&mut self, now: Ns, cpu: CpuId, spent: &Spent) {
        let half_life = self.half_life;
        if let Some(c) = self.loads.get_mut(cpu.index()) {
            c.home.advance(now, spent.home_ns, half_life);
            c.other.advance(now, spent.other_ns, half_life);
            c.long.advance(now, spent.long_ns, half_life);
            c.slow.advance(now, spent.home_ns.saturating_add(spent.other_ns), half_life.saturating_mul(SLOW));
        }
    }

    /// The CPUs of `idle` run nothing, and nothing is on its way to them.
    pub fn found_idle(&mut self, idle: &CpuMask) {
        // Each is no longer occupied then.
        while let Some(cpu) = self.occupied.both(idle).lowest() {
            self.vacate(cpu);
        }
    }

    /// Forgets what `cpu` was given.
    pub fn vacate(&mut self, cpu: CpuId) {
        if let Some(c) = self.given.get_mut(cpu.index()) {
            (c.current, c.behind) = (NONE, NONE);
            self.occupied.clear(cpu);
        }
    }

    /// `cpu` has done with its current task; the one that waits behind it is next.
    pub fn next_begins(&mut self, cpu: CpuId, now: Ns) {
        if let Some(c) = self.given.get_mut(cpu.index()).filter(|c| c.behind != NONE) {
            (c.current, c.since) = (std::mem::replace(&mut c.behind, NONE), now);
        }
    }

    /// The current task and when it was sent.
    pub fn current(&self, cpu: CpuId) -> Option<(Slot, Ns)> {
        self.given.get(cpu.index()).filter(|c| c.current != NONE).map(|c| (c.current, c.since))
    }

    /// Whether a task waits behind the current one.
    pub fn has_behind(&self, cpu: CpuId) -> bool {
        self.given.get(cpu.index()).is_some_and(|c| c.behind != NONE)
    }

    /// Load of `cpu` by tasks whose home it is, as of its last observation: 1024 = always busy. It does not decay until
    /// the next one: a busy CPU would seem less so just before it.
    pub fn home_load(&self, cpu: CpuId) -> u32 {
        self.loads.get(cpu.index()).map_or(0, |c| c.home.last())
    }

    /// Load of `cpu` by all other tasks.
    pub fn other_load(&self, cpu: CpuId) -> u32 {
        self.loads.get(cpu.index()).map_or(0, |c| c.other.last())
    }

    /// Load of `cpu` by tasks that run long and have no home there.
    pub fn long_load(&self, cpu: CpuId) -> u32 {
        self.loads.get(cpu.index()).map_or(0, |c| c.long.last())
    }

    /// What one who comes to stay must reckon with: the load now or that of the last while, whichever is more.
    pub fn lasting_load(&self, cpu: CpuId) -> u32 {
        self.load(cpu).max(self.loads.get(cpu.index()).map_or(0, |c| c.slow.last()))
    }

    /// All of it.
    pub fn load(&self, cpu: CpuId) -> u32 {
        self.home_load(cpu) + self.other_load(cpu)
    }
}
