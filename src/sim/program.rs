//! What a simulated task does: a small program of operations that the workloads write and the machine runs.

use crate::cpumask::CpuMask;
use crate::event::Name;
use crate::ids::Ns;
use std::rc::Rc;

/// A semaphore or condition of the workload, by number.
pub type Channel = usize;

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Computes for `ns` of an undisturbed full-speed CPU, give or take `spread` permille.
    Run {
        /// Work, ns.
        ns: Ns,
        /// Permille.
        spread: u32,
    },
    /// Computes for `ns` of CPU time however slow the CPU is.
    RunTime(Ns),
    /// Sleeps for `ns`, give or take `spread` permille.
    Sleep {
        /// ns.
        ns: Ns,
        /// Permille.
        spread: u32,
    },
    /// Sleeps until `period` after the end of this timer's last use (or now, if that is over).
    Timer {
        /// Which of the task's timers.
        timer: usize,
        /// ns.
        period: Ns,
        /// A missed end is not forgotten: the next is still a multiple of the period after the first use.
        absolute: bool,
    },
    /// Takes a token of a semaphore; sleeps while there is none.
    Wait(Channel),
    /// Gives a token to a semaphore, and wakes its first waiter.
    Post(Channel),
    /// Sleeps until somebody signals; a signal that found nobody is lost.
    Block(Channel),
    /// Wakes the first that blocks there.
    Signal(Channel),
    /// Wakes all that block there.
    Broadcast(Channel),
    /// Sleeps until `users` tasks have come here.
    Barrier {
        /// Where they meet.
        channel: Channel,
        /// How many there are.
        users: u32,
    },
    /// Gives up the CPU but stays runnable.
    Yield,
    /// A request is sent now: its response time ends at the next [`Op::Count`].
    Send,
    /// Counts `n` requests as done.
    Count(u64),
    /// Creates a process that runs template `n` of the workload.
    Fork(usize),
    /// Runs another program: from now on the process has this name.
    Exec(Name),
    /// Changes the own affinity mask.
    SetMask(CpuMask),
    /// Changes the mask of task number `task` of the workload, whatever that does just now.
    Rebind {
        /// The task, by its place in the workload.
        task: usize,
        /// Its new mask.
        mask: CpuMask,
    },
    /// Changes the own weight.
    SetWeight(u32),
    /// Back to operation `to`, `times` times in all; then on.
    Repeat {
        /// Index of an earlier operation.
        to: usize,
        /// Runs of the body, at least 1.
        times: u32,
        /// Which of the task's loop counters.
        counter: usize,
    },
    /// Back to operation `to`.
    Jump(usize),
    /// Ends the task. So does the end of the program.
    Exit,
}

/// A task of a workload, or a template for forked ones.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    /// The line of the results that it is counted in; also shown as its name.
    pub service: String,
    /// Comm and executable of its process.
    pub name: Name,
    /// The task (by its place in the workload) whose process it is a thread of; `None` = it is a process.
    pub thread_of: Option<usize>,
    /// What it does.
    pub program: Rc<[Op]>,
    /// When it first becomes runnable, ns after the start.
    pub start: Ns,
    /// Where it may run.
    pub allowed: CpuMask,
    /// 100 = nice 0.
    pub weight: u32,
    /// A thread of the kernel. With one allowed CPU the shim queues it there by itself.
    pub kernel: bool,
    /// What it touches again and again, KiB: fetched again after a move.
    pub working_set_kib: u64,
}

impl TaskSpec {
    /// A process of `service` with nothing special.
    pub fn new(service: &str, program: Vec<Op>) -> Self {
        TaskSpec {
            service: service.to_owned(),
            name: Name::new(&service.as_bytes()[..service.len().min(15)]),
            thread_of: None,
            program: program.into(),
            start: 0,
            allowed: CpuMask::ALL,
            weight: 100,
            kernel: false,
            working_set_kib: 256,
        }
    }
}

/// Tasks that exist from the start, and what they share.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// In the order of their thread ids.
    pub tasks: Vec<TaskSpec>,
    /// For [`Op::Fork`].
    pub templates: Vec<TaskSpec>,
    /// Semaphores and conditions: tokens at the start.
    pub channels: Vec<u64>,
    /// Name patterns that this workload's services have, used when no `-P` is given.
    pub services: Vec<String>,
    /// How long it runs if nobody says otherwise, ns.
    pub duration: Option<Ns>,
}

impl Workload {
    /// A new semaphore or condition.
    pub fn channel(&mut self, tokens: u64) -> Channel {
        self.channels.push(tokens);
        self.channels.len() - 1
    }
}

/// The kernel's weights of nice levels (`sched_prio_to_weight`), scaled to 100 for nice 0 as sched_ext does
/// (`sched_weight_to_cgroup`): 1 to 10,000.
pub fn weight_of_nice(nice: i64) -> u32 {
    const WEIGHTS: [u32; 40] = [
        88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
        1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
    ];
    let weight = WEIGHTS[(nice.clamp(-20, 19) + 20) as usize];
    ((weight * 100 + 512) / 1024).clamp(1, 10_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nice_becomes_weight_as_in_the_kernel() {
        assert_eq!([weight_of_nice(-20), weight_of_nice(0), weight_of_nice(19)], [8668, 100, 1]);
        assert_eq!(weight_of_nice(-100), weight_of_nice(-20));
    }
}
