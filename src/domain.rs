//! Soft domains: which processes are instances, where each one's home is, and when a home moves.
//!
//! A home is chosen top down: the node with the fewest homes, in it the LLC with the fewest, then the cluster, then
//! the core, then the CPU; equal counts are decided by load, then by number. Restricted instances (an affinity mask
//! narrower than the machine) do not count where unrestricted ones are spread, so that those stay within 1 of each
//! other per node and per LLC whatever the restricted ones do.

use crate::cpumask::CpuMask;
use crate::event::Name;
use crate::ids::{CpuId, LlcId, MS, NodeId, Ns, Pid, Tid};
use crate::limits::FULL_LOAD;
use crate::load::Load;
use crate::queue::Slot;
use crate::table::Table;
use crate::topology::Topology;
use std::cmp::Reverse;

/// How long the home of an instance that ended is kept for the next one: no other home moves there for its load, ns.
/// (A guess: a service manager restarts a service in less.)
const RESTART: Ns = 2000 * MS;

/// A process that has threads. What every event needs is first and in one cache line: with thousands of processes it
/// comes from memory.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub struct Process {
    /// Its id.
    pub pid: Pid,
    /// Its threads that we know.
    pub threads: u32,
    /// The domain of a process that is no instance, once chosen.
    pub llc: Option<LlcId>,
    /// The thread that mostly wakes it, if `votes` are many.
    pub partner: Tid,
    /// Wake-ups by `partner` less those by others, bounded.
    pub votes: u8,
    /// How often it lately found only homes of others free in its LLC; no instance's.
    pub cramped: u8,
    /// Kernel threads are never instances.
    pub kthread: bool,
    /// Load of all its threads together; over one CPU it stays at one.
    pub load: Load,
    /// What makes it an instance.
    pub instance: Option<Instance>,
    /// Its comm.
    pub comm: Name,
}

/// The soft domain of an instance; the home first, for the same reason.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// Its home.
    pub home: CpuId,
    /// The LLC that it was first given; it returns there when it can.
    pub base: LlcId,
    /// The number of the pattern that it matches.
    pub service: u16,
    /// Its mask is narrower than the machine.
    pub restricted: bool,
    /// When it became an instance.
    pub adopted_at: Ns,
    /// When the home moved last; 0 = never.
    pub moved_at: Ns,
    /// Since when another CPU of its LLC is clearly better; 0 = none is.
    pub crowded_since: Ns,
    /// Since when all CPUs of its LLC are taken by others; 0 = they are not.
    pub taken_since: Ns,
    /// Since when its base LLC has room, while it is away; 0 = it has not.
    pub free_since: Ns,
}

const _: () = assert!(size_of::<Process>() == 128);

/// All processes, and how many homes each CPU has.
#[derive(Clone, Debug)]
pub struct Domains {
    /// By pid.
    pub processes: Table<Process>,
    /// Slots of the instances, in the order of their adoption.
    pub instances: Vec<Slot>,
    /// Per CPU: homes.
    homes: Vec<u16>,
    home_mask: CpuMask,
    /// Per LLC: unrestricted instances that were first given it, wherever they are just now.
    based: Vec<u16>,
    /// Per CPU: when an instance with its home there ended last; 0 = none did.
    left_at: Vec<Ns>,
}

impl Domains {
    /// Room for `processes` processes, of which any may be instances.
    pub fn new(topology: &Topology, processes: usize) -> Self {
        Domains {
            processes: Table::new(processes),
            instances: Vec::with_capacity(processes),
            homes: vec![0; topology.cpu_slots()],
            home_mask: CpuMask::EMPTY,
            based: vec![0; topology.nr_llcs()],
            left_at: vec![0; topology.cpu_slots()],
        }
    }

    /// CPUs that are somebody's home.
    pub fn home_mask(&self) -> &CpuMask {
        &self.home_mask
    }

    /// How many instances have their home on `cpu`.
    pub fn homes_on(&self, cpu: CpuId) -> u16 {
        self.homes.get(cpu.index()).copied().unwrap_or(0)
    }

    fn count(&mut self, instance: &Instance, by: i16) {
        if let Some(n) = self.homes.get_mut(instance.home.index()) {
            *n = n.saturating_add_signed(by);
            if *n == 0 {
                self.home_mask.clear(instance.home);
            } else {
                self.home_mask.set(instance.home);
            }
        }
        if !instance.restricted
            && let Some(n) = self.based.get_mut(instance.base.index())
        {
            *n = n.saturating_add_signed(by);
        }
    }

    /// Changes an instance and keeps the counts right; nothing happens to a process that is none.
    pub fn update(&mut self, slot: Slot, change: impl FnOnce(&mut Instance)) {
        let Some(mut instance) = self.processes.get(slot).instance else { return };
        self.count(&instance, -1);
        change(&mut instance);
        self.count(&instance, 1);
        self.processes.get_mut(slot).instance = Some(instance);
    }

    /// Makes the process in `slot`, which is none, an instance.
    pub fn adopt(&mut self, slot: Slot, instance: Instance) {
        self.count(&instance, 1);
        self.processes.get_mut(slot).instance = Some(instance);
        self.instances.push(slot);
    }

    /// It is an instance no longer; gives back what it was.
    pub fn leave(&mut self, slot: Slot, now: Ns) -> Option<Instance> {
        let instance = self.processes.get_mut(slot).instance.take()?;
        if let Some(at) = self.left_at.get_mut(instance.home.index()) {
            *at = now;
        }
        self.count(&instance, -1);
        self.instances.retain(|s| *s != slot);
        Some(instance)
    }

    /// Moves a home.
    pub fn rehome(&mut self, slot: Slot, to: CpuId, now: Ns) {
        self.update(slot, |i| {
            (i.home, i.moved_at) = (to, now);
            (i.crowded_since, i.taken_since, i.free_since) = (0, 0, 0);
        });
    }

    /// Unrestricted instances of one LLC.
    fn in_llc(&self, llc: LlcId) -> u32 {
        self.based.get(llc.index()).copied().unwrap_or(0).into()
    }

    /// Unrestricted instances of one node.
    fn in_node(&self, topology: &Topology, node: NodeId) -> u32 {
        topology.node_llcs(node).iter().map(|l| self.in_llc(*l)).sum()
    }

    /// All homes in a set of CPUs.
    pub fn homes_in(&self, cpus: &CpuMask) -> u32 {
        cpus.and(&self.home_mask).iter().map(|c| u32::from(self.homes_on(c))).sum()
    }

    /// The home for one more instance that may use `allowed`; `load` gives a CPU's load (1024 = busy). `None` if
    /// `allowed` has no CPU of this machine.
    pub fn choose(&self, topology: &Topology, allowed: &CpuMask, load: impl Fn(CpuId) -> u32) -> Option<CpuId> {
        let total_load = |cpus: &CpuMask| cpus.iter().map(&load).sum::<u32>();
        let node = topology
            .nodes()
            .map(|n| (n, topology.node_cpus(n)))
            .filter(|(_, cpus)| cpus.intersects(allowed))
            .min_by_key(|(n, cpus)| (self.in_node(topology, *n), self.homes_in(cpus), n.0))?
            .0;
        let llc = topology
            .node_llcs(node)
            .iter()
            .map(|l| (*l, topology.llc_cpus(*l)))
            .filter(|(_, cpus)| cpus.intersects(allowed))
            .min_by_key(|(l, cpus)| (self.in_llc(*l), self.homes_in(cpus), total_load(cpus), l.0))?
            .0;
        self.choose_in(topology, llc, allowed, load)
    }

    /// What one more home on `cpu` would meet there, in 1/1024 of a CPU: its load, and half a CPU for each home that it
    /// already is. So an idle machine is filled evenly, a home that is free again is taken by the next instance although
    /// others run there just now, and a burner's CPU is avoided even by a second instance. (The half is a guess: what
    /// a busy service needs.)
    pub fn cost(&self, cpu: CpuId, load: u32) -> u32 {
        self.cost_of(self.homes_on(cpu), load)
    }

    /// The same for a CPU with `homes` homes.
    pub fn cost_of(&self, homes: u16, load: u32) -> u32 {
        load + u32::from(homes) * (FULL_LOAD / 2)
    }

    /// Whether an instance with its home on `cpu` ended a moment ago: it may be restarting.
    pub fn just_left(&self, cpu: CpuId, now: Ns) -> bool {
        self.left_at.get(cpu.index()).is_some_and(|at| *at != 0 && now.saturating_sub(*at) < RESTART)
    }

    /// The home inside one LLC: cluster, then core, then CPU with the least cost; differences of an eighth of a CPU
    /// are noise.
    pub fn choose_in(
        &self,
        topology: &Topology,
        llc: LlcId,
        allowed: &CpuMask,
        load: impl Fn(CpuId) -> u32,
    ) -> Option<CpuId> {
        let cost = |cpu: CpuId| self.cost(cpu, load(cpu)) / (FULL_LOAD / 8);
        let sum = |cpus: &CpuMask| cpus.iter().map(cost).sum::<u32>();
        let cluster = topology
            .llc_clusters(llc)
            .iter()
            .map(|c| (*c, topology.cluster_cpus(*c)))
            .filter(|(_, cpus)| cpus.intersects(allowed))
            .min_by_key(|(c, cpus)| (sum(cpus), c.0))?
            .0;
        let core = topology
            .cluster_cores(cluster)
            .iter()
            .map(|c| (*c, topology.core_cpus(*c)))
            .filter(|(_, cpus)| cpus.intersects(allowed))
            .min_by_key(|(c, cpus)| (sum(cpus), c.0))?
            .0;
        topology.core_cpus(core).and(allowed).iter().min_by_key(|c| (cost(*c), c.0))
    }

    /// A move that makes the spread of unrestricted homes even again: an instance of the fullest node (or LLC of a
    /// node) and the LLC it should go to. `None` while the spread is within 1.
    pub fn uneven(&self, topology: &Topology) -> Option<(Slot, LlcId)> {
        let in_node = |n: &NodeId| self.in_node(topology, *n);
        let in_llc = |l: &LlcId| self.in_llc(*l);
        // The fullest and the emptiest; of equals the first.
        let fullest = topology.nodes().max_by_key(|n| (in_node(n), Reverse(n.0)))?;
        let emptiest = topology.nodes().min_by_key(|n| (in_node(n), n.0))?;
        if in_node(&fullest) > in_node(&emptiest) + 1 {
            let from = topology.node_llcs(fullest).iter().max_by_key(|l| (in_llc(l), Reverse(l.0)))?;
            let to = topology.node_llcs(emptiest).iter().min_by_key(|l| (in_llc(l), l.0))?;
            return Some((self.newest_in(*from)?, *to));
        }
        // Nodes are even now; where all have as many LLCs, even LLCs inside each are even over the machine. Where they
        // have not, nodes and LLCs cannot both be: then nodes count.
        topology.nodes().find_map(|n| {
            let from = topology.node_llcs(n).iter().max_by_key(|l| (in_llc(l), Reverse(l.0)))?;
            let to = topology.node_llcs(n).iter().min_by_key(|l| (in_llc(l), l.0))?;
            if in_llc(from) <= in_llc(to) + 1 { None } else { Some((self.newest_in(*from)?, *to)) }
        })
    }

    /// The unrestricted instance of an LLC that came last: it has the least to lose.
    fn newest_in(&self, llc: LlcId) -> Option<Slot> {
        let of_llc = |s: &Slot| self.processes.get(*s).instance.is_some_and(|i| !i.restricted && i.base == llc);
        self.instances.iter().rev().copied().find(of_llc)
    }

    /// The process of `pid`, made if unknown; `None` when the table is full.
    pub fn process(&mut self, pid: Pid) -> Option<Slot> {
        self.processes.slot_or_insert(pid.0, Process { pid, ..Process::default() })
    }
}
