//! CPUs that several masks have in common, looked at without making a mask of them: a mask is 16 words to write and to
//! copy, while most questions are answered by one word of each.

use super::{CpuMask, WORDS};
use crate::ids::CpuId;

/// A set of CPUs that is told word by word: a mask, or masks combined.
pub trait Set: Copy {
    /// The CPUs of word `i`.
    fn word(self, i: usize) -> u64;

    /// Bit i: word i may have a CPU.
    fn used(self) -> u16;

    /// The CPUs in both.
    #[inline]
    fn both<B: Set>(self, other: B) -> Both<Self, B> {
        Both(self, other)
    }

    /// The CPUs in this set and not in `other`.
    #[inline]
    fn except<'a>(self, other: &'a CpuMask) -> Except<'a, Self> {
        Except(self, other)
    }

    /// Whether `cpu` is in the set.
    #[inline]
    fn holds(self, cpu: CpuId) -> bool {
        cpu.index() / 64 < WORDS && self.word(cpu.index() / 64) >> (cpu.index() % 64) & 1 == 1
    }

    /// Whether the set has a CPU.
    #[inline]
    fn any(self) -> bool {
        self.lowest().is_some()
    }

    /// The lowest CPU of the set.
    #[inline]
    fn lowest(self) -> Option<CpuId> {
        self.each().next()
    }

    /// The lowest CPU that is at or above `from`: to walk through a set that changes meanwhile.
    #[inline]
    fn at_or_above(self, from: usize) -> Option<CpuId> {
        let i = from / 64;
        if i >= WORDS {
            return None;
        }
        let rest = u64::MAX << (from % 64);
        Each { set: self, used: self.used() & (!1 << i), base: (i * 64) as u16, word: self.word(i) & rest }.next()
    }

    /// The CPUs of the set, lowest first.
    #[inline]
    fn each(self) -> Each<Self> {
        Each { set: self, used: self.used(), base: 0, word: 0 }
    }

    /// The set as a mask.
    #[inline]
    fn mask(self) -> CpuMask {
        let mut m = CpuMask::EMPTY;
        let mut used = self.used();
        while used != 0 {
            let i = used.trailing_zeros() as usize;
            used &= used - 1;
            m.put(i, self.word(i));
        }
        m
    }
}

impl Set for &CpuMask {
    #[inline]
    fn word(self, i: usize) -> u64 {
        self.words[i % WORDS]
    }

    #[inline]
    fn used(self) -> u16 {
        self.used
    }
}

/// See [`Set::both`].
#[derive(Clone, Copy, Debug)]
pub struct Both<A, B>(A, B);

impl<A: Set, B: Set> Set for Both<A, B> {
    #[inline]
    fn word(self, i: usize) -> u64 {
        self.0.word(i) & self.1.word(i)
    }

    #[inline]
    fn used(self) -> u16 {
        self.0.used() & self.1.used()
    }
}

/// See [`Set::except`].
#[derive(Clone, Copy, Debug)]
pub struct Except<'a, A>(A, &'a CpuMask);

impl<A: Set> Set for Except<'_, A> {
    #[inline]
    fn word(self, i: usize) -> u64 {
        self.0.word(i) & !self.1.word(i)
    }

    #[inline]
    fn used(self) -> u16 {
        self.0.used()
    }
}

/// See [`Set::each`].
#[derive(Clone, Copy, Debug)]
pub struct Each<S> {
    set: S,
    /// Words that are still to come.
    used: u16,
    /// First CPU number of the word at hand.
    base: u16,
    /// What is left of it.
    word: u64,
}

impl<S: Set> Iterator for Each<S> {
    type Item = CpuId;

    #[inline]
    fn next(&mut self) -> Option<CpuId> {
        while self.word == 0 {
            if self.used == 0 {
                return None;
            }
            let i = self.used.trailing_zeros() as usize;
            self.used &= self.used - 1;
            (self.base, self.word) = ((i * 64) as u16, self.set.word(i));
        }
        let cpu = CpuId(self.base + self.word.trailing_zeros() as u16);
        self.word &= self.word - 1;
        Some(cpu)
    }
}
