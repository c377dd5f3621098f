//! A simulated task: its state in the kernel, what the shim keeps of it, and where it is in its program.

use super::metrics::Tally;
use super::program::{Op, TaskSpec};
use super::rng::Rng;
use crate::cpumask::CpuMask;
use crate::event::Name;
use crate::ids::{CpuId, NodeId, Ns};
use std::rc::Rc;

/// Number of a task inside the machine; its thread id is [`FIRST_TID`] higher.
pub type TaskId = usize;

/// Thread ids below are the system's.
pub const FIRST_TID: usize = 1000;

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Asleep until a time or until another wakes it.
    Blocked,
    /// Somebody has begun to wake it.
    Waking,
    /// The policy decides: its record is in the queued ring, it waits in the policy, or its decision is in the user
    /// ring.
    Queued,
    /// In the queue of a CPU.
    OnCpuQueue(CpuId),
    /// In the machine-wide queue.
    OnSharedQueue,
    /// On a CPU.
    Running(CpuId),
    /// Gone.
    Dead,
}

/// One task.
#[derive(Clone, Debug)]
pub struct Task {
    /// The main thread of its process.
    pub leader: TaskId,
    /// Threads of the process that are alive; kept by the leader.
    pub threads: u32,
    pub comm: Name,
    pub service: usize,
    pub state: State,
    pub allowed: CpuMask,
    pub weight: u32,
    pub kernel: bool,

    // --- The program.
    pub program: Rc<[Op]>,
    pub pc: usize,
    pub loops: Vec<u32>,
    pub timers: Vec<Option<Ns>>,
    pub rng: Rng,
    /// Of the current [`Op::Run`], ns at full speed.
    pub work_left: Ns,
    /// The current work takes the same time on any CPU.
    pub by_the_clock: bool,
    pub working_set_kib: u64,
    /// Time that it still owes to its caches on the CPU where it last ran, ns.
    pub unpaid_refill: Ns,
    /// Node of its memory: where it first ran.
    pub memory: Option<NodeId>,

    // --- In the kernel and the shim.
    /// The CPU it last ran on, or is about to be placed at.
    pub cpu: CpuId,
    pub last_ran: Option<CpuId>,
    pub slice: Ns,
    pub start_ts: Ns,
    pub stop_ts: Ns,
    pub exec_runtime: Ns,
    /// Generation of its newest record.
    pub enq_cnt: u64,

    // --- Watched by the simulator.
    /// The policy has taken a record and not yet answered it.
    pub with_policy: bool,
    /// The mask in the newest record that the policy has taken.
    pub told_allowed: CpuMask,
    /// Its exit was told to the policy.
    pub exit_told: bool,
    pub woken_at: Option<Ns>,
    /// When it sent a request that is not answered yet.
    pub sent_at: Option<Ns>,
    /// The thread that woke it; `None` if a timer did.
    pub waker: Option<i32>,
    /// The CPU whose running task woke it; `None` if an interrupt did.
    pub woken_on: Option<CpuId>,
    pub waits_since: Ns,
    pub state_since: Ns,
    pub began: Ns,
    pub ended: Option<Ns>,
    pub tally: Tally,
}

impl Task {
    /// A task that has not run yet.
    pub fn new(id: TaskId, leader: TaskId, spec: &TaskSpec, service: usize, cpu: CpuId, rng: Rng) -> Self {
        let (mut loops, mut timers) = (0, 0);
        for op in spec.program.iter() {
            match op {
                Op::Repeat { counter, .. } => loops = loops.max(counter + 1),
                Op::Timer { timer, .. } => timers = timers.max(timer + 1),
                _ => {}
            }
        }
        Task {
            leader,
            threads: u32::from(leader == id),
            comm: spec.name,
            service,
            state: State::Blocked,
            allowed: spec.allowed,
            weight: spec.weight,
            kernel: spec.kernel,
            program: spec.program.clone(),
            pc: 0,
            loops: vec![0; loops],
            timers: vec![None; timers],
            rng,
            work_left: 0,
            by_the_clock: false,
            working_set_kib: spec.working_set_kib,
            unpaid_refill: 0,
            memory: None,
            cpu,
            last_ran: None,
            slice: 0,
            start_ts: 0,
            stop_ts: 0,
            exec_runtime: 0,
            enq_cnt: 0,
            with_policy: false,
            told_allowed: CpuMask::EMPTY,
            exit_told: false,
            woken_at: None,
            sent_at: None,
            waker: None,
            woken_on: None,
            waits_since: 0,
            state_since: 0,
            began: 0,
            ended: None,
            tally: Tally::default(),
        }
    }

    /// Runnable, but not on a CPU.
    pub fn waits(&self) -> bool {
        matches!(self.state, State::Queued | State::OnCpuQueue(_) | State::OnSharedQueue)
    }
}

/// The thread id of a task.
pub fn tid_of(task: TaskId) -> i32 {
    (task + FIRST_TID) as i32
}

/// The task of a thread id.
pub fn task_of(tid: i32) -> Option<TaskId> {
    usize::try_from(tid).ok()?.checked_sub(FIRST_TID)
}
