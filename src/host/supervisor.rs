//! The host process at work: starts the dispatcher, passes on what it tells, and cleans up behind it.
//!
//! ```text
//!   begin -> spawn -> watch -> clean up -> verdict -+-> done
//!     ^                                             |
//!     +------- after a pause, not too often --------+
//! ```

use crate::channel::{Channel, End, EndKind, Phase};
use crate::event::Notice;
use crate::host::clock::now;
use crate::host::exit::{Exit, Failure};
use crate::host::journal::{Journal, plain};
use crate::host::partial::{self, Switched};
use crate::host::preflight::{Roots, attached, topology};
use crate::host::procstat::Stat;
use crate::host::report::{self, Names, Run};
use crate::host::sysctl::Saved;
use crate::ids::{MS, Ns, Pid};
use crate::service::Pattern;
use crate::stats::{Counter, Counters};
use crate::topology::Topology;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::PidfdFlags;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::{Child, ExitStatus};

/// How often the host looks when nothing happens.
const LOOK: Ns = 500 * MS;
/// How often while the dispatcher starts.
const LOOK_STARTING: Ns = 50 * MS;
/// How often while it is asked to stop: each look wakes it up, see [`Host::stop`].
const LOOK_STOPPING: Ns = 2 * MS;
/// A dispatcher that has not detached by then is killed; the kernel detaches it.
const PATIENCE: Ns = 800 * MS;
/// Restarts allowed in [`RESTART_WINDOW`].
const RESTARTS: usize = 5;
/// See [`RESTARTS`].
const RESTART_WINDOW: Ns = 60_000 * MS;
/// The first pause before a restart; doubled with every further one in the window.
const PAUSE: Ns = 100 * MS;

/// `SCX_EXIT_ERROR_STALL` of the kernel's `enum scx_exit_kind`: a task waited for too long.
const EXIT_ERROR_STALL: i32 = 1026;

/// What the host needs to know.
pub struct Plan<'a> {
    /// The `-P` patterns.
    pub services: &'a [Pattern],
    /// `--partial`.
    pub partial: bool,
    /// Starts a dispatcher that finds the channel at this descriptor.
    pub spawn: &'a dyn Fn(BorrowedFd<'_>) -> io::Result<Child>,
    /// Readable once the operator wants an end.
    pub asked: BorrowedFd<'a>,
    /// Where the machine is.
    pub roots: Roots<'a>,
}

/// Why a dispatcher is no more.
enum Gone {
    /// As wanted.
    Asked,
    /// It told why.
    Told(End),
    /// It did not.
    Silent(ExitStatus),
}

/// What to do next.
enum Verdict {
    End(Result<(), Failure>),
    Restart(String),
}

struct Host<'a> {
    plan: &'a Plan<'a>,
    journal: Journal,
    channel: Channel,
    sysctl: Saved,
    topology: Topology,
    names: Names,
    switched: Option<Switched>,
    run: Run,
    /// When the operator asked for an end.
    stopping: Option<Ns>,
    restarts: VecDeque<Ns>,
}

/// Runs until asked to stop or until nothing helps. Prints the summary whenever it had been running.
pub fn supervise(plan: &Plan<'_>, journal: Journal, topology: Topology) -> Result<(), Failure> {
    let failed = |e: io::Error| Failure::new(Exit::Ejected, format!("cannot make the shared memory: {e}"));
    let mut host = Host {
        plan,
        journal,
        channel: Channel::create().map_err(failed)?,
        sysctl: Saved::read(plan.roots.proc),
        topology,
        names: Names::default(),
        switched: plan.partial.then(|| Switched::new(plan.roots.proc)),
        run: Run { ran_ns: 0, starts: 0, counters: Counters::default() },
        stopping: None,
        restarts: VecDeque::new(),
    };
    let result = host.supervise();
    if let Some(switched) = &mut host.switched {
        let n = switched.restore();
        host.journal.say(format_args!("{n} threads have their scheduling policy back"));
    }
    if host.run.ran_ns > 0 {
        host.summary();
    }
    result
}

impl Host<'_> {
    fn supervise(&mut self) -> Result<(), Failure> {
        loop {
            self.channel.begin();
            self.run.starts += 1;
            let gone = self.one_dispatcher()?;
            match self.sysctl.restore() {
                Ok(false) => {}
                Ok(true) => self.journal.say("vm.compact_unevictable_allowed has its value back"),
                Err(e) => self.journal.say(format_args!("cannot put vm.compact_unevictable_allowed back: {e}")),
            }
            match verdict(gone) {
                Verdict::End(result) => return result,
                Verdict::Restart(why) => {
                    if self.stopping.is_some() {
                        return Ok(());
                    }
                    self.journal.say(format_args!("restarting: {why}"));
                    self.pause_before_restart(&why)?;
                    if self.stopping.is_some() {
                        return Ok(());
                    }
                    self.topology = topology(self.plan.roots.sys)?;
                    self.journal.say(format_args!("topology: {}", self.topology.summary()));
                }
            }
        }
    }

    /// Starts one and stays with it to its end.
    fn one_dispatcher(&mut self) -> Result<Gone, Failure> {
        let failed = |what: &str, e: io::Error| Failure::new(Exit::Ejected, format!("{what}: {e}"));
        let mut child = (self.plan.spawn)(self.channel.fd()).map_err(|e| failed("cannot start the dispatcher", e))?;
        let pid = rustix::process::Pid::from_child(&child);
        let pidfd = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => fd,
            Err(e) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed("cannot watch the dispatcher", e.into()));
            }
        };
        let watched = Watched { pidfd, stat: self.plan.roots.proc.join(format!("{}/stat", child.id())) };
        self.watch(&mut child, &watched);
        // Dead or dying; its /proc entry is gone after this.
        let status = child.wait().map_err(|e| failed("cannot wait for the dispatcher", e))?;
        self.take_notices();
        Ok(match self.channel.end() {
            Some(End { kind: EndKind::Asked, .. }) => Gone::Asked,
            Some(end) => Gone::Told(end),
            None if self.stopping.is_some() => Gone::Asked,
            None => Gone::Silent(status),
        })
    }

    /// Until the dispatcher is dead.
    fn watch(&mut self, child: &mut Child, watched: &Watched) {
        let mut running: Option<(Ns, Stat)> = None;
        let mut last: Option<(Ns, Stat)> = None;
        let mut joined = false;
        loop {
            let wait = match (self.stopping, self.channel.phase()) {
                (Some(_), _) => LOOK_STOPPING,
                (None, Phase::Starting) => LOOK_STARTING,
                (None, _) => LOOK,
            };
            let dead = watched.wait(wait, self.stopping.is_none().then_some(self.plan.asked));
            self.take_notices();
            if self.channel.phase() == Phase::Running && !dead.dispatcher && self.stopping.is_none() {
                let sample = Stat::read(&watched.stat).map(|s| (now(), s));
                if running.is_none() {
                    running = sample;
                    self.announce();
                }
                last = sample.or(last);
            }
            if dead.dispatcher {
                break;
            }
            if dead.asked && self.stopping.is_none() {
                self.stopping = Some(now());
                self.channel.request_stop();
                self.journal.say("stopping");
                joined = self.plan.partial && partial::join();
            }
            if self.stopping.is_some_and(|at| now().saturating_sub(at) > PATIENCE) {
                // Detached and only tidying up, or stuck: either way nothing is lost.
                let _ = child.kill();
            }
        }
        if joined {
            partial::leave();
        }
        let mut counters = self.channel.counters();
        if let (Some((from, first)), Some((to, last))) = (&running, &last) {
            report::own_cost(&mut counters, first, last, rustix::param::clock_ticks_per_second());
            self.run.ran_ns += self.stopping.unwrap_or_else(now).max(*to).saturating_sub(*from).max(1);
        }
        add(&mut self.run.counters, &counters);
    }

    fn announce(&mut self) {
        let name = attached(self.plan.roots.sys).unwrap_or_else(|| "soft_domain".into());
        let scope = if self.plan.partial { "the matched services" } else { "all tasks" };
        self.journal.say(format_args!("running: {name} schedules {scope}; Ctrl-C ends it"));
    }

    fn take_notices(&mut self) {
        while let Some((when, notice)) = self.channel.next_notice() {
            self.names.learn(&notice);
            let text = report::words(&notice, &self.names, self.plan.services, &self.topology);
            match notice {
                Notice::Domain { .. } => self.journal.detail(when, text),
                _ => self.journal.at(when, text),
            }
            if let Notice::Left { .. } = notice {
                self.names.forget(&notice);
            }
            if let (Notice::Adopted { pid, .. }, Some(switched)) = (notice, &mut self.switched) {
                let n = switched.switch(pid);
                self.journal.detail(now(), format_args!("switched {n} threads of {}", self.names.of(pid)));
            }
        }
    }

    fn pause_before_restart(&mut self, why: &str) -> Result<(), Failure> {
        let at = now();
        while self.restarts.front().is_some_and(|t| at.saturating_sub(*t) > RESTART_WINDOW) {
            self.restarts.pop_front();
        }
        if self.restarts.len() >= RESTARTS {
            return Err(Failure::new(
                Exit::GaveUp,
                format!(
                    "gave up after {RESTARTS} restarts in {} s; the last cause: {why}",
                    RESTART_WINDOW / (1000 * MS)
                ),
            ));
        }
        let pause = PAUSE << self.restarts.len();
        self.restarts.push_back(at);
        if wait_for(&[PollFd::from_borrowed_fd(self.plan.asked, PollFlags::IN)], pause) != 0 {
            self.stopping = Some(now());
        }
        Ok(())
    }

    fn summary(&self) {
        plain(format_args!("\n{}", report::summary(&self.run)));
        let homes: Vec<_> = self.channel.homes();
        if !homes.is_empty() {
            let mut homes: Vec<(Pid, _)> = homes;
            homes.sort();
            let homes: Vec<_> = homes.into_iter().map(|(pid, cpu)| (cpu, self.names.of(pid))).collect();
            plain(format_args!("placement at the end\n{}", report::placement(&self.topology, &homes)));
        }
    }
}

struct Watched {
    pidfd: OwnedFd,
    stat: std::path::PathBuf,
}

struct Seen {
    dispatcher: bool,
    asked: bool,
}

impl Watched {
    fn wait(&self, most: Ns, asked: Option<BorrowedFd<'_>>) -> Seen {
        let mut fds = vec![PollFd::new(&self.pidfd, PollFlags::IN)];
        fds.extend(asked.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let ready = wait_for(&fds, most);
        Seen { dispatcher: ready & 1 != 0, asked: ready & 2 != 0 }
    }
}

/// Waits for any of `fds`, `most` ns at the longest. Bit i of the result: fd i is ready.
fn wait_for(fds: &[PollFd<'_>], most: Ns) -> u32 {
    let mut fds = fds.to_vec();
    let timeout = Timespec { tv_sec: (most / (1000 * MS)) as i64, tv_nsec: (most % (1000 * MS)) as i64 };
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) => (0..).zip(&fds).filter(|(_, f)| !f.revents().is_empty()).fold(0, |bits, (i, _)| bits | 1 << i),
        Err(_) => 0,
    }
}

fn verdict(gone: Gone) -> Verdict {
    let failed = |text: String| Verdict::End(Err(Failure::new(Exit::Ejected, text)));
    match gone {
        Gone::Asked => Verdict::End(Ok(())),
        Gone::Told(End { restart: true, text, .. }) => Verdict::Restart(text),
        Gone::Told(End { kernel_kind: EXIT_ERROR_STALL, text, .. }) => Verdict::Restart(text),
        Gone::Told(End { kind: EndKind::Ejected, text, .. }) => {
            failed(format!("the kernel ended the scheduler: {text}; the kernel's own scheduler is back"))
        }
        Gone::Told(End { text, .. }) => failed(format!("the dispatcher failed: {text}")),
        Gone::Silent(status) => failed(format!("the dispatcher died ({status}); the kernel's own scheduler is back")),
    }
}

fn add(total: &mut Counters, more: &Counters) {
    for (counter, n) in Counter::ALL.iter().zip(&more.0) {
        let sum = match counter {
            Counter::LongestWaitUs => total.get(*counter).max(*n),
            _ => total.get(*counter).saturating_add(*n),
        };
        total.set(*counter, sum);
    }
}
