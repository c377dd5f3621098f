//! `sdlab dump`: every call of a recording and what the policy answered, a line each.

use super::cli::open;
use super::reader::Item;
use super::record::Record;
use crate::event::{ProcessEvent, Ready};
use crate::host::exit::{Exit, Failure};
use crate::ids::{MS, Ns};
use crate::trace::call::Call;
use clap::Args;
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

/// What to print.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sdlab dump run.sdt | less\n  sdlab dump run.sdt --from-ms 1200 --until-ms 1300")]
pub struct DumpArgs {
    /// A file that scx_soft_domain --record has made
    file: PathBuf,

    /// Leave out what came before so many ms after the first call
    #[arg(long, value_name = "MS", default_value_t = 0)]
    from_ms: u64,

    /// Stop so many ms after the first call
    #[arg(long, value_name = "MS")]
    until_ms: Option<u64>,
}

/// Prints to standard output; a reader that has seen enough (`head`) ends it.
pub fn dump_command(args: &DumpArgs) -> Result<(), Failure> {
    let mut reader = open(&args.file)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let (mut first, mut text) = (None, String::new());
    loop {
        let item = reader.step().map_err(|e| Failure::new(Exit::Usage, format!("{}: {e}", args.file.display())))?;
        let record = match item {
            Some(Item::Record(record)) => record,
            Some(Item::Begin(_)) => continue,
            Some(Item::End(_)) | None => break,
        };
        let now = match &record {
            Record::Call(call, _) | Record::Snapshot(call) => call.now(),
            _ => None,
        };
        first = first.or(now);
        let at = now.unwrap_or(0).saturating_sub(first.unwrap_or(0));
        if args.until_ms.is_some_and(|ms| at > ms.saturating_mul(MS)) {
            break;
        }
        if at < args.from_ms.saturating_mul(MS) {
            continue;
        }
        text.clear();
        line(&mut text, at, &record);
        if writeln!(out, "{text}").is_err() {
            return Ok(());
        }
    }
    let _ = out.flush();
    Ok(())
}

fn line(t: &mut String, at: Ns, record: &Record) {
    let _ = write!(t, "{:>11}  ", Seconds(at));
    let (call, given) = match record {
        Record::Call(call, given) => (call, Some(given)),
        Record::Snapshot(call) => (call, None),
        Record::Gap { dropped } => {
            let _ = write!(t, "gap       {dropped} calls are missing");
            return;
        }
        Record::SnapshotEnd(_) => {
            t.push_str("snapshot  complete");
            return;
        }
    };
    let _ = match call {
        Call::Process(_, ProcessEvent::Thread { tid, pid, comm, .. }) => {
            write!(t, "thread    {} of {} {comm}", tid.0, pid.0)
        }
        Call::Process(_, ProcessEvent::Exec { pid, comm, exe }) => write!(t, "exec      {} {comm} ({exe})", pid.0),
        Call::Process(_, ProcessEvent::Exit { tid, pid, .. }) => write!(t, "exit      {} of {}", tid.0, pid.0),
        Call::Enqueue(_, r) => write!(
            t,
            "enqueue   {} last on CPU {}, {:?}, ran {} us, weight {}, may use {}",
            r.tid.0,
            r.cpu.0,
            r.cause,
            r.stint_ns / 1000,
            r.weight,
            if r.allowed == crate::cpumask::CpuMask::ALL { "all".into() } else { format!("{:?}", r.allowed) }
        ),
        Call::Observe(_, cpu, s) => write!(
            t,
            "observe   CPU {}: home {} us, others {} us, of these long {} us",
            cpu.0,
            s.home_ns / 1000,
            s.other_ns / 1000,
            s.long_ns / 1000
        ),
        Call::Dispatch(_, Ready { asking, next, idle }) => write!(
            t,
            "dispatch  asking {}{}, idle {idle:?}",
            asking.map_or("-".into(), |c| c.0.to_string()),
            if *next { " (has a next task)" } else { "" }
        ),
        Call::RestoreHome(pid, home) => write!(t, "restore   {} to CPU {}", pid.0, home.0),
    };
    let Some(given) = given else { return };
    for d in &given.dispatch {
        let _ = write!(t, "; {} -> CPU {} ({})", d.tid.0, d.cpu.0, d.reason.name());
    }
    for u in &given.urgent {
        let _ = write!(t, "; urgent CPU {} rank {}", u.cpu.0, u.rank);
    }
    for n in &given.notices {
        let _ = write!(t, "; {n:?}");
    }
    let _ = write!(t, "; {} wait", given.waiting);
}

/// ns as seconds with six digits, by integers.
struct Seconds(Ns);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{}.{:06}", self.0 / 1_000_000_000, self.0 / 1000 % 1_000_000))
    }
}
