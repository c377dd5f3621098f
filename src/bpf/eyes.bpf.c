/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Eyes and hands of the scheduler beside the unmodified shim of scx_rustland_core. It holds no policy: it tells user
 * space, through memory, what each CPU does and which threads exist, and it kicks CPUs by tables that user space
 * writes:
 *
 *   a task wakes up, its CPU idle       nothing to do: the core switches that CPU to the scheduler
 *   its CPU busy, an idle one in reach  kick the idle one (not for a sticky task: it waits for its home)
 *   else, rank clearly below the        kick with preemption: that CPU asks the scheduler, which then
 *   current task's                      chooses between the two
 *
 * Ranks, homes and LLC masks are numbers from user space. Everything runs under the run-queue lock of a wake-up or a
 * switch: no loops beyond the 16 words of a CPU mask, no locks.
 */
#include <scx/common.bpf.h>
#include "eyes.h"

char _license[] SEC("license") = "GPL";

#define PF_KTHREAD_BIT	0x00200000
#define HARDIRQ_BITS	0x000f0000	/* HARDIRQ_MASK of the preemption count */
#define SCX_QUEUED_BIT	1	/* SCX_TASK_QUEUED: on a sched_ext run queue */

#if defined(bpf_target_x86)
extern const int __preempt_count __ksym __weak;
#endif

/* Set before loading. */
const volatile u32 nr_cpu_ids = EYES_MAX_CPUS;
const volatile u32 shim_bss_size = 4096;	/* of the map put into @shim, bytes */
const volatile u32 nr_scheduled_off = 0;	/* in that map, bytes */
const volatile u32 user_dispatches_off = 0;
const volatile u32 bounce_dispatches_off = 0;
const volatile u32 scheduler_tid = 0;
const volatile u64 look_every_ns = 200000000;	/* how often to look whether a turn is due */
const volatile u64 look_starved_ns = 50000000;	/* while tasks wait behind a real-time one */
const volatile u64 look_again_ns = 10000000;	/* while one is overdue */
const volatile u64 long_ns = 4000000;	/* a task that runs this long without sleeping runs long */

/* Read and written by user space while we run. */
struct eyes_cpu cpus[EYES_MAX_CPUS];
struct eyes_bits idle[EYES_WORDS];
struct eyes_bits idle_before[EYES_WORDS];	/* idle when the scheduler was switched in last */
struct eyes_bits late[EYES_WORDS];	/* CPUs to look at again when the scheduler leaves its own */
struct eyes_mask reach[EYES_MAX_CPUS];	/* per CPU: the CPUs of its LLC */
u64 hints[EYES_HINTS];
u64 wakers[EYES_HINTS];		/* direct-mapped like @hints: thread id, and << 32 that of the thread that woke it last, 0 = none */
u32 enabled;			/* the hands move only while this is 1 */
u32 preempt_margin = 2;		/* current's rank must exceed the woken one's by this much */
u64 preempt_gap_ns = 500000;	/* at least this long between two preemptions of one CPU */
u64 proc_dropped;		/* process events that found the ring full */
u64 proc_written;		/* process events in the ring so far: saves the scheduler a look at it */
u64 drained_at_rest;		/* what the shim's counters of drained records come to when all are */
u64 due;			/* when user space wants a turn though nothing happens, monotonic clock; ~0 = never */
u64 parked;			/* tasks that wait for a decision in user space */
struct eyes_urgent urgent[EYES_URGENT];	/* tasks still waiting after the scheduler's pass */
u32 nr_urgent;
u32 scheduler_runs;		/* the scheduler is on some CPU and will look at the ring before it leaves */

/* Never used: make the skeleton carry the types of the rings' records. */
struct eyes_proc proc_layout;
struct eyes_stuck stuck_layout;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} proc_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} stuck_events SEC(".maps");

/*
 * The shim's .bss, put here by user space after the attach. While its nr_scheduled is not 0, every dispatch() of any
 * CPU runs the scheduler first, even the one right after the scheduler itself: it would spin. So it leaves with 0
 * and we raise it once its CPU runs something else: the next CPU whose task sleeps or ends its slice asks again.
 */
struct shim_bss {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, sizeof(u32));
	__uint(value_size, 4096);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__array(values, struct shim_bss);
} shim SEC(".maps");

/* The shim's ring of queued tasks, put here like its .bss. */
struct shim_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__array(values, struct shim_ring);
} ring SEC(".maps");

/* The hint word of a thread, 0 if user space has not written one. */
static u64 hint_of(u32 tid)
{
	u64 w = *(volatile u64 *)&hints[tid & (EYES_HINTS - 1)];

	return w & HINT_VALID && HINT_TID(w) == tid ? w : 0;
}

static struct eyes_cpu *cpu_of(u32 cpu)
{
	return &cpus[cpu & (EYES_MAX_CPUS - 1)];
}

#include "kicks.bpf.h"
#include "stuck.bpf.h"
#include "processes.bpf.h"

/* A counter of the shim, NULL until user space has put its memory into @shim. */
static volatile u64 *shim_counter(u32 off)
{
	u32 zero = 0;
	void *map = bpf_map_lookup_elem(&shim, &zero);
	char *bss = map ? bpf_map_lookup_elem(map, &zero) : NULL;

	return bss && off + sizeof(u64) <= shim_bss_size ? (u64 *)(bss + off) : NULL;
}

static u64 drained_before;	/* when the scheduler left last */

/*
 * The scheduler has left its CPU. Says whether it should come back for records of its pass that are not drained yet: the
 * core goes on draining while the CPU has nothing to run, but a record of a task that has changed or gone meanwhile ends
 * it. Not twice for the same ones: while another CPU is in the middle of draining, nobody else can, and that one looks
 * for more by itself (seen: hundreds of turns in vain while the host held that CPU of a guest).
 */
static bool left(void)
{
	volatile u64 *scheduled = shim_counter(nr_scheduled_off);
	volatile u64 *user = shim_counter(user_dispatches_off);
	volatile u64 *bounce = shim_counter(bounce_dispatches_off);
	bool undrained, in_vain;
	u64 drained;

	if (!scheduled || !user || !bounce)
		return false;
	drained = *user + *bounce;
	undrained = drained < drained_at_rest;
	*scheduled = parked ? parked : undrained;
	in_vain = drained == drained_before;
	drained_before = drained;
	return undrained && !in_vain;
}

/*
 * A record may enter the ring between a CPU's last look at it (in dispatch()) and the moment when the scheduler can be
 * run again or the CPU is idle: the one side finds no scheduler, the other no record, and the task waits for the 1 s
 * heartbeat (seen: 1.7 s on an idle machine). So after a switch that can be part of this (the scheduler leaves, a CPU
 * falls idle, a task goes back into the queue): records, no scheduler at work and an idle CPU mean a kick.
 */
static void wake_for_records(u32 cpu)
{
	u32 zero = 0;
	void *map;

	if (!enabled || scheduler_runs)
		return;
	map = bpf_map_lookup_elem(&ring, &zero);
	if (!map || !bpf_ringbuf_query(map, BPF_RB_AVAIL_DATA))
		return;
	if (!cpu_of(cpu)->tid)
		return kick_idle(cpu);
	kick_any_idle();
}

/*
 * On an idle machine nothing makes the scheduler run but the shim's heartbeat, once a second: too late for what the
 * policy wants to do some time after the last event.
 */
struct look {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct look);
} look SEC(".maps");

static u64 starved_looked_ns;
static bool starved;	/* some CPU's tasks waited then */

static int look_if_due(void *map, u32 *key, struct look *value)
{
	u64 now = bpf_ktime_get_ns(), at = *(volatile u64 *)&due, next = look_every_ns;
	u32 cpu;

	if (enabled && now - starved_looked_ns >= (starved ? look_starved_ns : look_every_ns)) {
		starved = false;
		starved_looked_ns = now;
		tell_of_scheduler(now);
		bpf_for(cpu, 0, nr_cpu_ids)
			starved |= look_for_starved(cpu);
	}
	if (enabled && now >= at) {
		volatile u64 *scheduled = shim_counter(nr_scheduled_off);

		next = look_again_ns;
		if (scheduled)
			*scheduled = 1;
		kick_any_idle();
	} else if (now < at && at - now < next) {
		next = at - now;
	}
	if (starved && next > look_starved_ns)
		next = look_starved_ns;
	bpf_timer_start(&value->timer, next, 0);
	return 0;
}

SEC("syscall")
int eyes_start_timer(void *ctx)
{
	struct look *value;
	u32 zero = 0;
	long err;

	value = bpf_map_lookup_elem(&look, &zero);
	if (!value)
		return -1;
	err = bpf_timer_init(&value->timer, &look, 1 /* CLOCK_MONOTONIC */);
	if (!err)
		err = bpf_timer_set_callback(&value->timer, look_if_due);
	if (!err)
		err = bpf_timer_start(&value->timer, look_every_ns, 0);
	return err;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(eyes_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u32 cpu = bpf_get_smp_processor_id() & (EYES_MAX_CPUS - 1);
	struct eyes_cpu *s = &cpus[cpu];
	u64 bit = 1ULL << (cpu & 63), now = bpf_ktime_get_ns(), hint, stint;

	stint = now - s->since_ns;
	if (s->owner == OWNER_HOME)
		s->home_ns += stint;
	else if (s->owner == OWNER_LONG || (s->owner == OWNER_OTHER && stint >= long_ns))
		s->long_ns += stint;
	else if (s->owner == OWNER_OTHER)
		s->other_ns += stint;
	hint = hint_of(next->pid);
	if (!next->pid || next->pid == scheduler_tid)
		s->owner = OWNER_NOBODY;
	else
		s->owner = hint & HINT_HOME && HINT_CPU(hint) == cpu ? OWNER_HOME :
			   HINT_RANK(hint) >= log2_us(long_ns) ? OWNER_LONG : OWNER_OTHER;
	s->since_ns = now;
	s->realtime = holds(next);
	s->tid = next->pid;
	s->seq++;
	if (s->kicked) {
		s->kicked = 0;
		if (next->pid == scheduler_tid)
			s->preempt_ns = now;
	}
	if (!next->pid)
		__sync_fetch_and_or(&idle[cpu / 64].bits, bit);
	else if (!prev->pid)
		__sync_fetch_and_and(&idle[cpu / 64].bits, ~bit);
	if (next->pid == scheduler_tid)
		displaced_ns = 0;
	else if (prev->pid == scheduler_tid && next->prio < MAX_RT_PRIO && prev->scx.flags & SCX_QUEUED_BIT)
		displaced_ns = now;
	else
		tell_of_scheduler(now);
	if (prev->pid == scheduler_tid) {
		scheduler_runs = 0;
		if (left() && !next->pid)
			kick_idle(cpu);
		if (enabled) {
			interrupt_urgent(now);
			if (parked)
				kick_newly_idle();
		}
	} else if (next->pid == scheduler_tid) {
		scheduler_runs = 1;
		s->queued = scx_bpf_dsq_nr_queued(cpu);
		note_idle(cpu);
	}
	if (prev->pid == scheduler_tid || !next->pid || preempt || !prev->__state)
		wake_for_records(cpu);
	return 0;
}
