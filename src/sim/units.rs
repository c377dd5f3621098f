//! Times and counts on the command line, and numbers in tables. Integers only.

use crate::ids::{MS, Ns, US};

/// The longest time that can be given, ns: an hour.
pub const LONGEST: Ns = 3_600_000 * MS;

/// A time with its unit: `10s`, `2.5ms`, `800us`, `50ns`; a bare `0` too.
pub fn time(text: &str) -> Option<Ns> {
    if text == "0" {
        return Some(0);
    }
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let unit = match unit {
        "ns" => 1,
        "us" => US,
        "ms" => MS,
        "s" => 1000 * MS,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |s: &str| !s.is_empty() && s.len() <= 9 && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let scale = 10u64.pow(fraction.len() as u32);
    let ns = whole.parse::<u64>().ok()?.checked_mul(unit)? + fraction.parse::<u64>().ok()? * unit / scale;
    (ns <= LONGEST).then_some(ns)
}

/// `value / unit` with `digits` decimals, cut off.
pub fn fixed(value: u64, unit: u64, digits: u32) -> String {
    let scale = 10u64.pow(digits);
    let scaled = u128::from(value) * u128::from(scale) / u128::from(unit.max(1));
    let (whole, part) = (scaled / u128::from(scale), scaled % u128::from(scale));
    if digits == 0 { whole.to_string() } else { format!("{whole}.{part:0width$}", width = digits as usize) }
}

/// `part` of `whole` in permille; `None` if there is no whole.
pub fn permille(part: u64, whole: u64) -> Option<u64> {
    (whole > 0).then(|| (u128::from(part) * 1000 / u128::from(whole)) as u64)
}

/// Columns that line up: the first to the left, the others to the right.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (c, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[c].saturating_sub(cell.chars().count()));
            let gap = if c == 0 { "" } else { "  " };
            line += &if c == 0 { format!("{cell}{pad}") } else { format!("{gap}{pad}{cell}") };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_a_unit_and_may_have_decimals() {
        let good = [("0", 0), ("10s", 10_000 * MS), ("2.5ms", 2_500 * US), ("1.000001s", 1_000 * MS + US), ("7ns", 7)];
        for (text, ns) in good {
            assert_eq!(time(text), Some(ns), "{text}");
        }
        for text in ["", "5", "ms", "-1ms", "1.ms", "1e3s", "2h", "99999s", "9999999999s", "1.5.2s"] {
            assert_eq!(time(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_print_without_floats() {
        assert_eq!(fixed(123_456, 1000, 1), "123.4");
        assert_eq!(fixed(5, 1000, 2), "0.00");
        assert_eq!(fixed(u64::MAX, 1, 0), u64::MAX.to_string());
        assert_eq!(permille(1, 0), None);
    }
}
