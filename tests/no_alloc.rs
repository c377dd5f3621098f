//! The policy allocates nothing once it is made: counted by the allocator of this test binary.

#[path = "support/counting.rs"]
mod counting;
#[path = "policy/machine.rs"]
mod machine;

use machine::Machine;
use soft_domain::cpumask::CpuMask;
use soft_domain::event::{Answers, ProcessEvent, Ready, Runnable, Spent};
use soft_domain::ids::{CpuId, MS, Ns, US};
use soft_domain::policy::Policy;
use soft_domain::service::Pattern;
use soft_domain::soft_domain::{Settings, SoftDomain};
use soft_domain::stats::Counters;
use soft_domain::topology::Grid;

/// The policy with every call watched.
struct Watched {
    inner: SoftDomain,
    events: u64,
}

impl Watched {
    fn watch(&mut self, f: impl FnOnce(&mut SoftDomain)) {
        self.events += 1;
        counting::watched(|| f(&mut self.inner));
    }
}

impl Policy for Watched {
    fn process(&mut self, now: Ns, event: &ProcessEvent, out: &mut Answers) {
        self.watch(|p| p.process(now, event, out));
    }

    fn enqueue(&mut self, now: Ns, task: &Runnable, out: &mut Answers) {
        self.watch(|p| p.enqueue(now, task, out));
    }

    fn observe(&mut self, now: Ns, cpu: CpuId, spent: &Spent) {
        self.watch(|p| p.observe(now, cpu, spent));
    }

    fn dispatch(&mut self, now: Ns, ready: &Ready, out: &mut Answers) {
        self.watch(|p| p.dispatch(now, ready, out));
    }

    fn waiting(&self) -> usize {
        self.inner.waiting()
    }

    fn counters(&self) -> Option<&Counters> {
        self.inner.counters()
    }
}

#[test]
fn ten_thousand_events_allocate_nothing() {
    let t = Grid::new(2, 2, 4, 2).clusters(2).sparse(3, 5).build();
    let services = vec![Pattern::new("svc-*").expect("a pattern")];
    let settings = Settings { services, max_tasks: 256, ..Settings::default() };
    let limits = settings.limits;
    let mut m = Machine::new(&t, Watched { inner: SoftDomain::new(&t, settings), events: 0 }, limits);
    m.preempts = true;
    let mut round = 0i32;
    let before = counting::calls();
    while m.policy.events < 40_000 {
        for i in 0..30 {
            let pid = 100 + i;
            if (i + round) % 7 == 0 {
                m.exit(pid);
                let task = m.start(pid, if i % 3 == 0 { "svc-a" } else { "sh" });
                (task.run, task.sleep) = ((100 + 150 * i as u64) * US, (1 + i as u64 % 9) * MS);
                task.weight = 1 + 11 * i as u32;
            }
            m.wake(pid);
            if (i + round) % 11 == 0 {
                let one = CpuMask::of(t.cpus().iter().nth(i as usize % 32).expect("a CPU"));
                m.set_mask(pid, if round % 2 == 0 { one } else { CpuMask::ALL });
            }
        }
        m.advance(20 * MS);
        round += 1;
    }
    assert!(m.dispatched > 1_000 && m.homes.len() > 5 && !m.moves.is_empty(), "a dull run");
    assert_eq!(counting::calls(), before, "calls of the allocator");
}
