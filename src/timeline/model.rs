//! What a picture shows, as plain data. Times are ns since its begin.

use crate::event::Reason;
use crate::ids::{CpuId, LlcId, Ns};
use crate::topology::{Distance, Topology};

/// Time bins of the queue lengths, at most.
const BINS: u64 = 4096;

/// Buckets of the histogram to each power of two.
const PER_OCTAVE: u32 = 4;

/// A task on a CPU, from switch to switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The CPU.
    pub cpu: CpuId,
    /// Index in [`Timeline::tasks`].
    pub task: u32,
    /// Switched in.
    pub start: Ns,
    /// Switched out; not before `start`.
    pub end: Ns,
    /// How long it had been runnable before, ns.
    pub waited: Ns,
    /// Why the policy sent it there; `None`: the policy did not.
    pub reason: Option<Reason>,
    /// The CPU was the home of its process.
    pub at_home: bool,
    /// Where it began or ended is a guess.
    pub guessed: bool,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its id; 0: the scheduler's own.
    pub tid: i32,
    /// Index in [`Timeline::processes`].
    pub process: u32,
    /// Its comm, printable.
    pub name: String,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id; 0: the scheduler.
    pub pid: i32,
    /// Its comm, printable.
    pub name: String,
    /// It has or had a home.
    pub instance: bool,
}

/// What moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Moved {
    /// The home of a process.
    Home,
    /// A task ran on another LLC of the same node before.
    Llc,
    /// A task ran on another node before.
    Node,
}

/// A migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// When.
    pub at: Ns,
    /// What moved.
    pub what: Moved,
    /// Whose; of a home, the main thread.
    pub task: u32,
    /// From where.
    pub from: CpuId,
    /// To where.
    pub to: CpuId,
}

/// A line in front of a CPU becomes longer or shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// When.
    pub at: Ns,
    /// Which CPU's.
    pub cpu: CpuId,
    /// Longer.
    pub begins: bool,
}

/// Tasks that wait, per LLC and time bin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// Length of a bin, ns.
    pub bin: Ns,
    /// Per LLC and bin: the longest queue, and the mean in thousandths.
    pub lengths: Vec<Vec<(u32, u32)>>,
}

/// Wake-up latencies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// All of them, ns, sorted.
    sorted: Vec<Ns>,
}

impl Latency {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// The time that `permille` thousandths do not exceed, ns.
    pub fn at_permille(&self, permille: usize) -> Ns {
        let rank = (self.sorted.len() * permille).div_ceil(1000).max(1);
        self.sorted.get(rank - 1).copied().unwrap_or(0)
    }

    /// Buckets from the first to the last that is not empty: begin, ns, and count. Four to each power of two.
    pub fn buckets(&self) -> Vec<(Ns, u64)> {
        let mut buckets: Vec<(Ns, u64)> = Vec::new();
        for ns in &self.sorted {
            let begin = bucket(*ns);
            while let Some((last, _)) = buckets.last().filter(|(last, _)| *last < begin) {
                buckets.push((bucket_after(*last), 0));
            }
            match buckets.last_mut() {
                Some((_, n)) => *n += 1,
                None => buckets.push((begin, 1)),
            }
        }
        buckets
    }
}

/// The begin of the bucket of `ns`.
fn bucket(ns: Ns) -> Ns {
    let ns = ns.max(u64::from(PER_OCTAVE));
    let step = 1 << (ns.ilog2() - PER_OCTAVE.ilog2());
    ns / step * step
}

fn bucket_after(begin: Ns) -> Ns {
    begin + (1 << (begin.ilog2() - PER_OCTAVE.ilog2()))
}

/// A run as a picture shows it.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// The headline.
    pub title: String,
    /// What else to know, as name and value.
    pub facts: Vec<(String, String)>,
    /// What is exact in it and what is worked out, for the reader.
    pub accuracy: String,
    /// Its length.
    pub length: Ns,
    /// The machine.
    pub topology: Topology,
    /// Threads.
    pub tasks: Vec<Task>,
    /// Processes.
    pub processes: Vec<Process>,
    /// By CPU, then by time. Those of one CPU do not overlap.
    pub spans: Vec<Span>,
    /// By time.
    pub marks: Vec<Mark>,
    /// Queue lengths.
    pub queues: Queues,
    /// From wake-up to CPU.
    pub latency: Latency,
}

/// What a source found out, in any order.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub spans: Vec<Span>,
    /// Of homes only.
    pub homes: Vec<Mark>,
    pub waits: Vec<Wait>,
    pub latencies: Vec<Ns>,
}

impl Timeline {
    /// CPUs from top to bottom: by node, LLC, number.
    pub fn lanes(&self) -> Vec<CpuId> {
        let t = &self.topology;
        let llcs = t.nodes().flat_map(|n| t.node_llcs(n).iter());
        llcs.flat_map(|llc| t.llc_cpus(*llc).iter()).collect()
    }

    /// Takes what was found: sorts it, cuts spans of a CPU that overlap, finds the changes of LLC and node, and sums up.
    /// What is on CPUs that the machine does not have is left out.
    pub(super) fn fill(&mut self, found: Found) {
        let Found { mut spans, mut homes, mut waits, mut latencies } = found;
        let length = self.length;
        spans.retain(|s| self.topology.cpu(s.cpu).is_some() && s.start <= length);
        spans.sort_by_key(|s| (s.cpu, s.start, s.end, s.task));
        for i in 0..spans.len() {
            let next = spans.get(i + 1).filter(|n| n.cpu == spans[i].cpu).map_or(length, |n| n.start.min(length));
            let s = &mut spans[i];
            s.guessed |= s.end > next;
            s.end = s.end.min(next).max(s.start);
        }
        homes.retain(|m| m.at <= length);
        homes.extend(changes(&spans, &self.topology));
        homes.sort_unstable();
        waits.retain(|w| w.at <= length);
        waits.sort_by_key(|w| w.at);
        latencies.sort_unstable();
        (self.spans, self.marks, self.latency) = (spans, homes, Latency { sorted: latencies });
        self.queues = queues(&waits, &self.topology, length);
    }
}

/// Where a task ran on another LLC or node than before. The scheduler's thread is wherever it is needed: it has none.
fn changes(spans: &[Span], topology: &Topology) -> Vec<Mark> {
    let mut order: Vec<u32> = (0..spans.len() as u32).collect();
    order.sort_unstable_by_key(|i| (spans[*i as usize].task, spans[*i as usize].start, *i));
    let pairs = order.windows(2).map(|w| (&spans[w[0] as usize], &spans[w[1] as usize]));
    let mark = |(a, b): (&Span, &Span)| {
        let what = match topology.distance(a.cpu, b.cpu) {
            _ if a.task != b.task || a.task == 0 => return None,
            Distance::Node => Moved::Llc,
            Distance::Machine => Moved::Node,
            _ => return None,
        };
        Some(Mark { at: b.start, what, task: b.task, from: a.cpu, to: b.cpu })
    };
    pairs.filter_map(mark).collect()
}

fn queues(waits: &[Wait], topology: &Topology, length: Ns) -> Queues {
    let bin = length.div_ceil(BINS).max(1);
    let bins = length.div_ceil(bin).max(1) as usize;
    let lengths = topology.llcs().map(|llc| queue(waits, topology, llc, bin, bins)).collect();
    Queues { bin, lengths }
}

fn queue(waits: &[Wait], topology: &Topology, llc: LlcId, bin: Ns, bins: usize) -> Vec<(u32, u32)> {
    // Longest, and the sum of length times ns.
    let mut sums = vec![(0u32, 0u64); bins];
    let (mut waiting, mut since) = (0u32, 0);
    let mut until = |to: Ns, waiting: u32, since: &mut Ns| {
        while *since < to {
            let at = (*since / bin) as usize;
            let end = to.min((at as Ns + 1) * bin);
            let Some((most, sum)) = sums.get_mut(at) else { break };
            *most = waiting.max(*most);
            *sum += u64::from(waiting) * (end - *since);
            *since = end;
        }
        *since = to;
    };
    for w in waits.iter().filter(|w| topology.cpu(w.cpu).is_some_and(|c| c.llc == llc)) {
        until(w.at, waiting, &mut since);
        waiting = if w.begins { waiting + 1 } else { waiting.saturating_sub(1) };
    }
    until(bins as Ns * bin, waiting, &mut since);
    let mean = |sum: u64| (u128::from(sum) * 1000 / u128::from(bin)) as u32;
    sums.into_iter().map(|(most, sum)| (most, mean(sum))).collect()
}
