//! Lines for the operator: on standard output, with the seconds since the start; failures on standard error.
//!
//! A reader that went away (`| head`) is no reason to end: the scheduler goes on without a word.

use crate::host::clock::now;
use crate::ids::{MS, Ns};
use std::io::Write;

/// Writes lines.
#[derive(Clone, Copy, Debug)]
pub struct Journal {
    start: Ns,
    verbose: u8,
}

impl Journal {
    /// Starts the clock. `verbose`: how often `-v` was given.
    pub fn new(verbose: u8) -> Self {
        Journal { start: now(), verbose }
    }

    /// A line of this moment.
    pub fn say(&self, text: impl std::fmt::Display) {
        self.at(now(), text);
    }

    /// A line of another moment (ns, monotonic clock).
    pub fn at(&self, when: Ns, text: impl std::fmt::Display) {
        let ms = when.saturating_sub(self.start) / MS;
        plain(format_args!("[{:>5}.{:03}] {text}", ms / 1000, ms % 1000));
    }

    /// Whether `-v` was given.
    pub fn is_verbose(&self) -> bool {
        self.verbose > 0
    }

    /// A line for `-v` only.
    pub fn detail(&self, when: Ns, text: impl std::fmt::Display) {
        if self.verbose > 0 {
            self.at(when, text);
        }
    }
}

/// A line without a time.
pub fn plain(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// One line on standard error.
pub fn error(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "scx_soft_domain: {text}");
}
