//! Workloads: built-in ones by name, or an rt-app file.

mod builtin;
mod mixed;
mod params;
mod relaxed_json;
mod rtapp;

use super::program::Workload;
use crate::topology::Topology;
use params::Params;
use std::path::Path;

/// Makes one from the parameters given to it.
type Make = fn(&mut Params, &Topology) -> Result<Workload, String>;

/// Name, meaning, keys with their defaults.
const BUILTIN: &[(&str, Make, &str, &str)] = &[
    (
        "fleet",
        builtin::fleet,
        "service instances with closed-loop clients",
        "instances=CPUS clients=INSTANCES server=1ms client=500us think=0 batch=400 spread=20% tail=0% set=512 kthreads=0 bound=0 kthread=200us",
    ),
    (
        "burners",
        builtin::burners,
        "tasks that only compute",
        "tasks=CPUS run=100ms pinned=0 kthreads=0 bound=0 kthread=200us",
    ),
    ("periodic", builtin::periodic, "a task with a period beside burners", "tasks=1 period=10ms run=1ms burners=CPUS"),
    (
        "forks",
        builtin::forks,
        "parents that fork, exec and wait for one child after the other",
        "parents=CPUS run=20ms",
    ),
    ("pipe", builtin::pipe, "pairs that wake each other in turn", "pairs=CPUS/2 run=2us"),
    ("mixed", mixed::mixed, "a desktop: audio, compositor, browser, build, idle burner", "jobs=CPUS browsers=CPUS/2"),
];

/// The workload that `text` names: `NAME[,key=value...]`, or the path of an rt-app file. The error is one line.
pub fn parse(text: &str, topology: &Topology) -> Result<Workload, String> {
    let (name, rest) = text.split_once(',').unwrap_or((text, ""));
    let Some((_, make, _, keys)) = BUILTIN.iter().find(|(n, ..)| *n == name) else {
        return from_file(text, topology);
    };
    let mut params = Params::new(name, rest, keys)?;
    let workload = make(&mut params, topology)?;
    params.finish()?;
    Ok(workload)
}

fn from_file(text: &str, topology: &Topology) -> Result<Workload, String> {
    let names: Vec<&str> = BUILTIN.iter().map(|(n, ..)| *n).collect();
    let content = std::fs::read_to_string(Path::new(text)).map_err(|e| {
        format!(
            "workload '{text}' is none of {} and cannot be read as an rt-app file ({e}): name one, or a JSON file",
            names.join(", ")
        )
    })?;
    rtapp::parse(&content, topology).map_err(|e| format!("{text}: {e}"))
}

/// An rt-app file that is already in memory; for tests and fuzzing.
pub fn parse_rtapp(content: &str, topology: &Topology) -> Result<Workload, String> {
    rtapp::parse(content, topology)
}

/// The list of `--list-workloads`.
pub fn table() -> String {
    let mut text = String::from("Workloads, as in --workload fleet,instances=8,server=200us\n\n");
    for (name, _, about, keys) in BUILTIN {
        text += &format!("  {name:<9} {about}\n            {keys}\n");
    }
    text += "\n  FILE      an rt-app file\n";
    text += rtapp::SUPPORTED;
    text
}
