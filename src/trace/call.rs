//! One call into a policy as plain data: recorded, stored, and given again.

use super::bytes::{Bad, In, Out};
use crate::event::{Answers, Cause, ProcessEvent, Ready, Runnable, Spent};
use crate::ids::{CpuId, Ns, Pid};
use crate::policy::Policy;

/// A call of one of the methods of [`Policy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`Policy::process`]
    Process(Ns, ProcessEvent),
    /// [`Policy::enqueue`]
    Enqueue(Ns, Runnable),
    /// [`Policy::observe`]
    Observe(Ns, CpuId, Spent),
    /// [`Policy::dispatch`]
    Dispatch(Ns, Ready),
    /// [`Policy::restore_home`], which has no time.
    RestoreHome(Pid, CpuId),
}

impl Call {
    /// Most bytes of an encoded call: a runnable with a full mask, or a ready set.
    pub const MOST_BYTES: usize = 256;

    /// Makes the call.
    pub fn give(&self, policy: &mut dyn Policy, out: &mut Answers) {
        match self {
            Call::Process(now, event) => policy.process(*now, event, out),
            Call::Enqueue(now, task) => policy.enqueue(*now, task, out),
            Call::Observe(now, cpu, spent) => policy.observe(*now, *cpu, spent),
            Call::Dispatch(now, ready) => policy.dispatch(*now, ready, out),
            Call::RestoreHome(pid, home) => policy.restore_home(*pid, *home),
        }
    }

    /// Its time, ns; a restored home has none.
    pub fn now(&self) -> Option<Ns> {
        match self {
            Call::Process(now, _) | Call::Enqueue(now, _) | Call::Observe(now, ..) | Call::Dispatch(now, _) => {
                Some(*now)
            }
            Call::RestoreHome(..) => None,
        }
    }

    /// The method's name.
    pub fn name(&self) -> &'static str {
        match self {
            Call::Process(..) => "process",
            Call::Enqueue(..) => "enqueue",
            Call::Observe(..) => "observe",
            Call::Dispatch(..) => "dispatch",
            Call::RestoreHome(..) => "restore_home",
        }
    }

    pub(super) fn encode(&self, o: &mut Out) {
        match self {
            Call::Process(now, event) => process(*now, event, o),
            Call::Enqueue(now, r) => {
                o.byte(match (r.cause, r.waker) {
                    (Cause::Wakeup, Some(_)) => ENQUEUE_WOKEN,
                    (Cause::Wakeup, None) => ENQUEUE_WAKEUP,
                    (Cause::SliceEnd, _) => ENQUEUE_SLICE_END,
                });
                o.int(*now);
                o.tid(r.tid);
                o.cpu(r.cpu);
                o.mask(&r.allowed);
                o.int(r.since_wakeup_ns);
                o.int(r.stint_ns);
                o.time(*now, r.started);
                o.int(r.weight.into());
                o.int(r.generation);
                r.waker.filter(|_| r.cause == Cause::Wakeup).iter().for_each(|w| o.tid(*w));
            }
            Call::Observe(now, cpu, Spent { home_ns, other_ns, long_ns }) => {
                o.byte(OBSERVE);
                o.int(*now);
                o.cpu(*cpu);
                o.int(*home_ns);
                o.int(*other_ns);
                o.int(*long_ns);
            }
            Call::Dispatch(now, ready) => {
                let Ready { asking, next, idle } = ready;
                o.byte(if asking.is_some() { DISPATCH_ASKED } else { DISPATCH });
                o.int(*now);
                asking.iter().for_each(|c| o.cpu(*c));
                o.byte(u8::from(*next));
                o.mask(idle);
            }
            Call::RestoreHome(pid, cpu) => {
                o.byte(RESTORE_HOME);
                o.pid(*pid);
                o.cpu(*cpu);
            }
        }
    }

    pub(super) fn decode(i: &mut In) -> Result<Call, Bad> {
        let kind = i.byte()?;
        if kind == RESTORE_HOME {
            return Ok(Call::RestoreHome(i.pid()?, i.cpu()?));
        }
        let now = i.int()?;
        Ok(match kind {
            THREAD | KTHREAD => {
                let (tid, pid, parent, comm) = (i.tid()?, i.pid()?, i.pid()?, i.name()?);
                Call::Process(now, ProcessEvent::Thread { tid, pid, parent, comm, kthread: kind == KTHREAD })
            }
            EXEC => Call::Process(now, ProcessEvent::Exec { pid: i.pid()?, comm: i.name()?, exe: i.name()? }),
            EXIT | EXIT_LAST => {
                Call::Process(now, ProcessEvent::Exit { tid: i.tid()?, pid: i.pid()?, last: kind == EXIT_LAST })
            }
            ENQUEUE_WAKEUP | ENQUEUE_WOKEN | ENQUEUE_SLICE_END => {
                let r = Runnable {
                    tid: i.tid()?,
                    cpu: i.cpu()?,
                    allowed: i.mask()?,
                    cause: if kind == ENQUEUE_SLICE_END { Cause::SliceEnd } else { Cause::Wakeup },
                    since_wakeup_ns: i.int()?,
                    stint_ns: i.int()?,
                    started: i.time(now)?,
                    weight: i.small()?,
                    generation: i.int()?,
                    waker: if kind == ENQUEUE_WOKEN { Some(i.tid()?) } else { None },
                };
                Call::Enqueue(now, r)
            }
            OBSERVE => {
                let cpu = i.cpu()?;
                Call::Observe(now, cpu, Spent { home_ns: i.int()?, other_ns: i.int()?, long_ns: i.int()? })
            }
            DISPATCH | DISPATCH_ASKED => {
                let asking = if kind == DISPATCH_ASKED { Some(i.cpu()?) } else { None };
                Call::Dispatch(now, Ready { asking, next: i.byte()? != 0, idle: i.mask()? })
            }
            _ => return Err(Bad("a call of an unknown kind")),
        })
    }
}

const THREAD: u8 = 1;
const KTHREAD: u8 = 2;
const EXEC: u8 = 3;
const EXIT: u8 = 4;
const EXIT_LAST: u8 = 5;
const ENQUEUE_WAKEUP: u8 = 6;
const ENQUEUE_SLICE_END: u8 = 7;
const OBSERVE: u8 = 8;
const DISPATCH: u8 = 9;
const DISPATCH_ASKED: u8 = 10;
const RESTORE_HOME: u8 = 11;
/// A wake-up with the thread that caused it.
const ENQUEUE_WOKEN: u8 = 12;

fn process(now: Ns, event: &ProcessEvent, o: &mut Out) {
    match event {
        ProcessEvent::Thread { tid, pid, parent, comm, kthread } => {
            o.byte(if *kthread { KTHREAD } else { THREAD });
            o.int(now);
            o.tid(*tid);
            o.pid(*pid);
            o.pid(*parent);
            o.name(comm);
        }
        ProcessEvent::Exec { pid, comm, exe } => {
            o.byte(EXEC);
            o.int(now);
            o.pid(*pid);
            o.name(comm);
            o.name(exe);
        }
        ProcessEvent::Exit { tid, pid, last } => {
            o.byte(if *last { EXIT_LAST } else { EXIT });
            o.int(now);
            o.tid(*tid);
            o.pid(*pid);
        }
    }
}
