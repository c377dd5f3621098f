//! The host process at work: starts the dispatcher, passes on what it tells, and cleans up behind it.
//!
//! ```text
//!   begin -> spawn -> watch -> clean up -> verdict -+-> done
//!     ^                                             |
//!     +------- after a pause, not too often --------+
//! ```

mod restarts;
mod verdict;

use crate::channel::{Channel, End, EndKind, Phase};
use crate::event::Notice;
use crate::host::clock::now;
use crate::host::exit::{Exit, Failure};
use crate::host::journal::{Journal, plain};
use crate::host::partial::{self, Switched};
use crate::host::preflight::{Roots, attached, topology};
use crate::host::procstat::Stat;
use crate::host::report::{self, Names, Run};
use crate::host::sched_policy::put_all_back;
use crate::host::sysctl::Saved;
use crate::ids::{MS, Ns, Tid};
use crate::service::Pattern;
use crate::stats::Counters;
use crate::topology::Topology;
use crate::trace::header::Header;
use crate::trace::recording::Recording;
use restarts::{Cause, Restarts};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::PidfdFlags;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::Child;
use verdict::{Gone, Verdict, verdict};

/// How often the host looks when nothing happens.
const LOOK: Ns = 500 * MS;
/// How often while the dispatcher starts.
const LOOK_STARTING: Ns = 50 * MS;
/// How often while it is asked to stop. The dispatcher runs when tasks come and go; on an idle machine the host's own
/// short sleeps are what brings it back.
pub const LOOK_STOPPING: Ns = 2 * MS;
/// A dispatcher that the kernel has ended is stuck if it has not noticed after so many looks, ...
const LOOKS_TO_NOTICE: u32 = 2;
/// ... or has not tidied up.
const LOOKS_TO_END: u32 = 20;
/// A dispatcher that has not ended by then is killed: it is detached and tidies up, or it is stuck, and then the
/// kernel detaches it.
pub const PATIENCE: Ns = 800 * MS;
/// Notices shown per look; where services come and go by the hundred the rest is only counted.
const LINES: usize = 20;
/// Lines about real-time tasks come this seldom.
const RESCUES_EVERY: Ns = 10_000 * MS;
/// The set of CPUs has to stay the same for this long before a restart.
const STABLE: Ns = 500 * MS;

/// What the host needs to know.
pub struct Plan<'a> {
    /// The `-P` patterns.
    pub services: &'a [Pattern],
    /// `--partial`.
    pub partial: bool,
    /// Starts a dispatcher that inherits this descriptor of the channel.
    pub spawn: &'a dyn Fn(BorrowedFd<'_>) -> io::Result<Child>,
    /// Readable once the operator wants an end.
    pub asked: BorrowedFd<'a>,
    /// Where the machine is.
    pub roots: Roots<'a>,
    /// `--record`: and what the policy is made from, but for the topology.
    pub recording: Option<(&'a Recording, &'a Header)>,
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
    restarts: Restarts,
    /// Stuck tasks told of, and when.
    rescues: (u64, Ns),
}

/// Runs until asked to stop or until nothing helps. Prints the summary whenever it had been running.
pub fn supervise(plan: &Plan<'_>, journal: Journal, topology: Topology) -> Result<(), Failure> {
    let mut host = Host {
        plan,
        journal,
        channel: Channel::create().map_err(|e| failed("cannot make the shared memory", &e))?,
        sysctl: Saved::read(plan.roots.proc),
        topology,
        names: Names::default(),
        switched: plan.partial.then(|| Switched::new(plan.roots.proc)),
        run: Run { ran_ns: 0, starts: 0, counters: Counters::default() },
        stopping: None,
        restarts: Restarts::default(),
        rescues: (0, 0),
    };
    let result = host.supervise();
    host.restore_sysctl();
    if let Some(switched) = &mut host.switched {
        let n = switched.restore();
        host.journal.say(format_args!("{n} threads have their scheduling policy back"));
    }
    host.summary();
    result
}

impl Host<'_> {
    fn supervise(&mut self) -> Result<(), Failure> {
        loop {
            self.channel.begin();
            if let Some((recording, header)) = self.plan.recording {
                recording.begin(&Header { topology: self.topology.clone(), ..header.clone() });
            }
            self.run.starts += 1;
            let gone = self.one_dispatcher()?;
            self.restore_sysctl();
            let roots = self.plan.roots;
            let changed = topology(roots.sys).is_ok_and(|t| t != self.topology);
            match verdict(gone, attached(roots.sys), changed) {
                Verdict::End(result) => return result,
                Verdict::Restart(..) if self.stopping.is_some() => return Ok(()),
                Verdict::Restart(cause, why) => {
                    self.journal.say(format_args!("restarting: {why}"));
                    self.pause(cause, &why)?;
                    if self.stopping.is_some() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Starts one and stays with it to its end.
    fn one_dispatcher(&mut self) -> Result<Gone, Failure> {
        let mut child = (self.plan.spawn)(self.channel.fd()).map_err(|e| failed("cannot start the dispatcher", &e))?;
        let pid = rustix::process::Pid::from_child(&child);
        let pidfd = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => fd,
            Err(e) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed("cannot watch the dispatcher", &e.into()));
            }
        };
        let watched = Watched { pidfd, stat: self.plan.roots.proc.join(format!("{}/stat", child.id())) };
        let stuck = self.watch(&mut child, &watched);
        let status = child.wait().map_err(|e| failed("cannot wait for the dispatcher", &e))?;
        self.take_notices();
        put_all_back(&self.channel);
        Ok(match self.channel.end() {
            Some(End { kind: EndKind::Asked, .. }) => Gone::Asked,
            Some(end) => Gone::Told(end),
            None if self.stopping.is_some() => Gone::Asked,
            None if stuck => Gone::Stuck,
            None => Gone::Silent(status),
        })
    }

    /// Until the dispatcher is dead. `true`: it had to be killed because it hung after the kernel had ended it.
    fn watch(&mut self, child: &mut Child, watched: &Watched) -> bool {
        // The first and the last look at it while it was running.
        let mut cost: Option<[(Ns, Stat); 2]> = None;
        let (mut joined, mut looks, mut stuck) = (false, 0, false);
        loop {
            let wait = match (self.stopping, self.channel.phase()) {
                (Some(_), _) => LOOK_STOPPING,
                (None, Phase::Starting) => LOOK_STARTING,
                (None, _) => LOOK,
            };
            let seen = watched.wait(wait, self.stopping.is_none().then_some(self.plan.asked));
            self.take_notices();
            self.take_rescues();
            if let Some(trouble) = self.plan.recording.and_then(|(recording, _)| recording.trouble()) {
                self.journal.say(trouble);
            }
            if seen.dispatcher {
                break;
            }
            let (phase, stat) = (self.channel.phase(), Stat::read(&watched.stat));
            let dying = stat.is_some_and(|s| s.exiting);
            if phase == Phase::Running
                && self.stopping.is_none()
                && let Some(stat) = stat.filter(|_| !dying)
            {
                let look = (now(), stat);
                if cost.is_none() {
                    self.announce();
                }
                cost = Some([cost.map_or(look, |c| c[0]), look]);
            }
            if phase != Phase::Starting && !dying && self.stopping.is_none() {
                looks = if attached(self.plan.roots.sys).is_none() { looks + 1 } else { 0 };
            }
            if seen.asked && self.stopping.is_none() {
                self.stopping = Some(now());
                self.channel.request_stop();
                self.journal.say("stopping");
                joined = self.plan.partial && partial::join();
            }
            // It normally notices before we do; on a busy machine it then takes a while to tidy up, and to die.
            stuck = looks > if phase == Phase::Running { LOOKS_TO_NOTICE } else { LOOKS_TO_END };
            if stuck || self.stopping.is_some_and(|at| now().saturating_sub(at) > PATIENCE) {
                let _ = child.kill();
            }
        }
        if joined {
            partial::leave();
        }
        let mut counters = self.channel.counters();
        if let Some([(from, first), (_, last)]) = &cost {
            report::own_cost(&mut counters, first, last, rustix::param::clock_ticks_per_second());
            self.run.ran_ns += self.stopping.unwrap_or_else(now).saturating_sub(*from).max(1);
        }
        self.run.counters.absorb(&counters);
        stuck
    }

    fn announce(&mut self) {
        let name = attached(self.plan.roots.sys).unwrap_or_else(|| "soft_domain".into());
        let scope = if self.plan.partial { "the matched services" } else { "all tasks" };
        self.journal.say(format_args!("running: {name} schedules {scope}; Ctrl-C ends it"));
    }

    /// Passes on what the dispatcher told, in full up to [`LINES`].
    fn take_notices(&mut self) {
        let mut lines = 0;
        let mut more = 0;
        while let Some((when, notice)) = self.channel.next_notice() {
            self.names.learn(&notice);
            let text = report::words(&notice, &self.names, self.plan.services, &self.topology);
            match notice {
                _ if lines >= LINES && !self.journal.is_verbose() => more += 1,
                _ => {
                    lines += 1;
                    self.journal.at(when, text);
                }
            }
            match (notice, &mut self.switched) {
                (Notice::Adopted { pid, .. }, Some(switched)) => {
                    let n = switched.switch(pid);
                    self.journal.detail(now(), format_args!("switched {n} threads of {}", self.names.of(pid)));
                }
                (Notice::Left { pid, .. }, Some(switched)) => switched.release(pid),
                _ => {}
            }
            self.names.forget(&notice);
        }
        if more > 0 {
            self.journal.say(format_args!("..and {more} more of these (-v shows all)"));
        }
    }

    /// Says who keeps others from running, now and then.
    fn take_rescues(&mut self) {
        let (helped, not, last) = self.channel.rescues();
        let all = helped.saturating_add(not);
        let (told, when) = self.rescues;
        if all <= told || when != 0 && now().saturating_sub(when) < RESCUES_EVERY {
            // A fresh dispatcher begins at 0.
            self.rescues.0 = told.min(all);
            return;
        }
        let name = |tid: Tid| match Stat::read(&self.plan.roots.proc.join(format!("{}/stat", tid.0))) {
            Some(stat) => format!("{} {}", report::escaped(&stat.comm.to_string()), tid.0),
            None => tid.0.to_string(),
        };
        self.journal.say(format_args!(
            "real-time task {} keeps CPU {} from {} and maybe others: {helped} helped so far, {not} not",
            name(last.holder),
            last.cpu,
            name(last.tid)
        ));
        self.rescues = (all, now());
    }

    /// Waits before a restart, until the set of CPUs is stable, and looks at the machine again.
    fn pause(&mut self, cause: Cause, why: &str) -> Result<(), Failure> {
        let Some(pause) = self.restarts.next(now(), cause) else {
            let seconds = restarts::WINDOW / (1000 * MS);
            return Err(Failure::new(
                Exit::GaveUp,
                format!("restarted too often within {seconds} s; the last cause: {why}"),
            ));
        };
        self.rest(pause);
        self.topology = topology(self.plan.roots.sys)?;
        // Bounded: a set that never comes to rest is left to the count of restarts.
        for _ in 0..20 {
            if cause != Cause::Hotplug || self.stopping.is_some() {
                break;
            }
            self.rest(STABLE);
            let before = std::mem::replace(&mut self.topology, topology(self.plan.roots.sys)?);
            if before == self.topology {
                break;
            }
        }
        self.journal.say(format_args!("topology: {}", self.topology.summary()));
        Ok(())
    }

    /// Waits, unless asked to stop.
    fn rest(&mut self, time: Ns) {
        if self.stopping.is_none() && wait_for(&[PollFd::from_borrowed_fd(self.plan.asked, PollFlags::IN)], time) != 0 {
            self.stopping = Some(now());
        }
    }

    fn restore_sysctl(&self) {
        match self.sysctl.restore() {
            Ok(false) => {}
            Ok(true) => self.journal.say("vm.compact_unevictable_allowed has its value back"),
            Err(e) => self.journal.say(format_args!("cannot put vm.compact_unevictable_allowed back: {e}")),
        }
    }

    fn summary(&self) {
        if self.run.ran_ns == 0 {
            self.journal.say("ended before it was running");
            return;
        }
        plain(format_args!("\n{}", report::summary(&self.run)));
        let mut homes = self.channel.homes();
        homes.sort();
        if !homes.is_empty() {
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
    /// The dispatcher is dead.
    dispatcher: bool,
    /// The operator wants an end.
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

fn failed(what: &str, e: &io::Error) -> Failure {
    Failure::new(Exit::Ejected, format!("{what}: {e}"))
}
