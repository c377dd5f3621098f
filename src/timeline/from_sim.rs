//! A picture of a simulation: everything is exact.

use super::model::{Found, Mark, Moved, Process, Span, Task, Timeline, Wait};
use crate::sim::watch::{Stint, Watch, Watched};
use crate::topology::Topology;

const ACCURACY: &str = "A simulation: every time is exact. A stint lasts from switch to switch, the cost of the switch \
                        and of refilling caches included. A task waits in the queue of the CPU it was sent to; until \
                        the decision, in that of the CPU it last ran on. Latency: from the begin of the wake-up to the \
                        task's first instruction.";

/// Task and process 0 are the scheduler's own.
pub(super) fn scheduler() -> (Task, Process) {
    let name = || "scheduler".to_owned();
    (Task { tid: 0, process: 0, name: name() }, Process { pid: 0, name: name(), instance: false })
}

/// Of a machine that was watched.
pub fn timeline(title: String, facts: Vec<(String, String)>, topology: &Topology, watch: Watch) -> Timeline {
    let Watch { stints, waits, homes, latencies, tasks, length, cut, .. } = watch;
    let mut t = Timeline { title, facts, length, topology: topology.clone(), ..Timeline::default() };
    t.accuracy = ACCURACY.to_owned();
    if cut {
        t.accuracy += " Cut: the run went on with more stints than a picture can hold.";
    }
    let (task, process) = scheduler();
    (t.tasks, t.processes) = (vec![task], vec![process]);
    // The process of a main thread gets its number when its first thread comes.
    let mut processes = vec![None; tasks.len()];
    for Watched { tid, leader, comm } in &tasks {
        let main =
            tasks.get(*leader as usize).unwrap_or(&Watched { tid: *tid, leader: *leader, comm: *comm }).to_owned();
        let number = processes.get_mut(*leader as usize).and_then(|slot| *slot).unwrap_or_else(|| {
            t.processes.push(Process { pid: main.tid, name: main.comm.to_string(), instance: false });
            t.processes.len() as u32 - 1
        });
        if let Some(slot) = processes.get_mut(*leader as usize) {
            *slot = Some(number);
        }
        t.tasks.push(Task { tid: *tid, process: number, name: comm.to_string() });
    }
    let mut found = Found { latencies, ..Found::default() };
    for h in homes {
        if let Some(p) =
            processes.get(h.leader as usize).copied().flatten().and_then(|p| t.processes.get_mut(p as usize))
        {
            p.instance = true;
        }
        found.homes.extend(h.from.map(|from| Mark { at: h.at, what: Moved::Home, task: h.leader + 1, from, to: h.to }));
    }
    found.spans = stints.into_iter().map(span).collect();
    found.waits = waits.into_iter().map(|w| Wait { at: w.at, cpu: w.cpu, begins: w.begins }).collect();
    t.fill(found);
    t
}

fn span(s: Stint) -> Span {
    let Stint { cpu, task, start, end, waited, reason, at_home } = s;
    Span { cpu, task: task.map_or(0, |t| t + 1), start, end, waited, reason, at_home, guessed: false }
}
