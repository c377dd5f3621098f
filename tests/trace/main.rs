//! Recordings: what is recorded can be read, replays identically, and no file can do harm.

mod damage;
mod freeze;
mod gaps;
#[path = "../policy/machine.rs"]
mod machine;
mod processes;
mod replays;
#[path = "../policy/script.rs"]
mod script;
mod support;
