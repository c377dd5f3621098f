//! `sdlab sim`.

use clap::Args;
use soft_domain::host::exit::{Exit, Failure};
use soft_domain::host::journal::plain;
use soft_domain::host::sysfs::read_topology;
use soft_domain::ids::{MS, Ns};
use soft_domain::options::{self, Parsed};
use soft_domain::policies;
use soft_domain::policy::Policy;
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

/// The machine, the policy and the workload of a simulation.
#[derive(Debug, Args)]
pub struct Simulation {
    /// The machine: a shape or a preset, see below
    #[arg(long, value_name = "SHAPE", default_value = "nodes=2,llcs=2,cores=4,smt=1")]
    topology: String,

    /// The machine: a copy of another machine's sysfs
    #[arg(long, value_name = "DIR", conflicts_with = "topology")]
    topology_from: Option<PathBuf>,

    /// The policy; see the list below
    #[arg(long, value_name = "NAME", default_value = policies::NAMES[0].0)]
    pub policy: String,

    /// What runs: a built-in workload with its keys, or an rt-app file; see sdlab sim --list-workloads
    #[arg(long, value_name = "NAME[,KEY=VALUE..]", default_value = "fleet")]
    pub workload: String,

    /// Of all random numbers: the same seed gives the same bytes
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Set a cost, as in context-switch=1500; repeatable; see sdlab sim --list-costs
    #[arg(long = "cost", value_name = "NAME=VALUE")]
    costs: Vec<String>,

    /// Costs from a file: NAME=VALUE, one a line, # begins a remark; --cost goes before
    #[arg(long, value_name = "FILE")]
    costs_from: Option<PathBuf>,

    /// Processes to give homes, as in scx_soft_domain [default: those that the workload names]
    #[arg(short = 'P', long = "process", value_name = "NAME")]
    services: Vec<String>,

    /// What a home is, as in scx_soft_domain
    #[arg(short, long, value_name = "LEVEL", default_value = "cpu")]
    level: String,

    /// Set a threshold of the policy, as in scx_soft_domain (its --help-limits lists them); repeatable
    #[arg(long = "limit", value_name = "NAME=VALUE")]
    limits: Vec<String>,
}

/// Options of `sdlab sim`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    simulation: Simulation,

    /// Policies side by side, each over --seeds seeds from --seed on
    #[arg(long, value_name = "A,B,..", value_delimiter = ',', conflicts_with = "policy")]
    compare: Vec<String>,

    /// Simulated time, as in 10s or 500ms [default: what an rt-app file says, else 10s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Ns>,

    /// Seeds for --compare
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=MOST_SEEDS))]
    seeds: u64,

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

/// A time above 0.
pub fn duration(text: &str) -> Result<Ns, String> {
    units::time(text).filter(|ns| *ns > 0).ok_or_else(|| "give a time with its unit, up to 1 h: 10s, 500ms".into())
}

fn usage(text: impl Into<String>) -> Failure {
    Failure::new(Exit::Usage, text)
}

/// Everything checked.
pub struct Plan {
    /// The machine.
    pub topology: Topology,
    /// The machine in words.
    pub title: String,
    /// What everything costs.
    pub costs: Costs,
    /// Of the policy.
    pub settings: Settings,
    /// What runs.
    pub workload: Workload,
}

impl Plan {
    /// For one seed.
    pub fn setup(&self, seed: u64) -> Setup<'_> {
        Setup { topology: &self.topology, costs: &self.costs, level: self.settings.level, seed }
    }
}

impl Simulation {
    fn costs(&self) -> Result<Costs, Failure> {
        let mut costs = Costs::default();
        if let Some(file) = &self.costs_from {
            let wrong = |e: String| usage(format!("--costs-from {}: {e}", file.display()));
            let text = std::fs::read_to_string(file).map_err(|e| wrong(format!("{e}; name a file of costs")))?;
            costs.set_all(&text).map_err(wrong)?;
        }
        for text in &self.costs {
            costs.set(text).map_err(|e| usage(format!("--cost: {e}")))?;
        }
        Ok(costs)
    }

    /// Checks everything, and builds the policy.
    pub fn plan(&self) -> Result<(Plan, Box<dyn Policy>), Failure> {
        let (topology, title) = match &self.topology_from {
            Some(dir) => {
                (read_topology(dir).map_err(|e| usage(e.to_string()))?, format!("the machine of {}", dir.display()))
            }
            None => (presets::topology(&self.topology).map_err(usage)?, self.topology.clone()),
        };
        let costs = self.costs()?;
        let workload = workload::parse(&self.workload, &topology).map_err(usage)?;
        let settings = settings(self, &workload)?;
        let policy = build(&self.policy, &topology, &settings)?;
        Ok((Plan { topology, title, costs, settings, workload }, policy))
    }
}

/// Runs what the options say.
pub fn run(options: &Options) -> Result<(), Failure> {
    if options.list_costs {
        plain(options.simulation.costs()?.table().trim_end());
        return Ok(());
    }
    if options.list_workloads {
        plain(workload::table().trim_end());
        return Ok(());
    }
    let (plan, _) = options.simulation.plan()?;
    for name in &options.compare {
        build(name, &plan.topology, &plan.settings)?;
    }
    let duration = options.duration.or(plan.workload.duration).unwrap_or(DURATION);
    if options.compare.is_empty() { one(options, &plan, duration) } else { side_by_side(options, &plan, duration) }
}

/// The scheduler's own options, read by its own parser.
fn settings(options: &Simulation, workload: &Workload) -> Result<Settings, Failure> {
    let services = if options.services.is_empty() { &workload.services } else { &options.services };
    let mut args = vec![OsString::from("sdlab")];
    args.extend(services.iter().map(|s| format!("--process={s}").into()));
    args.push(format!("--level={}", options.level).into());
    args.extend(options.limits.iter().map(|l| format!("--limit={l}").into()));
    let Parsed::Options(parsed) = options::Options::parse(args, "")? else { return Ok(Settings::default()) };
    let limits = parsed.limits()?;
    Ok(Settings { services: parsed.services, level: parsed.level, limits, ..Settings::default() })
}

pub(super) fn build(name: &str, topology: &Topology, settings: &Settings) -> Result<Box<dyn Policy>, Failure> {
    policies::build(name, topology, settings).ok_or_else(|| {
        let names: Vec<&str> = policies::NAMES.iter().map(|(name, _)| *name).collect();
        usage(format!("there is no policy '{name}': use {}", names.join(", ")))
    })
}

pub(super) fn simulate(plan: &Plan, policy: &str, seed: u64, duration: Ns) -> Result<Results, Failure> {
    let policy_name = policy;
    let policy = build(policy, &plan.topology, &plan.settings)?;
    let began = Instant::now();
    let mut machine = Machine::new(&plan.setup(seed), policy, plan.workload.clone());
    machine.run(duration);
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

fn one(options: &Options, plan: &Plan, duration: Ns) -> Result<(), Failure> {
    let Simulation { policy, workload, seed, .. } = &options.simulation;
    let r = simulate(plan, policy, *seed, duration)?;
    let title = Title { policy: policy.clone(), workload: workload.clone(), topology: plan.title.clone(), seed: *seed };
    let text = if options.json { json::text(&title, &r) } else { report::text(&title, &r, options.tasks) };
    plain(text.trim_end());
    broken(policy, &r)
}

/// A policy that broke a rule is a failure, with the first rule named.
pub(super) fn broken(policy: &str, r: &Results) -> Result<(), Failure> {
    match r.faults.first() {
        None => Ok(()),
        Some(fault) => Err(Failure::new(Exit::Ejected, format!("policy {policy} broke a rule: {fault}"))),
    }
}

fn side_by_side(options: &Options, plan: &Plan, duration: Ns) -> Result<(), Failure> {
    let mut columns = Vec::new();
    for policy in &options.compare {
        let mut runs = Vec::new();
        for i in 0..options.seeds {
            runs.push(simulate(plan, policy, options.simulation.seed.wrapping_add(i), duration)?);
        }
        columns.push(Column { policy: policy.clone(), runs });
    }
    plain(format_args!(
        "{} on {} ({} CPUs), {} s, {} seeds from {}: median (least-most)\n",
        options.simulation.workload,
        plan.title,
        plan.topology.nr_cpus(),
        units::fixed(duration, 1_000_000_000, 3),
        options.seeds,
        options.simulation.seed
    ));
    plain(compare::text(&columns).trim_end());
    columns.iter().flat_map(|c| c.runs.iter().map(|r| broken(&c.policy, r))).collect()
}
