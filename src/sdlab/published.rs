//! `sdlab published`: the fleet for which soft domains were published, simulated, beside the published figures.

use super::sim::{self, Plan};
use clap::Args;
use soft_domain::host::exit::{Exit, Failure};
use soft_domain::host::journal::plain;
use soft_domain::ids::{MS, Ns};
use soft_domain::policies;
use soft_domain::service::Pattern;
use soft_domain::sim::cost::Costs;
use soft_domain::sim::results::{Line, Results};
use soft_domain::sim::units::{aligned, fixed, permille};
use soft_domain::sim::{presets, workload};
use soft_domain::soft_domain::Settings;

/// The published machine as far as it is known: 384 CPUs on 4 nodes. LLCs of 16 CPUs are a guess.
const SHAPE: &str = "nodes=4,llcs=6,cores=16,smt=1";

/// 384 instances and as many clients, as published; the rest are the workload's defaults.
const FLEET: &str = "fleet,instances=384,clients=384";

/// Simulated time unless told otherwise, ns.
const DURATION: Ns = 2000 * MS;

/// Policies to stand for the kernel's default, the best first.
const BASELINES: [&str; 2] = ["default-like", "fifo"];

/// What the model leaves out; under the table.
const LEFT_OUT: &str = "\
Left out, so that neither the size nor the sign of a simulated change says anything about that machine:
- The published default is the kernel's own scheduler. Here both policies pay for the way to user space and back:
  one thread decides for all 384 CPUs. The baseline is at best roughly the kernel's.
- The machine's caches and LLC sizes, its memory bandwidth, what neighbours evict, frequency: unknown or not modelled.
- Requests one by one: a turn of a server's event loop stands for 400 of 2.5 us, GET and SET are the same, and a
  response time is that of a turn, without network.
- Interrupts, kernel threads and everything else that runs on a real machine.
No cost and no parameter was chosen to meet the published figures (--cost changes any, sdlab sim --list-costs shows
their sources).";

/// Options of `sdlab published`.
#[derive(Debug, Args)]
pub struct Options {
    /// The policy that stands for the kernel's default [default: default-like if there is one, else fifo]
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,

    /// Simulated time, as in 10s or 500ms [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = sim::duration)]
    duration: Option<Ns>,

    /// Of all random numbers: the same seed gives the same bytes
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Set a cost; repeatable; see sdlab sim --list-costs
    #[arg(long = "cost", value_name = "NAME=VALUE")]
    costs: Vec<String>,
}

/// One column of the table.
#[derive(Clone, Copy)]
struct Figures {
    /// Requests per second, all instances together.
    requests: u64,
    /// Response times, us: mean, p50, p95, p99.
    response: [u64; 4],
}

/// As published (issue 3): default, soft domains.
const GET: [Figures; 2] = [
    Figures { requests: 127_230_000, response: [1486, 1310, 2523, 5845] },
    Figures { requests: 136_670_000, response: [1391, 1193, 2363, 4163] },
];
const SET: [Figures; 2] = [
    Figures { requests: 126_560_000, response: [1497, 1308, 2664, 6531] },
    Figures { requests: 136_860_000, response: [1392, 1169, 2446, 4696] },
];

/// Simulates the fleet twice and prints the table.
pub fn run(options: &Options) -> Result<(), Failure> {
    let known = |name: &&str| policies::NAMES.iter().any(|(n, _)| n == name);
    let baseline = options.baseline.as_deref().or_else(|| BASELINES.into_iter().find(known)).unwrap_or(BASELINES[1]);
    let plan = plan(options)?;
    let duration = options.duration.unwrap_or(DURATION);
    sim::build(baseline, &plan.topology, &plan.settings)?;
    let runs = [
        sim::simulate(&plan, baseline, options.seed, duration)?,
        sim::simulate(&plan, policies::NAMES[0].0, options.seed, duration)?,
    ];
    plain(format_args!(
        "{FLEET} on {SHAPE} ({} CPUs), {} s, seed {}\n",
        plan.topology.nr_cpus(),
        fixed(duration, 1000 * MS, 3),
        options.seed
    ));
    plain(table(baseline, &runs).trim_end());
    plain(format_args!("\n{LEFT_OUT}"));
    [baseline, policies::NAMES[0].0].iter().zip(&runs).try_for_each(|(name, r)| sim::broken(name, r))
}

fn plan(options: &Options) -> Result<Plan, Failure> {
    let usage = |text: String| Failure::new(Exit::Usage, text);
    let mut costs = Costs::default();
    for text in &options.costs {
        costs.set(text).map_err(|e| usage(format!("--cost: {e}")))?;
    }
    let topology = presets::topology(SHAPE).map_err(usage)?;
    let workload = workload::parse(FLEET, &topology).map_err(usage)?;
    let services = workload.services.iter().filter_map(|s| Pattern::new(s)).collect();
    let settings = Settings { services, ..Settings::default() };
    Ok(Plan { topology, title: SHAPE.into(), costs, settings, workload })
}

/// Servers and clients of a run: the fleet's two services.
fn line<'a>(r: &'a Results, service: &str) -> Option<&'a Line> {
    r.services.iter().find(|l| l.name == service)
}

fn figures(r: &Results) -> Figures {
    let Some(clients) = line(r, "client") else { return Figures { requests: 0, response: [0; 4] } };
    let times = &clients.tally.response;
    let us = |ns: Ns| ns / 1000;
    Figures {
        requests: Line::per_second(clients.tally.requests, r.duration),
        response: [
            us(times.mean()),
            us(times.at_permille(500)),
            us(times.at_permille(950)),
            us(times.at_permille(990)),
        ],
    }
}

/// By how much `new` differs from `old`, as a signed percentage.
fn change(old: u64, new: u64) -> String {
    let sign = if new < old { '-' } else { '+' };
    permille(new.abs_diff(old), old).map_or_else(|| "-".into(), |p| format!("{sign}{}%", fixed(p, 10, 1)))
}

fn table(baseline: &str, runs: &[Results; 2]) -> String {
    let pairs = [GET, SET, [figures(&runs[0]), figures(&runs[1])]];
    let mut head = vec![String::new()];
    for (of, name) in [("GET", "default"), ("SET", "default"), ("here", baseline)] {
        head.extend([format!("{of}: {name}"), "soft-domain".into(), "change".into()]);
    }
    let mut rows = vec![head];
    let mut row = |name: &str, of: &dyn Fn(&Figures) -> u64, show: &dyn Fn(u64) -> String| {
        let cells = pairs.iter().flat_map(|[old, new]| {
            let (old, new) = (of(old), of(new));
            [show(old), show(new), change(old, new)]
        });
        rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
    };
    row("requests/s, M", &|f| f.requests, &|n| fixed(n, 1_000_000, 2));
    for (i, name) in ["response avg, ms", "p50", "p95", "p99"].into_iter().enumerate() {
        row(name, &|f| f.response[i], &|us| fixed(us, 1000, 3));
    }
    // Nothing was published of these.
    let mut here = |name: &str, of: &dyn Fn(&Results) -> String| {
        let mut cells = vec![name.to_owned()];
        cells.extend(std::iter::repeat_n("-".to_owned(), 6));
        cells.extend(runs.iter().map(of));
        rows.push(cells);
    };
    let moves = |r: &Results, at: usize| line(r, "valkey-server").map_or(0, |l| l.tally.moves[at]).to_string();
    let percent = |p: Option<u64>| p.map_or_else(|| "-".into(), |p| format!("{}%", fixed(p, 10, 1)));
    here("server moves in the LLC", &|r| {
        line(r, "valkey-server").map_or(0, |l| l.tally.moves[..3].iter().sum()).to_string()
    });
    here("to other LLCs", &|r| moves(r, 3));
    here("to other nodes", &|r| moves(r, 4));
    here("CPUs idle", &|r| percent(permille(r.totals.idle_ns, r.duration * r.cpus)));
    here("scheduler, of one CPU", &|r| percent(permille(r.totals.scheduler_ns, r.duration)));
    aligned(&rows)
}
