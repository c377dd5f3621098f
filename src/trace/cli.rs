//! `sdlab replay` and `sdlab freeze`: the commands without the program around them.

use super::freeze::{EXPECT, Expect, TRACE, Until, copy};
use super::header::Header;
use super::reader::Reader;
use super::replay::{Ending, replay, same_policy};
use super::what_if::what_if;
use crate::host::exit::{Exit, Failure};
use crate::host::journal::plain;
use crate::ids::MS;
use crate::policies;
use clap::Args;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

/// Give a recording to the policy again and compare every decision
#[derive(Clone, Debug, Args)]
pub struct ReplayArgs {
    /// A file that scx_soft_domain --record has made
    file: PathBuf,

    /// Say what another policy would have done on the same events instead
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,

    /// With --policy: show so many of the decisions that went elsewhere
    #[arg(long, value_name = "N", default_value_t = 5)]
    examples: usize,
}

/// Make a test of a recording: a copy, cut if wanted, and what its replay gives
#[derive(Clone, Debug, Args)]
pub struct FreezeArgs {
    /// A file that scx_soft_domain --record has made
    file: PathBuf,

    /// The folder to make, as in tests/traces/NAME; cargo test replays all that are there
    folder: PathBuf,

    /// Only the first N calls into the policy
    #[arg(long, value_name = "N")]
    events: Option<u64>,

    /// Only what comes within so many ms of the first call
    #[arg(long, value_name = "MS")]
    until_ms: Option<u64>,
}

/// What a command found, to print, and whether all is well.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// For standard output.
    pub text: String,
    /// The replay is identical and the file is whole; the program's exit code is 0 then and 1 if not.
    pub fine: bool,
}

/// Opens a trace.
pub fn open(path: &Path) -> Result<Reader<BufReader<File>>, Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::new(Exit::Usage, format!("{}: {e}", path.display()));
    let file = File::open(path).map_err(|e| failed(&format_args!("cannot open it: {e}")))?;
    Reader::open(BufReader::new(file)).map_err(|e| failed(&e))
}

/// `sdlab replay` as a program's command: prints; a difference, a broken rule or a torn file is a failure.
pub fn replay_command(args: &ReplayArgs) -> Result<(), Failure> {
    finish(run_replay(args)?, "the replay is not identical, breaks a rule, or the file is damaged: see above")
}

/// `sdlab freeze` as a program's command.
pub fn freeze_command(args: &FreezeArgs) -> Result<(), Failure> {
    finish(run_freeze(args)?, "nothing was frozen")
}

fn finish(outcome: Outcome, failed: &str) -> Result<(), Failure> {
    plain(outcome.text.trim_end());
    if outcome.fine { Ok(()) } else { Err(Failure::new(Exit::Ejected, failed)) }
}

/// `sdlab replay`
pub fn run_replay(args: &ReplayArgs) -> Result<Outcome, Failure> {
    let mut reader = open(&args.file)?;
    let mut text = about(&args.file, reader.header());
    let no_policy = |e: &dyn std::fmt::Display| Failure::new(Exit::Usage, e.to_string());
    let Some(other) = &args.policy else {
        let r = replay(&mut reader, &mut same_policy).map_err(|e| no_policy(&e))?;
        let whole = !is_torn(r.ending.as_ref());
        let _ = write!(text, "{r}");
        return Ok(Outcome { text, fine: r.identical() && r.faults == 0 && whole });
    };
    if !policies::NAMES.iter().any(|(name, _)| name == other) {
        return Err(no_policy(&super::replay::NoPolicy(other.clone())));
    }
    let mut build = |h: &Header| policies::build(other, &h.topology, &h.settings);
    let w = what_if(&mut reader, &mut build, args.examples).map_err(|e| no_policy(&e))?;
    let _ = write!(text, "policy {other} instead of {}, {w}", reader.header().policy.escape_debug());
    Ok(Outcome { text, fine: w.faults == 0 && !is_torn(w.ending.as_ref()) })
}

fn is_torn(ending: Option<&Ending>) -> bool {
    matches!(ending, Some(Ending::Damaged(_)))
}

fn about(path: &Path, header: &Header) -> String {
    let services: Vec<String> = header.settings.services.iter().map(|s| s.text().escape_debug().to_string()).collect();
    format!(
        "{}: policy {}, {}, services: {}\nrecorded by {}\n",
        path.display(),
        header.policy.escape_debug(),
        header.topology.summary(),
        if services.is_empty() { "none".into() } else { services.join(", ") },
        header.about.escape_debug()
    )
}

/// `sdlab freeze`
pub fn run_freeze(args: &FreezeArgs) -> Result<Outcome, Failure> {
    let failed = |path: &Path, e: &dyn std::fmt::Display| {
        Failure::new(Exit::Usage, format!("cannot write {}: {e}", path.display()))
    };
    let mut reader = open(&args.file)?;
    std::fs::create_dir_all(&args.folder).map_err(|e| failed(&args.folder, &e))?;
    let (trace, expect) = (args.folder.join(TRACE), args.folder.join(EXPECT));
    // Beside it first: the original may be the very file that is replaced.
    let part = args.folder.join("trace.sdt.part");
    let out = BufWriter::new(File::create(&part).map_err(|e| failed(&part, &e))?);
    let until = Until { calls: args.events, span: args.until_ms.map(|ms| ms.saturating_mul(MS)) };
    let copied = copy(&mut reader, out, until).map_err(|e| failed(&part, &e))?;
    std::fs::rename(&part, &trace).map_err(|e| failed(&trace, &e))?;
    let now = expectation(&trace)?;
    std::fs::write(&expect, now.to_string()).map_err(|e| failed(&expect, &e))?;
    let mut text = format!("{}: {} calls\n", trace.display(), copied.calls);
    if let Some(damage) = &copied.damage {
        let _ = writeln!(text, "the original is damaged behind them: {damage}");
    }
    let _ = write!(text, "{}:\n{now}", expect.display());
    Ok(Outcome { text, fine: true })
}

/// What the replay of a trace gives now.
pub fn expectation(trace: &Path) -> Result<Expect, Failure> {
    let mut reader = open(trace)?;
    let header = reader.header().clone();
    let r = replay(&mut reader, &mut same_policy).map_err(|e| Failure::new(Exit::Usage, e.to_string()))?;
    Ok(Expect::of(&header, &r))
}
