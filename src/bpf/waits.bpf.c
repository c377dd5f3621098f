/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long runnable tasks wait for a CPU, whatever schedules them: from sched_wakeup, or from being switched out while
 * runnable, to being switched in. For `scx_soft_domain waits` (src/waits.rs); no part of the scheduler.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define MAX_CPUS	1024
#define BUCKETS		256	/* four to a power of two, of ns; a power of two, for the verifier */
#define MAX_TASKS	65536

/* Set before loading: a thread that does not count. */
const volatile u32 except = 0;

struct longest {
	u64 ns;
	u32 tid;
	char comm[16];
};

/* Per CPU on which the wait ended, so that nobody else writes there. */
struct longest longest[MAX_CPUS];
u64 counts[MAX_CPUS][BUCKETS];
u64 dropped;	/* waits for which there was no room */

/* Since when a thread waits, ns of the monotonic clock, by its id. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_TASKS);
	__type(key, u32);
	__type(value, u64);
} since SEC(".maps");

static void begin(u32 tid)
{
	u64 now = bpf_ktime_get_ns();

	/* -EEXIST: it waits already. */
	if (tid && tid != except && bpf_map_update_elem(&since, &tid, &now, BPF_NOEXIST) == -E2BIG)
		__sync_fetch_and_add(&dropped, 1);
}

static u32 bucket(u64 ns)
{
	u32 octave = 0, b;
	u64 left = ns;

	bpf_for(b, 0, 40) {
		if (left < 8)
			break;
		left >>= 1;
		octave++;
	}
	/* 4 to 7 are left, or less than that from the start. */
	return (octave * 4 + (left & 3)) & (BUCKETS - 1);
}

static int woken(struct task_struct *p)
{
	u32 on_cpu = 0;

	/* Its size differs from kernel to kernel. A task that runs waits for nothing. */
	bpf_core_read(&on_cpu, bpf_core_field_size(p->on_cpu), &p->on_cpu);
	if (!on_cpu)
		begin(p->pid);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(waits_wakeup, struct task_struct *p)
{
	return woken(p);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(waits_wakeup_new, struct task_struct *p)
{
	return woken(p);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(waits_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u32 tid = next->pid, cpu = bpf_get_smp_processor_id() & (MAX_CPUS - 1);
	struct longest *l = &longest[cpu];
	u64 *at, ns;

	if (preempt || !prev->__state)
		begin(prev->pid);
	at = bpf_map_lookup_elem(&since, &tid);
	if (!at)
		return 0;
	ns = bpf_ktime_get_ns() - *at;
	bpf_map_delete_elem(&since, &tid);
	if ((s64)ns < 0)
		ns = 0;
	counts[cpu][bucket(ns) & (BUCKETS - 1)]++;
	if (ns > l->ns) {
		l->ns = ns;
		l->tid = tid;
		bpf_probe_read_kernel(l->comm, sizeof(l->comm), next->comm);
	}
	return 0;
}
