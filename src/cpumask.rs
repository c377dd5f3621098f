//! A set of CPUs as a plain value: 1,024 bits, no allocation, cheap to copy and to intersect.
//!
//! Beside its words a mask knows which of them have a CPU, and every operation visits only those: the CPUs of an LLC are
//! mostly in one word of 16, and those of a small machine are all in the first.

mod set;

pub use set::{Both, Each, Except, Set};

use crate::ids::{CpuId, MAX_CPUS};
use std::fmt;

const WORDS: usize = MAX_CPUS / 64;

/// Where words above the eighth are used it is quicker to visit all, several at a time, than those alone.
const MANY: u16 = 0xff;

/// A set of CPU numbers below [`MAX_CPUS`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CpuMask {
    words: [u64; WORDS],
    /// Bit i: word i is not 0.
    used: u16,
}

impl Default for CpuMask {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The numbers of the bits that are set in `bits`.
fn bits(mut bits: u16) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (bit < WORDS).then_some(bit)
    })
}

impl CpuMask {
    /// No CPU.
    pub const EMPTY: CpuMask = CpuMask { words: [0; WORDS], used: 0 };
    /// Every CPU number that can be named.
    pub const ALL: CpuMask = CpuMask { words: [u64::MAX; WORDS], used: u16::MAX };

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
        for (i, word) in words.iter().take(WORDS).enumerate() {
            m.put(i, *word);
        }
        m
    }

    /// The 16 words, lowest CPUs first.
    pub fn words(&self) -> &[u64; WORDS] {
        &self.words
    }

    #[inline]
    fn put(&mut self, i: usize, word: u64) {
        self.words[i] = word;
        self.used = self.used & !(1 << i) | u16::from(word != 0) << i;
    }

    /// Adds `cpu`; a number at or above [`MAX_CPUS`] is ignored.
    #[inline]
    pub fn set(&mut self, cpu: CpuId) {
        let i = cpu.index() / 64;
        if let Some(w) = self.words.get_mut(i) {
            *w |= 1 << (cpu.index() % 64);
            self.used |= 1 << i;
        }
    }

    /// Removes `cpu`.
    #[inline]
    pub fn clear(&mut self, cpu: CpuId) {
        let i = cpu.index() / 64;
        if let Some(w) = self.words.get(i) {
            self.put(i, w & !(1 << (cpu.index() % 64)));
        }
    }

    /// Whether `cpu` is in the set.
    #[inline]
    pub fn has(&self, cpu: CpuId) -> bool {
        self.words.get(cpu.index() / 64).is_some_and(|w| w >> (cpu.index() % 64) & 1 == 1)
    }

    /// How many CPUs are in the set.
    #[inline]
    pub fn count(&self) -> usize {
        bits(self.used).map(|i| self.words[i].count_ones() as usize).sum()
    }

    /// Whether the set has no CPU.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The CPUs in both.
    #[inline]
    pub fn and(&self, other: &CpuMask) -> CpuMask {
        let mut m = Self::EMPTY;
        let both = self.used & other.used;
        if both > MANY {
            for i in 0..WORDS {
                let word = self.words[i] & other.words[i];
                m.words[i] = word;
                m.used |= u16::from(word != 0) << i;
            }
        } else {
            for i in bits(both) {
                m.put(i, self.words[i] & other.words[i]);
            }
        }
        m
    }

    /// The CPUs in either.
    pub fn or(&self, other: &CpuMask) -> CpuMask {
        let mut m = *self;
        for i in bits(other.used) {
            m.put(i, self.words[i] | other.words[i]);
        }
        m
    }

    /// The CPUs in this set and not in `other`.
    #[inline]
    pub fn minus(&self, other: &CpuMask) -> CpuMask {
        let mut m = *self;
        for i in bits(self.used & other.used) {
            m.put(i, self.words[i] & !other.words[i]);
        }
        m
    }

    /// Whether the two sets share a CPU.
    #[inline]
    pub fn intersects(&self, other: &CpuMask) -> bool {
        bits(self.used & other.used).any(|i| self.words[i] & other.words[i] != 0)
    }

    /// Whether every CPU of this set is in `other`.
    #[inline]
    pub fn is_subset_of(&self, other: &CpuMask) -> bool {
        if self.used > MANY {
            return self.words.iter().zip(&other.words).fold(0, |rest, (a, b)| rest | a & !b) == 0;
        }
        self.used & !other.used == 0 && bits(self.used).all(|i| self.words[i] & !other.words[i] == 0)
    }

    /// The lowest CPU of the set.
    #[inline]
    pub fn first(&self) -> Option<CpuId> {
        let i = self.used.trailing_zeros() as usize;
        self.words.get(i).map(|w| CpuId((i * 64) as u16 + w.trailing_zeros() as u16))
    }

    /// The CPU of a set that has no other.
    #[inline]
    pub fn only(&self) -> Option<CpuId> {
        let word = self.words.get(self.used.trailing_zeros() as usize)?;
        self.first().filter(|_| self.used.is_power_of_two() && word.is_power_of_two())
    }

    /// The CPUs of the set, lowest first. [`Set::at_or_above`] walks through a set that changes meanwhile.
    #[inline]
    pub fn iter(&self) -> Each<&CpuMask> {
        self.each()
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
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_mask_prints_as_the_kernel_prints_cpu_lists() {
        let m: CpuMask = [0, 1, 2, 3, 8, 10, 11, 1023].map(CpuId).into_iter().collect();
        assert_eq!(m.to_string(), "0-3,8,10-11,1023");
        assert_eq!(CpuMask::EMPTY.to_string(), "");
    }

    fn mask() -> impl Strategy<Value = (CpuMask, BTreeSet<u16>)> {
        // Few words are used, as on real machines, and some CPUs are removed again.
        let cpus =
            proptest::collection::vec((prop_oneof![Just(0u16), Just(320), Just(384), Just(960)], 0..64u16), 0..20);
        (cpus, 0..64u16).prop_map(|(cpus, gone)| {
            let mut set: BTreeSet<u16> = cpus.iter().map(|(word, bit)| word + bit).collect();
            let mut m: CpuMask = set.iter().map(|c| CpuId(*c)).collect();
            for cpu in cpus.iter().map(|(word, _)| word + gone) {
                m.clear(CpuId(cpu));
                set.remove(&cpu);
            }
            (m, set)
        })
    }

    proptest! {
        #[test]
        fn masks_agree_with_sets((a, sa) in mask(), (b, sb) in mask(), (c, _) in mask()) {
            let set = |m: CpuMask| m.iter().map(|c| c.0).collect::<BTreeSet<u16>>();
            for (m, s) in [
                (a, sa.clone()),
                (a.and(&b), &sa & &sb),
                (a.or(&b), &sa | &sb),
                (a.minus(&b), &sa - &sb),
                (a.minus(&a), BTreeSet::new()),
            ] {
                prop_assert_eq!(set(m), s.clone());
                prop_assert_eq!((m.is_empty(), m.count()), (s.is_empty(), s.len()));
                prop_assert_eq!(m.first().map(|c| c.0), s.first().copied());
                // However it was made, an equal set is an equal value.
                prop_assert_eq!(m, CpuMask::from_words(m.words()));
            }
            prop_assert_eq!(a.intersects(&b), !sa.is_disjoint(&sb));
            prop_assert_eq!(a.is_subset_of(&b), sa.is_subset(&sb));
            prop_assert_eq!(a.only().map(|c| c.0), sa.first().copied().filter(|_| sa.len() == 1));
            prop_assert!((0..1100).all(|c| a.has(CpuId(c)) == sa.contains(&c)));
            // Combined without a copy: the same sets.
            prop_assert_eq!(a.both(&b).mask(), a.and(&b));
            prop_assert_eq!(a.except(&b).mask(), a.minus(&b));
            let (lazy, made) = (a.both(&b).except(&c), a.and(&b).minus(&c));
            prop_assert!(lazy.each().eq(made.iter()));
            prop_assert_eq!((lazy.any(), lazy.lowest()), (!made.is_empty(), made.first()));
            prop_assert!((0..1100).all(|c| lazy.holds(CpuId(c)) == made.has(CpuId(c))));
            prop_assert!((0..1100).all(|c| a.at_or_above(c) == a.iter().find(|x| x.index() >= c)));
        }
    }

    #[test]
    fn a_cpu_number_out_of_range_is_ignored() {
        let mut m = CpuMask::EMPTY;
        m.set(CpuId(1024));
        assert!(m.is_empty() && !m.has(CpuId(1024)));
    }
}
