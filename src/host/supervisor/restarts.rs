//! How often a dispatcher may be started again, and after which pause.

use crate::ids::{MS, Ns};
use std::collections::VecDeque;

/// Restarts in this time are counted.
pub const WINDOW: Ns = 60_000 * MS;
/// Failures in the window after which we give up.
pub const FAILURES: usize = 5;
/// Changes of the set of CPUs in the window after which we give up. A machine that switches off its SMT siblings
/// changes it many times in a row; the host waits until it is stable, so even then there are few.
pub const HOTPLUGS: usize = 20;
/// The pause after the first failure; doubled with every further one in the window.
const PAUSE: Ns = 100 * MS;

/// Why there has to be a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The set of CPUs changed.
    Hotplug,
    /// Something went wrong that may not happen again.
    Failure,
}

/// Remembers the restarts of the window.
#[derive(Clone, Debug, Default)]
pub struct Restarts {
    failures: VecDeque<Ns>,
    hotplugs: VecDeque<Ns>,
}

impl Restarts {
    /// Asks for a restart at `now`: the pause before it, or `None` if there were too many.
    pub fn next(&mut self, now: Ns, cause: Cause) -> Option<Ns> {
        let (times, most) = match cause {
            Cause::Failure => (&mut self.failures, FAILURES),
            Cause::Hotplug => (&mut self.hotplugs, HOTPLUGS),
        };
        while times.front().is_some_and(|t| now.saturating_sub(*t) >= WINDOW) {
            times.pop_front();
        }
        if times.len() >= most {
            return None;
        }
        times.push_back(now);
        Some(match cause {
            Cause::Failure => PAUSE << (times.len() - 1),
            Cause::Hotplug => PAUSE,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_retried_with_growing_pauses_and_not_for_ever() {
        let mut r = Restarts::default();
        let pauses: Vec<_> = (0..6).map(|i| r.next(i * 1000 * MS, Cause::Failure).map(|p| p / MS)).collect();
        assert_eq!(pauses, [Some(100), Some(200), Some(400), Some(800), Some(1600), None]);
    }

    #[test]
    fn a_failure_is_forgotten_after_the_window() {
        let mut r = Restarts::default();
        for i in 0..100 {
            assert_eq!(r.next(i * WINDOW, Cause::Failure), Some(PAUSE));
        }
    }

    #[test]
    fn hotplug_is_no_failure_but_has_an_end_too() {
        let mut r = Restarts::default();
        assert!((0..HOTPLUGS).all(|i| r.next(i as Ns, Cause::Hotplug) == Some(PAUSE)));
        assert_eq!(r.next(99, Cause::Hotplug), None);
        assert_eq!(r.next(99, Cause::Failure), Some(PAUSE));
    }
}
