//! What the benches give to the policy: the calls that it gets on a simulated busy machine, and the state that it has
//! then. The simulator itself (the shim, the eyes, the dispatch loop) is not in the figures.
//!
//! **One event** is one task that became runnable: a record of the kernel's ring. Its cost is everything that the policy
//! did meanwhile, divided by the events: `enqueue`, the passes (`dispatch`), `observe` of every CPU each 10 ms, and the
//! look after homes and LLCs.

use soft_domain::event::{Answers, ProcessEvent, Ready, Runnable, Spent};
use soft_domain::ids::{CpuId, MS, Ns, Pid, US};
use soft_domain::policy::Policy;
use soft_domain::service::Pattern;
use soft_domain::sim::cost::Costs;
use soft_domain::sim::program::{Op, TaskSpec, Workload};
use soft_domain::sim::{Machine, Setup};
use soft_domain::soft_domain::{Settings, SoftDomain};
use soft_domain::topology::{Level, Topology};
use soft_domain::trace::call::Call;
use std::cell::RefCell;
use std::rc::Rc;

/// Events that are measured.
const EVENTS: usize = 20_000;

/// CPU time of a task between two sleeps, give or take half.
const RUN: Ns = 500 * US;

/// Share of the CPUs that the tasks keep busy, where there are enough of them, percent.
const BUSY: usize = 60;

/// Homes move only after this; until then but one task runs.
const QUIET: Ns = 510 * MS;

/// CPUs, and the shape that has them: nodes, LLCs per node, cores per LLC, SMT.
const MACHINES: [(usize, [usize; 4]); 4] =
    [(8, [2, 2, 2, 1]), (64, [2, 4, 4, 2]), (384, [4, 6, 16, 1]), (1024, [8, 8, 8, 2])];

/// One line of the tables; its name is short enough that criterion keeps it on one line with the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub cpus: usize,
    pub tasks: usize,
    shape: [usize; 4],
}

pub fn cases() -> impl Iterator<Item = Case> {
    MACHINES.into_iter().flat_map(|(cpus, shape)| [100, 10_000].map(|tasks| Case { cpus, tasks, shape }))
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} CPUs, {}", self.cpus, self.tasks)
    }
}

/// A policy in the middle of its work, and what it is told next.
pub struct Script {
    policy: SoftDomain,
    calls: Vec<Call>,
}

impl Script {
    /// Simulates the machine until everything has run for a while, and then writes down [`EVENTS`] events.
    pub fn new(case: Case) -> Self {
        let [nodes, llcs, cores, smt] = case.shape;
        let topology = Topology::grid(nodes, llcs, cores, smt);
        let services = vec![Pattern::new("service").expect("a pattern")];
        let settings = Settings { services, ..Settings::default() };
        let ear = Rc::new(RefCell::new(Ear {
            policy: SoftDomain::new(&topology, settings),
            seen: 0,
            begin: 2 * case.tasks + EVENTS / 4,
            at_begin: None,
            calls: Vec::new(),
        }));
        let setup = Setup { topology: &topology, costs: &Costs::default(), level: Level::Cpu, seed: 1 };
        let mut machine = Machine::new(&setup, Box::new(Listening(ear.clone())), workload(case));
        machine.run(QUIET);
        while ear.borrow().seen < ear.borrow().begin + EVENTS {
            machine.run(10 * MS);
        }
        let mut ear = ear.borrow_mut();
        let policy = ear.at_begin.take().expect("it began");
        let calls = std::mem::take(&mut ear.calls);
        Script { policy, calls }
    }

    pub fn events(&self) -> u64 {
        self.calls.iter().filter(|c| matches!(c, Call::Enqueue(..))).count() as u64
    }

    /// What [`measured`] needs, fresh.
    pub fn begin(&self) -> (SoftDomain, Answers) {
        (self.policy.clone(), Answers::with_capacity(4096))
    }

    pub fn calls(&self) -> &[Call] {
        &self.calls
    }
}

/// All that is measured. Calls come as the dispatch loop makes them: it reads the answers after each pass.
#[inline(never)]
pub fn measured(policy: &mut SoftDomain, calls: &[Call], out: &mut Answers) -> usize {
    let mut answers = 0;
    for call in calls {
        call.give(policy, out);
        if matches!(call, Call::Dispatch(..)) {
            answers += out.dispatch.len();
            out.clear();
        }
    }
    answers
}

/// Half of the tasks are services, at most one for each CPU; the rest are other processes, and a few of those never sleep.
fn workload(case: Case) -> Workload {
    let services = (case.tasks / 2).min(case.cpus);
    let burners = (case.cpus / 16).clamp(1, case.tasks / 10);
    // Run and sleep of all others keep so many CPUs busy; with few tasks a task sleeps as long as it runs.
    let period = RUN * (case.tasks * 100) as u64 / (case.cpus * BUSY) as u64;
    let sleep = period.saturating_sub(RUN).max(RUN);
    let mut w = Workload { services: vec!["service".into()], ..Workload::default() };
    for i in 0..case.tasks {
        let nap = vec![Op::Run { ns: RUN, spread: 500 }, Op::Sleep { ns: sleep, spread: 300 }, Op::Jump(0)];
        let burn = vec![Op::Run { ns: 100 * MS, spread: 0 }, Op::Jump(0)];
        let (name, program) = match i {
            _ if i < services => ("service", nap),
            _ if i < services + burners => ("burner", burn),
            _ => ("other", nap),
        };
        let start = if i == 0 { 0 } else { QUIET + (i as Ns * 7919 % 10_000) * (sleep + RUN) / 10_000 };
        w.tasks.push(TaskSpec { start, ..TaskSpec::new(name, program) });
    }
    w
}

/// Writes down every call from the `begin`-th event on.
struct Ear {
    policy: SoftDomain,
    seen: usize,
    begin: usize,
    at_begin: Option<SoftDomain>,
    calls: Vec<Call>,
}

impl Ear {
    fn hear(&mut self, call: Call, out: &mut Answers) {
        if matches!(call, Call::Enqueue(..)) {
            self.seen += 1;
        }
        if self.seen >= self.begin && self.seen < self.begin + EVENTS {
            if self.at_begin.is_none() {
                self.at_begin = Some(self.policy.clone());
            }
            self.calls.push(call);
        }
        call.give(&mut self.policy, out);
    }
}

/// The simulator owns its policy; this one stays reachable.
struct Listening(Rc<RefCell<Ear>>);

impl Policy for Listening {
    fn process(&mut self, now: Ns, event: &ProcessEvent, out: &mut Answers) {
        self.0.borrow_mut().hear(Call::Process(now, *event), out);
    }

    fn enqueue(&mut self, now: Ns, task: &Runnable, out: &mut Answers) {
        self.0.borrow_mut().hear(Call::Enqueue(now, *task), out);
    }

    fn observe(&mut self, now: Ns, cpu: CpuId, spent: &Spent) {
        self.0.borrow_mut().hear(Call::Observe(now, cpu, *spent), &mut Answers::default());
    }

    fn dispatch(&mut self, now: Ns, ready: &Ready, out: &mut Answers) {
        self.0.borrow_mut().hear(Call::Dispatch(now, *ready), out);
    }

    fn waiting(&self) -> usize {
        self.0.borrow().policy.waiting()
    }

    fn restore_home(&mut self, pid: Pid, home: CpuId) {
        self.0.borrow_mut().hear(Call::RestoreHome(pid, home), &mut Answers::default());
    }
}
