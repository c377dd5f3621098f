//! The command line: raw words become checked values; what is wrong is said in one line.

mod limits;

use crate::host::exit::{Exit, Failure};
use crate::ids::US;
use crate::limits::Limits;
use crate::policies;
use crate::service::Pattern;
use crate::soft_domain::Settings;
use crate::topology::Level;
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};
use limits::{LimitSetting, limit_setting};
use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;

/// Names are compared up to this length: event::Name keeps 31 bytes.
const LONGEST_NAME: usize = 31;
/// The kernel takes no slice shorter than a few context switches; longer than this and the 5 s watchdog comes near.
const SLICES_US: std::ops::RangeInclusive<u64> = 50..=1_000_000;
/// The kernel allocates the dump in one piece.
const LONGEST_DUMP: i64 = 16 << 20;

const EXAMPLES: &str = "\
Examples:
  scx_soft_domain -P valkey-server
        every valkey-server gets a home CPU of its own
  scx_soft_domain -P 'redis-*' -P memcached -l llc
        two services; any CPU of the home's LLC counts as home
  scx_soft_domain --partial -P valkey-server
        only valkey-server is scheduled by it, everything else by the kernel
  scx_soft_domain check
        print the topology and whether this machine can run it";

/// A scheduler that gives every service instance a soft domain: a home CPU in a home LLC in a home NUMA node.
///
/// It schedules the whole machine until it is asked to stop by Ctrl-C or SIGTERM; then, or if anything goes wrong,
/// the kernel's own scheduler takes over at once. Nobody's affinity is changed.
#[derive(Clone, Debug, Parser)]
#[command(name = "scx_soft_domain", args_conflicts_with_subcommands = false, disable_help_subcommand = true)]
pub struct Options {
    /// Processes to give homes: comm or base name of the executable, with * and ?; repeatable
    #[arg(short = 'P', long = "process", value_name = "NAME", value_parser = pattern)]
    pub services: Vec<Pattern>,

    /// What a home is: node, llc, cluster, core or cpu
    #[arg(short, long, default_value = "cpu", value_parser = level)]
    pub level: Level,

    /// Time slice while few tasks wait, in us; short for --limit slice=
    #[arg(short, long, value_name = "US", allow_negative_numbers = true, value_parser = slice)]
    slice_us: Option<u64>,

    /// Shortest time slice, used when many tasks wait, in us; short for --limit slice-min=
    #[arg(short = 'S', long, value_name = "US", allow_negative_numbers = true, value_parser = slice)]
    slice_us_min: Option<u64>,

    /// Schedule only the processes that match -P; they get their old policy back at the end
    #[arg(short, long)]
    pub partial: bool,

    /// The kernel puts woken tasks on idle CPUs by itself: cheaper, but an instance whose home is busy runs anywhere
    #[arg(long)]
    pub fast_path: bool,

    /// Scheduling policy; see the list below
    #[arg(long, value_name = "NAME", default_value = policies::NAMES[0].0, value_parser = policy)]
    pub policy: String,

    /// Set a threshold of the policy, as in home-margin=20%; repeatable; see --help-limits
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = limit_setting)]
    settings: Vec<LimitSetting>,

    /// List the thresholds with their defaults and meanings
    #[arg(long)]
    pub help_limits: bool,

    /// Record every event and decision into FILE, which must not exist yet: for sdlab replay
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Bytes of the debug dump that the kernel makes when it ends the scheduler (shown with -v); 0 = its default
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=LONGEST_DUMP))]
    pub exit_dump_len: u32,

    /// Say more; twice: also what the BPF loader says
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,

    /// What to do instead of scheduling.
    #[command(subcommand)]
    pub command: Option<Command>,
}

const SAVE_EXAMPLE: &str = "\
Try policies on a machine that you cannot reach:
  there$ scx_soft_domain check --save-topology big-machine     # a folder of small text files; send it
  here$  scx_soft_domain check --sysroot big-machine           # the same tree
  here$  sdlab sim --topology-from big-machine";

const WAITS_EXAMPLE: &str = "\
A wait begins with a wake-up, or with being switched out while runnable, and ends with being switched in:
  scx_soft_domain waits -s 5          # under the scheduler of the moment; then start another one and compare
  scx_soft_domain waits --except $(pgrep scx_sd_dispatch)";

/// What to do instead of scheduling.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Print the topology, and whether this machine can run the scheduler
    #[command(after_help = SAVE_EXAMPLE)]
    Check {
        /// Read another machine's sysfs: a captured /sys, or a folder that holds sys or devices
        #[arg(long, value_name = "DIR")]
        sysroot: Option<PathBuf>,
        /// Copy what describes the topology into a new or empty folder, to look at it elsewhere
        #[arg(long, value_name = "DIR")]
        save_topology: Option<PathBuf>,
    },
    /// Watch how long runnable tasks wait for a CPU, under whatever scheduler runs
    #[command(after_help = WAITS_EXAMPLE)]
    Waits {
        /// How long to watch, in seconds; Ctrl-C ends it earlier
        #[arg(short, long, value_name = "N", default_value_t = 10)]
        seconds: u64,
        /// A thread whose waits do not count: our dispatch thread, which is runnable all the time and runs when asked
        #[arg(long, value_name = "TID")]
        except: Option<u32>,
    },
    /// The dispatch process: started by the host process, not by people.
    #[command(hide = true)]
    Dispatch {
        #[arg(long)]
        channel_fd: i32,
        /// The ring of records, with --record.
        #[arg(long)]
        record_fd: Option<i32>,
    },
}

/// What came of the command line.
pub enum Parsed {
    /// Go.
    Options(Box<Options>),
    /// Print this and end well: help or version.
    Text(String),
}

impl Options {
    /// Parses and checks everything that can be told without looking at the machine. `version` is for `--version`.
    pub fn parse(args: impl IntoIterator<Item = OsString>, version: &str) -> Result<Parsed, Failure> {
        let command = Options::command().version(leak(version.to_owned())).after_help(leak(after_help()));
        let matches = match command.try_get_matches_from(args) {
            Ok(matches) => matches,
            Err(e) if !e.use_stderr() => return Ok(Parsed::Text(e.render().to_string())),
            Err(e) => return Err(usage(&e)),
        };
        let options = Options::from_arg_matches(&matches).map_err(|e| usage(&e))?;
        options.limits()?;
        if options.partial && options.services.is_empty() && options.command.is_none() {
            return Err(Failure::new(
                Exit::Usage,
                "--partial schedules nothing without a service: name at least one with -P NAME",
            ));
        }
        Ok(Parsed::Options(Box::new(options)))
    }

    /// The thresholds in force.
    pub fn limits(&self) -> Result<Limits, Failure> {
        let mut limits = Limits::default();
        for setting in &self.settings {
            setting.apply(&mut limits);
        }
        if let Some(us) = self.slice_us {
            limits.slice_ns = us * US;
        }
        if let Some(us) = self.slice_us_min {
            limits.slice_min_ns = us * US;
        }
        if limits.slice_min_ns > limits.slice_ns {
            // The default of one gives way to an explicit other.
            if self.slice_us_min.is_none() && !self.settings.iter().any(|s| s.name() == "slice-min") {
                limits.slice_min_ns = limits.slice_ns;
            } else {
                return Err(Failure::new(
                    Exit::Usage,
                    format!(
                        "the shortest slice ({} us) is longer than the slice ({} us): lower -S or raise -s",
                        limits.slice_min_ns / US,
                        limits.slice_ns / US
                    ),
                ));
            }
        }
        Ok(limits)
    }

    /// What the policy is made from.
    pub fn policy_settings(&self) -> Result<Settings, Failure> {
        let (services, level, limits) = (self.services.clone(), self.level, self.limits()?);
        Ok(Settings { services, level, limits, ..Settings::default() })
    }

    /// The options in force, one per line, for the start-up text.
    pub fn in_force(&self) -> String {
        let limits = self.limits().unwrap_or_default();
        let services: Vec<String> = self.services.iter().map(|p| crate::host::report::escaped(&p.text())).collect();
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "  {name:<10} {value}");
        };
        line("policy", self.policy.clone());
        line("services", if services.is_empty() { "none (no -P given)".into() } else { services.join(", ") });
        line("home", format!("a {}", self.level));
        line(
            "slice",
            format!("{} us, at least {} us when many tasks wait", limits.slice_ns / US, limits.slice_min_ns / US),
        );
        if self.fast_path {
            line("wake-ups", "placed by the kernel while a CPU is idle (--fast-path)".into());
        }
        line("scope", if self.partial { "only the services (--partial)" } else { "all tasks" }.into());
        if let Some(path) = &self.record {
            line("record", format!("into {}", path.display()));
        }
        for (name, value) in limits::changed(&limits) {
            line("limit", format!("{name}={value}"));
        }
        text
    }
}

/// The table of `--help-limits`.
pub fn help_limits() -> String {
    limits::table()
}

fn after_help() -> String {
    let mut text = String::from("Policies:\n");
    for (name, about) in policies::NAMES {
        let _ = writeln!(text, "  {name:<12} {about}");
    }
    let _ = writeln!(text, "\n{EXAMPLES}\n\nExit codes:");
    for exit in Exit::ALL {
        let _ = writeln!(text, "  {}  {}", exit as u8, exit.text());
    }
    text
}

/// Clap keeps such texts for the life of the process.
fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// Clap's message in one line: its first paragraph, and its tip where it has one.
fn usage(e: &clap::Error) -> Failure {
    let text = e.render().to_string();
    let words = text
        .lines()
        .take_while(|l| !l.starts_with("Usage:") && !l.starts_with("For more information"))
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    let words = words.strip_prefix("error: ").unwrap_or(&words);
    Failure::new(Exit::Usage, format!("{words} (see --help)"))
}

fn pattern(text: &str) -> Result<Pattern, String> {
    if text.len() > LONGEST_NAME {
        return Err(format!(
            "it has {} bytes and names are compared up to {LONGEST_NAME}: shorten it with a *",
            text.len()
        ));
    }
    Pattern::new(text).ok_or_else(|| "a name cannot be empty: give a process name such as valkey-server".into())
}

fn level(text: &str) -> Result<Level, String> {
    text.parse().map_err(|e: crate::topology::UnknownLevel| e.to_string())
}

fn slice(text: &str) -> Result<u64, String> {
    let (least, most) = (SLICES_US.start(), SLICES_US.end());
    text.parse()
        .ok()
        .filter(|us| SLICES_US.contains(us))
        .ok_or_else(|| format!("give a whole number of microseconds from {least} to {most}"))
}

fn policy(text: &str) -> Result<String, String> {
    let names: Vec<&str> = policies::NAMES.iter().map(|(name, _)| *name).collect();
    if names.contains(&text) || text == policies::PANICS {
        return Ok(text.to_owned());
    }
    Err(format!("there is no such policy: use {}", names.join(" or ")))
}

#[cfg(test)]
mod tests;
