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
#define MAX_RT_PRIO	100	/* below it: real-time and deadline tasks */
#define STUCK_AT_A_LOOK	8	/* tasks of one CPU that are told of */
#define PATIENCE_NS	1000000	/* how long the scheduler may be displaced */

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

u64 displaced_ns;		/* since when a real-time task holds the CPU that the scheduler stands on; 0 = none does */
u32 displaced_cpu;

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

static u32 log2_us(u64 ns)
{
	u64 us = ns >> 10;
	u32 r = 0;

	if (us >> 16) {
		us >>= 16;
		r += 16;
	}
	if (us >> 8) {
		us >>= 8;
		r += 8;
	}
	if (us >> 4) {
		us >>= 4;
		r += 4;
	}
	if (us >> 2) {
		us >>= 2;
		r += 2;
	}
	if (us >> 1)
		r += 1;
	return r;
}

static u32 lowest_bit(u64 bits)
{
	u32 n = 0;

	if (!(bits & 0xffffffff)) {
		bits >>= 32;
		n += 32;
	}
	if (!(bits & 0xffff)) {
		bits >>= 16;
		n += 16;
	}
	if (!(bits & 0xff)) {
		bits >>= 8;
		n += 8;
	}
	if (!(bits & 0xf)) {
		bits >>= 4;
		n += 4;
	}
	if (!(bits & 3)) {
		bits >>= 2;
		n += 2;
	}
	return n + !(bits & 1);
}

/* Interrupted by hardware (a timer, say), as the kernel's in_hardirq() tells. */
static bool in_hardirq(void)
{
#if defined(bpf_target_x86)
	return &__preempt_count && *(const int *)bpf_this_cpu_ptr(&__preempt_count) & HARDIRQ_BITS;
#elif defined(bpf_target_arm64)
	return bpf_get_current_task_btf()->thread_info.preempt.count & HARDIRQ_BITS;
#else
	return true;
#endif
}

/* The lowest CPU that is idle, in reach of @near and allowed to @p; -1 if none. */
static s32 idle_in_reach(const struct task_struct *p, u32 near)
{
	u32 i, b;

	bpf_for(i, 0, EYES_WORDS) {
		u64 bits;

		if (i * 64 >= nr_cpu_ids)
			return -1;
		bits = idle[i & (EYES_WORDS - 1)].bits & reach[near & (EYES_MAX_CPUS - 1)].w[i & (EYES_WORDS - 1)];
		bpf_for(b, 0, 64) {
			u32 cpu = i * 64 + lowest_bit(bits);

			if (!bits)
				break;
			if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
				return cpu;
			bits &= bits - 1;
		}
	}
	return -1;
}

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

static void kick_idle(u32 cpu)
{
	cpu_of(cpu)->kicks_idle++;
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

static void look_later(u32 cpu, u32 rank)
{
	cpu_of(cpu)->late_rank = rank;
	__sync_fetch_and_or(&late[(cpu / 64) & (EYES_WORDS - 1)].bits, 1ULL << (cpu & 63));
}

/*
 * A task of @rank waits for @cpu: make that look for work if it is idle or if what runs there has a clearly higher rank.
 * To no avail while the scheduler is at work elsewhere: it could not be run there, and the running task would only get
 * a fresh slice. So then, and when the CPU was preempted a moment ago, again when the scheduler leaves.
 */
static void interrupt(u32 cpu, u32 rank, u64 now)
{
	struct eyes_cpu *s = cpu_of(cpu);
	u32 current_rank;

	if (scheduler_runs)
		return look_later(cpu, rank);
	if (!s->tid)
		return kick_idle(cpu);
	current_rank = log2_us(now - s->since_ns);
	if (current_rank < HINT_RANK(hint_of(s->tid)))
		current_rank = HINT_RANK(hint_of(s->tid));
	if (current_rank < rank + preempt_margin)
		return;
	/*
	 * Woken by what runs there itself: a server that has answered one request of several, say. Taking the CPU from it
	 * for each of them would cost a switch each, and it would never come to sleep.
	 */
	if (cpu == bpf_get_smp_processor_id() && !in_hardirq() && now - s->since_ns < long_ns)
		return;
	if (now - s->preempt_ns < preempt_gap_ns)
		return look_later(cpu, rank);
	s->kicked = 1;
	s->kicks_preempt++;
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

static void woken(struct task_struct *p)
{
	u64 hint = hint_of(p->pid);
	u32 cpu;
	s32 other;

	if (!enabled || p->pid == scheduler_tid || !(p->scx.flags & SCX_QUEUED_BIT))
		return;
	cpu = scx_bpf_task_cpu(p);
	if (!cpu_of(cpu)->tid)
		return;
	if (hint && HINT_CPU(hint) < nr_cpu_ids && bpf_cpumask_test_cpu(HINT_CPU(hint), p->cpus_ptr))
		cpu = HINT_CPU(hint);
	if (!cpu_of(cpu)->tid)
		return kick_idle(cpu);
	if (!(hint & HINT_STICKY) && p->nr_cpus_allowed > 1) {
		other = idle_in_reach(p, cpu);
		if (other >= 0)
			return kick_idle(other);
	}
	interrupt(cpu, HINT_RANK(hint), bpf_ktime_get_ns());
}

static void note_idle(u32 own)
{
	u32 i;

	bpf_for(i, 0, EYES_WORDS) {
		if (i * 64 >= nr_cpu_ids)
			break;
		idle_before[i & (EYES_WORDS - 1)].bits = idle[i & (EYES_WORDS - 1)].bits;
	}
	/* Where it stands it has looked; else that CPU would be kicked for ever. */
	idle_before[(own / 64) & (EYES_WORDS - 1)].bits |= 1ULL << (own & 63);
}

/*
 * A CPU that fell idle during the scheduler's pass found no scheduler to run, and the pass may not have seen it: while
 * tasks wait, it asks once more.
 */
static void kick_newly_idle(void)
{
	u32 i;

	bpf_for(i, 0, EYES_WORDS) {
		u64 bits;

		if (i * 64 >= nr_cpu_ids)
			return;
		bits = idle[i & (EYES_WORDS - 1)].bits & ~idle_before[i & (EYES_WORDS - 1)].bits;
		if (bits)
			return kick_idle(i * 64 + lowest_bit(bits));
	}
}

/* The scheduler has left its CPU: those that wait for one which something long keeps busy, now that it can be run there. */
static void interrupt_urgent(u64 now)
{
	u32 i, b;

	bpf_for(i, 0, EYES_URGENT) {
		if (i >= nr_urgent)
			break;
		interrupt(urgent[i].cpu, urgent[i].rank, now);
	}
	bpf_for(i, 0, EYES_WORDS) {
		u64 bits;

		if (i * 64 >= nr_cpu_ids)
			return;
		if (!late[i & (EYES_WORDS - 1)].bits)
			continue;
		bits = __sync_lock_test_and_set(&late[i & (EYES_WORDS - 1)].bits, 0);
		bpf_for(b, 0, 64) {
			u32 cpu = i * 64 + lowest_bit(bits);

			if (!bits)
				break;
			interrupt(cpu, cpu_of(cpu)->late_rank, now);
			bits &= bits - 1;
		}
	}
}

/* Here, since sched_wakeup may come on the CPU of the woken task. */
SEC("tp_btf/sched_waking")
int BPF_PROG(eyes_waking, struct task_struct *p)
{
	u64 waker = in_hardirq() ? 0 : (u32)bpf_get_current_pid_tgid();

	*(volatile u64 *)&wakers[p->pid & (EYES_HINTS - 1)] = waker << 32 | (u32)p->pid;
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(eyes_wakeup, struct task_struct *p)
{
	woken(p);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(eyes_wakeup_new, struct task_struct *p)
{
	woken(p);
	return 0;
}

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

static void kick_any_idle(void)
{
	u32 i;

	bpf_for(i, 0, EYES_WORDS) {
		u64 bits;

		if (i * 64 >= nr_cpu_ids)
			return;
		bits = idle[i & (EYES_WORDS - 1)].bits;
		if (bits)
			return kick_idle(i * 64 + lowest_bit(bits));
	}
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
 * Real-time tasks come before ours, and nothing throttles them: one that does not sleep keeps the tasks that wait on its
 * CPU from running until the watchdog ends us. Those in our queues get another CPU, but not pinned ones, those that were
 * in the CPU's own queue already, and the task it displaced, maybe the scheduler itself. We tell a helper that can do
 * something about it (src/rescue.rs).
 */
static void tell_stuck(const struct task_struct *p, u32 cpu, const struct task_struct *holder)
{
	struct eyes_stuck *e = bpf_ringbuf_reserve(&stuck_events, sizeof(*e), 0);
	s32 prio = holder->prio;

	if (!e)
		return;
	e->tid = p->pid;
	e->cpu = cpu;
	e->holder = holder->pid;
	/* Real-time priority 1 is a prio of 98, 99 one of 0; deadline tasks have -1. */
	e->priority = prio > 0 && prio < MAX_RT_PRIO ? MAX_RT_PRIO - prio : 0;
	e->kthread = !!(p->flags & PF_KTHREAD_BIT);
	bpf_ringbuf_submit(e, 0);
}

/* Whether it may hold a CPU for long. The kernel's own threads of the highest priority never do. */
static bool holds(const struct task_struct *p)
{
	return p->prio < MAX_RT_PRIO && (p->prio > 0 || !(p->flags & PF_KTHREAD_BIT));
}

/* The tasks that were displaced on @cpu and are there still. */
static void tell_of_displaced(u32 cpu, const struct task_struct *holder)
{
	u32 i;

	bpf_for(i, 0, EYES_DISPLACED) {
		u32 *tid = &cpu_of(cpu)->displaced[i & (EYES_DISPLACED - 1)];
		struct task_struct *p = *tid ? bpf_task_from_pid(*tid) : NULL;

		if (!p) {
			*tid = 0;
			continue;
		}
		if (scx_bpf_task_cpu(p) == cpu && p->scx.flags & SCX_QUEUED_BIT)
			tell_stuck(p, cpu, holder);
		else
			*tid = 0;
		bpf_task_release(p);
	}
}

/* A real-time task has taken the CPU from @tid. In the core's own queue of that CPU nothing but we knows of it. */
static void displace(struct eyes_cpu *s, u32 tid)
{
	u32 i, at = s->seq;

	bpf_for(i, 0, EYES_DISPLACED) {
		u32 there = s->displaced[i & (EYES_DISPLACED - 1)];

		if (there == tid)
			return;
		if (!there)
			at = i;
	}
	s->displaced[at & (EYES_DISPLACED - 1)] = tid;
	s->nr_displaced = 1;
}

/* @tid runs again. */
static void replaced(struct eyes_cpu *s, u32 tid)
{
	u32 i, left = 0;

	bpf_for(i, 0, EYES_DISPLACED) {
		if (s->displaced[i & (EYES_DISPLACED - 1)] == tid)
			s->displaced[i & (EYES_DISPLACED - 1)] = 0;
		left |= s->displaced[i & (EYES_DISPLACED - 1)];
	}
	s->nr_displaced = !!left;
}

/* Without the scheduler nobody gets on: once it is displaced for some time. */
static void tell_of_scheduler(u64 now)
{
	u64 since = *(volatile u64 *)&displaced_ns;
	struct task_struct *holder;

	if (!since || now - since < PATIENCE_NS || !enabled)
		return;
	displaced_ns = 0;
	holder = bpf_task_from_pid(cpu_of(displaced_cpu)->tid);
	if (!holder)
		return;
	if (holds(holder))
		tell_of_displaced(displaced_cpu, holder);
	bpf_task_release(holder);
}

/* Tells of the tasks that wait behind a real-time one when some did at the last look too. Says whether some wait. */
static bool look_for_starved(u32 cpu)
{
	struct eyes_cpu *s = cpu_of(cpu);
	struct task_struct *holder = s->tid ? bpf_task_from_pid(s->tid) : NULL;
	bool again = s->starved;
	struct task_struct *p;
	u32 n = 0;

	s->starved = 0;
	if (!holder)
		return false;
	if (holds(holder) && (s->nr_displaced || scx_bpf_dsq_nr_queued(cpu) > 0)) {
		s->starved = 1;
		if (again) {
			tell_of_displaced(cpu, holder);
			bpf_rcu_read_lock();
			bpf_for_each(scx_dsq, p, cpu, 0) {
				tell_stuck(p, cpu, holder);
				if (++n >= STUCK_AT_A_LOOK)
					break;
			}
			bpf_rcu_read_unlock();
		}
	}
	bpf_task_release(holder);
	return s->starved;
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
	bool displaced = false;

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
	if (s->nr_displaced)
		replaced(s, next->pid);
	if (next->prio < MAX_RT_PRIO && (preempt || !prev->__state) && prev->scx.flags & SCX_QUEUED_BIT) {
		displace(s, prev->pid);
		displaced = true;
	}
	if (next->pid == scheduler_tid) {
		displaced_ns = 0;
	} else if (displaced && prev->pid == scheduler_tid) {
		displaced_cpu = cpu;
		displaced_ns = now;
	} else {
		tell_of_scheduler(now);
	}
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

static struct eyes_proc *proc_event(u32 kind, struct task_struct *p)
{
	struct eyes_proc *e = bpf_ringbuf_reserve(&proc_events, sizeof(*e), 0);

	if (!e) {
		__sync_fetch_and_add(&proc_dropped, 1);
		return NULL;
	}
	e->kind = kind;
	e->tid = p->pid;
	e->pid = p->tgid;
	e->parent = 0;
	e->last = 0;
	e->kthread = !!(p->flags & PF_KTHREAD_BIT);
	e->start_ns = p->group_leader->start_boottime;
	bpf_probe_read_kernel(e->comm, sizeof(e->comm), p->comm);
	e->name[0] = 0;
	return e;
}

static void proc_submit(struct eyes_proc *e)
{
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	__sync_fetch_and_add(&proc_written, 1);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(eyes_fork, struct task_struct *parent, struct task_struct *child)
{
	struct eyes_proc *e = proc_event(EYES_FORK, child);

	if (!e)
		return 0;
	e->parent = parent->tgid;
	proc_submit(e);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(eyes_exec, struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)
{
	struct eyes_proc *e = proc_event(EYES_EXEC, p);
	char path[256];
	s32 n, i, base = 0;

	if (!e)
		return 0;
	n = bpf_probe_read_kernel_str(path, sizeof(path), bprm->filename);
	bpf_for(i, 0, n) {
		if (i >= 0 && i < sizeof(path) - 1 && path[i] == '/')
			base = i + 1;
	}
	bpf_probe_read_kernel_str(e->name, sizeof(e->name), bprm->filename + base);
	proc_submit(e);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(eyes_exit, struct task_struct *p)
{
	struct eyes_proc *e = proc_event(EYES_EXIT, p);

	if (!e)
		return 0;
	e->last = p->signal->live.counter == 0;
	proc_submit(e);
	return 0;
}
