//! How busy something is: a decayed share of one CPU, from run times as they become known. Integers only.

use crate::ids::{MS, Ns};
use crate::limits::FULL_LOAD;

/// 2^(-i/32) in 1/65536, i = 0..=32, rounded: one half-life in 32 steps.
const DECAY: [u64; 33] = [
    65536, 64132, 62757, 61413, 60097, 58809, 57549, 56316, 55109, 53928, 52773, 51642, 50535, 49452, 48393, 47356,
    46341, 45348, 44376, 43425, 42495, 41584, 40693, 39821, 38968, 38133, 37316, 36516, 35734, 34968, 34219, 33486,
    32768,
];

/// The half-life that nearly all loads have, ns.
const USUAL: Ns = 32 * MS;

/// Bits of fraction that a load carries inside.
const FRACTION: u32 = 16;

/// A utilisation between 0 and [`FULL_LOAD`], decaying by half every half-life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    value: u64,
    at: Ns,
}

impl Load {
    /// Moves to `now`, of which the last `busy` ns were busy and what lies before them idle.
    ///
    /// The same exponential mean as the kernel's PELT, with the half-life as an argument.
    pub fn advance(&mut self, now: Ns, busy: Ns, half_life: Ns) {
        let span = now.saturating_sub(self.at);
        let busy = busy.min(span);
        let full = u64::from(FULL_LOAD) << FRACTION;
        self.value = decayed(self.value, span - busy, half_life);
        self.value = full - decayed(full - self.value.min(full), busy, half_life);
        self.at = self.at.max(now);
    }

    /// Adds `by`, up to [`FULL_LOAD`].
    pub fn lift(&mut self, by: u32) {
        let full = u64::from(FULL_LOAD) << FRACTION;
        self.value = (self.value + (u64::from(by) << FRACTION)).min(full);
    }

    /// The load as of the last [`Load::advance`].
    pub fn last(&self) -> u32 {
        (self.value >> FRACTION) as u32
    }

    /// The load at `now` if the last `busy` ns were busy, without changing anything.
    pub fn at(&self, now: Ns, busy: Ns, half_life: Ns) -> u32 {
        let mut l = *self;
        l.advance(now, busy, half_life);
        (l.value >> FRACTION) as u32
    }
}

fn decayed(value: u64, span: Ns, half_life: Ns) -> u64 {
    // Most of the time of most machines: no load, or none of the span.
    if value == 0 || span == 0 {
        return value;
    }
    // Divisions by a constant are multiplications.
    if half_life == USUAL { decay(value, span, USUAL) } else { decay(value, span, half_life.max(32)) }
}

#[inline(always)]
fn decay(value: u64, span: Ns, half_life: Ns) -> u64 {
    let whole = span / half_life;
    if whole >= 40 {
        return 0;
    }
    // Between two steps a straight line: a task may wake up many times in one.
    let part = span % half_life * 32;
    let step = (part / half_life) as usize;
    let factor = DECAY[step] - (DECAY[step] - DECAY[step + 1]) * (part % half_life) / half_life;
    ((value >> whole) * factor) >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_halves_in_one_half_life_and_fills_as_fast() {
        let mut l = Load::default();
        l.advance(32 * MS, 32 * MS, 32 * MS);
        assert_eq!(l.at(32 * MS, 0, 32 * MS), 512);
        assert_eq!(l.at(64 * MS, 0, 32 * MS), 256);
        assert_eq!(l.at(64 * MS, 32 * MS, 32 * MS), 768);
        assert_eq!(l.at(u64::MAX, u64::MAX, 32 * MS), 1024);
    }

    #[test]
    fn the_usual_half_life_is_no_other_than_it_says() {
        for span in (0..2_000_000_000).step_by(3_333_333) {
            let value = (u64::from(FULL_LOAD) << FRACTION) - span / 64;
            assert_eq!(decayed(value, span, USUAL), decay(value, span, std::hint::black_box(USUAL)));
        }
    }

    #[test]
    fn half_busy_settles_at_half_a_cpu() {
        let mut l = Load::default();
        for t in 1..200 {
            l.advance(t * 2 * MS, MS, 32 * MS);
        }
        let v = l.at(400 * MS, 0, 32 * MS);
        assert!((480..=544).contains(&v), "{v}");
    }

    #[test]
    fn many_short_stints_count_like_a_long_one() {
        let mut l = Load::default();
        for t in 1..2_000 {
            l.advance(t * MS / 20, MS / 25, 32 * MS);
        }
        assert!((700..=750).contains(&l.last()), "{} after 100 ms at 80%", l.last());
    }

    #[test]
    fn a_clock_that_stands_still_changes_nothing() {
        let mut l = Load::default();
        l.advance(100, 50, 32 * MS);
        let before = l;
        l.advance(50, 50, 32 * MS);
        assert_eq!(l, before);
    }
}
