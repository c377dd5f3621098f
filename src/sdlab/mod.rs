//! The command line of `sdlab`: raw words become checked values; what is wrong is said in one line.

mod published;
mod sim;
mod timeline;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use soft_domain::host::exit::{Exit, Failure};
use soft_domain::trace::cli;
use soft_domain::trace::dump::{DumpArgs, dump_command};
use std::ffi::OsString;

/// Runs scheduling policies where no kernel is harmed.
#[derive(Debug, Parser)]
#[command(name = "sdlab", version, disable_help_subcommand = true, arg_required_else_help = true)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a policy on a simulated machine
    #[command(after_help = sim::after_help())]
    Sim(Box<sim::Options>),
    /// Simulate the fleet for which soft domains were published, beside the published figures
    Published(published::Options),
    /// Feed a recording to a policy and compare every decision
    Replay(cli::ReplayArgs),
    /// Print every call of a recording and its answers, a line each
    Dump(DumpArgs),
    /// Draw a recording or a simulation: CPUs over time, as a page or for ui.perfetto.dev
    #[command(after_help = sim::after_help())]
    Timeline(Box<timeline::Options>),
    /// Keep a recording as a test: cargo test replays it from then on
    Freeze(cli::FreezeArgs),
}

/// Parses, runs, prints.
pub fn main(args: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    let parsed = Options::command().try_get_matches_from(args).and_then(|m| Options::from_arg_matches(&m));
    let options = match parsed {
        Ok(options) => options,
        Err(e) if !e.use_stderr() => {
            soft_domain::host::journal::plain(e.render().to_string().trim_end());
            return Ok(());
        }
        Err(e) => return Err(Failure::new(Exit::Usage, one_line(&e.render().to_string()))),
    };
    match options.command {
        Command::Sim(options) => sim::run(&options),
        Command::Published(options) => published::run(&options),
        Command::Replay(args) => cli::replay_command(&args),
        Command::Dump(args) => dump_command(&args),
        Command::Timeline(options) => timeline::run(&options),
        Command::Freeze(args) => cli::freeze_command(&args),
    }
}

/// Clap's message without its usage text.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text
        .lines()
        .take_while(|l| !l.starts_with("Usage:") && !l.starts_with("For more information"))
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    let words = words.join(" ");
    format!("{} (see --help)", words.strip_prefix("error: ").unwrap_or(&words))
}
