//! `sdlab timeline`.

use super::sim::{self, Simulation};
use clap::Args;
use soft_domain::host::exit::{Exit, Failure};
use soft_domain::host::journal::plain;
use soft_domain::ids::{MS, Ns};
use soft_domain::sim::Machine;
use soft_domain::timeline::{MOST_SPANS, Timeline, from_sim, from_trace, html, json};
use soft_domain::trace::cli::open;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Simulated time if neither the user nor the workload says otherwise, ns: what a busy fleet fills a page with.
const DURATION: Ns = 200 * MS;

/// Options of `sdlab timeline`.
#[derive(Debug, Args)]
pub struct Options {
    /// A file that scx_soft_domain --record has made
    #[arg(conflicts_with_all = ["sim", "duration", "Simulation"], required_unless_present = "sim")]
    file: Option<PathBuf>,

    /// Of a simulation instead, with the options of sdlab sim
    #[arg(long)]
    sim: bool,

    /// What to write: a page (.html), or JSON for ui.perfetto.dev (.json)
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Simulated time, as in 1s or 500ms [default: what an rt-app file says, else 200ms]
    #[arg(long, value_name = "TIME", value_parser = sim::duration)]
    duration: Option<Ns>,

    #[command(flatten)]
    simulation: Simulation,
}

#[derive(Clone, Copy)]
enum Format {
    Html,
    Json,
}

fn format(path: &Path) -> Result<Format, Failure> {
    match path.extension().and_then(|e| e.to_str()) {
        Some(e) if e.eq_ignore_ascii_case("html") => Ok(Format::Html),
        Some(e) if e.eq_ignore_ascii_case("json") => Ok(Format::Json),
        _ => Err(Failure::new(
            Exit::Usage,
            format!(
                "{}: the ending says the format: use .html for a page or .json for ui.perfetto.dev",
                path.display().to_string().escape_debug()
            ),
        )),
    }
}

/// Makes the picture that the options ask for.
pub fn run(options: &Options) -> Result<(), Failure> {
    let format = format(&options.output)?;
    let (t, torn) = match &options.file {
        Some(file) => {
            let mut reader = open(file)?;
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let (t, damage) = from_trace::timeline(name.into_owned(), &mut reader);
            (t, damage.map(|d| format!("{}: damaged: {d}; the picture ends there", file.display())))
        }
        None => (simulated(options)?, None),
    };
    if t.spans.is_empty() {
        let text =
            "nothing ran in it, or nothing that came back: there is nothing to show; record or simulate for longer";
        return Err(Failure::new(Exit::Usage, torn.unwrap_or_else(|| text.to_owned())));
    }
    let size = write(&options.output, format, &t)
        .map_err(|e| Failure::new(Exit::Usage, format!("cannot write {}: {e}", options.output.display())))?;
    plain(format_args!(
        "{}: {} stints on {} CPUs, {} migrations, {} KiB",
        options.output.display(),
        t.spans.len(),
        t.topology.nr_cpus(),
        t.marks.len(),
        size >> 10
    ));
    torn.map_or(Ok(()), |text| Err(Failure::new(Exit::Ejected, text)))
}

fn simulated(options: &Options) -> Result<Timeline, Failure> {
    let (plan, policy) = options.simulation.plan()?;
    let mut machine = Machine::new(&plan.setup(options.simulation.seed), policy, plan.workload.clone());
    machine.watch(MOST_SPANS);
    machine.run(options.duration.or(plan.workload.duration).unwrap_or(DURATION));
    let faults = machine.results().faults;
    let watch = machine.take_watch().unwrap_or_default();
    let Simulation { policy, workload, seed, .. } = &options.simulation;
    let mut facts: Vec<(String, String)> =
        [("machine", plan.title.clone()), ("seed", seed.to_string())].map(|(n, v)| (n.to_owned(), v)).into();
    // A policy that breaks a rule is worth a look, too.
    facts.extend(faults.first().map(|f| ("broke a rule".to_owned(), f.to_string())));
    Ok(from_sim::timeline(format!("{policy}: {workload}"), facts, &plan.topology, watch))
}

/// Returns the file's size in bytes.
fn write(path: &Path, format: Format, t: &Timeline) -> io::Result<u64> {
    let mut out = BufWriter::new(File::create(path)?);
    match format {
        Format::Html => html::write(t, &mut out)?,
        Format::Json => json::write(t, &mut out)?,
    }
    out.flush()?;
    Ok(out.get_ref().metadata()?.len())
}
