//! The dispatch process: attaches the scheduler and moves tasks, nothing else.
//!
//! From the attach on, this one thread allocates nothing, takes no lock, reads no file and makes no system call but
//! `sched_yield`, and `sched_getaffinity` for tasks with a restricted mask (design: README, "two processes").
//!
//! How it runs. The thread is itself a sched_ext task that the shim runs whenever a CPU looks for work while records
//! wait in its ring, so a decision is taken on the very CPU that needs it. `eyes.bpf.c` makes CPUs look for work when
//! a task wakes up that should not wait for a tick.

use crate::affinity::Affinity;
use crate::bpf::{BpfScheduler, DispatchedTask, QueuedTask};
use crate::bpf_skel;
use crate::ending;
use crate::eyes::{Eyes, ShimWords};
use crate::rescue;
use anyhow::{Context, Result};
use libbpf_rs::OpenObject;
use libbpf_rs::skel::SkelBuilder;
use scx_utils::compat;
use soft_domain::channel::{Channel, End, EndKind, Phase};
use soft_domain::event::{Answers, Cause, Dispatch, Notice, ProcessEvent, Ready, Runnable, Spent};
use soft_domain::ids::{CpuId, MAX_CPUS, MS, Ns, Tid};
use soft_domain::policy::{OBSERVE_EVERY, Policy};
use soft_domain::rules::{ON_ITS_WAY, RECORDS_PER_PASS, RING_RECORDS};
use soft_domain::stats::{Counter, Counters};
use soft_domain::topology::Topology;
use soft_domain::undrained::Undrained;
use std::mem::{MaybeUninit, offset_of};
use std::sync::Arc;

/// How often the counters are shown to the host, which looks twice a second.
const PUBLISH_EVERY: Ns = 100 * MS;

/// The kernel's `SCX_ENQ_WAKEUP`, where its BTF does not tell; newer kernels have moved the bit.
const ENQ_WAKEUP: u64 = 1;

/// Options of the shim and the loop.
pub struct Options {
    /// Slice of tasks that the kernel dispatches by itself (pinned kthreads), ns.
    pub slice_ns: Ns,
    /// Only tasks of class SCHED_EXT are ours.
    pub partial: bool,
    /// The kernel places wake-ups while a CPU is idle, and we never hear of them.
    pub fast_path: bool,
    /// Bytes of the kernel's dump when it ejects us; 0 = its default.
    pub exit_dump_len: u32,
    /// Print the kernel's dump when it ejects us.
    pub show_dump: bool,
    /// Verbose libbpf.
    pub verbose: bool,
}

/// Tells of every process and thread there is.
pub type Scan<'a> = dyn FnMut(&mut dyn FnMut(&ProcessEvent)) -> std::io::Result<()> + 'a;

/// Runs until asked to stop or ejected; the result tells which.
pub fn run(
    policy: &mut dyn Policy,
    topology: &Topology,
    options: &Options,
    channel: &Arc<Channel>,
    scan: &mut Scan,
) -> Result<End> {
    let tid = Tid(std::process::id() as i32);
    let words = shim_words()?;
    let enq_wakeup = compat::read_enum("scx_enq_flags", "SCX_ENQ_WAKEUP").unwrap_or(ENQ_WAKEUP);
    let mut eyes_object = MaybeUninit::uninit();
    let mut eyes = Eyes::load(&mut eyes_object, topology, tid, &words).context("eyes.bpf.c")?;
    let (stuck, cpus) = eyes.for_rescue()?;
    rescue::start(stuck, &cpus, tid, channel.clone())?;
    let mut answers = Answers::with_capacity(MAX_CPUS * 2);
    let mut outlet = Outlet { channel, counters: Counters::default(), published_at: 0 };
    // What happens meanwhile waits in the ring of `eyes`.
    scan(&mut |e| policy.process(now(), e, &mut answers)).context("listing /proc")?;
    restore_homes(policy, topology, channel, &mut answers);
    outlet.tell(now(), &answers.notices);

    // The shim locks its memory only after the attach, when every page fault already waits for tasks that we should be
    // scheduling. By then all pages shall be here. (Not by the crate's `lock_memory`: called twice it would take the
    // sysctl that it changes itself for the one to restore.)
    rustix::mm::mlockall(rustix::mm::MlockAllFlags::CURRENT | rustix::mm::MlockAllFlags::FUTURE)
        .context("locking memory")?;

    let mut object = MaybeUninit::<OpenObject>::uninit();
    let mut bpf = BpfScheduler::init(
        &mut object,
        None,
        options.exit_dump_len,
        options.partial,
        options.verbose,
        options.fast_path,
        false,
        options.slice_ns,
        "soft_domain",
    )?;
    eyes.enable(&bpf.skel.maps.bss, &bpf.skel.maps.queued)?;
    let mut dispatcher = Dispatcher {
        topology,
        eyes: &mut eyes,
        affinity: Affinity::new(topology),
        on_its_way: vec![None; MAX_CPUS],
        last_record: vec![0; MAX_CPUS],
        spent: vec![Spent::default(); MAX_CPUS],
        observe_due: 0,
        undrained: Undrained::default(),
        enq_wakeup,
        answers,
        outlet,
    };
    channel.set_phase(Phase::Running);
    while !channel.stop_requested() && !bpf.exited() {
        dispatcher.pass(&mut bpf, policy);
    }
    channel.set_phase(Phase::Ending);
    dispatcher.publish(&bpf, policy);
    let end = ending::read(&bpf);
    if options.show_dump && end.is_some() {
        ending::print_dump();
    }
    eyes.disable();
    drop(bpf);
    let asked =
        End { kind: EndKind::Asked, kernel_kind: 0, kernel_code: 0, restart: false, text: "asked to stop".into() };
    Ok(end.unwrap_or(asked))
}

/// Instances keep the homes that they had under our predecessor.
fn restore_homes(policy: &mut dyn Policy, topology: &Topology, channel: &Channel, answers: &mut Answers) {
    let old = channel.homes();
    for (pid, home) in &old {
        // Instances that are still there get theirs again with their notice.
        channel.set_home(*pid, None);
        policy.restore_home(*pid, *home);
    }
    for notice in &mut answers.notices {
        if let Notice::Adopted { pid, home, .. } = notice
            && let Some((_, kept)) = old.iter().find(|(p, c)| p == pid && topology.cpu(*c).is_some())
        {
            *home = *kept;
        }
    }
}

/// Where the shim keeps what `eyes` shares with it. Its `.bss` also holds statics that the generated struct leaves out,
/// so the size comes from the object itself.
fn shim_words() -> Result<ShimWords> {
    let mut object = MaybeUninit::uninit();
    let open = bpf_skel::BpfSkelBuilder::default().open(&mut object).context("opening the shim")?;
    Ok(ShimWords {
        bss_size: open.maps.bss.value_size(),
        nr_scheduled: offset_of!(bpf_skel::types::bss, nr_scheduled) as u32,
        user_dispatches: offset_of!(bpf_skel::types::bss, nr_user_dispatches) as u32,
        bounce_dispatches: offset_of!(bpf_skel::types::bss, nr_bounce_dispatches) as u32,
    })
}

struct Dispatcher<'a, 'b> {
    topology: &'a Topology,
    eyes: &'a mut Eyes<'b>,
    affinity: Affinity,
    /// Per CPU: its switch count and the time when a task was sent to it.
    on_its_way: Vec<Option<(u32, Ns)>>,
    /// Per CPU: the number of the last record that sends a task there.
    last_record: Vec<u64>,
    /// Per CPU: how it had spent its time at the last observation.
    spent: Vec<Spent>,
    observe_due: Ns,
    undrained: Undrained,
    enq_wakeup: u64,
    answers: Answers,
    outlet: Outlet<'a>,
}

/// Records that the shim has counted as drained.
fn drained(bpf: &BpfScheduler) -> u64 {
    bpf.skel.maps.bss_data.as_ref().map_or(0, |b| b.nr_user_dispatches + b.nr_bounce_dispatches)
}

/// What the host hears of us. Memory only.
struct Outlet<'a> {
    channel: &'a Channel,
    counters: Counters,
    published_at: Ns,
}

impl Outlet<'_> {
    /// Passes notices on, and keeps the homes for a successor.
    fn tell(&mut self, now: Ns, notices: &[Notice]) {
        for notice in notices {
            match notice {
                Notice::Adopted { pid, home, .. } | Notice::Moved { pid, to: home, .. } => {
                    self.channel.set_home(*pid, Some(*home));
                }
                Notice::Left { pid, .. } => {
                    self.channel.set_home(*pid, None);
                }
            }
            if !self.channel.notice(now, notice) {
                self.counters.add(Counter::NoticesDropped);
            }
        }
    }
}

impl Dispatcher<'_, '_> {
    /// One turn: events in, decisions out, CPU given up.
    fn pass(&mut self, bpf: &mut BpfScheduler, policy: &mut dyn Policy) {
        let now = now();
        self.outlet.counters.add(Counter::Passes);
        let out = &mut self.answers;
        out.clear();
        self.undrained.pass(drained(bpf));

        self.eyes.process_events(|e| policy.process(now, e, out));
        // A full ring to the kernel: what waits in the policy waits on, nothing is lost.
        let room = self.undrained.count() < RING_RECORDS / 2;
        for _ in 0..if room { RECORDS_PER_PASS } else { 0 } {
            self.eyes.forget_late();
            match bpf.dequeue_task() {
                Ok(Some(task)) => {
                    self.outlet.counters.add(Counter::Records);
                    // A thread created a moment ago: its fork came before its first record.
                    self.eyes.process_events(|e| policy.process(now, e, out));
                    let mut task = runnable(&mut self.affinity, now, &task, self.enq_wakeup);
                    if task.cause == Cause::Wakeup {
                        task.waker = self.eyes.waker(task.tid);
                    }
                    policy.enqueue(now, &task, out);
                }
                Ok(None) | Err(_) => break,
            }
        }

        if now >= self.observe_due {
            self.observe_due = now + OBSERVE_EVERY;
            for cpu in self.topology.cpus().iter() {
                let spent = self.eyes.spent(cpu, now);
                let before = std::mem::replace(&mut self.spent[cpu.index()], spent);
                let spent = Spent {
                    home_ns: spent.home_ns.saturating_sub(before.home_ns),
                    other_ns: spent.other_ns.saturating_sub(before.other_ns),
                    long_ns: spent.long_ns.saturating_sub(before.long_ns),
                };
                policy.observe(now, cpu, &spent);
            }
        }
        let asking = asking_cpu().filter(|c| self.topology.cpu(*c).is_some());
        let idle = self.eyes.idle().and(self.topology.cpus());
        let on_its_way = |c: &CpuId| self.undrained.holds(self.last_record[c.index()]);
        let next = asking.is_some_and(|c| on_its_way(&c) || self.eyes.queued(c));
        let mut ready = Ready { asking, next, idle };
        for cpu in idle.iter() {
            if let Some((seq, sent)) = self.on_its_way[cpu.index()] {
                if self.eyes.switches(cpu) == seq && now.saturating_sub(sent) < ON_ITS_WAY {
                    ready.idle.clear(cpu);
                } else {
                    self.on_its_way[cpu.index()] = None;
                }
            }
        }
        if let Some(cpu) = asking {
            ready.idle.clear(cpu);
        }
        if room {
            policy.dispatch(now, &ready, out);
        }

        for hint in &self.answers.hints {
            self.eyes.set_hint(hint);
        }
        // Each dispatch() of a CPU drains one record and goes on only while it has nothing to run itself: records for
        // other CPUs come first, our own CPU's last.
        let (own, others): (_, _) = (|d: &&Dispatch| Some(d.cpu) == asking, |d: &&Dispatch| Some(d.cpu) != asking);
        for d in self.answers.dispatch.iter().filter(others).chain(self.answers.dispatch.iter().filter(own)) {
            if send(bpf, d, &mut self.outlet.counters) {
                self.last_record[d.cpu.index() % MAX_CPUS] = self.undrained.add();
            }
            if Some(d.cpu) != asking {
                self.on_its_way[d.cpu.index() % MAX_CPUS] = Some((self.eyes.switches(d.cpu), now));
            }
        }
        self.outlet.tell(now, &self.answers.notices);
        if now.saturating_sub(self.outlet.published_at) > PUBLISH_EVERY {
            self.outlet.published_at = now;
            self.publish(bpf, policy);
        }
        self.eyes.set_parked(policy.waiting() as u64);
        self.eyes.set_due(policy.due());
        self.eyes.set_urgent(&self.answers.urgent);
        self.eyes.set_drained_at_rest(drained(bpf) + self.undrained.count());
        // The core drains record after record while this CPU has nothing to run, the last one gives it its task, and
        // `eyes` sees to it if one of them ends that early. But a task in the CPU's own queue ends it after the first: then
        // come back until all are drained. Tasks that wait on are for `eyes` too, once that is ready.
        let again = self.undrained.count() > 1 && ready.next || !self.eyes.ready();
        bpf.notify_complete(u64::from(again));
    }

    /// Shows all counters to the host: ours, the policy's, the kernel side's.
    fn publish(&mut self, bpf: &BpfScheduler, policy: &dyn Policy) {
        let c = &mut self.outlet.counters;
        let (idle, preempt) = self.eyes.kicks();
        c.set(Counter::KicksIdle, idle);
        c.set(Counter::KicksPreempt, preempt);
        c.set(Counter::ProcessEventsDropped, self.eyes.dropped());
        let (rescued, not_rescued, _) = self.outlet.channel.rescues();
        c.set(Counter::Rescued, rescued);
        c.set(Counter::NotRescued, not_rescued);
        if let Some(b) = &bpf.skel.maps.bss_data {
            c.set(Counter::KernelUserDispatches, b.nr_user_dispatches);
            c.set(Counter::KernelDirect, b.nr_kernel_dispatches);
            c.set(Counter::KernelCancelled, b.nr_cancel_dispatches);
            c.set(Counter::KernelBounced, b.nr_bounce_dispatches);
            c.set(Counter::KernelCongested, b.nr_sched_congested);
        }
        let mut all = c.clone();
        if let Some(more) = policy.counters() {
            all.absorb(more);
        }
        self.outlet.channel.publish(&all);
    }
}

fn send(bpf: &mut BpfScheduler, d: &Dispatch, counters: &mut Counters) -> bool {
    let sent = bpf.dispatch_task(&DispatchedTask {
        pid: d.tid.0,
        cpu: i32::from(d.cpu.0),
        flags: 0,
        slice_ns: d.slice_ns,
        vtime: d.vtime,
        enq_cnt: d.generation,
    });
    if sent.is_err() {
        counters.add(Counter::RingFull);
    }
    sent.is_ok()
}

fn runnable(affinity: &mut Affinity, now: Ns, t: &QueuedTask, enq_wakeup: u64) -> Runnable {
    let cpu = CpuId(t.cpu.clamp(0, MAX_CPUS as i32 - 1) as u16);
    Runnable {
        tid: Tid(t.pid),
        cpu,
        allowed: affinity.of(now, Tid(t.pid), cpu, t.nr_cpus_allowed),
        cause: if t.flags & enq_wakeup != 0 || t.start_ts == 0 { Cause::Wakeup } else { Cause::SliceEnd },
        since_wakeup_ns: t.exec_runtime,
        stint_ns: t.stop_ts.saturating_sub(t.start_ts),
        started: t.start_ts,
        waker: None,
        weight: t.weight.clamp(1, 10_000) as u32,
        generation: t.enq_cnt,
    }
}

/// The CPU this thread stands on. From memory (rseq), no system call.
fn asking_cpu() -> Option<CpuId> {
    // SAFETY: no arguments, no memory.
    let cpu = unsafe { libc::sched_getcpu() };
    u16::try_from(cpu).ok().filter(|c| usize::from(*c) < MAX_CPUS).map(CpuId)
}

/// CLOCK_MONOTONIC, through the vDSO.
fn now() -> Ns {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid out pointer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
