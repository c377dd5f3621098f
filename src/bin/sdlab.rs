//! `sdlab`: tries scheduling policies before any kernel sees them.
//!
//! A program of its own because the scheduler's installs an allocator that is made for the dispatch loop alone.

#[path = "../sdlab/mod.rs"]
mod sdlab;

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match sdlab::main(std::env::args_os()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "sdlab: {failure}");
            failure.exit.into()
        }
    }
}
