//! Scheduling policies of threads, and tasks that are real-time ones for a moment.

use crate::channel::Channel;
use crate::ids::Tid;

/// SCHED_EXT of the kernel's include/uapi/linux/sched.h.
pub const SCHED_EXT: i32 = 7;

/// What a task looks like that [`lift`] made a real-time one; its children shall not inherit it.
const LIFTED: i32 = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;

/// The policy of a thread (0 is the caller), maybe with SCHED_RESET_ON_FORK; negative: it is gone.
pub fn get(tid: Tid) -> i32 {
    // SAFETY: no memory involved.
    unsafe { libc::sched_getscheduler(tid.0) }
}

/// Whether the thread has a policy that comes before ours.
pub fn is_realtime(tid: Tid) -> bool {
    let policy = get(tid);
    policy >= 0
        && [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_DEADLINE].contains(&(policy & !libc::SCHED_RESET_ON_FORK))
}

/// Gives a thread a policy; `priority` is 0 but for real-time ones (1 to 99). `false`: it is gone, or we may not.
pub fn set(tid: Tid, policy: i32, priority: i32) -> bool {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: a valid pointer to plain data.
    unsafe { libc::sched_setscheduler(tid.0, policy, &raw const param) == 0 }
}

/// Makes a task a real-time one. Its nice value stays: the kernel keeps that.
pub fn lift(tid: Tid, priority: i32) -> bool {
    set(tid, LIFTED, priority)
}

/// Gives a lifted task back the policy that it had, unless somebody has changed it meanwhile.
pub fn put_back(tid: Tid, policy: i32) {
    if get(tid) == LIFTED {
        set(tid, policy, 0);
    }
}

/// Gives all lifted tasks of the channel back what they had: for both processes, when the scheduler has ended.
pub fn put_all_back(channel: &Channel) {
    for (slot, (tid, policy)) in channel.lifted() {
        put_back(tid, policy);
        channel.set_lifted(slot, None);
    }
}
