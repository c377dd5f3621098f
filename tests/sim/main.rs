//! The simulator, judged by what it says about runs whose outcome is known.

mod cli;
mod determinism;
mod eyes;
mod faults;
mod host;
mod machine;
mod properties;
mod rtapp;
mod shim;
mod support;
