/* SPDX-License-Identifier: GPL-2.0-only */
/* Which CPU a wake-up makes look for work; see eyes.bpf.c. */

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
