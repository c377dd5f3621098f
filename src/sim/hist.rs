//! A histogram of times in integers: 32 buckets to each power of two, so that a value is known to 3%.

use crate::ids::Ns;

/// log2 of the buckets to each power of two.
const SUB_BITS: u32 = 5;

/// Times, counted.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// Grows as needed: most histograms see only short times.
    buckets: Vec<u32>,
    count: u64,
    sum: u128,
    max: Ns,
}

impl Histogram {
    fn bucket(ns: Ns) -> usize {
        let power = (ns | (1 << SUB_BITS)).ilog2() - SUB_BITS;
        ((u64::from(power) << SUB_BITS) + (ns >> power)) as usize
    }

    /// The middle of a bucket.
    fn value(bucket: usize) -> Ns {
        let power = (bucket as u64 >> SUB_BITS).saturating_sub(1);
        let from = (bucket as u64 - (power << SUB_BITS)) << power;
        from + (1 << power) / 2
    }

    /// Counts one.
    pub fn add(&mut self, ns: Ns) {
        let bucket = Self::bucket(ns);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] = self.buckets[bucket].saturating_add(1);
        self.count += 1;
        self.sum += u128::from(ns);
        self.max = self.max.max(ns);
    }

    /// Adds all of another.
    pub fn absorb(&mut self, other: &Histogram) {
        if other.buckets.len() > self.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (to, from) in self.buckets.iter_mut().zip(&other.buckets) {
            *to = to.saturating_add(*from);
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean, cut off; 0 if nothing was counted.
    pub fn mean(&self) -> Ns {
        (self.sum / u128::from(self.count.max(1))) as Ns
    }

    /// The longest, exactly.
    pub fn max(&self) -> Ns {
        self.max
    }

    /// The time that `permille` thousandths do not exceed, to 3%; 0 if nothing was counted.
    pub fn at_permille(&self, permille: u64) -> Ns {
        let rank = (self.count * permille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (bucket, n) in self.buckets.iter().enumerate() {
            seen += u64::from(*n);
            if seen >= rank {
                return Self::value(bucket).min(self.max);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_right_to_three_percent() {
        let mut h = Histogram::default();
        (1..=100_000u64).for_each(|us| h.add(us * 1000));
        for (permille, exact) in [(500, 50_000_000u64), (950, 95_000_000), (990, 99_000_000)] {
            let got = h.at_permille(permille);
            assert!(got.abs_diff(exact) * 100 <= exact * 3, "{permille}: {got}");
        }
        assert_eq!(h.max(), 100_000_000);
        assert_eq!(Histogram::default().at_permille(500), 0);
    }

    #[test]
    fn buckets_grow_with_the_value_and_hold_it() {
        let mut last = 0;
        for ns in (0..2000).chain([u64::from(u32::MAX), 1 << 40, u64::MAX / 2]) {
            let bucket = Histogram::bucket(ns);
            assert!(bucket >= last);
            last = bucket;
            assert!(Histogram::value(bucket).abs_diff(ns) <= ns / 32 + 1, "{ns}");
        }
    }
}
