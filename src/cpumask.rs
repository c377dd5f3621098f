//! A set of CPUs as a plain value: 1,024 bits, no allocation, cheap to copy and to intersect.

use crate::ids::{CpuId, MAX_CPUS};
use std::fmt;

const WORDS: usize = MAX_CPUS / 64;

/// A set of CPU numbers below [`MAX_CPUS`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CpuMask([u64; WORDS]);

impl Default for CpuMask {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl CpuMask {
    /// No CPU.
    pub const EMPTY: CpuMask = CpuMask([0; WORDS]);
    /// Every CPU number that can be named.
    pub const ALL: CpuMask = CpuMask([u64::MAX; WORDS]);

    /// The set of exactly `cpu`.
    pub fn of(cpu: CpuId) -> Self {
        let mut m = Self::EMPTY;
        m.set(cpu);
        m
    }

    /// From words of 64 CPUs, lowest first, as the kernel's masks are laid out; missing words are empty, words
    /// past [`MAX_CPUS`] are ignored.
    pub fn from_words(words: &[u64]) -> Self {
        let mut m = Self::EMPTY;
        for (to, from) in m.0.iter_mut().zip(words) {
            *to = *from;
        }
        m
    }

    /// The 16 words, lowest CPUs first.
    pub fn words(&self) -> &[u64; WORDS] {
        &self.0
    }

    /// Adds `cpu`; a number at or above [`MAX_CPUS`] is ignored.
    pub fn set(&mut self, cpu: CpuId) {
        if let Some(w) = self.0.get_mut(cpu.index() / 64) {
            *w |= 1 << (cpu.index() % 64);
        }
    }

    /// Removes `cpu`.
    pub fn clear(&mut self, cpu: CpuId) {
        if let Some(w) = self.0.get_mut(cpu.index() / 64) {
            *w &= !(1 << (cpu.index() % 64));
        }
    }

    /// Whether `cpu` is in the set.
    pub fn has(&self, cpu: CpuId) -> bool {
        self.0.get(cpu.index() / 64).is_some_and(|w| w >> (cpu.index() % 64) & 1 == 1)
    }

    /// How many CPUs are in the set.
    pub fn count(&self) -> usize {
        self.0.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether the set has no CPU.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|w| *w == 0)
    }

    /// The CPUs in both.
    pub fn and(&self, other: &CpuMask) -> CpuMask {
        let mut m = *self;
        for (a, b) in m.0.iter_mut().zip(&other.0) {
            *a &= b;
        }
        m
    }

    /// The CPUs in either.
    pub fn or(&self, other: &CpuMask) -> CpuMask {
        let mut m = *self;
        for (a, b) in m.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
        m
    }

    /// The CPUs in this set and not in `other`.
    pub fn minus(&self, other: &CpuMask) -> CpuMask {
        let mut m = *self;
        for (a, b) in m.0.iter_mut().zip(&other.0) {
            *a &= !b;
        }
        m
    }

    /// Whether the two sets share a CPU.
    pub fn intersects(&self, other: &CpuMask) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// Whether every CPU of this set is in `other`.
    pub fn is_subset_of(&self, other: &CpuMask) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a & !b == 0)
    }

    /// The lowest CPU of the set.
    pub fn first(&self) -> Option<CpuId> {
        self.iter().next()
    }

    /// The CPUs of the set, lowest first; a copy, so that the set may change meanwhile.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + use<> {
        self.0.into_iter().enumerate().flat_map(|(i, mut w)| {
            std::iter::from_fn(move || {
                if w == 0 {
                    return None;
                }
                let bit = w.trailing_zeros() as usize;
                w &= w - 1;
                Some(CpuId((i * 64 + bit) as u16))
            })
        })
    }
}

impl FromIterator<CpuId> for CpuMask {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> Self {
        let mut m = Self::EMPTY;
        for c in cpus {
            m.set(c);
        }
        m
    }
}

/// The kernel's list form: `0-3,8,10-11`; an empty set prints as nothing.
impl fmt::Display for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        let mut iter = self.iter().peekable();
        while let Some(start) = iter.next() {
            let mut end = start;
            while iter.peek().is_some_and(|n| n.0 == end.0 + 1) {
                end = iter.next().unwrap_or(end);
            }
            let comma = if first { "" } else { "," };
            first = false;
            if start == end {
                write!(f, "{comma}{start}")?;
            } else {
                write!(f, "{comma}{start}-{end}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuMask({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_prints_as_the_kernel_prints_cpu_lists() {
        let m: CpuMask = [0, 1, 2, 3, 8, 10, 11, 1023].map(CpuId).into_iter().collect();
        assert_eq!(m.to_string(), "0-3,8,10-11,1023");
        assert_eq!(CpuMask::EMPTY.to_string(), "");
    }

    #[test]
    fn a_cpu_number_out_of_range_is_ignored() {
        let mut m = CpuMask::EMPTY;
        m.set(CpuId(1024));
        assert!(m.is_empty() && !m.has(CpuId(1024)));
    }
}
