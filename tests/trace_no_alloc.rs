//! No policy allocates once it is made, recorded or not: counted by the allocator of this test binary.

#[path = "support/counting.rs"]
mod counting;
#[path = "policy/machine.rs"]
mod machine;
#[path = "policy/script.rs"]
mod script;

use machine::Machine;
use script::{Mask, Op, apply, settings};
use soft_domain::event::{Answers, ProcessEvent, Ready, Runnable, Spent};
use soft_domain::ids::{CpuId, MS, Ns, Pid};
use soft_domain::policies;
use soft_domain::policy::Policy;
use soft_domain::topology::{Grid, Level};
use soft_domain::trace::{Recorded, Sink};

/// Is full now and then, so that gaps and snapshots come too.
#[derive(Default)]
struct Leaky {
    puts: u64,
    snapshots: u64,
}

impl Sink for Leaky {
    fn put(&mut self, record: &[u8]) -> bool {
        self.puts += 1;
        self.snapshots += u64::from(record[0] == 3);
        self.puts % 5_000 > 50
    }
}

/// The recorder with every call watched.
struct Watched(Recorded<Box<dyn Policy>, Leaky>);

impl Watched {
    fn watch(&mut self, f: impl FnOnce(&mut dyn Policy)) {
        counting::watched(|| f(&mut self.0));
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
        self.0.waiting()
    }

    fn restore_home(&mut self, pid: Pid, home: CpuId) {
        self.watch(|p| p.restore_home(pid, home));
    }
}

#[test]
fn thousands_of_recorded_calls_allocate_nothing() {
    let t = Grid::new(2, 2, 4, 2).clusters(2).sparse(3, 5).build();
    for (name, _) in policies::NAMES {
        let settings = settings(Level::Cpu, 256);
        let limits = settings.limits;
        let policy = policies::build(name, &t, &settings).expect("a policy");
        let mut m = Machine::new(&t, Watched(Recorded::new(policy, Leaky::default(), 256)), limits);
        m.idle_bound = Ns::MAX;
        m.preempts = true;
        let before = counting::calls();
        for n in 0..400usize {
            let mask = if n.is_multiple_of(7) { Mask::One(n) } else { Mask::All };
            for op in [Op::Start(n % 4, (1 + n as u64 % 9) * MS, MS), Op::SetMask(n * 31, mask), Op::Advance(5 * MS)] {
                apply(&mut m, op);
            }
            if n > 60 {
                apply(&mut m, Op::Exit(n * 17));
            }
        }
        let sink = m.policy.0.sink();
        assert!(sink.puts > 20_000 && sink.snapshots > 2, "{name}: a dull run of {} records", sink.puts);
        assert_eq!(counting::calls(), before, "calls of the allocator by {name}");
    }
}
