//! Policies with planted faults: the simulator names the rule, the task and the time.

use crate::support::Run;
use soft_domain::cpumask::CpuMask;
use soft_domain::event::{Answers, ProcessEvent, Ready, Runnable};
use soft_domain::ids::{CpuId, MS, Ns, Tid};
use soft_domain::policies::fifo::Fifo;
use soft_domain::policy::Policy;
use soft_domain::sim::program::{Op, TaskSpec, Workload};
use soft_domain::sim::results::Results;
use soft_domain::soft_domain::Settings;
use soft_domain::topology::Topology;

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Drops,
    SendsOutsideTheMask,
    Starves,
    SendsTwice,
    ZeroSlice,
    SendsTheDead,
}

/// The fifo policy with a fault that shows at its hundredth task.
struct Faulty {
    inner: Fifo,
    fault: Fault,
    seen: u32,
    victim: Option<Tid>,
    starved: Vec<Runnable>,
    last: Option<soft_domain::event::Dispatch>,
}

impl Policy for Faulty {
    fn process(&mut self, now: Ns, event: &ProcessEvent, out: &mut Answers) {
        self.inner.process(now, event, out);
        if let (Fault::SendsTheDead, ProcessEvent::Exit { tid, .. }) = (self.fault, event)
            && let Some(last) = self.last.filter(|d| d.tid == *tid)
        {
            out.dispatch.push(last);
        }
    }

    fn enqueue(&mut self, now: Ns, task: &Runnable, out: &mut Answers) {
        self.seen += 1;
        if self.seen == 100 {
            self.victim = Some(task.tid);
        }
        if self.victim == Some(task.tid) {
            match self.fault {
                Fault::Drops => return,
                Fault::Starves => {
                    self.starved = vec![*task];
                    return;
                }
                _ => {}
            }
        }
        self.inner.enqueue(now, task, out);
    }

    fn dispatch(&mut self, now: Ns, ready: &Ready, out: &mut Answers) {
        let from = out.dispatch.len();
        self.inner.dispatch(now, ready, out);
        for i in from..out.dispatch.len() {
            let mut d = out.dispatch[i];
            self.last = Some(d);
            if self.victim == Some(d.tid) {
                match self.fault {
                    Fault::SendsOutsideTheMask => d.cpu = CpuId(1),
                    Fault::SendsTwice => out.dispatch.push(d),
                    Fault::ZeroSlice => d.slice_ns = 0,
                    _ => {}
                }
                out.dispatch[i] = d;
            }
        }
    }

    fn waiting(&self) -> usize {
        self.inner.waiting() + self.starved.len()
    }
}

fn run(fault: Fault) -> Results {
    let t = Topology::grid(1, 1, 2, 1);
    let settings = Settings { max_tasks: 64, ..Settings::default() };
    let policy =
        Faulty { inner: Fifo::new(&t, &settings), fault, seen: 0, victim: None, starved: Vec::new(), last: None };
    let program = vec![
        Op::Run { ns: MS, spread: 300 },
        Op::Sleep { ns: MS, spread: 300 },
        Op::Repeat { to: 0, times: if fault == Fault::SendsTheDead { 20 } else { 100_000 }, counter: 0 },
    ];
    let one = TaskSpec { allowed: CpuMask::of(CpuId(0)), ..TaskSpec::new("worker", program) };
    let w = Workload { tasks: vec![one.clone(), one.clone(), one], ..Workload::default() };
    Run::on(t, if fault == Fault::Starves { 20_000 } else { 1000 } * MS).policy(Box::new(policy), w)
}

fn named(fault: Fault, rule: &str) -> Results {
    let r = run(fault);
    let f = r.faults.first().unwrap_or_else(|| panic!("no fault named for {rule}"));
    assert!(f.text.contains(rule), "{f}");
    assert!((1000..1003).contains(&f.tid) && f.service == "worker" && f.at > 0, "{f}");
    r
}

#[test]
fn a_dropped_task_is_named() {
    let r = named(Fault::Drops, "dropped");
    assert_eq!(r.faults.len(), 1);
}

#[test]
fn a_task_sent_outside_its_mask_is_named_and_bounced() {
    let r = named(Fault::SendsOutsideTheMask, "CPU 1, which is outside its affinity mask");
    assert!(r.totals.bounced > 0);
}

#[test]
fn a_starved_task_is_named_and_ends_the_run_as_the_kernel_would() {
    let r = named(Fault::Starves, "starved: runnable for 5");
    assert!(r.ejected && r.duration < 8_000 * MS, "{}", r.duration);
}

#[test]
fn a_task_sent_twice_is_named() {
    named(Fault::SendsTwice, "dispatched twice");
}

#[test]
fn a_slice_of_zero_is_named() {
    named(Fault::ZeroSlice, "slice of 0");
}

#[test]
fn a_task_sent_after_its_exit_is_named() {
    named(Fault::SendsTheDead, "exit");
}
