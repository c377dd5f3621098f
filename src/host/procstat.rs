//! One line of `/proc/PID/stat` or `/proc/PID/task/TID/stat`.

use crate::event::Name;
use std::path::Path;

/// PF_KTHREAD of the kernel's include/linux/sched.h.
const KTHREAD: u64 = 0x0020_0000;
/// PF_EXITING.
const EXITING: u64 = 4;

/// What we want of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The comm: any bytes.
    pub comm: Name,
    /// Process that created it.
    pub parent: i32,
    /// Kernel thread.
    pub kthread: bool,
    /// It was killed or has ended, and the kernel takes it apart.
    pub exiting: bool,
    /// Minor page faults.
    pub minor_faults: u64,
    /// Major page faults.
    pub major_faults: u64,
    /// CPU time in user and kernel mode, clock ticks.
    pub cpu_ticks: u64,
    /// When it started, clock ticks since boot.
    pub start_ticks: u64,
    /// Scheduling policy (SCHED_*).
    pub policy: u64,
}

impl Stat {
    /// Reads `path`; `None` if it has gone or makes no sense.
    pub fn read(path: &Path) -> Option<Stat> {
        Stat::parse(&std::fs::read(path).ok()?)
    }

    /// Parses the line. The comm stands between the first `(` and the last `)`; it may itself hold brackets, blanks
    /// and line ends.
    pub fn parse(line: &[u8]) -> Option<Stat> {
        let open = line.iter().position(|b| *b == b'(')?;
        let close = line.iter().rposition(|b| *b == b')')?;
        let comm = Name::new(line.get(open + 1..close)?);
        let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
        // Numbered as in proc_pid_stat(5), where the state is field 3.
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |n: usize| fields.get(n - 3)?.parse::<u64>().ok();
        Some(Stat {
            comm,
            parent: fields.get(1)?.parse().ok()?,
            kthread: field(9)? & KTHREAD != 0,
            exiting: field(9)? & EXITING != 0,
            minor_faults: field(10)?,
            major_faults: field(12)?,
            cpu_ticks: field(14)?.saturating_add(field(15)?),
            start_ticks: field(22)?,
            policy: field(41)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A line as the kernel writes it.
    pub fn line(comm: &[u8], flags: u64) -> Vec<u8> {
        let mut line = b"12 (".to_vec();
        line.extend(comm);
        line.extend(format!(") S 1 12 12 0 -1 {flags} 7 0 8 0 100 23 0 0 20 0 1 0 4242 0 0 0").bytes());
        line.extend(b" 0 0 0 0 0 0 0 0 0 0 0 0 17 3 0 7 0 0 0\n");
        line
    }

    #[test]
    fn the_fields_are_those_of_the_manual() {
        let stat = Stat::parse(&line(b"a) S 9 (b\n\x1b\xff", KTHREAD)).unwrap();
        let comm = Name::new(b"a) S 9 (b\n\x1b\xff");
        let (minor_faults, major_faults, cpu_ticks, start_ticks) = (7, 8, 123, 4242);
        assert_eq!(
            stat,
            Stat {
                comm,
                parent: 1,
                kthread: true,
                exiting: false,
                minor_faults,
                major_faults,
                cpu_ticks,
                start_ticks,
                policy: 7
            }
        );
    }

    #[test]
    fn a_process_that_the_kernel_takes_apart_is_told_from_one_that_hangs() {
        let exiting = |flags| Stat::parse(&line(b"a", flags)).unwrap().exiting;
        assert!(exiting(EXITING | 0x40_0100) && !exiting(0x40_0100));
    }

    #[test]
    fn our_own_line_is_understood() {
        let stat = Stat::read(Path::new("/proc/self/stat")).unwrap();
        assert!(!stat.kthread && stat.start_ticks > 0);
        assert!(Stat::read(Path::new("/proc/0/stat")).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            Stat::parse(&bytes);
        }

        #[test]
        fn any_comm_comes_through(comm in proptest::collection::vec(1u8.., 0..16)) {
            prop_assert_eq!(Stat::parse(&line(&comm, 0)).unwrap().comm, Name::new(&comm));
        }
    }
}
