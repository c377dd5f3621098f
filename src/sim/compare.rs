//! Policies side by side: the median over some seeds, with the smallest and the largest.

use super::results::{Line, Results};
use super::units::{aligned, fixed, permille};

/// All runs of one policy.
pub struct Column {
    /// The policy.
    pub policy: String,
    /// One per seed.
    pub runs: Vec<Results>,
}

/// How a figure is shown.
#[derive(Clone, Copy)]
enum Unit {
    Plain,
    Micros,
    Percent,
    Ratio,
    Millis,
}

fn show(value: u64, unit: Unit) -> String {
    match unit {
        Unit::Plain => value.to_string(),
        Unit::Micros => fixed(value, 1000, 1),
        Unit::Percent => format!("{}%", fixed(value, 10, 1)),
        Unit::Ratio => fixed(value, 1000, 2),
        Unit::Millis => fixed(value, 1_000_000, 1),
    }
}

/// `median (least-most)`; `-` where no run has the figure.
fn cell(values: impl Iterator<Item = Option<u64>>, unit: Unit) -> String {
    let mut v: Vec<u64> = values.flatten().collect();
    v.sort_unstable();
    let (Some(least), Some(most)) = (v.first(), v.last()) else { return "-".into() };
    // Of an even number the lower of the two in the middle.
    let median = v[(v.len() - 1) / 2];
    if v.len() == 1 {
        return show(median, unit);
    }
    format!("{} ({}-{})", show(median, unit), show(*least, unit), show(*most, unit))
}

type Of<T> = fn(&T, &Results) -> Option<u64>;
type OfRun = fn(&Results) -> Option<u64>;

const BY_SERVICE: [(&str, Unit, Of<Line>); 12] = [
    ("requests/s", Unit::Plain, |l, r| (l.tally.requests > 0).then(|| Line::per_second(l.tally.requests, r.duration))),
    ("CPU, ms", Unit::Millis, |l, _| Some(l.tally.cpu_ns)),
    ("latency p50, us", Unit::Micros, |l, _| (l.tally.wakeups > 0).then(|| l.tally.latency.at_permille(500))),
    ("latency p99, us", Unit::Micros, |l, _| (l.tally.wakeups > 0).then(|| l.tally.latency.at_permille(990))),
    ("latency max, us", Unit::Micros, |l, _| (l.tally.wakeups > 0).then(|| l.tally.latency.max())),
    ("response p50, us", Unit::Micros, |l, _| {
        (l.tally.response.count() > 0).then(|| l.tally.response.at_permille(500))
    }),
    ("response p99, us", Unit::Micros, |l, _| {
        (l.tally.response.count() > 0).then(|| l.tally.response.at_permille(990))
    }),
    ("moves in the LLC", Unit::Plain, |l, _| Some(l.tally.moves[..3].iter().sum())),
    ("moves across LLCs", Unit::Plain, |l, _| Some(l.tally.moves[3])),
    ("moves across nodes", Unit::Plain, |l, _| Some(l.tally.moves[4])),
    ("at home", Unit::Percent, |l, _| l.at_home()),
    ("fairness", Unit::Ratio, |l, _| l.fairness()),
];

const BY_MACHINE: [(&str, Unit, OfRun); 6] = [
    ("CPUs idle", Unit::Percent, |r| permille(r.totals.idle_ns, r.duration * r.cpus)),
    ("idle while work waited", Unit::Percent, |r| permille(r.totals.idle_while_waiting_ns, r.duration * r.cpus)),
    ("scheduler, of one CPU", Unit::Percent, |r| permille(r.totals.scheduler_ns, r.duration)),
    ("decisions/s", Unit::Plain, |r| Some(Line::per_second(r.totals.decisions, r.duration))),
    ("congested", Unit::Plain, |r| Some(r.totals.congested)),
    ("rules broken", Unit::Plain, |r| Some(r.faults.len() as u64)),
];

/// The table: a row per figure, a column per policy.
pub fn text(columns: &[Column]) -> String {
    let mut rows = vec![vec![String::new()]];
    rows[0].extend(columns.iter().map(|c| c.policy.clone()));
    let names: Vec<&str> = columns
        .first()
        .and_then(|c| c.runs.first())
        .map_or_else(Vec::new, |r| r.services.iter().map(|l| l.name.as_str()).collect());
    for name in names {
        rows.push(vec![name.to_owned()]);
        for (figure, unit, of) in BY_SERVICE {
            let mut row = vec![format!("  {figure}")];
            row.extend(columns.iter().map(|c| {
                let line = |r: &Results| r.services.iter().find(|l| l.name == name).and_then(|l| of(l, r));
                cell(c.runs.iter().map(line), unit)
            }));
            if row[1..].iter().any(|c| c != "-") {
                rows.push(row);
            }
        }
    }
    rows.push(vec!["machine".to_owned()]);
    for (figure, unit, of) in BY_MACHINE {
        let mut row = vec![format!("  {figure}")];
        row.extend(columns.iter().map(|c| cell(c.runs.iter().map(of), unit)));
        rows.push(row);
    }
    aligned(&rows)
}
