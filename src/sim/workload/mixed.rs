//! A desktop under load. All figures are made up to be plausible; the point is the mixture.

use super::builtin::{add_burners, add_makers, scattered};
use super::params::Params;
use crate::event::Name;
use crate::ids::{MS, Ns, US};
use crate::sim::program::{Op, TaskSpec, Workload, weight_of_nice};
use crate::topology::Topology;

fn every(period: Ns, run: Ns, spread: u32) -> Vec<Op> {
    let timer = Op::Timer { timer: 0, period, absolute: true };
    vec![Op::Run { ns: run, spread }, timer, Op::Count(1), Op::Jump(0)]
}

/// Audio, compositor, browsers with worker threads, daemons, a build in the background, one idle-class burner.
pub fn mixed(params: &mut Params, topology: &Topology) -> Result<Workload, String> {
    let cpus = topology.nr_cpus();
    let jobs = params.count("jobs", cpus)?;
    let browsers = params.count("browsers", (cpus / 2).max(1))?;
    let mut w = Workload::default();
    let audio = TaskSpec::new("audio", every(10 * MS, 500 * US, 100));
    w.tasks.push(TaskSpec { weight: weight_of_nice(-11), ..audio });
    w.tasks.push(TaskSpec::new("compositor", every(16_667 * US, 4 * MS, 300)));
    for i in 0..browsers {
        add_browser(&mut w, i);
    }
    for i in 0..4 {
        let daemon = TaskSpec::new("daemon", every((100 + 37 * i as Ns) * MS, 200 * US, 500));
        w.tasks.push(TaskSpec { start: scattered(i), ..daemon });
    }
    add_makers(&mut w, jobs, 30 * MS);
    let before = w.tasks.len();
    add_burners(&mut w, 1, 100 * MS);
    w.tasks[before].weight = weight_of_nice(19);
    Ok(w)
}

/// A process whose main thread gives work to two threads, every 30 ms or so.
fn add_browser(w: &mut Workload, i: usize) {
    let (work, done) = (w.channel(0), w.channel(0));
    let main = w.tasks.len();
    let name = Name::new(b"browser");
    let program = vec![
        Op::Run { ns: 2 * MS, spread: 500 },
        Op::Post(work),
        Op::Post(work),
        Op::Wait(done),
        Op::Wait(done),
        Op::Run { ns: MS, spread: 500 },
        Op::Count(1),
        Op::Sleep { ns: 20 * MS, spread: 800 },
        Op::Jump(0),
    ];
    let start = scattered(i);
    w.tasks.push(TaskSpec { name, start, working_set_kib: 4096, ..TaskSpec::new("browser", program) });
    for _ in 0..2 {
        let program = vec![Op::Wait(work), Op::Run { ns: 3 * MS, spread: 800 }, Op::Post(done), Op::Jump(0)];
        let spec = TaskSpec::new("browser worker", program);
        w.tasks.push(TaskSpec { name, thread_of: Some(main), start, working_set_kib: 2048, ..spec });
    }
}
