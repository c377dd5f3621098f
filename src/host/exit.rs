//! Exit codes, and errors that carry one.

use std::fmt;

/// How the program ends. The numbers are documented: keep them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It was asked to stop, or `check` found nothing wrong.
    Fine = 0,
    /// The kernel ended the scheduler, or it failed while it ran.
    Ejected = 1,
    /// Bad option or value.
    Usage = 2,
    /// The machine or its kernel lacks something.
    Unfit = 3,
    /// The user may not do it.
    Permission = 4,
    /// Another sched_ext scheduler is attached.
    Occupied = 5,
    /// It had to be restarted too often.
    GaveUp = 6,
}

impl Exit {
    /// All, in the order of their numbers.
    pub const ALL: [Exit; 7] =
        [Exit::Fine, Exit::Ejected, Exit::Usage, Exit::Unfit, Exit::Permission, Exit::Occupied, Exit::GaveUp];

    /// One line for `--help`.
    pub fn text(self) -> &'static str {
        match self {
            Exit::Fine => "asked to stop by Ctrl-C or SIGTERM; or check found nothing wrong",
            Exit::Ejected => "the kernel ended the scheduler, or it failed while it ran",
            Exit::Usage => "bad option or value",
            Exit::Unfit => {
                "the machine lacks something: sched_ext, BTF, a readable topology, the initial pid namespace"
            }
            Exit::Permission => "not root, or a capability is missing",
            Exit::Occupied => "another sched_ext scheduler is attached",
            Exit::GaveUp => "restarted too often",
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        std::process::ExitCode::from(exit as u8)
    }
}

/// What is wrong and what to do about it, in one line, with the exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How the program ends.
    pub exit: Exit,
    /// Cause and remedy.
    pub text: String,
}

impl Failure {
    /// A failure.
    pub fn new(exit: Exit, text: impl Into<String>) -> Self {
        Failure { exit, text: text.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}
