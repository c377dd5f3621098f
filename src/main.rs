//! `scx_soft_domain`: what the user starts is the host process; it starts the same program again as the dispatcher.

mod affinity;
#[allow(dead_code)]
mod bpf;
#[allow(non_upper_case_globals, non_camel_case_types, non_snake_case, dead_code, clippy::all)]
mod bpf_intf {
    include!(concat!(env!("OUT_DIR"), "/bpf_intf.rs"));
}
mod bpf_skel {
    include!(concat!(env!("OUT_DIR"), "/bpf_skel.rs"));
}
mod dispatch;
mod dispatcher;
mod ending;
mod eyes;
mod eyes_skel {
    include!(concat!(env!("OUT_DIR"), "/eyes_skel.rs"));
}

use soft_domain::host::exit::{Exit, Failure};
use soft_domain::host::journal::{self, Journal, plain};
use soft_domain::host::preflight::{self, Roots, checks, first_failure};
use soft_domain::host::scan;
use soft_domain::host::supervisor::{Plan, supervise};
use soft_domain::host::sysfs::read_topology;
use soft_domain::options::{self, Command, Options, Parsed};
use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ExitCode, Stdio};

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    match run(&args) {
        Ok(()) => Exit::Fine.into(),
        Err(failure) => {
            journal::error(&failure);
            failure.exit.into()
        }
    }
}

fn run(args: &[OsString]) -> Result<(), Failure> {
    let options = match Options::parse(args.iter().cloned(), &version())? {
        Parsed::Options(options) => options,
        Parsed::Text(text) => {
            plain(text.trim_end());
            return Ok(());
        }
    };
    if options.help_limits {
        plain(options::help_limits().trim_end());
        return Ok(());
    }
    match &options.command {
        None => host(&options, args),
        Some(Command::Check { sysroot }) => check(sysroot.as_deref()),
        Some(Command::Dispatch { channel_fd }) => {
            dispatch::main(&options, *channel_fd);
            Ok(())
        }
    }
}

/// The host process.
fn host(options: &Options, args: &[OsString]) -> Result<(), Failure> {
    let journal = Journal::new(options.verbose);
    let roots = Roots::default();
    if let Some(failure) = first_failure(&checks(roots, &scx_topology)) {
        return Err(failure.clone());
    }
    let topology = preflight::topology(roots.sys)?;
    start_text(options, &topology);

    // Ctrl-C, SIGTERM and SIGHUP make this readable.
    let failed = |e: &dyn std::fmt::Display| Failure::new(Exit::Ejected, format!("cannot watch for signals: {e}"));
    let asked = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).map_err(|e| failed(&e))?;
    let tell = asked.try_clone().map_err(|e| failed(&e))?;
    ctrlc::set_handler(move || {
        let _ = rustix::io::write(&tell, &1u64.to_ne_bytes());
    })
    .map_err(|e| failed(&e))?;

    let plan = Plan {
        services: &options.services,
        partial: options.partial,
        spawn: &|channel| spawn(args, channel),
        asked: asked.as_fd(),
        roots,
    };
    supervise(&plan, journal, topology)
}

/// Starts the dispatcher: the same program with the same options.
fn spawn(args: &[OsString], channel: BorrowedFd<'_>) -> std::io::Result<Child> {
    // Not close-on-exec, unlike the original.
    let inherited = rustix::io::dup(channel)?;
    let (name, options) = args.split_first().ok_or_else(|| std::io::Error::other("no program name"))?;
    std::process::Command::new("/proc/self/exe")
        .arg0(name)
        .args(options.iter().filter(|a| *a != "--"))
        .args(["dispatch", "--channel-fd", &inherited.as_raw_fd().to_string()])
        .stdin(Stdio::null())
        .spawn()
}

/// What is printed before the start.
fn start_text(options: &Options, topology: &soft_domain::topology::Topology) {
    plain(format_args!("scx_soft_domain {}, kernel {}\n", version(), preflight::kernel_release()));
    plain(format_args!("options\n{}", options.in_force()));
    plain(format_args!("topology: {topology}"));
    let found = scan::instances(Path::new("/proc"), &options.services).unwrap_or_default();
    if !options.services.is_empty() {
        plain("services");
    }
    for (i, pattern) in options.services.iter().enumerate() {
        let pattern = soft_domain::host::report::escaped(&pattern.text());
        match found.iter().filter(|(_, service)| *service == i).count() {
            0 => plain(format_args!("  -P {pattern}: nothing matches yet, waiting for it")),
            n => plain(format_args!("  -P {pattern}: {n} running")),
        }
    }
    plain("");
}

/// Version and commit, and the crates that matter.
fn version() -> String {
    format!(
        "{} ({})\nscx_rustland_core {}, scx_utils {}",
        env!("CARGO_PKG_VERSION"),
        env!("SOFT_DOMAIN_COMMIT"),
        scx_rustland_core::VERSION,
        *scx_utils::build_id::SCX_CARGO_VERSION
    )
}

/// `check`: the tree, and on the machine itself whether it can run the scheduler.
fn check(sysroot: Option<&Path>) -> Result<(), Failure> {
    if let Some(root) = sysroot {
        let topology = read_topology(root).map_err(|e| Failure::new(Exit::Unfit, e.to_string()))?;
        plain(topology.to_string().trim_end());
        return Ok(());
    }
    let roots = Roots::default();
    if let Ok(topology) = preflight::topology(roots.sys) {
        plain(format_args!("{}\n", topology.to_string().trim_end()));
    }
    let checks = checks(roots, &scx_topology);
    for check in &checks {
        match &check.result {
            Ok(found) => plain(format_args!("  ok      {}: {found}", check.about)),
            Err(failure) => plain(format_args!("  FAILED  {}: {failure}", check.about)),
        }
    }
    first_failure(&checks).map_or(Ok(()), |f| Err(f.clone()))
}

/// The topology as the shim's own start reads it, where a failure would be a panic.
fn scx_topology() -> Result<(), String> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = std::panic::catch_unwind(scx_utils::Topology::new);
    std::panic::set_hook(hook);
    match result {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(e)) => Err(format!("{e:#}")),
        Err(panic) => Err(panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
            .unwrap_or_else(|| "it panics".into())),
    }
}
