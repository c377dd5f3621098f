/* SPDX-License-Identifier: GPL-2.0-only */
/* Which threads exist, for the host process. */

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
