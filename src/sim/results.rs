//! What came of a run, as plain numbers.

use super::machine::{BOOT, Machine};
use super::metrics::{Fault, Tally, Totals};
use super::task::{State, tid_of};
use super::units::permille;
use crate::ids::{CpuId, Ns};
use crate::stats::Counter;

/// One line of the results: a service or a task.
#[derive(Clone, Debug)]
pub struct Line {
    /// The service.
    pub name: String,
    /// The thread; 0 = a whole service.
    pub tid: i32,
    /// Tasks that it sums up, forked ones included.
    pub tasks: u64,
    /// What they did.
    pub tally: Tally,
    /// Smallest and largest share among its tasks of equal weight that lived all the time: requests where they count
    /// any, else CPU time, ns. `None` with fewer than two tasks.
    pub shares: Option<(u64, u64)>,
    /// Of a task: the home of its process at the end.
    pub home: Option<CpuId>,
}

impl Line {
    /// Time at home of all its time while it had a home, permille.
    pub fn at_home(&self) -> Option<u64> {
        permille(self.tally.home_ns, self.tally.homed_ns)
    }

    /// Smallest share by largest, permille: 1000 = all alike.
    pub fn fairness(&self) -> Option<u64> {
        self.shares.and_then(|(least, most)| permille(least, most))
    }

    /// `n` per second of simulated time.
    pub fn per_second(n: u64, duration: Ns) -> u64 {
        (u128::from(n) * 1_000_000_000 / u128::from(duration.max(1))) as u64
    }
}

/// Everything that is reported of one run.
#[derive(Clone, Debug)]
pub struct Results {
    /// Simulated time, ns; shorter than asked for if the kernel would have ejected the policy.
    pub duration: Ns,
    /// CPUs.
    pub cpus: u64,
    /// By service, in the order of the workload.
    pub services: Vec<Line>,
    /// Tasks of the workload; forked ones are in their service only.
    pub tasks: Vec<Line>,
    /// Of the machine.
    pub totals: Totals,
    /// Tasks that wait at the end.
    pub waiting: u64,
    /// Those of them that were woken and have not run since.
    pub woken_waiting: u64,
    /// Rules that the policy broke.
    pub faults: Vec<Fault>,
    /// The kernel would have ejected the policy.
    pub ejected: bool,
    /// The policy's own counters that are not 0.
    pub counters: Vec<(&'static str, u64)>,
}

impl Machine {
    /// Closes the books of a run. Stints that go on are counted up to now.
    pub fn results(&mut self) -> Results {
        let cpus = *self.topology.cpus();
        for cpu in cpus.iter() {
            self.close(cpu);
        }
        let duration = self.now - BOOT;
        let mut services: Vec<Line> = self
            .services
            .iter()
            .map(|s| Line {
                name: s.name.clone(),
                tid: 0,
                tasks: s.ended_tasks,
                tally: s.ended.clone(),
                shares: None,
                home: None,
            })
            .collect();
        let mut tasks = Vec::with_capacity(self.first_tasks);
        for (id, t) in self.tasks.iter().enumerate() {
            let summed = id >= self.first_tasks && t.state == State::Dead;
            if !summed {
                services[t.service].tasks += 1;
                services[t.service].tally.absorb(&t.tally);
            }
            if id < self.first_tasks {
                let name = services[t.service].name.clone();
                let home = self.homes.get(t.leader).copied().flatten();
                tasks.push(Line { name, tid: tid_of(id), tasks: 1, tally: t.tally.clone(), shares: None, home });
            }
        }
        for (number, line) in services.iter_mut().enumerate() {
            line.shares = self.shares(number);
        }
        let counters = self.policy.counters().map_or_else(Vec::new, |c| {
            Counter::ALL.iter().map(|n| (n.text(), c.get(*n))).filter(|(_, v)| *v > 0).collect()
        });
        Results {
            duration,
            cpus: self.topology.nr_cpus() as u64,
            services,
            tasks,
            totals: self.totals.clone(),
            waiting: self.nr_waiting,
            woken_waiting: self.tasks.iter().filter(|t| t.waits() && t.woken_at.is_some()).count() as u64,
            faults: self.faults.clone(),
            ejected: self.ejected,
            counters,
        }
    }

    /// Smallest and largest share among the tasks of a service that have its first task's weight.
    fn shares(&self, service: usize) -> Option<(u64, u64)> {
        let of_service =
            || self.tasks[..self.first_tasks].iter().filter(|t| t.service == service && t.state != State::Dead);
        let weight = of_service().next()?.weight;
        let counts = of_service().any(|t| t.tally.requests > 0);
        let share = |t: &super::task::Task| if counts { t.tally.requests } else { t.tally.cpu_ns };
        let alike = || of_service().filter(|t| t.weight == weight).map(share);
        (alike().count() > 1).then(|| (alike().min().unwrap_or(0), alike().max().unwrap_or(0)))
    }
}
