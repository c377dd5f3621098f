/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What eyes.bpf.c and its user (src/eyes.rs) agree on. Plain C types only: both the BPF compiler and bindgen-free
 * Rust mirror this file by hand, so keep the two in step (src/eyes.rs checks every size when it loads).
 */
#ifndef SOFT_DOMAIN_EYES_H
#define SOFT_DOMAIN_EYES_H

#define EYES_MAX_CPUS	1024
#define EYES_WORDS	(EYES_MAX_CPUS / 64)
/* Wake-up hints: a direct-mapped table by the low bits of the thread id; a collision only loses a hint. */
#define EYES_HINTS	65536

/*
 * One word a thread, written and read whole, so that no lock is needed:
 * bits 0-31 thread id, 32-47 CPU to look at first, 48-55 rank (log2 of the usual run time between sleeps, us;
 * smaller is more urgent), 56 valid, 57 sticky (only its home is worth waking), 58 the CPU is its home.
 */
#define HINT_TID(w)	((unsigned int)(w))
#define HINT_CPU(w)	((unsigned int)((w) >> 32) & 0xffff)
#define HINT_RANK(w)	((unsigned int)((w) >> 48) & 0xff)
#define HINT_VALID	(1ULL << 56)
#define HINT_STICKY	(1ULL << 57)
#define HINT_HOME	(1ULL << 58)

/* Whose time a CPU spends. */
enum eyes_owner {
	OWNER_NOBODY,	/* idle, or the scheduler itself */
	OWNER_OTHER,
	OWNER_HOME,	/* a thread whose home this CPU is */
	OWNER_LONG,	/* one of the others that usually runs long without sleeping */
};

/* What a CPU does, written by the CPU itself at every switch. Whole cache lines. */
struct eyes_cpu {
	unsigned long long since_ns;	/* when the current thread was switched in, monotonic clock */
	unsigned int tid;		/* the current thread; 0 = idle */
	unsigned int seq;		/* counts switches */
	unsigned long long other_ns;	/* time spent for OWNER_*, without the current stint */
	unsigned long long home_ns;
	unsigned long long long_ns;	/* a stint of OWNER_OTHER that turned out long counts here */
	unsigned long long preempt_ns;	/* when a kick last took the CPU from a task */
	unsigned long long kicks_idle;
	unsigned long long kicks_preempt;
	unsigned char owner;		/* enum eyes_owner of the current thread */
	unsigned char kicked;		/* a preempting kick is on its way */
	unsigned char late_rank;	/* of the task behind the bit in @late */
	unsigned char realtime;		/* the current thread is a real-time one of user space */
	unsigned int queued;		/* tasks in its own queue when the scheduler was switched in */
	unsigned int starved;		/* tasks waited behind a real-time task when the timer looked last */
	unsigned int pad2[13];
};

/* A set of CPUs, 64 a word, each word in a cache line of its own. */
struct eyes_bits {
	unsigned long long bits;
	unsigned long long pad[7];
};

struct eyes_mask {
	unsigned long long w[EYES_WORDS];
};

/* A task of this rank waits for this CPU. */
struct eyes_urgent {
	unsigned int cpu;
	unsigned int rank;
};

/* Tasks that one pass of the scheduler can be urgent about. */
#define EYES_URGENT	32

/* A task cannot get on because a real-time task holds its CPU. */
struct eyes_stuck {
	unsigned int tid;
	unsigned int cpu;
	unsigned int holder;		/* thread id of the real-time task */
};

enum eyes_kind {
	EYES_FORK = 1,	/* a thread was created: tid, pid, parent */
	EYES_EXEC = 2,	/* the process runs another program: comm, name */
	EYES_EXIT = 3,	/* a thread ended; last = 1 for the last of its process */
};

#define EYES_NAME 32

struct eyes_proc {
	unsigned int kind;
	unsigned int tid;
	unsigned int pid;
	unsigned int parent;	/* EYES_FORK: process of the creator */
	unsigned int last;
	unsigned int kthread;
	unsigned long long start_ns;	/* start time of the process, CLOCK_BOOTTIME */
	char comm[16];
	char name[EYES_NAME];	/* EYES_EXEC: base name of the executable, cut at 31 bytes */
};

#endif
