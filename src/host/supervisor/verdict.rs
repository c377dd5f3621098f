//! What the end of a dispatcher means.

use super::restarts::Cause;
use crate::channel::{End, EndKind};
use crate::host::exit::{Exit, Failure};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// `SCX_EXIT_ERROR_STALL` of the kernel's `enum scx_exit_kind`: a task waited for too long.
const EXIT_ERROR_STALL: i32 = 1026;

/// Why a dispatcher is no more.
#[derive(Clone, Debug)]
pub enum Gone {
    /// As wanted.
    Asked,
    /// It told why.
    Told(End),
    /// It did not.
    Silent(ExitStatus),
    /// The kernel had ended it, it did not notice and was killed.
    Stuck,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The end.
    End(Result<(), Failure>),
    /// Again, for this reason.
    Restart(Cause, String),
}

/// Decides. `occupied`: the name of another scheduler that is attached now. `changed`: the machine has other CPUs
/// than when the dispatcher was started.
pub fn verdict(gone: Gone, occupied: Option<String>, changed: bool) -> Verdict {
    let ejected = |text| Verdict::End(Err(Failure::new(Exit::Ejected, text)));
    match gone {
        Gone::Asked => Verdict::End(Ok(())),
        Gone::Told(End { restart: true, text, .. }) => Verdict::Restart(Cause::Hotplug, text),
        Gone::Told(End { kernel_kind: EXIT_ERROR_STALL, text, .. }) => Verdict::Restart(Cause::Failure, text),
        Gone::Told(End { kind: EndKind::Crashed, text, .. }) => {
            Verdict::Restart(Cause::Failure, format!("the dispatcher died: {text}"))
        }
        Gone::Told(End { kind: EndKind::Ejected, text, .. }) => {
            ejected(format!("the kernel ended the scheduler: {text}; the kernel's own scheduler is back"))
        }
        Gone::Told(End { text, .. }) => match occupied {
            Some(name) => Verdict::End(Err(Failure::new(
                Exit::Occupied,
                format!(
                    "another sched_ext scheduler is attached: {name}; stop it first, the kernel takes one at a time"
                ),
            ))),
            // CPUs came or went between its look at the machine and the attach.
            None if changed => Verdict::Restart(Cause::Hotplug, text),
            None => ejected(format!("the dispatcher failed: {text}")),
        },
        Gone::Stuck => Verdict::Restart(Cause::Failure, "the dispatcher hung and the kernel ended it".into()),
        // Somebody meant it: the operator, or the kernel short of memory.
        Gone::Silent(status) if status.signal() == Some(libc::SIGKILL) => {
            ejected(format!("the dispatcher was killed ({status}); the kernel's own scheduler is back"))
        }
        Gone::Silent(status) => Verdict::Restart(Cause::Failure, format!("the dispatcher died ({status})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(kind: EndKind) -> End {
        End { kind, kernel_kind: 0, kernel_code: 0, restart: false, text: "why".into() }
    }

    fn exit_of(verdict: &Verdict) -> Option<Exit> {
        match verdict {
            Verdict::End(Err(f)) => Some(f.exit),
            _ => None,
        }
    }

    #[test]
    fn hotplug_stall_crash_and_hang_are_tried_again() {
        let restart = |gone, changed| match verdict(gone, None, changed) {
            Verdict::Restart(cause, _) => Some(cause),
            Verdict::End(_) => None,
        };
        let told = |end| restart(Gone::Told(end), false);
        assert_eq!(told(End { restart: true, ..end(EndKind::Ejected) }), Some(Cause::Hotplug));
        assert_eq!(told(End { kernel_kind: EXIT_ERROR_STALL, ..end(EndKind::Ejected) }), Some(Cause::Failure));
        assert_eq!(told(end(EndKind::Crashed)), Some(Cause::Failure));
        assert_eq!(restart(Gone::Told(end(EndKind::Failed)), true), Some(Cause::Hotplug));
        assert_eq!(restart(Gone::Stuck, false), Some(Cause::Failure));
        assert_eq!(restart(Gone::Silent(ExitStatus::from_raw(101 << 8)), false), Some(Cause::Failure));
        assert_eq!(restart(Gone::Silent(ExitStatus::from_raw(libc::SIGSEGV)), false), Some(Cause::Failure));
    }

    #[test]
    fn other_ends_have_their_exit_codes_and_words() {
        let ejected = verdict(Gone::Told(End { kernel_kind: 1024, ..end(EndKind::Ejected) }), None, false);
        assert_eq!(exit_of(&ejected), Some(Exit::Ejected));
        assert!(format!("{ejected:?}").contains("the kernel ended the scheduler: why"));
        assert_eq!(exit_of(&verdict(Gone::Told(end(EndKind::Failed)), None, false)), Some(Exit::Ejected));
        let other = verdict(Gone::Told(end(EndKind::Failed)), Some("rusty".into()), false);
        assert_eq!(exit_of(&other), Some(Exit::Occupied));
        assert!(format!("{other:?}").contains("rusty"));
        let killed = verdict(Gone::Silent(ExitStatus::from_raw(libc::SIGKILL)), None, false);
        assert_eq!(exit_of(&killed), Some(Exit::Ejected));
        assert_eq!(verdict(Gone::Asked, None, true), Verdict::End(Ok(())));
    }
}
