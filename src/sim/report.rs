//! Results as a table for people.

use super::results::{Line, Results};
use super::units::{aligned, fixed, permille};
use crate::ids::{Ns, US};
use std::fmt::Write;

/// What was run, for the head of a report.
#[derive(Clone, Debug)]
pub struct Title {
    /// Name of the policy.
    pub policy: String,
    /// As given.
    pub workload: String,
    /// As given, or where it was read from.
    pub topology: String,
    /// Of the random numbers.
    pub seed: u64,
}

fn us(ns: Ns) -> String {
    fixed(ns, US, 1)
}

fn share(permille: Option<u64>) -> String {
    permille.map_or_else(|| "-".into(), |p| format!("{}%", fixed(p, 10, 1)))
}

/// One row of the table.
fn row(line: &Line, duration: Ns) -> Vec<String> {
    let t = &line.tally;
    let name = if line.tid == 0 { line.name.clone() } else { format!("{} [{}]", line.name, line.tid) };
    let per_second = |n| Line::per_second(n, duration).to_string();
    let latency = |permille| if t.wakeups == 0 { "-".into() } else { us(t.latency.at_permille(permille)) };
    vec![
        name,
        line.tasks.to_string(),
        if t.requests == 0 { "-".into() } else { per_second(t.requests) },
        fixed(t.cpu_ns, 1_000_000_000, 2),
        per_second(t.wakeups),
        latency(500),
        latency(950),
        latency(990),
        if t.wakeups == 0 { "-".into() } else { us(t.latency.max()) },
        (t.moves[0] + t.moves[1] + t.moves[2]).to_string(),
        t.moves[3].to_string(),
        t.moves[4].to_string(),
        share(line.at_home()),
        line.fairness().map_or_else(|| "-".into(), |f| fixed(f, 1000, 2)),
    ]
}

const HEAD: [&str; 14] = [
    "service",
    "tasks",
    "requests/s",
    "CPU s",
    "wakes/s",
    "p50 us",
    "p95 us",
    "p99 us",
    "max us",
    "in LLC",
    "LLC",
    "node",
    "home",
    "fair",
];

/// The whole report. `per_task` adds a line for each task.
pub fn text(title: &Title, r: &Results, per_task: bool) -> String {
    let mut out = format!(
        "{}: {} on {} ({} CPUs), seed {}, {} s\n\n",
        title.policy,
        title.workload,
        title.topology,
        r.cpus,
        title.seed,
        fixed(r.duration, 1_000_000_000, 3)
    );
    let mut rows = vec![HEAD.map(String::from).to_vec()];
    rows.extend(r.services.iter().map(|l| row(l, r.duration)));
    if per_task {
        rows.push(Vec::new());
        rows.extend(r.tasks.iter().map(|l| row(l, r.duration)));
    }
    out += &aligned(&rows);
    out += "\np50 to max: from a wake-up to the first instruction. in LLC, LLC, node: moves to a CPU of the same LLC, to\n\
            another LLC of the node, to another node. home: CPU time at home. fair: smallest share by largest.\n\n";
    out += &machine(r);
    out
}

fn machine(r: &Results) -> String {
    let t = &r.totals;
    let all = r.duration * r.cpus;
    let mut out = String::new();
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "{name:<11} {text}");
    };
    line(
        "CPUs",
        format!(
            "{} idle, {} idle while work waited",
            share(permille(t.idle_ns, all)),
            share(permille(t.idle_while_waiting_ns, all))
        ),
    );
    line(
        "waiting",
        format!(
            "{} s for decisions, {} s in the queues of chosen CPUs",
            fixed(t.undecided_ns, 1_000_000_000, 2),
            fixed(t.on_cpu_queue_ns, 1_000_000_000, 2)
        ),
    );
    line(
        "scheduler",
        format!(
            "{} s of CPU ({} of one), {} turns, {} records, {} decisions",
            fixed(t.scheduler_ns, 1_000_000_000, 3),
            share(permille(t.scheduler_ns, r.duration)),
            t.passes,
            t.records,
            t.decisions
        ),
    );
    line(
        "shim",
        format!(
            "{} congested, {} cancelled, {} bounced, {} decisions without room; {} s waited for the ring",
            t.congested,
            t.cancelled,
            t.bounced,
            t.ring_full,
            fixed(t.ring_wait_ns, 1_000_000_000, 3)
        ),
    );
    line("kicks", format!("{} of idle CPUs, {} preempting", t.kicks_idle, t.kicks_preempt));
    line(
        "homes",
        format!(
            "{} given; {} moved in their LLC, {} to another LLC, {} to another node",
            t.homes[0], t.homes[1], t.homes[2], t.homes[3]
        ),
    );
    line("wake-ups", format!("{}, of which {} ran; {} tasks wait at the end", t.woken, t.woken_and_run, r.waiting));
    for fault in &r.faults {
        line("BROKEN RULE", fault.to_string());
    }
    if r.ejected {
        line("EJECTED", "the kernel would have ended the scheduler here".into());
    }
    out
}
