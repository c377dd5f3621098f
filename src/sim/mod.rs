//! The simulator: a discrete-event machine that runs any [`crate::policy::Policy`] unchanged.
//!
//! It has CPUs with SMT siblings, LLCs and nodes; tasks that run, sleep, wake each other, fork and exit; ticks and
//! slices; and between them and the policy the shim's rules (design: "how the shim behaves"), the kicks of
//! `eyes.bpf.c` and the turns of the dispatch loop, whose thread needs a CPU like any other task. What things cost
//! is in `cost.rs`.
//!
//! Time is integer nanoseconds, random numbers are one fixed algorithm, equal times are handled in the order in which
//! they were scheduled: the same seed gives the same bytes everywhere.
//!
//! Not modelled: kernel threads, interrupts, frequency changes, memory bandwidth, caches that other tasks evict while
//! a task sleeps, memory that moves between nodes.
//!
//! | file | concept |
//! |---|---|
//! | `machine.rs` | the machine and its clock |
//! | `schedule.rs` | a CPU looks for work: the kernel's core and the shim's `.dispatch()` |
//! | `wake.rs` | a task becomes runnable: the shim's `.enqueue()` |
//! | `eyes.rs` | the hints and kicks of `eyes.bpf.c` |
//! | `dispatch_loop.rs` | the scheduler's thread, step by step as in `src/dispatcher.rs` |
//! | `execute.rs` | a task runs its program |
//! | `stint.rs` | how fast, and for how long |
//! | `host.rs` | a guest's CPUs take turns on the host's |
//! | `watch.rs` | every stint written down, for pictures |
//! | `results.rs`, `report.rs`, `compare.rs` | what came of it |

mod cpu;
mod dispatch_loop;
mod event_queue;
mod execute;
mod eyes;
mod host;
mod machine;
mod rings;
mod schedule;
mod stint;
mod task;
mod wake;

pub mod compare;
pub mod cost;
pub mod hist;
pub mod json;
pub mod metrics;
pub mod presets;
pub mod program;
pub mod report;
pub mod results;
pub mod rng;
pub mod units;
pub mod watch;
pub mod workload;

pub use machine::{Machine, Setup};
