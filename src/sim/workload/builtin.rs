//! The plain built-in workloads.

use super::params::Params;
use crate::cpumask::CpuMask;
use crate::event::Name;
use crate::ids::{CpuId, MS, Ns, US};
use crate::sim::program::{Op, TaskSpec, Workload};
use crate::topology::Topology;

/// Tasks do not all start at once: the i-th comes this long after the start, ns. (Any scattered order would do.)
pub(super) fn scattered(i: usize) -> Ns {
    (i as Ns * 7919 % 5000) * US
}

/// Instances of a service, each with clients that send a batch of requests, wait for the answers, and so on.
///
/// The defaults are shaped after the published fleet (README: 384 redis instances, about 330,000 requests/s each):
/// a turn of the server's event loop handles some hundred requests of 2.5 us, and only the turns are simulated.
/// `tail` is the share of a turn that is still to do when its first answer wakes the other side.
pub fn fleet(params: &mut Params, topology: &Topology) -> Result<Workload, String> {
    let instances = params.count("instances", topology.nr_cpus())?.max(1);
    let clients = params.count("clients", instances)?;
    let server = params.time("server", MS)?;
    let client = params.time("client", 500 * US)?;
    let think = params.time("think", 0)?;
    let batch = params.count("batch", 400)? as u64;
    let spread = params.percent("spread", 200)?;
    let tail = u64::from(params.percent("tail", 0)?);
    let set = params.count("set", 512)? as u64;
    let turn = |ns: Ns, wakes: Op| {
        let after = ns * tail / 1000;
        let mut ops = vec![Op::Run { ns: ns - after, spread }, wakes];
        if after > 0 {
            ops.push(Op::Run { ns: after, spread });
        }
        ops
    };
    let mut w = Workload { services: vec!["valkey-server".into()], ..Workload::default() };
    let mut lines = Vec::new();
    for i in 0..instances {
        let (requests, replies) = (w.channel(0), w.channel(0));
        lines.push((requests, replies));
        let mut program = vec![Op::Wait(requests)];
        program.append(&mut turn(server, Op::Post(replies)));
        program.append(&mut vec![Op::Count(batch), Op::Jump(0)]);
        let spec = TaskSpec::new("valkey-server", program);
        w.tasks.push(TaskSpec { start: scattered(i) / 2, working_set_kib: set, ..spec });
    }
    for i in 0..clients {
        let (requests, replies) = lines[i % instances];
        let mut program = turn(client, Op::Post(requests));
        program.insert(1, Op::Send);
        program.append(&mut vec![Op::Wait(replies), Op::Count(batch)]);
        if think > 0 {
            program.push(Op::Sleep { ns: think, spread });
        }
        program.push(Op::Jump(0));
        let spec = TaskSpec::new("client", program);
        let name = Name::new(b"valkey-benchmar");
        w.tasks.push(TaskSpec { name, start: scattered(i), working_set_kib: set / 2, ..spec });
    }
    add_kernel_threads(&mut w, params, topology)?;
    Ok(w)
}

/// What the kernel does besides, in its threads: `kthreads` wake-ups per second of threads that may run anywhere (RCU's,
/// say), and as many as `bound` per second, all CPUs together, of threads of one CPU each (workers).
fn add_kernel_threads(w: &mut Workload, params: &mut Params, topology: &Topology) -> Result<(), String> {
    let (free, bound) = (params.count("kthreads", 0)? as u64, params.count("bound", 0)? as u64);
    let run = params.time("kthread", 200 * US)?;
    let mut add = |service: &str, i: usize, every: Ns, allowed: CpuMask| {
        let sleep = Op::Sleep { ns: every, spread: 900 };
        let spec = TaskSpec::new(service, vec![sleep, Op::Run { ns: run, spread: 500 }, Op::Jump(0)]);
        w.tasks.push(TaskSpec { start: scattered(i), allowed, kernel: true, working_set_kib: 16, ..spec });
    };
    if let Some(every) = (1000 * MS).checked_div(free) {
        add("kernel thread", 0, every, CpuMask::ALL);
    }
    for (i, cpu) in topology.cpus().iter().enumerate() {
        if let Some(every) = (1000 * MS * topology.nr_cpus() as u64).checked_div(bound) {
            add("bound kernel thread", i, every, CpuMask::of(cpu));
        }
    }
    Ok(())
}

/// Tasks that never sleep; of those that are pinned, the i-th may only use the i-th CPU.
pub fn burners(params: &mut Params, topology: &Topology) -> Result<Workload, String> {
    let mut w = Workload::default();
    let tasks = params.count("tasks", topology.nr_cpus())?;
    let run = params.time("run", 100 * MS)?;
    add_burners(&mut w, tasks, run);
    let cpus: Vec<CpuId> = topology.cpus().iter().collect();
    for i in 0..params.count("pinned", 0)? {
        let program = vec![Op::Run { ns: run.max(US), spread: 0 }, Op::Jump(0)];
        let allowed = cpus.get(i % cpus.len().max(1)).map_or(CpuMask::ALL, |c| CpuMask::of(*c));
        w.tasks.push(TaskSpec { start: scattered(i), allowed, ..TaskSpec::new("pinned", program) });
    }
    add_kernel_threads(&mut w, params, topology)?;
    Ok(w)
}

pub(super) fn add_burners(w: &mut Workload, tasks: usize, run: Ns) {
    for i in 0..tasks {
        let program = vec![Op::Run { ns: run.max(US), spread: 0 }, Op::Jump(0)];
        w.tasks.push(TaskSpec { start: scattered(i), ..TaskSpec::new("burner", program) });
    }
}

/// A task that runs a little in every period, beside burners: the audio player under load.
pub fn periodic(params: &mut Params, topology: &Topology) -> Result<Workload, String> {
    let tasks = params.count("tasks", 1)?;
    let period = params.time("period", 10 * MS)?.max(10 * US);
    let run = params.time("run", MS)?;
    let burners = params.count("burners", topology.nr_cpus())?;
    let mut w = Workload::default();
    for i in 0..tasks {
        let timer = Op::Timer { timer: 0, period, absolute: true };
        let program = vec![Op::Run { ns: run, spread: 0 }, timer, Op::Count(1), Op::Jump(0)];
        w.tasks.push(TaskSpec { start: scattered(i), ..TaskSpec::new("periodic", program) });
    }
    add_burners(&mut w, burners, 100 * MS);
    Ok(w)
}

/// Parents that fork a child, which execs, computes and ends, and then fork the next.
pub fn forks(params: &mut Params, topology: &Topology) -> Result<Workload, String> {
    let parents = params.count("parents", topology.nr_cpus())?;
    let run = params.time("run", 20 * MS)?;
    let mut w = Workload::default();
    add_makers(&mut w, parents, run);
    Ok(w)
}

pub(super) fn add_makers(w: &mut Workload, parents: usize, run: Ns) {
    for i in 0..parents {
        let done = w.channel(0);
        let child = vec![Op::Exec(Name::new(b"cc1")), Op::Run { ns: run, spread: 500 }, Op::Post(done), Op::Exit];
        w.templates.push(TaskSpec { working_set_kib: 4096, ..TaskSpec::new("compiler", child) });
        let fork = Op::Fork(w.templates.len() - 1);
        let parent = vec![Op::Run { ns: MS, spread: 200 }, fork, Op::Wait(done), Op::Count(1), Op::Jump(0)];
        w.tasks.push(TaskSpec { start: scattered(i), ..TaskSpec::new("make", parent) });
    }
}

/// Pairs as in `perf bench sched pipe`.
pub fn pipe(params: &mut Params, topology: &Topology) -> Result<Workload, String> {
    let pairs = params.count("pairs", (topology.nr_cpus() / 2).max(1))?;
    let ns = params.time("run", 2 * US)?;
    let mut w = Workload::default();
    for i in 0..pairs {
        let (there, back) = (w.channel(0), w.channel(0));
        let run = Op::Run { ns, spread: 0 };
        let writer = vec![run.clone(), Op::Post(there), Op::Wait(back), Op::Count(1), Op::Jump(0)];
        let reader = vec![Op::Wait(there), run, Op::Post(back), Op::Jump(0)];
        for (service, program) in [("pipe writer", writer), ("pipe reader", reader)] {
            let spec = TaskSpec::new(service, program);
            w.tasks.push(TaskSpec { start: scattered(i), working_set_kib: 16, ..spec });
        }
    }
    Ok(w)
}
