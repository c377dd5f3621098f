//! rt-app's JSON: the part of its format (`doc/tutorial.txt` of rt-app) that says what tasks do.

use super::relaxed_json::{self, Member, Value};
use crate::cpumask::CpuMask;
use crate::event::Name;
use crate::ids::{CpuId, MS, Ns, US};
use crate::sim::program::{Channel, Op, TaskSpec, Workload, weight_of_nice};
use crate::topology::Topology;
use std::collections::BTreeMap;

/// For `--list-workloads`.
pub const SUPPORTED: &str = "            \
            global: duration, default_policy (SCHED_OTHER, SCHED_IDLE); what only concerns logs, memory locking and
                    calibration is read over
            tasks, per thread: instance, delay, loop, phases, policy, priority, cpus
            phases: loop, policy, priority, cpus, and the events run, runtime, sleep, timer (period, ref, mode), lock,
                    unlock, wait, signal, broad, sync, barrier, suspend, resume, yield, fork; any digits may follow a
                    key, and keys may repeat
            All threads are of one process, as in rt-app; every timer is its thread's own; a fork
            makes a process. Anything else is an error that names the key.
";

/// Keys of `global` that do not change what tasks do.
const READ_OVER: &[&str] = &[
    "calibration",
    "pi_enabled",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "io_device",
    "mem_buffer_size",
    "cumulative_slack",
    "frag",
];

/// Threads that a file may ask for.
const MOST_THREADS: usize = 100_000;

/// Longest single time, us: an hour.
const LONGEST_US: i64 = 3_600_000_000;

type Result<T> = std::result::Result<T, String>;

/// Names of resources become channels.
#[derive(Default)]
struct Names {
    mutexes: BTreeMap<String, Channel>,
    conditions: BTreeMap<String, Channel>,
    barriers: BTreeMap<String, (Channel, u32)>,
    tasks: Vec<String>,
    /// Old files declare a signal and the condition that it is for.
    targets: BTreeMap<String, String>,
}

/// One thread object, while its program is written.
struct Thread<'a> {
    name: &'a str,
    ops: Vec<Op>,
    counters: usize,
    timers: BTreeMap<String, usize>,
    /// Mask and weight of the thread, to which phases without their own return.
    cpus: CpuMask,
}

/// Reads a file's text. The error is one line that names the line and the key.
pub fn parse(content: &str, topology: &Topology) -> Result<Workload> {
    let Value::Object(top) = relaxed_json::parse(content)? else {
        return Err("line 1: an rt-app file is one object in braces".into());
    };
    let mut w = Workload::default();
    let mut tasks = None;
    let mut names = Names::default();
    for m in &top {
        match m.key.as_str() {
            "global" => global(m, &mut w)?,
            "tasks" => tasks = Some(object(m)?),
            // Kept by rt-app for old files; they are made as they are named.
            "resources" => {
                for r in object(m)? {
                    if let Some(target) = object(r)?.iter().find(|k| k.key == "target") {
                        names.targets.insert(r.key.clone(), text(target)?.to_owned());
                    }
                }
            }
            _ => return Err(unsupported(m, "the file", "global, tasks, resources")),
        }
    }
    let tasks = tasks.filter(|t| !t.is_empty()).ok_or("line 1: the file has no \"tasks\": nothing to simulate")?;
    names.tasks = tasks.iter().map(|m| m.key.clone()).collect();
    count_barriers(tasks, &mut names, &mut w)?;
    for m in tasks {
        thread(m, topology, &mut names, &mut w)?;
    }
    if w.tasks.is_empty() {
        return Err("every task has \"instance\" 0: nothing to simulate".into());
    }
    Ok(w)
}

fn unsupported(m: &Member, at: &str, takes: &str) -> String {
    format!("line {}: key \"{}\" of {at} is not supported: use {takes}", m.line, m.key.escape_default())
}

fn wrong(m: &Member, want: &str) -> String {
    format!("line {}: \"{}\" must be {want}", m.line, m.key.escape_default())
}

fn object(m: &Member) -> Result<&[Member]> {
    if let Value::Object(members) = &m.value { Ok(members) } else { Err(wrong(m, "an object in braces")) }
}

fn text(m: &Member) -> Result<&str> {
    if let Value::Text(t) = &m.value { Ok(t) } else { Err(wrong(m, "a text in quotes")) }
}

fn int(m: &Member, range: std::ops::RangeInclusive<i64>) -> Result<i64> {
    match m.value {
        Value::Int(n) if range.contains(&n) => Ok(n),
        _ => Err(wrong(m, &format!("a whole number from {} to {}", range.start(), range.end()))),
    }
}

fn micros(m: &Member) -> Result<Ns> {
    Ok(int(m, 0..=LONGEST_US)? as Ns * US)
}

/// `run12` is `run`.
fn base(key: &str) -> &str {
    key.trim_end_matches(|c: char| c.is_ascii_digit())
}

fn global(m: &Member, w: &mut Workload) -> Result<()> {
    for g in object(m)? {
        match g.key.as_str() {
            "duration" => {
                let seconds = int(g, -1..=3600)?;
                w.duration = u64::try_from(seconds).ok().filter(|s| *s > 0).map(|s| s * 1000 * MS);
            }
            "default_policy" => {
                policy_weight(g)?;
            }
            key if READ_OVER.contains(&key) => {}
            _ => return Err(unsupported(g, "\"global\"", "duration, default_policy")),
        }
    }
    Ok(())
}

/// The weight that a policy stands for without a priority.
fn policy_weight(m: &Member) -> Result<u32> {
    match text(m)? {
        "SCHED_OTHER" => Ok(100),
        "SCHED_IDLE" => Ok(1),
        _ => Err(wrong(m, "SCHED_OTHER or SCHED_IDLE (other classes are not the scheduler's to schedule)")),
    }
}

/// How many threads use each barrier: every use in the file counts, for every instance of its thread.
fn count_barriers(tasks: &[Member], names: &mut Names, w: &mut Workload) -> Result<()> {
    for task in tasks {
        let members = object(task)?;
        let instances = instances(members)? as u32;
        let phases = members.iter().filter(|m| m.key == "phases");
        let inner = phases.filter_map(|p| object(p).ok()).flatten().filter_map(|p| object(p).ok()).flatten();
        for m in members.iter().chain(inner).filter(|m| base(&m.key) == "barrier") {
            let name = text(m)?.to_owned();
            let slot = names.barriers.entry(name).or_insert_with(|| (w.channel(0), 0));
            slot.1 += instances;
        }
    }
    Ok(())
}

fn instances(members: &[Member]) -> Result<usize> {
    let m = members.iter().rev().find(|m| m.key == "instance");
    m.map_or(Ok(1), |m| int(m, 0..=10_000).map(|n| n as usize))
}

fn thread(m: &Member, topology: &Topology, names: &mut Names, w: &mut Workload) -> Result<()> {
    let members = object(m)?;
    let at = format!("task \"{}\"", m.key.escape_default());
    let (mut weight, mut start, mut loops, mut phases) = (100, 0, -1, None);
    let mut thread = Thread { name: &m.key, ops: Vec::new(), counters: 0, timers: BTreeMap::new(), cpus: CpuMask::ALL };
    let mut events = Vec::new();
    for k in members {
        match k.key.as_str() {
            "instance" => {}
            "delay" => start = micros(k)?,
            "loop" => loops = int(k, -1..=i64::from(i32::MAX))?,
            "policy" => weight = policy_weight(k)?,
            "priority" | "nice" => weight = weight_of_nice(int(k, -20..=19)?),
            "cpus" => thread.cpus = cpus(k, topology)?,
            "phases" => phases = Some(object(k)?),
            _ => events.push(k),
        }
    }
    thread.counters = 1;
    match phases {
        Some(phases) => {
            if let Some(k) = events.first() {
                return Err(unsupported(k, &at, "events inside \"phases\" only, where there are phases"));
            }
            let changes = phases.iter().filter_map(|p| object(p).ok()).flatten().any(|k| k.key == "cpus");
            for p in phases {
                thread.phase(p, &at, changes, topology, names, w)?;
            }
        }
        None => {
            for k in events {
                thread.event(k, &at, names, w)?;
            }
        }
    }
    if thread.ops.is_empty() {
        return Err(format!("line {}: {at} does nothing: give it a run or a sleep", m.line));
    }
    match u32::try_from(loops) {
        Ok(0) => thread.ops.clear(),
        Ok(times) => thread.ops.push(Op::Repeat { to: 0, times, counter: 0 }),
        Err(_) => thread.ops.push(Op::Jump(0)),
    }
    thread.ops.push(Op::Exit);
    let spec = TaskSpec { start, allowed: thread.cpus, weight, ..TaskSpec::new(&m.key, thread.ops) };
    let spec = TaskSpec { name: Name::new(b"rt-app"), ..spec };
    w.templates.push(spec.clone());
    let n = instances(members)?;
    if w.tasks.len() + n > MOST_THREADS {
        return Err(format!("line {}: more than {MOST_THREADS} threads: lower \"instance\"", m.line));
    }
    for _ in 0..n {
        let thread_of = (!w.tasks.is_empty()).then_some(0);
        w.tasks.push(TaskSpec { thread_of, ..spec.clone() });
    }
    Ok(())
}

fn cpus(m: &Member, topology: &Topology) -> Result<CpuMask> {
    let Value::List(list) = &m.value else { return Err(wrong(m, "a list of CPU numbers")) };
    let mut mask = CpuMask::EMPTY;
    for v in list {
        match v {
            Value::Int(n) if (0..1024).contains(n) => mask.set(CpuId(*n as u16)),
            _ => return Err(wrong(m, "a list of CPU numbers from 0 to 1023")),
        }
    }
    if mask.intersects(topology.cpus()) {
        Ok(mask)
    } else {
        Err(wrong(m, &format!("a list with a CPU of the simulated machine, which has {}", topology.cpus())))
    }
}

impl Thread<'_> {
    fn phase(
        &mut self,
        m: &Member,
        at: &str,
        masks_change: bool,
        topology: &Topology,
        names: &mut Names,
        w: &mut Workload,
    ) -> Result<()> {
        let at = format!("phase \"{}\" of {at}", m.key.escape_default());
        let members = object(m)?;
        let mut loops = 1;
        let mut mask = self.cpus;
        for k in members {
            match k.key.as_str() {
                "loop" => loops = int(k, -1..=i64::from(i32::MAX))?,
                "cpus" => mask = cpus(k, topology)?,
                "policy" => self.ops.push(Op::SetWeight(policy_weight(k)?)),
                "priority" | "nice" => self.ops.push(Op::SetWeight(weight_of_nice(int(k, -20..=19)?))),
                _ => {}
            }
        }
        if masks_change {
            self.ops.push(Op::SetMask(mask));
        }
        let from = self.ops.len();
        for k in members.iter().filter(|k| !["loop", "cpus", "policy", "priority", "nice"].contains(&k.key.as_str())) {
            self.event(k, &at, names, w)?;
        }
        match u32::try_from(loops) {
            Ok(0) => self.ops.truncate(from),
            Ok(1) => {}
            Ok(times) => {
                self.ops.push(Op::Repeat { to: from, times, counter: self.counters });
                self.counters += 1;
            }
            Err(_) => self.ops.push(Op::Jump(from)),
        }
        Ok(())
    }

    fn event(&mut self, m: &Member, at: &str, names: &mut Names, w: &mut Workload) -> Result<()> {
        let mutex = |names: &mut Names, w: &mut Workload, name: &str| {
            *names.mutexes.entry(name.to_owned()).or_insert_with(|| w.channel(1))
        };
        let condition = |names: &mut Names, w: &mut Workload, name: &str| {
            let name = names.targets.get(name).map_or(name, String::as_str);
            *names.conditions.entry(name.to_owned()).or_insert_with(|| w.channel(0))
        };
        match base(&m.key) {
            "run" => self.ops.push(Op::Run { ns: micros(m)?, spread: 0 }),
            "runtime" => self.ops.push(Op::RunTime(micros(m)?)),
            "sleep" => self.ops.push(Op::Sleep { ns: micros(m)?, spread: 0 }),
            "timer" => self.timer(m, at)?,
            "yield" => self.ops.push(Op::Yield),
            "lock" => self.ops.push(Op::Wait(mutex(names, w, text(m)?))),
            "unlock" => self.ops.push(Op::Post(mutex(names, w, text(m)?))),
            "signal" => self.ops.push(Op::Signal(condition(names, w, text(m)?))),
            "broad" => self.ops.push(Op::Broadcast(condition(names, w, text(m)?))),
            event @ ("wait" | "sync") => {
                let (on, with) = (member(m, "ref")?, member(m, "mutex")?);
                let (on, with) = (condition(names, w, on), mutex(names, w, with));
                if event == "sync" {
                    self.ops.extend([Op::Wait(with), Op::Signal(on)]);
                }
                self.ops.extend([Op::Post(with), Op::Block(on), Op::Wait(with)]);
                if event == "sync" {
                    self.ops.push(Op::Post(with));
                }
            }
            // A thread suspends itself under the name that others resume; left empty it is the thread's own.
            "suspend" => {
                let name = Some(text(m)?).filter(|n| !n.is_empty()).unwrap_or(self.name);
                self.ops.push(Op::Block(condition(names, w, &format!("suspend {name}"))));
            }
            "resume" => {
                let name = format!("suspend {}", text(m)?);
                self.ops.push(Op::Broadcast(condition(names, w, &name)));
            }
            "barrier" => {
                let (channel, users) = names.barriers.get(text(m)?).copied().unwrap_or((0, 1));
                self.ops.push(Op::Barrier { channel, users });
            }
            "fork" => {
                let name = text(m)?;
                let template = names.tasks.iter().position(|t| t == name);
                let template = template.ok_or_else(|| wrong(m, "the name of a task of this file"))?;
                self.ops.push(Op::Fork(template));
            }
            _ => {
                let takes = "run, runtime, sleep, timer, lock, unlock, wait, signal, broad, sync, barrier, suspend, \
                             resume, yield, fork (see sdlab sim --list-workloads)";
                return Err(unsupported(m, at, takes));
            }
        }
        Ok(())
    }

    fn timer(&mut self, m: &Member, at: &str) -> Result<()> {
        let (mut name, mut period, mut absolute) = ("", None, false);
        for k in object(m)? {
            match k.key.as_str() {
                "ref" => name = text(k)?,
                "period" => period = Some(micros(k)?),
                "mode" => {
                    absolute = match text(k)? {
                        "absolute" => true,
                        "relative" => false,
                        _ => return Err(wrong(k, "relative or absolute")),
                    }
                }
                _ => return Err(unsupported(k, &format!("timer of {at}"), "ref, period, mode")),
            }
        }
        let period = period.ok_or_else(|| wrong(m, "an object with a \"period\""))?;
        let next = self.timers.len();
        let timer = *self.timers.entry(name.to_owned()).or_insert(next);
        self.ops.push(Op::Timer { timer, period, absolute });
        Ok(())
    }
}

fn member<'a>(m: &'a Member, key: &str) -> Result<&'a str> {
    let inner = object(m)?;
    if let Some(other) = inner.iter().find(|k| k.key != "ref" && k.key != "mutex") {
        return Err(unsupported(other, &format!("\"{}\"", m.key.escape_default()), "ref, mutex"));
    }
    let found = inner.iter().find(|k| k.key == key);
    found.map_or_else(|| Err(wrong(m, &format!("an object with a \"{key}\""))), text)
}
