//! `--limit NAME=VALUE`: the policy's thresholds by name, with units.

use crate::ids::{MS, Ns, US};
use crate::limits::{FULL_LOAD, Limits};
use std::fmt::Write;

/// Where a threshold lies.
#[derive(Clone, Copy)]
enum Field {
    Time(fn(&mut Limits) -> &mut Ns),
    Load(fn(&mut Limits) -> &mut u32),
}

/// Longest time that makes sense for any of them: the kernel ejects a scheduler that lets a task wait for 5 s.
const LONGEST: Ns = 60_000 * MS;

/// Every threshold: name, where, least value, meaning.
const LIMITS: &[(&str, Field, Ns, &str)] = &[
    ("slice", Field::Time(|l| &mut l.slice_ns), 50 * US, "time slice while few tasks wait"),
    ("slice-min", Field::Time(|l| &mut l.slice_min_ns), 50 * US, "shortest slice, when many tasks wait for one LLC"),
    ("lag", Field::Time(|l| &mut l.lag_ns), 0, "credit that a sleeper keeps at most against those that ran"),
    ("age-bound", Field::Time(|l| &mut l.age_bound_ns), 10 * MS, "a task that waited longer goes before all others"),
    ("load-half-life", Field::Time(|l| &mut l.load_half_life_ns), MS, "how fast the load of a CPU is forgotten"),
    (
        "home-margin",
        Field::Load(|l| &mut l.home_margin),
        0,
        "a home moves to a CPU of its LLC that is this much less loaded..",
    ),
    (
        "home-crowded-time",
        Field::Time(|l| &mut l.home_crowded_ns),
        0,
        "..and has been for this long; at once if by twice as much",
    ),
    ("home-settle", Field::Time(|l| &mut l.home_settle_ns), 0, "a home stays this long before it moves again"),
    (
        "spill-llc",
        Field::Time(|l| &mut l.spill_llc_ns),
        0,
        "wait before an idle CPU of another LLC may take a task; 0 = two slices",
    ),
    ("spill-node", Field::Time(|l| &mut l.spill_node_ns), 0, "wait before an idle CPU of another node may take a task"),
    (
        "llc-left",
        Field::Load(|l| &mut l.llc_left),
        0,
        "an instance leaves an LLC that long-running strangers have 5/8 of and that is idle for at most this..",
    ),
    ("llc-taken-time", Field::Time(|l| &mut l.llc_taken_ns), 0, "..for this long"),
    ("llc-free", Field::Load(|l| &mut l.llc_free), 0, "it returns when its first LLC has had a CPU below this load.."),
    ("llc-free-time", Field::Time(|l| &mut l.llc_free_ns), 0, "..for this long"),
];

/// One `NAME=VALUE`, checked.
#[derive(Clone, Copy, Debug)]
pub struct LimitSetting {
    index: usize,
    value: u64,
}

impl LimitSetting {
    /// Sets it.
    pub fn apply(&self, limits: &mut Limits) {
        match LIMITS[self.index].1 {
            Field::Time(at) => *at(limits) = self.value,
            Field::Load(at) => *at(limits) = self.value as u32,
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        LIMITS[self.index].0
    }
}

/// Parses `NAME=VALUE`.
pub fn limit_setting(text: &str) -> Result<LimitSetting, String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, as in home-margin=20%")?;
    let index = LIMITS
        .iter()
        .position(|l| l.0 == name)
        .ok_or_else(|| format!("there is no limit '{name}': --help-limits lists them"))?;
    let (_, field, least, _) = LIMITS[index];
    let value = match field {
        Field::Time(_) => time(value).filter(|ns| (least..=LONGEST).contains(ns)).ok_or_else(|| {
            format!("give {name} a time with its unit, from {} to {}: 500us, 20ms, 1.5s", show(least), show(LONGEST))
        })?,
        Field::Load(_) => load(value).ok_or_else(|| format!("give {name} a share of one CPU from 0% to 100%"))?,
    };
    Ok(LimitSetting { index, value })
}

/// Those that differ from their defaults, but for the slices, which are shown anyway.
pub fn changed(limits: &Limits) -> Vec<(&'static str, String)> {
    LIMITS[2..]
        .iter()
        .map(|(name, field, ..)| (*name, value(*field, limits), value(*field, &Limits::default())))
        .filter(|(_, now, default)| now != default)
        .map(|(name, now, _)| (name, now))
        .collect()
}

/// All of them with defaults and meanings.
pub fn table() -> String {
    let mut text = String::from(
        "Thresholds of the policy, set with --limit NAME=VALUE. Times take us, ms or s; loads are shares of one CPU.\n\n",
    );
    let _ = writeln!(text, "  {:<15} {:>8}  meaning", "name", "default");
    for (name, field, _, meaning) in LIMITS {
        let _ = writeln!(text, "  {name:<15} {:>8}  {meaning}", value(*field, &Limits::default()));
    }
    text
}

fn value(field: Field, limits: &Limits) -> String {
    let mut limits = *limits;
    match field {
        Field::Time(at) => show(*at(&mut limits)),
        Field::Load(at) => {
            let load = u64::from(*at(&mut limits));
            format!("{}%", (load * 100 + u64::from(FULL_LOAD) / 2) / u64::from(FULL_LOAD))
        }
    }
}

fn show(ns: Ns) -> String {
    const S: Ns = 1000 * MS;
    match ns {
        0 => "0".into(),
        _ if ns.is_multiple_of(S) => format!("{}s", ns / S),
        _ if ns.is_multiple_of(MS) => format!("{}ms", ns / MS),
        _ if ns.is_multiple_of(US) => format!("{}us", ns / US),
        _ => format!("{ns}ns"),
    }
}

/// A time in ns. Without a unit only 0 is clear.
fn time(text: &str) -> Option<Ns> {
    if text == "0" {
        return Some(0);
    }
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let unit = match unit {
        "us" => US,
        "ms" => MS,
        "s" => 1000 * MS,
        _ => return None,
    };
    let ns = number.parse::<f64>().ok()? * unit as f64;
    (ns.is_finite() && (0.0..=LONGEST as f64).contains(&ns)).then_some(ns.round() as Ns)
}

/// A load in 1/1024 of a CPU.
fn load(text: &str) -> Option<u64> {
    let percent: f64 = text.strip_suffix('%')?.parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some((percent * f64::from(FULL_LOAD) / 100.0).round() as u64)
}
