//! The dispatch process up to the loop: everything that may still touch files.

use crate::dispatcher;
use crate::options::Options;
use rustix::process::Signal;
use soft_domain::channel::{Channel, End, EndKind, Phase};
use soft_domain::host::scan;
use soft_domain::host::sysfs::read_topology;
use soft_domain::policies;
use soft_domain::soft_domain::Settings;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;

/// Attaches and schedules until the end, which is told through the channel.
pub fn main(options: &Options, channel_fd: i32) {
    // Dies with the host: the kernel then schedules again by itself.
    let parent = rustix::process::getppid();
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    if rustix::process::getppid() != parent || parent.is_none_or(|p| p.is_init()) {
        return;
    }
    // Ctrl-C at the terminal is for the host.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"scx_sd_dispatch");
    // SAFETY: the host made this descriptor for us alone; a wrong number is refused by `open`.
    let fd = unsafe { OwnedFd::from_raw_fd(channel_fd) };
    let channel = match Channel::open(fd) {
        Ok(channel) => channel,
        Err(e) => {
            soft_domain::host::journal::error(format_args!("the dispatcher cannot use its channel: {e}"));
            return;
        }
    };
    let end = schedule(options, &channel).unwrap_or_else(|e| End {
        kind: EndKind::Failed,
        kernel_kind: 0,
        kernel_code: 0,
        restart: false,
        text: format!("{e:#}"),
    });
    channel.set_end(&end);
    channel.set_phase(Phase::Ended);
}

fn schedule(options: &Options, channel: &Channel) -> anyhow::Result<End> {
    let topology = read_topology(Path::new("/sys"))?;
    let limits = options.limits()?;
    let settings = Settings { services: options.services.clone(), level: options.level, limits, ..Settings::default() };
    let mut policy = policies::build(&options.policy, &topology, &settings)
        .ok_or_else(|| anyhow::anyhow!("no policy '{}'", options.policy))?;
    let loop_options = dispatcher::Options {
        slice_ns: limits.slice_ns,
        partial: options.partial,
        exit_dump_len: options.exit_dump_len,
        show_dump: options.verbose > 0,
        verbose: options.verbose > 1,
    };
    let mut who = |f: &mut dyn FnMut(&soft_domain::event::ProcessEvent)| scan::scan(Path::new("/proc"), f);
    dispatcher::run(policy.as_mut(), &topology, &loop_options, channel, &mut who)
}
