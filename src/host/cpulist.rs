//! The kernel's two ways to write a set of CPUs: lists (`0-3,8`) and hexadecimal masks (`ff,ffffffff`).
//!
//! Pure: sysfs, `/proc/PID/status` and the command line all come through here. CPU numbers at or above
//! [`MAX_CPUS`] are well-formed but dropped, because `possible` lists and wide masks name many that do not exist.

use crate::cpumask::CpuMask;
use crate::ids::{CpuId, MAX_CPUS};
use std::fmt;

/// Text that is no CPU list or mask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuListError {
    part: String,
    want: &'static str,
}

impl CpuListError {
    fn new(part: &str, want: &'static str) -> Self {
        CpuListError { part: part.chars().take(24).collect(), want }
    }
}

impl fmt::Display for CpuListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' {}", self.part.escape_debug(), self.want)
    }
}

impl std::error::Error for CpuListError {}

const LIST_FORM: &str = "is not part of a CPU list (such as 0-3,8)";
const MASK_FORM: &str = "is not part of a hexadecimal CPU mask (such as ff,ffffffff)";
const BACKWARDS: &str = "ends before it starts";
const ZERO_STEP: &str = "has a step of zero";

/// Reads a list: numbers and ranges with commas between them, as `0-3,8`. A range may have a step, as taskset's
/// `0-6:2` (every second CPU) or the kernel's `0-15:2/8` (the first two of each eight). White space and NULs around
/// the text are ignored, and no text at all is the empty set, which is how the kernel writes it.
pub fn parse_list(text: &str) -> Result<CpuMask, CpuListError> {
    let mut mask = CpuMask::EMPTY;
    let text = trim(text);
    if text.is_empty() {
        return Ok(mask);
    }
    for part in text.split(',').map(str::trim) {
        let err = || CpuListError::new(part, LIST_FORM);
        let (range, step) = match part.split_once(':') {
            Some((range, step)) => (range, Some(step)),
            None => (part, None),
        };
        let (from, to) = match range.split_once('-') {
            Some((from, to)) => (number(from).ok_or_else(err)?, number(to).ok_or_else(err)?),
            None if step.is_some() => return Err(err()),
            None => number(range).map(|n| (n, n)).ok_or_else(err)?,
        };
        let (used, group) = match step.map(|s| s.split_once('/').unwrap_or(("1", s))) {
            Some((used, group)) => (number(used).ok_or_else(err)?, number(group).ok_or_else(err)?),
            None => (1, 1),
        };
        if group == 0 || used == 0 {
            return Err(CpuListError::new(part, ZERO_STEP));
        }
        if to < from {
            return Err(CpuListError::new(part, BACKWARDS));
        }
        for n in from..=to.min(MAX_CPUS as u32) {
            if (n - from) % group < used {
                mask.set(CpuId(n as u16));
            }
        }
    }
    Ok(mask)
}

/// Reads a mask: hexadecimal words of 32 CPUs with commas between them, highest first, as `ff,ffffffff`. One long
/// number and a leading `0x` are accepted, as people write them. An empty text is an error.
pub fn parse_mask(text: &str) -> Result<CpuMask, CpuListError> {
    let text = trim(text);
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let words: Vec<&str> = digits.split(',').collect();
    let mut mask = CpuMask::EMPTY;
    let mut base = 0;
    for word in words.iter().rev() {
        let bad = word.is_empty() || (words.len() > 1 && word.len() > 8);
        if bad || !word.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(CpuListError::new(word, MASK_FORM));
        }
        for (i, digit) in word.chars().rev().filter_map(|c| c.to_digit(16)).enumerate() {
            for bit in (0..4).filter(|bit| digit >> bit & 1 == 1) {
                // Beyond u16 is beyond MAX_CPUS too.
                if let Ok(n) = u16::try_from(base + 4 * i + bit) {
                    mask.set(CpuId(n));
                }
            }
        }
        base += 32;
    }
    Ok(mask)
}

fn trim(text: &str) -> &str {
    // Some kernels end sysfs masks with a NUL.
    text.trim_matches(|c: char| c.is_whitespace() || c == '\0')
}

fn number(text: &str) -> Option<u32> {
    // u32's own parser would accept a sign.
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cpus(cpus: &[u16]) -> CpuMask {
        cpus.iter().copied().map(CpuId).collect()
    }

    #[test]
    fn lists_as_the_kernel_writes_them() {
        assert_eq!(parse_list("0-3,8\n"), Ok(cpus(&[0, 1, 2, 3, 8])));
        assert_eq!(parse_list("5"), Ok(cpus(&[5])));
        assert_eq!(parse_list("\n"), Ok(CpuMask::EMPTY));
        assert_eq!(parse_list("0,2,4\n\0"), Ok(cpus(&[0, 2, 4])));
    }

    #[test]
    fn lists_with_steps() {
        assert_eq!(parse_list("0-6:2"), Ok(cpus(&[0, 2, 4, 6])));
        assert_eq!(parse_list("8-15:2/4"), Ok(cpus(&[8, 9, 12, 13])));
    }

    #[test]
    fn masks_as_the_kernel_writes_them() {
        assert_eq!(parse_mask("fffff\n"), parse_list("0-19"));
        assert_eq!(parse_mask("0000,0000003f"), parse_list("0-5"));
        assert_eq!(parse_mask("fc00,00000000"), parse_list("42-47"));
        assert_eq!(parse_mask("00000000,ffffffff,00000000\0"), parse_list("32-63"));
        assert_eq!(parse_mask("0x100000001"), parse_list("0,32"));
        assert_eq!(parse_mask("0"), Ok(CpuMask::EMPTY));
    }

    #[test]
    fn what_is_neither_is_refused_with_the_part_that_is_wrong() {
        for (text, part) in [("0-3,x", "x"), ("-1", "-1"), ("3-", "3-"), ("1,,2", ""), ("+1", "+1"), ("4:2", "4:2")] {
            let e = parse_list(text).expect_err(text).to_string();
            assert_eq!(e, format!("'{part}' is not part of a CPU list (such as 0-3,8)"));
        }
        assert_eq!(parse_list("7-3").expect_err("backwards").to_string(), "'7-3' ends before it starts");
        assert_eq!(parse_list("0-3:0").expect_err("step").to_string(), "'0-3:0' has a step of zero");
        for text in ["", "xyz", "ff,", "123456789,00000000", "-1"] {
            assert!(parse_mask(text).is_err(), "{text:?} was taken as a mask");
        }
    }

    #[test]
    fn cpus_that_we_cannot_address_are_dropped() {
        assert_eq!(parse_list("1020-4294967295"), parse_list("1020-1023"));
        assert_eq!(parse_list("4000000000"), Ok(CpuMask::EMPTY));
        assert_eq!(parse_mask(&format!("f{}", "0".repeat(256))), Ok(CpuMask::EMPTY));
        let long = "f".repeat(100_000);
        assert_eq!(parse_mask(&long), Ok(CpuMask::ALL));
    }

    proptest! {
        #[test]
        fn what_a_mask_prints_is_read_back(picked in proptest::collection::btree_set(0u16..1024, 0..200)) {
            let mask: CpuMask = picked.into_iter().map(CpuId).collect();
            prop_assert_eq!(parse_list(&mask.to_string()), Ok(mask));
            let mut words: Vec<String> = vec![];
            for w in mask.words().iter().rev() {
                words.push(format!("{:08x}", w >> 32));
                words.push(format!("{:08x}", w & 0xffff_ffff));
            }
            prop_assert_eq!(parse_mask(&words.join(",")), Ok(mask));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}", near in "[0-9a-fx,:/ -]{0,24}") {
            for t in [&text, &near] {
                let _ = (parse_list(t), parse_mask(t));
            }
        }
    }
}
