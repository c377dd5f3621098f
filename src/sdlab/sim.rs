//! `sdlab sim`.

use clap::Args;
use soft_domain::host::exit::{Exit, Failure};
use soft_domain::host::journal::plain;
use soft_domain::host::sysfs::read_topology;
use soft_domain::ids::{MS, Ns};
use soft_domain::options::{self, Parsed};
use soft_domain::policies;
use soft_domain::sim::compare::{self, Column};
use soft_domain::sim::cost::Costs;
use soft_domain::sim::program::Workload;
use soft_domain::sim::report::{self, Title};
use soft_domain::sim::results::Results;
use soft_domain::sim::{Machine, Setup, json, presets, units, workload};
use soft_domain::soft_domain::Settings;
use soft_domain::topology::Topology;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Instant;

/// Simulated time if neither the user nor the workload says otherwise, ns.
const DURATION: Ns = 10_000 * MS;

/// More seeds than anybody waits for.
const MOST_SEEDS: u64 = 1000;

/// Options of `sdlab sim`.
#[derive(Debug, Args)]
pub struct Options {
    /// The machine: a shape or a preset, see below
    #[arg(long, value_name = "SHAPE", default_value = "nodes=2,llcs=2,cores=4,smt=1")]
    topology: String,

    /// The machine: a copy of another machine's sysfs
    #[arg(long, value_name = "DIR", conflicts_with = "topology")]
    topology_from: Option<PathBuf>,

    /// The policy; see the list below
    #[arg(long, value_name = "NAME", default_value = policies::NAMES[0].0, conflicts_with = "compare")]
    policy: String,

    /// Policies side by side, each over --seeds seeds from --seed on
    #[arg(long, value_name = "A,B,..", value_delimiter = ',')]
    compare: Vec<String>,

    /// What runs: a built-in workload with its keys, or an rt-app file; see --list-workloads
    #[arg(long, value_name = "NAME[,KEY=VALUE..]", default_value = "fleet")]
    workload: String,

    /// Simulated time, as in 10s or 500ms [default: what an rt-app file says, else 10s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Ns>,

    /// Of all random numbers: the same seed gives the same bytes
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Seeds for --compare
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=MOST_SEEDS))]
    seeds: u64,

    /// Set a cost, as in context-switch=1500; repeatable; see --list-costs
    #[arg(long = "cost", value_name = "NAME=VALUE")]
    costs: Vec<String>,

    /// Processes to give homes, as in scx_soft_domain [default: those that the workload names]
    #[arg(short = 'P', long = "process", value_name = "NAME")]
    services: Vec<String>,

    /// What a home is, as in scx_soft_domain
    #[arg(short, long, value_name = "LEVEL", default_value = "cpu")]
    level: String,

    /// Set a threshold of the policy, as in scx_soft_domain (its --help-limits lists them); repeatable
    #[arg(long = "limit", value_name = "NAME=VALUE")]
    limits: Vec<String>,

    /// Results as JSON
    #[arg(long, conflicts_with = "compare")]
    json: bool,

    /// A line for each task too
    #[arg(long)]
    tasks: bool,

    /// List the costs with their sources
    #[arg(long)]
    list_costs: bool,

    /// List the workloads with their keys
    #[arg(long)]
    list_workloads: bool,
}

/// The end of the help text.
pub fn after_help() -> String {
    let mut text = String::from("Machines, beside shapes such as nodes=4,llcs=6,cores=16,smt=1[,clusters=4]\n");
    text += "(LLCs per node, cores per LLC, clusters per LLC):\n";
    text += &presets::table();
    text += "\nPolicies:\n";
    for (name, about) in policies::NAMES {
        let _ = writeln!(text, "  {name:<14} {about}");
    }
    text += "\nExit codes: 0 done, 1 the policy broke a rule or would have been ejected, 2 bad option or input";
    text
}

pub(super) fn duration(text: &str) -> Result<Ns, String> {
    units::time(text).filter(|ns| *ns > 0).ok_or_else(|| "give a time with its unit, up to 1 h: 10s, 500ms".into())
}

fn usage(text: impl Into<String>) -> Failure {
    Failure::new(Exit::Usage, text)
}

/// Everything checked.
pub(super) struct Plan {
    pub topology: Topology,
    pub title: String,
    pub costs: Costs,
    pub settings: Settings,
    pub workload: Workload,
    pub duration: Ns,
}

/// Runs what the options say.
pub fn run(options: &Options) -> Result<(), Failure> {
    let mut costs = Costs::default();
    for text in &options.costs {
        costs.set(text).map_err(|e| usage(format!("--cost: {e}")))?;
    }
    if options.list_costs {
        plain(costs.table().trim_end());
        return Ok(());
    }
    if options.list_workloads {
        plain(workload::table().trim_end());
        return Ok(());
    }
    let plan = plan(options, costs)?;
    if options.compare.is_empty() { one(options, &plan) } else { side_by_side(options, &plan) }
}

fn plan(options: &Options, costs: Costs) -> Result<Plan, Failure> {
    let (topology, title) = match &options.topology_from {
        Some(dir) => {
            (read_topology(dir).map_err(|e| usage(e.to_string()))?, format!("the machine of {}", dir.display()))
        }
        None => (presets::topology(&options.topology).map_err(usage)?, options.topology.clone()),
    };
    let workload = workload::parse(&options.workload, &topology).map_err(usage)?;
    let settings = settings(options, &workload)?;
    let duration = options.duration.or(workload.duration).unwrap_or(DURATION);
    for name in std::iter::once(&options.policy).chain(&options.compare) {
        build(name, &topology, &settings)?;
    }
    Ok(Plan { topology, title, costs, settings, workload, duration })
}

/// The scheduler's own options, read by its own parser.
fn settings(options: &Options, workload: &Workload) -> Result<Settings, Failure> {
    let services = if options.services.is_empty() { &workload.services } else { &options.services };
    let mut args = vec![OsString::from("sdlab")];
    args.extend(services.iter().map(|s| format!("--process={s}").into()));
    args.push(format!("--level={}", options.level).into());
    args.extend(options.limits.iter().map(|l| format!("--limit={l}").into()));
    let Parsed::Options(parsed) = options::Options::parse(args, "")? else { return Ok(Settings::default()) };
    let limits = parsed.limits()?;
    Ok(Settings { services: parsed.services, level: parsed.level, limits, ..Settings::default() })
}

pub(super) fn build(
    name: &str,
    topology: &Topology,
    settings: &Settings,
) -> Result<Box<dyn soft_domain::policy::Policy>, Failure> {
    policies::build(name, topology, settings).ok_or_else(|| {
        let names: Vec<&str> = policies::NAMES.iter().map(|(name, _)| *name).collect();
        usage(format!("there is no policy '{name}': use {}", names.join(", ")))
    })
}

pub(super) fn simulate(plan: &Plan, policy: &str, seed: u64) -> Result<Results, Failure> {
    let setup = Setup { topology: &plan.topology, costs: &plan.costs, level: plan.settings.level, seed };
    let policy_name = policy;
    let policy = build(policy, &plan.topology, &plan.settings)?;
    let began = Instant::now();
    let mut machine = Machine::new(&setup, policy, plan.workload.clone());
    machine.run(plan.duration);
    let results = machine.results();
    // On standard error: it differs from run to run.
    let took = began.elapsed().as_millis().max(1) as u64;
    eprintln!(
        "{policy_name}, seed {seed}: {} events in {} s, {} events/s",
        results.totals.events,
        units::fixed(took, 1000, 1),
        results.totals.events * 1000 / took
    );
    Ok(results)
}

fn one(options: &Options, plan: &Plan) -> Result<(), Failure> {
    let r = simulate(plan, &options.policy, options.seed)?;
    let title = Title {
        policy: options.policy.clone(),
        workload: options.workload.clone(),
        topology: plan.title.clone(),
        seed: options.seed,
    };
    let text = if options.json { json::text(&title, &r) } else { report::text(&title, &r, options.tasks) };
    plain(text.trim_end());
    broken(&options.policy, &r)
}

/// A policy that broke a rule is a failure, with the first rule named.
pub(super) fn broken(policy: &str, r: &Results) -> Result<(), Failure> {
    match r.faults.first() {
        None => Ok(()),
        Some(fault) => Err(Failure::new(Exit::Ejected, format!("policy {policy} broke a rule: {fault}"))),
    }
}

fn side_by_side(options: &Options, plan: &Plan) -> Result<(), Failure> {
    let mut columns = Vec::new();
    for policy in &options.compare {
        let mut runs = Vec::new();
        for i in 0..options.seeds {
            runs.push(simulate(plan, policy, options.seed.wrapping_add(i))?);
        }
        columns.push(Column { policy: policy.clone(), runs });
    }
    plain(format_args!(
        "{} on {} ({} CPUs), {} s, {} seeds from {}: median (least-most)\n",
        options.workload,
        plan.title,
        plan.topology.nr_cpus(),
        units::fixed(plan.duration, 1_000_000_000, 3),
        options.seeds,
        options.seed
    ));
    plain(compare::text(&columns).trim_end());
    columns.iter().flat_map(|c| c.runs.iter().map(|r| broken(&c.policy, r))).collect()
}
