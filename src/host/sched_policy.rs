//! Scheduling policies of threads, and real-time tasks that rest for a moment.

use crate::channel::{Channel, Realtime};
use crate::ids::Tid;

/// SCHED_EXT of the kernel's include/uapi/linux/sched.h.
pub const SCHED_EXT: i32 = 7;

/// The policy of a thread (0 is the caller), maybe with SCHED_RESET_ON_FORK; negative: it is gone.
pub fn get(tid: Tid) -> i32 {
    // SAFETY: no memory involved.
    unsafe { libc::sched_getscheduler(tid.0) }
}

/// Gives a thread a policy; `priority` is 0 but for real-time ones (1 to 99). `false`: it is gone, or we may not.
pub fn set(tid: Tid, policy: i32, priority: i32) -> bool {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: a valid pointer to plain data.
    unsafe { libc::sched_setscheduler(tid.0, policy, &raw const param) == 0 }
}

/// The thread as a real-time task (FIFO or RR); `None` if it is none, or gone.
pub fn realtime(tid: Tid) -> Option<Realtime> {
    let policy = get(tid);
    let mut param = libc::sched_param { sched_priority: 0 };
    // SAFETY: a valid pointer to plain data.
    let known = policy >= 0 && unsafe { libc::sched_getparam(tid.0, &raw mut param) } == 0;
    let one = [libc::SCHED_FIFO, libc::SCHED_RR].contains(&(policy & !libc::SCHED_RESET_ON_FORK));
    (known && one).then_some(Realtime { tid, policy, priority: param.sched_priority })
}

/// What a task is while it rests.
fn resting(policy: i32) -> i32 {
    SCHED_EXT | policy & libc::SCHED_RESET_ON_FORK
}

/// Makes a real-time task one of ours.
pub fn rest(task: &Realtime) -> bool {
    set(task.tid, resting(task.policy), 0)
}

/// Makes it the real-time task that it was, unless somebody has changed its policy meanwhile.
pub fn put_back(task: &Realtime) {
    if get(task.tid) == resting(task.policy) {
        set(task.tid, task.policy, task.priority);
    }
}

/// The same for all that rest: for both processes, when the scheduler has ended.
pub fn put_all_back(channel: &Channel) {
    for (slot, task) in channel.resting() {
        put_back(&task);
        channel.set_resting(slot, None);
    }
}
