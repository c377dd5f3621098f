//! Integers and names as bytes: LEB128 varints, so that small numbers are short.

use crate::cpumask::CpuMask;
use crate::event::Name;
use crate::ids::{CpuId, MAX_CPUS, Ns, Pid, Tid};

/// Most bytes of a varint.
const VARINT: usize = 10;

/// Appends to a buffer. What is written never exceeds the bounds that the callers reserve, so nothing is allocated
/// when the buffer has that room.
pub struct Out<'a>(pub &'a mut Vec<u8>);

impl Out<'_> {
    pub fn byte(&mut self, b: u8) {
        self.0.push(b);
    }

    pub fn int(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    /// Small numbers of either sign are short.
    pub fn signed(&mut self, n: i64) {
        self.int((n << 1 ^ n >> 63) as u64);
    }

    /// A time near `now`.
    pub fn time(&mut self, now: Ns, t: Ns) {
        self.signed(t.wrapping_sub(now) as i64);
    }

    pub fn tid(&mut self, tid: Tid) {
        self.signed(tid.0.into());
    }

    pub fn pid(&mut self, pid: Pid) {
        self.signed(pid.0.into());
    }

    pub fn cpu(&mut self, cpu: CpuId) {
        self.int(cpu.0.into());
    }

    pub fn name(&mut self, name: &Name) {
        self.text(name.bytes());
    }

    pub fn text(&mut self, bytes: &[u8]) {
        self.int(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// 0 = every CPU, else one more than the number of words up to the last that is not 0, and the words.
    pub fn mask(&mut self, mask: &CpuMask) {
        if *mask == CpuMask::ALL {
            self.byte(0);
            return;
        }
        let words = mask.words();
        let n = words.iter().rposition(|w| *w != 0).map_or(0, |i| i + 1);
        self.byte(n as u8 + 1);
        words[..n].iter().for_each(|w| self.0.extend_from_slice(&w.to_le_bytes()));
    }
}

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bad(pub &'static str);

/// Takes from a slice; nothing that it finds there makes it panic or allocate.
pub struct In<'a>(pub &'a [u8]);

impl<'a> In<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], Bad> {
        let (bytes, rest) = self.0.split_at_checked(n).ok_or(Bad("a record is too short"))?;
        self.0 = rest;
        Ok(bytes)
    }

    pub fn byte(&mut self) -> Result<u8, Bad> {
        Ok(self.bytes(1)?[0])
    }

    pub fn int(&mut self) -> Result<u64, Bad> {
        let mut n = 0u64;
        for i in 0..VARINT {
            let b = self.byte()?;
            let bits = u64::from(b & 0x7f);
            if i == VARINT - 1 && bits > 1 {
                break;
            }
            n |= bits << (7 * i);
            if b & 0x80 == 0 {
                return Ok(n);
            }
        }
        Err(Bad("a number has more than 64 bits"))
    }

    pub fn signed(&mut self) -> Result<i64, Bad> {
        let n = self.int()?;
        Ok((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    pub fn time(&mut self, now: Ns) -> Result<Ns, Bad> {
        Ok(now.wrapping_add(self.signed()? as u64))
    }

    /// A number that fits its type.
    pub fn small<T: TryFrom<u64>>(&mut self) -> Result<T, Bad> {
        T::try_from(self.int()?).map_err(|_| Bad("a number is out of range"))
    }

    pub fn tid(&mut self) -> Result<Tid, Bad> {
        i32::try_from(self.signed()?).map(Tid).map_err(|_| Bad("a thread id is out of range"))
    }

    pub fn pid(&mut self) -> Result<Pid, Bad> {
        i32::try_from(self.signed()?).map(Pid).map_err(|_| Bad("a process id is out of range"))
    }

    pub fn cpu(&mut self) -> Result<CpuId, Bad> {
        self.small().map(CpuId)
    }

    pub fn name(&mut self) -> Result<Name, Bad> {
        Ok(Name::new(self.text(31)?))
    }

    /// At most `most` bytes.
    pub fn text(&mut self, most: usize) -> Result<&'a [u8], Bad> {
        let n = self.small::<usize>()?;
        if n > most { Err(Bad("a text is too long")) } else { self.bytes(n) }
    }

    pub fn mask(&mut self) -> Result<CpuMask, Bad> {
        let n = match self.byte()? {
            0 => return Ok(CpuMask::ALL),
            n => usize::from(n) - 1,
        };
        let mut words = [0; MAX_CPUS / 64];
        if n > words.len() {
            return Err(Bad("a mask has too many words"));
        }
        for (word, bytes) in words.iter_mut().zip(self.bytes(n * 8)?.chunks_exact(8)) {
            *word = bytes.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b));
        }
        Ok(CpuMask::from_words(&words))
    }
}
