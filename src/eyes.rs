//! User side of `src/bpf/eyes.bpf.c`: what every CPU does, read from memory; process events; wake-up hints.
//!
//! All maps are mapped before the shim attaches; afterwards nothing here makes a system call but one `bpf` call, once.

use crate::eyes_skel::{EyesSkel, EyesSkelBuilder, types};
use crate::realtime;
use anyhow::{Context, Result, ensure};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapHandle, MapType, OpenObject, ProgramInput, RingBuffer, RingBufferBuilder};
use soft_domain::cpumask::CpuMask;
use soft_domain::event::{Hint, LONG, MAX_URGENT, Name, ProcessEvent, Spent, Urgent};
use soft_domain::host::journal;
use soft_domain::ids::{CpuId, MAX_CPUS, Ns, Pid, Tid};
use soft_domain::rules::{HINTS, LOOK_AGAIN, LOOK_EVERY, PREEMPT_GAP, PREEMPT_MARGIN};
use soft_domain::topology::Topology;
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

const HINT_VALID: u64 = 1 << 56;
const HINT_STICKY: u64 = 1 << 57;
const HINT_HOME: u64 = 1 << 58;

/// `enum eyes_owner` of eyes.h.
const OWNER_OTHER: u32 = 1;
const OWNER_HOME: u32 = 2;
const OWNER_LONG: u32 = 3;

/// Process events taken from the ring in one go.
const BATCH: usize = 256;

// SAFETY: plain integers and byte arrays; any bit pattern is valid.
unsafe impl plain::Plain for types::eyes_proc {}

type Batch = Rc<RefCell<Vec<types::eyes_proc>>>;

/// Where the shim keeps the words that the kernel side shares with it.
pub struct ShimWords {
    /// Bytes of the shim's `.bss` map.
    pub bss_size: u32,
    /// Byte offset in it of the word that says "tasks wait in user space".
    pub nr_scheduled: u32,
    /// Byte offset of the count of drained records.
    pub user_dispatches: u32,
    /// Byte offset of the count of drained records whose CPU the task may not use.
    pub bounce_dispatches: u32,
}

/// The loaded object. Lives as long as the scheduler is attached.
pub struct Eyes<'a> {
    skel: EyesSkel<'a>,
    ring: RingBuffer<'a>,
    batch: Batch,
    /// Process events that were in the ring when it was read last.
    events_seen: u64,
    binder: Binder,
    _links: Vec<libbpf_rs::Link>,
}

impl<'a> Eyes<'a> {
    /// Loads and attaches the object; `scheduler` is the dispatch thread. Errors when the kernel refuses it: the
    /// caller goes on without.
    pub fn load(
        object: &'a mut MaybeUninit<OpenObject>,
        topology: &Topology,
        scheduler: Tid,
        shim: &ShimWords,
    ) -> Result<Self> {
        let mut open = EyesSkelBuilder::default().open(object).context("open")?;
        let template = MapHandle::create(
            MapType::Array,
            Some("shim_bss"),
            4,
            shim.bss_size,
            1,
            &libbpf_rs::libbpf_sys::bpf_map_create_opts {
                sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as _,
                map_flags: libbpf_rs::libbpf_sys::BPF_F_MMAPABLE,
                ..Default::default()
            },
        )
        .context("template map")?;
        open.maps.shim.set_inner_map_fd(template.as_fd()).context("inner map")?;
        // The kick flags are names in our object, numbers only here: left out, every kick is a mere "reschedule" that
        // neither spares a busy CPU nor preempts.
        scx_utils::import_enums!(open);
        let ro = open.maps.rodata_data.as_mut().context("no .rodata")?;
        ensure!(ro.__SCX_KICK_IDLE != 0 && ro.__SCX_KICK_PREEMPT != 0, "the kernel's BTF has no kick flags");
        ro.nr_cpu_ids = topology.cpu_slots() as u32;
        ro.shim_bss_size = shim.bss_size;
        ro.nr_scheduled_off = shim.nr_scheduled;
        ro.user_dispatches_off = shim.user_dispatches;
        ro.bounce_dispatches_off = shim.bounce_dispatches;
        (ro.long_ns, ro.look_every_ns, ro.look_again_ns) = (LONG, LOOK_EVERY, LOOK_AGAIN);
        ro.scheduler_tid = scheduler.0 as u32;
        let data = open.maps.data_data.as_mut().context("no .data")?;
        (data.preempt_margin, data.preempt_gap_ns) = (PREEMPT_MARGIN, PREEMPT_GAP);
        let mut skel = open.load().context("load")?;

        let bss = skel.maps.bss_data.as_mut().context("no .bss")?;
        // Does not compile unless the sizes of eyes.h are ours.
        let _: (&[u64; HINTS], &[types::eyes_urgent; MAX_URGENT]) = (&bss.hints, &bss.urgent);
        for cpu in topology.cpus().iter() {
            let llc = topology.cpu(cpu).map(|c| topology.llc_cpus(c.llc)).copied().unwrap_or(CpuMask::of(cpu));
            bss.reach[cpu.index()].w = *llc.words();
        }
        bss.due = Ns::MAX;
        let batch: Batch = Rc::new(RefCell::new(Vec::with_capacity(BATCH)));
        let sink = batch.clone();
        let mut builder = RingBufferBuilder::new();
        builder.add(&skel.maps.proc_events, move |data| {
            if let Ok(event) = plain::from_bytes::<types::eyes_proc>(data) {
                sink.borrow_mut().push(*event);
            }
            0
        })?;
        let ring = builder.build().context("ring")?;
        let links = vec![
            skel.progs.eyes_waking.attach().context("sched_waking")?,
            skel.progs.eyes_wakeup.attach().context("sched_wakeup")?,
            skel.progs.eyes_wakeup_new.attach().context("sched_wakeup_new")?,
            skel.progs.eyes_switch.attach().context("sched_switch")?,
            skel.progs.eyes_fork.attach().context("sched_process_fork")?,
            skel.progs.eyes_exec.attach().context("sched_process_exec")?,
            skel.progs.eyes_exit.attach().context("sched_process_exit")?,
        ];
        let timer = skel.progs.eyes_start_timer.test_run(ProgramInput::default()).context("timer")?;
        ensure!(timer.return_value == 0, "timer: error {}", timer.return_value as i32);
        let binder = Binder::new(scheduler, [skel.maps.shim.as_fd().as_raw_fd(), skel.maps.ring.as_fd().as_raw_fd()])?;
        Ok(Eyes { skel, ring, batch, events_seen: 0, binder, _links: links })
    }

    /// Ties the object to the attached shim and lets the kicks begin. Does not wait: see [`Binder`].
    pub fn enable(&mut self, shim_bss: &impl MapCore, shim_ring: &impl MapCore) -> Result<()> {
        let size = self.skel.maps.rodata_data.as_ref().map_or(0, |r| r.shim_bss_size);
        ensure!(shim_bss.value_size() == size, "the shim's .bss has {} bytes, not {size}", shim_bss.value_size());
        self.binder.bind([shim_bss.as_fd().as_raw_fd(), shim_ring.as_fd().as_raw_fd()]);
        self.bss().enabled = 1;
        Ok(())
    }

    /// Whether the kernel side wakes us for every record; until then the dispatch loop must look for itself.
    pub fn ready(&self) -> bool {
        self.binder.done()
    }

    /// For src/rescue.rs: the ring of tasks that a real-time task keeps from running, and the memory that says what
    /// every CPU does.
    pub fn for_rescue(&self) -> Result<(MapHandle, MapHandle)> {
        let maps = &self.skel.maps;
        Ok((
            MapHandle::try_from(&maps.stuck_events).context("stuck_events")?,
            MapHandle::try_from(&maps.bss).context("eyes .bss")?,
        ))
    }

    /// No more kicks; to be called before the shim detaches.
    pub fn disable(&mut self) {
        self.bss().enabled = 0;
    }

    fn bss(&mut self) -> &mut types::bss {
        // Present since `load` used it.
        self.skel.maps.bss_data.as_mut().expect("eyes .bss")
    }

    /// How many tasks wait in user space: while not 0, the next CPU with nothing to run asks.
    pub fn set_parked(&mut self, n: u64) {
        volatile_write(&mut self.bss().parked, n);
    }

    /// When we want a turn though nothing happens.
    pub fn set_due(&mut self, due: Ns) {
        volatile_write(&mut self.bss().due, due);
    }

    /// What the shim's counts of drained records come to once nothing of ours is left in its ring.
    pub fn set_drained_at_rest(&mut self, n: u64) {
        volatile_write(&mut self.bss().drained_at_rest, n);
    }

    /// Once we have left our CPU, those CPUs of `urgent` look for work where something longer runs. What does not fit
    /// into the table waits for the next slice to end.
    pub fn set_urgent(&mut self, urgent: &[Urgent]) {
        let bss = self.bss();
        let n = urgent.len().min(bss.urgent.len());
        for (to, u) in bss.urgent.iter_mut().zip(urgent) {
            volatile_write(to, types::eyes_urgent { cpu: u.cpu.0.into(), rank: u.rank.into() });
        }
        volatile_write(&mut bss.nr_urgent, n as u32);
    }

    /// Forgets the wake-ups that we are about to see in the ring.
    pub fn forget_late(&mut self) {
        for word in &mut self.bss().late {
            if volatile_read(&word.bits) != 0 {
                volatile_write(&mut word.bits, 0);
            }
        }
    }

    /// How often `cpu` has switched.
    pub fn switches(&mut self, cpu: CpuId) -> u32 {
        volatile_read(&self.bss().cpus[cpu.index() % MAX_CPUS].seq)
    }

    /// Whether tasks waited in the queue of `cpu` itself when we were switched in there.
    pub fn queued(&mut self, cpu: CpuId) -> bool {
        volatile_read(&self.bss().cpus[cpu.index() % MAX_CPUS].queued) as i32 > 0
    }

    /// How `cpu` has spent its time from the load until `now`.
    pub fn spent(&mut self, cpu: CpuId, now: Ns) -> Spent {
        let s = &self.bss().cpus[cpu.index() % MAX_CPUS];
        let stint = now.saturating_sub(volatile_read(&s.since_ns));
        let (mut home_ns, mut short_ns) = (volatile_read(&s.home_ns), volatile_read(&s.other_ns));
        let mut long_ns = volatile_read(&s.long_ns);
        match u32::from(volatile_read(&s.owner)) {
            OWNER_HOME => home_ns += stint,
            OWNER_LONG => long_ns += stint,
            OWNER_OTHER if stint >= LONG => long_ns += stint,
            OWNER_OTHER => short_ns += stint,
            _ => {}
        }
        Spent { home_ns, other_ns: short_ns + long_ns, long_ns }
    }

    /// The idle CPUs.
    pub fn idle(&mut self) -> CpuMask {
        let mut words = [0; MAX_CPUS / 64];
        for (w, i) in words.iter_mut().zip(&self.bss().idle) {
            *w = volatile_read(&i.bits);
        }
        CpuMask::from_words(&words)
    }

    /// Says what a wake-up of the thread shall do from now on.
    pub fn set_hint(&mut self, hint: &Hint) {
        let bit = |on, bit| if on { bit } else { 0 };
        let flags = HINT_VALID | bit(hint.sticky, HINT_STICKY) | bit(hint.home, HINT_HOME);
        let word = u64::from(hint.tid.0 as u32) | u64::from(hint.cpu.0) << 32 | u64::from(hint.rank) << 48 | flags;
        volatile_write(&mut self.bss().hints[hint.tid.0 as usize % HINTS], word);
    }

    /// The thread that woke this one last, if a thread did.
    pub fn waker(&mut self, tid: Tid) -> Option<Tid> {
        let word = volatile_read(&self.bss().wakers[tid.0 as usize % HINTS]);
        (word as u32 == tid.0 as u32 && word >> 32 != 0).then_some(Tid((word >> 32) as i32))
    }

    /// Process events lost because the ring was full.
    pub fn dropped(&mut self) -> u64 {
        volatile_read(&self.bss().proc_dropped)
    }

    /// Kicks of idle CPUs and preempting kicks, over all CPUs since the start.
    pub fn kicks(&mut self) -> (u64, u64) {
        self.bss()
            .cpus
            .iter()
            .fold((0, 0), |(i, p), c| (i + volatile_read(&c.kicks_idle), p + volatile_read(&c.kicks_preempt)))
    }

    /// Hands every pending process event to `f`, oldest first. No system call, no allocation.
    pub fn process_events(&mut self, mut f: impl FnMut(&ProcessEvent)) {
        let written = volatile_read(&self.bss().proc_written);
        if written == self.events_seen {
            return;
        }
        self.events_seen = written;
        loop {
            let n = self.ring.consume_raw_n(BATCH);
            let batch = self.batch.clone();
            let mut batch = batch.borrow_mut();
            for e in batch.drain(..) {
                if let Some(e) = decode(&e) {
                    f(&e);
                }
            }
            if n < BATCH as i32 {
                return;
            }
        }
    }
}

/// See [`Binder`].
const BOUND: i32 = i32::MAX;

/// Puts the shim's `.bss` and ring into the maps of maps. The kernel answers that call only after an RCU grace
/// period, and the kernel's RCU thread is one of the tasks that we schedule by then: the dispatch thread would wait
/// for itself (measured: ejected after 5 s). So a thread that exists before the attach makes the calls and ends; before that
/// it gets the process's other threads out of our own reach, see [`realtime`].
struct Binder {
    /// The maps to put in; -1 until known, [`BOUND`] once in place.
    inner: Arc<[AtomicI32; 2]>,
    thread: std::thread::Thread,
}

impl Binder {
    fn new(scheduler: Tid, outer: [RawFd; 2]) -> Result<Self> {
        let inner = Arc::new([const { AtomicI32::new(-1) }; 2]);
        let given = inner.clone();
        let thread = std::thread::Builder::new().name("binder".into()).spawn(move || {
            while given[0].load(Ordering::Acquire) < 0 {
                std::thread::park();
            }
            // By now all threads are there.
            if let Err(e) = realtime::all_but(scheduler) {
                journal::error(format_args!(
                    "if the dispatcher is killed, the machine will stand still until the watchdog acts: {e}"
                ));
            }
            for (outer, inner) in outer.into_iter().zip(given.iter()) {
                while inner.load(Ordering::Acquire) < 0 {
                    std::thread::park();
                }
                let (key, value) = (0u32, inner.load(Ordering::Acquire));
                // SAFETY: both pointers are to 4 bytes, the sizes of the map's keys and values.
                unsafe {
                    libbpf_rs::libbpf_sys::bpf_map_update_elem(
                        outer,
                        std::ptr::from_ref(&key).cast(),
                        std::ptr::from_ref(&value).cast(),
                        0,
                    )
                };
                inner.store(BOUND, Ordering::Release);
            }
        })?;
        Ok(Binder { inner, thread: thread.thread().clone() })
    }

    fn bind(&self, inner: [RawFd; 2]) {
        for (to, fd) in self.inner.iter().zip(inner) {
            to.store(fd, Ordering::Release);
        }
        self.thread.unpark();
    }

    fn done(&self) -> bool {
        self.inner.iter().all(|i| i.load(Ordering::Acquire) == BOUND)
    }
}

fn decode(e: &types::eyes_proc) -> Option<ProcessEvent> {
    let bytes = |s: &[i8]| -> Name { Name::new(plain_bytes(s)) };
    let (tid, pid) = (Tid(e.tid as i32), Pid(e.pid as i32));
    Some(match e.kind {
        1 => ProcessEvent::Thread {
            tid,
            pid,
            parent: Pid(e.parent as i32),
            comm: bytes(&e.comm),
            kthread: e.kthread != 0,
        },
        2 => ProcessEvent::Exec { pid, comm: bytes(&e.comm), exe: bytes(&e.name) },
        3 => ProcessEvent::Exit { tid, pid, last: e.last != 0 },
        _ => return None,
    })
}

fn plain_bytes(s: &[i8]) -> &[u8] {
    // SAFETY: i8 and u8 have the same size and alignment, and every bit pattern is valid for both.
    unsafe { std::slice::from_raw_parts(s.as_ptr().cast(), s.len()) }
}

/// The kernel side writes these words while we read.
fn volatile_read<T: Copy>(word: &T) -> T {
    // SAFETY: a valid, aligned reference to plain data.
    unsafe { std::ptr::from_ref(word).read_volatile() }
}

fn volatile_write<T>(word: &mut T, value: T) {
    // SAFETY: a valid, aligned reference to plain data.
    unsafe { std::ptr::from_mut(word).write_volatile(value) }
}
