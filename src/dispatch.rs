//! The dispatch process up to the loop, and what it does if it outlives its host.

use crate::dispatcher;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, Signal};
use soft_domain::channel::{Channel, End, EndKind, Phase};
use soft_domain::event::ProcessEvent;
use soft_domain::host::sched_policy::put_all_back;
use soft_domain::host::supervisor::{LOOK_STOPPING, PATIENCE};
use soft_domain::host::sysctl::Saved;
use soft_domain::host::sysfs::read_topology;
use soft_domain::host::{journal, partial, scan};
use soft_domain::options::Options;
use soft_domain::policies;
use soft_domain::trace::Recorded;
use soft_domain::trace::ring::Ring;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Threads that a recorder remembers for snapshots: 6 MB of the allocator's 64, of which a policy takes most.
const RECORDED_TASKS: usize = 1 << 14;

/// Attaches and schedules until the end, which is told through the channel.
pub fn main(options: &Options, channel_fd: i32, record_fd: Option<i32>) {
    // SAFETY: the host made this descriptor for us alone; a wrong number is refused by `open`.
    let fd = unsafe { OwnedFd::from_raw_fd(channel_fd) };
    let channel = match Channel::open(fd) {
        Ok(channel) => Arc::new(channel),
        Err(e) => {
            journal::error(format_args!("the dispatcher cannot use its channel: {e}"));
            return;
        }
    };
    // Ctrl-C at the terminal is for the host.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"scx_sd_dispatch");
    report_panics(&channel);
    // SAFETY: as above.
    let ring = record_fd.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    let end = watch_host(&channel, options.partial).and_then(|()| schedule(options, &channel, ring));
    let end = end.unwrap_or_else(|e| End {
        kind: EndKind::Failed,
        kernel_kind: 0,
        kernel_code: 0,
        restart: false,
        text: format!("{e:#}"),
    });
    channel.set_end(&end);
    channel.set_phase(Phase::Ended);
    if !host_lives(&channel) {
        put_all_back(&channel);
        if options.partial {
            partial::release_all(Path::new("/proc"));
        }
    }
}

/// A panic is told to the host in words. The standard hook might read debug symbols, for which the locked memory is
/// too small, and write to a terminal, which may wait for a task that nobody schedules.
fn report_panics(channel: &Arc<Channel>) {
    let channel = channel.clone();
    std::panic::set_hook(Box::new(move |info| {
        let text = format!("it panicked: {info}");
        channel.set_end(&End { kind: EndKind::Crashed, kernel_kind: 0, kernel_code: 0, restart: false, text });
    }));
}

/// Starts the thread that ends this process when the host dies, whatever kills it. A signal at the parent's death
/// would do too, but leave the kernel's settings changed. The thread sleeps in one system call until then, and its
/// stack is there before the attach.
fn watch_host(channel: &Arc<Channel>, partial: bool) -> anyhow::Result<()> {
    // Until the thread stands.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let host = rustix::process::getppid().filter(|_| host_lives(channel));
    let host = host.ok_or_else(|| anyhow::anyhow!("the host process is gone"))?;
    let pidfd = rustix::process::pidfd_open(host, PidfdFlags::empty())?;
    let told = channel.clone();
    let sysctl = Saved::read(Path::new("/proc"));
    std::thread::Builder::new().name("scx_sd_warden".into()).spawn(move || {
        while let Err(Errno::INTR) = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], None) {}
        // As the host would do it: see `supervisor`.
        if partial {
            partial::join();
        }
        for _ in 0..PATIENCE / LOOK_STOPPING {
            told.request_stop();
            std::thread::sleep(Duration::from_nanos(LOOK_STOPPING));
        }
        // Still here: stuck. The kernel detaches what is killed.
        let _ = sysctl.restore();
        put_all_back(&told);
        if partial {
            partial::release_all(Path::new("/proc"));
        }
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
    })?;
    rustix::process::set_parent_process_death_signal(None)?;
    anyhow::ensure!(host_lives(channel), "the host process is gone");
    Ok(())
}

/// A process whose parent dies is given to another one.
fn host_lives(channel: &Channel) -> bool {
    rustix::process::getppid().is_some_and(|p| p.as_raw_nonzero().get() == channel.host().0)
}

fn schedule(options: &Options, channel: &Arc<Channel>, ring: Option<OwnedFd>) -> anyhow::Result<End> {
    let topology = read_topology(Path::new("/sys"))?;
    let settings = options.policy_settings()?;
    let limits = settings.limits;
    let mut policy = policies::build(&options.policy, &topology, &settings)
        .ok_or_else(|| anyhow::anyhow!("no policy '{}'", options.policy))?;
    if let Some(fd) = ring {
        policy = Box::new(Recorded::new(policy, Ring::open(fd)?, RECORDED_TASKS.min(settings.max_tasks)));
    }
    let loop_options = dispatcher::Options {
        slice_ns: limits.slice_ns,
        partial: options.partial,
        fast_path: options.fast_path,
        exit_dump_len: options.exit_dump_len,
        show_dump: options.verbose > 0,
        verbose: options.verbose > 1,
    };
    let mut who = |f: &mut dyn FnMut(&ProcessEvent)| scan::scan(Path::new("/proc"), f);
    dispatcher::run(policy.as_mut(), &topology, &loop_options, channel, &mut who)
}
