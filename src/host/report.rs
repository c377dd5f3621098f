//! What is shown to people: the summary at the end, the placement, the notices in words.

use crate::cpumask::CpuMask;
use crate::event::{MoveReason, Notice, Reason};
use crate::host::procstat::Stat;
use crate::ids::{CpuId, MS, Ns, Pid};
use crate::service::Pattern;
use crate::stats::{Counter, Counters};
use crate::topology::Topology;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Where lines are broken.
const LINE: usize = 110;
/// Longest LLC whose free CPUs are all shown.
const FEW_CPUS: usize = 8;

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Run {
    /// From the attach to the end, ns; over all starts.
    pub ran_ns: Ns,
    /// How often a dispatcher was started.
    pub starts: usize,
    /// Everything counted.
    pub counters: Counters,
}

/// The summary at the end.
pub fn summary(run: &Run) -> String {
    let c = |counter| run.counters.get(counter);
    let sent = run.counters.sent();
    let mut kinds: Vec<(u64, &str)> =
        Reason::ALL.iter().map(|r| (c(Counter::sent(*r)), r.name())).filter(|(n, _)| *n > 0).collect();
    kinds.sort_by_key(|(n, _)| std::cmp::Reverse(*n));
    let kinds: Vec<String> = kinds.iter().map(|(n, name)| format!("{name} {n} ({})", percent(*n, sent))).collect();
    let stints = c(Counter::HomeRuns) + c(Counter::AwayRuns);

    let mut text = String::from("summary\n");
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<11} {value}");
    };
    let starts = if run.starts > 1 { format!(", started {} times", run.starts) } else { String::new() };
    line("ran", format!("{}{starts}", duration(run.ran_ns)));
    line("dispatched", format!("{sent} tasks{}{}", if kinds.is_empty() { "" } else { ": " }, kinds.join(", ")));
    line(
        "by kernel",
        format!(
            "{} without us (pinned kernel threads, --fast-path), {} because we were too slow (congestion)",
            c(Counter::KernelDirect),
            c(Counter::KernelCongested)
        ),
    );
    line("undone", format!("{} bounces, {} cancelled", c(Counter::KernelBounced), c(Counter::KernelCancelled)));
    line(
        "home hits",
        match stints {
            0 => "no instance ran".into(),
            n => format!("{} of {n} stints", percent(c(Counter::HomeRuns), n)),
        },
    );
    line(
        "homes",
        format!(
            "{} given, {} freed; moved {} times inside the LLC, {} across LLCs, {} across nodes",
            c(Counter::InstancesAdopted),
            c(Counter::InstancesLeft),
            c(Counter::MovesInLlc),
            c(Counter::MovesAcrossLlc),
            c(Counter::MovesAcrossNode)
        ),
    );
    line(
        "kicks",
        format!("{} idle CPUs woken, {} running tasks preempted", c(Counter::KicksIdle), c(Counter::KicksPreempt)),
    );
    let cpu_ns = c(Counter::OwnCpuUs).saturating_mul(1000);
    line(
        "own cost",
        format!(
            "{} of CPU time ({} of one CPU) in {} turns, {} minor and {} major page faults while it ran",
            duration(cpu_ns),
            percent(cpu_ns, run.ran_ns),
            c(Counter::Passes),
            c(Counter::OwnMinorFaults),
            c(Counter::OwnMajorFaults)
        ),
    );
    if c(Counter::Rescued) + c(Counter::NotRescued) > 0 {
        let (helped, not) = (c(Counter::Rescued), c(Counter::NotRescued));
        line("real time", format!("{helped} times a task helped from behind a real-time task, {not} times in vain"));
    }
    let lost = [Counter::TasksLost, Counter::ProcessEventsDropped, Counter::NoticesDropped, Counter::RingFull];
    for counter in lost.into_iter().filter(|l| c(*l) > 0) {
        line("lost", format!("{} {}", c(counter), counter.text()));
    }
    text
}

/// `12.3%`; of nothing it is 0.
pub fn percent(part: u64, whole: u64) -> String {
    format!("{:.1}%", if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 })
}

/// `850 ms`, `12.3 s`, `5 min 2 s`, `3 h 2 min`.
pub fn duration(ns: Ns) -> String {
    let s = ns / (1000 * MS);
    match s {
        0 => format!("{} ms", ns / MS),
        1..60 => format!("{:.1} s", ns as f64 / 1e9),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        _ => format!("{} h {} min", s / 3600, s / 60 % 60),
    }
}

/// Draws the homes: one row per LLC, its CPUs with the instances that live there.
pub fn placement(topology: &Topology, homes: &[(CpuId, String)]) -> String {
    let mut by_cpu: BTreeMap<CpuId, Vec<&str>> = BTreeMap::new();
    for (cpu, who) in homes {
        by_cpu.entry(*cpu).or_default().push(who);
    }
    let mut text = String::new();
    for node in topology.nodes() {
        let number = topology.kernel_node(node).unwrap_or_default();
        for (i, llc) in topology.node_llcs(node).iter().enumerate() {
            let head = if i == 0 { format!("  node {number:<3}") } else { " ".repeat(10) };
            let head = format!("{head} LLC {:<3}", llc.to_string());
            row(&mut text, head, &cells(topology.llc_cpus(*llc), &mut by_cpu));
        }
    }
    // A CPU that went offline: should not be, so show it.
    for (cpu, who) in by_cpu {
        row(&mut text, format!("  CPU {cpu}, offline:"), &[who.join(" ")]);
    }
    text
}

/// What stands in the row of an LLC.
fn cells(cpus: &CpuMask, by_cpu: &mut BTreeMap<CpuId, Vec<&str>>) -> Vec<String> {
    let few = cpus.count() <= FEW_CPUS;
    let mut free = 0;
    let mut cells = Vec::new();
    for cpu in cpus.iter() {
        match by_cpu.remove(&cpu) {
            Some(who) => cells.push(format!("{cpu}: {}", who.join(" "))),
            None if few => cells.push(format!("{cpu}: -")),
            None => free += 1,
        }
    }
    match free {
        0 => {}
        1 => cells.push("1 CPU free".into()),
        n => cells.push(format!("{n} CPUs free")),
    }
    cells
}

/// One row, broken between cells where it gets too long.
fn row(text: &mut String, head: String, cells: &[String]) {
    let indent = head.chars().count();
    let (mut line, mut empty) = (head, true);
    for cell in cells {
        if !empty && line.chars().count() + 3 + cell.chars().count() > LINE {
            let _ = writeln!(text, "{line}");
            line = " ".repeat(indent);
        }
        let _ = write!(line, " | {cell}");
        empty = false;
    }
    let _ = writeln!(text, "{line}");
}

/// Names of the instances, as the notices told them; bounded.
#[derive(Clone, Debug, Default)]
pub struct Names(BTreeMap<Pid, String>);

impl Names {
    /// Instances whose names are kept.
    const MOST: usize = 65536;

    /// Learns from a notice.
    pub fn learn(&mut self, notice: &Notice) {
        match notice {
            Notice::Adopted { pid, name, .. } if self.0.len() < Self::MOST => {
                self.0.insert(*pid, name.to_string());
            }
            _ => {}
        }
    }

    /// Forgets an instance that ended.
    pub fn forget(&mut self, notice: &Notice) {
        if let Notice::Left { pid, .. } = notice {
            self.0.remove(pid);
        }
    }

    /// `valkey-server 512`.
    pub fn of(&self, pid: Pid) -> String {
        match self.0.get(&pid) {
            Some(name) => format!("{name} {pid}"),
            None => format!("pid {pid}"),
        }
    }
}

/// A notice in words.
pub fn words(notice: &Notice, names: &Names, services: &[Pattern], topology: &Topology) -> String {
    let place = |cpu: CpuId| match topology.cpu(cpu) {
        Some(c) => format!("CPU {cpu} (node {}, LLC {})", topology.kernel_node(c.node).unwrap_or_default(), c.llc),
        None => format!("CPU {cpu} (offline)"),
    };
    match notice {
        Notice::Adopted { pid, service, home, .. } => {
            let pattern = services.get(usize::from(*service)).map_or_else(|| "?".into(), |p| escaped(&p.text()));
            format!("adopted {} (-P {pattern}): home {}", names.of(*pid), place(*home))
        }
        Notice::Left { pid, home } => format!("left    {}: {} is free", names.of(*pid), place(*home)),
        Notice::Moved { pid, from, to, load, why } => format!(
            "moved   {}: {} -> {}, {} (load {} -> {})",
            names.of(*pid),
            place(*from),
            place(*to),
            why_words(*why),
            percent(load.0.into(), 1024),
            percent(load.1.into(), 1024)
        ),
    }
}

fn why_words(why: MoveReason) -> &'static str {
    match why {
        MoveReason::LessLoaded => "less loaded",
        MoveReason::LlcTaken => "its LLC is taken",
        MoveReason::Return => "back to its first LLC",
        MoveReason::Spread => "for an even spread",
        MoveReason::Mask => "its affinity mask changed",
        MoveReason::Exchange => "nearer to its client, in exchange",
    }
}

/// Safe to print.
pub fn escaped(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] }).collect()
}

/// What the dispatcher cost since `since`: page faults and CPU time, into the counters.
pub fn own_cost(counters: &mut Counters, since: &Stat, until: &Stat, ticks_per_second: u64) {
    let ticks = until.cpu_ticks.saturating_sub(since.cpu_ticks);
    counters.set(Counter::OwnCpuUs, ticks.saturating_mul(1_000_000) / ticks_per_second.max(1));
    counters.set(Counter::OwnMinorFaults, until.minor_faults.saturating_sub(since.minor_faults));
    counters.set(Counter::OwnMajorFaults, until.major_faults.saturating_sub(since.major_faults));
}

#[cfg(test)]
mod tests;
