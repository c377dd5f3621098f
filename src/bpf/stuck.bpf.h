/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Real-time tasks come before ours, and nothing throttles them: one that does not sleep keeps the tasks that wait on its
 * CPU from running until the watchdog ends us. Those in our queues get another CPU, but not pinned ones, those that were
 * in the CPU's own queue already, and those that the core had moved to its local queue, maybe the scheduler itself: a
 * real-time task displaced them, or came while the core was choosing the next one. We tell a helper that can do something
 * about it (src/rescue.rs).
 */
#define MAX_RT_PRIO	100	/* below it: real-time and deadline tasks */
#define STUCK_AT_A_LOOK	16	/* tasks of one CPU that are looked at */
#define PATIENCE_NS	1000000	/* how long the scheduler may be displaced */
#define LOCAL_DSQ	((1ULL << 63) | 2)	/* SCX_DSQ_LOCAL */

static u64 displaced_ns;	/* since when a real-time task holds the CPU that the scheduler stands on; 0 = none does */

/* Whether it may hold a CPU for long. The kernel's own threads never do, nor our helpers. */
static bool holds(const struct task_struct *p)
{
	return p->prio < MAX_RT_PRIO && !(p->flags & PF_KTHREAD_BIT) && p->tgid != scheduler_tid;
}

static void tell_stuck(const struct task_struct *p, u32 cpu, const struct task_struct *holder)
{
	struct eyes_stuck *e = bpf_ringbuf_reserve(&stuck_events, sizeof(*e), 0);

	if (!e)
		return;
	e->tid = p->pid;
	e->cpu = cpu;
	e->holder = holder->pid;
	bpf_ringbuf_submit(e, 0);
}

/* Without the scheduler nobody gets on: once it is displaced for some time. At every switch of any CPU. */
static void tell_of_scheduler(u64 now)
{
	u64 since = *(volatile u64 *)&displaced_ns;
	struct task_struct *scheduler, *holder;
	u32 cpu;

	if (!since || now - since < PATIENCE_NS || !enabled)
		return;
	displaced_ns = 0;
	scheduler = bpf_task_from_pid(scheduler_tid);
	if (!scheduler)
		return;
	cpu = scx_bpf_task_cpu(scheduler);
	holder = bpf_task_from_pid(cpu_of(cpu)->tid);
	if (holder) {
		if (holds(holder) && scheduler->scx.flags & SCX_QUEUED_BIT)
			tell_stuck(scheduler, cpu, holder);
		bpf_task_release(holder);
	}
	bpf_task_release(scheduler);
}

/*
 * Tells of a task that can run on @cpu alone while a real-time one holds it, if there was one at the last look too; of
 * the scheduler at once. Says whether there are some. The list is what the core's watchdog goes by. It may change under
 * us, since we do not hold its lock: then we see a task too many or too few, once.
 */
static bool look_for_starved(u32 cpu)
{
	const u64 in_task = bpf_core_field_offset(struct task_struct, scx.runnable_node);
	const u64 in_list = bpf_core_field_offset(struct list_head, next);
	struct eyes_cpu *s = cpu_of(cpu);
	const struct rq *rq = bpf_per_cpu_ptr(&runqueues, cpu);
	struct task_struct *holder = rq && s->tid ? bpf_task_from_pid(s->tid) : NULL;
	bool again = s->starved;
	u64 head, at;
	u32 i;

	s->starved = 0;
	if (!holder)
		return false;
	if (!holds(holder))
		goto out;
	at = head = (u64)&rq->scx.runnable_list;
	bpf_for(i, 0, STUCK_AT_A_LOOK) {
		const struct task_struct *p;
		const struct scx_dispatch_q *dsq;

		if (bpf_probe_read_kernel(&at, sizeof(at), (const void *)(at + in_list)) || !at || at == head)
			break;
		p = bpf_rdonly_cast((void *)(at - in_task), bpf_core_type_id_kernel(struct task_struct));
		dsq = p->scx.dsq;
		if (!dsq || (dsq->id != LOCAL_DSQ && dsq->id != cpu))
			continue;
		if (p->pid == scheduler_tid || (again && !s->starved))
			tell_stuck(p, cpu, holder);
		s->starved = 1;
	}
out:
	bpf_task_release(holder);
	return s->starved;
}
