//! A watched and recorded simulation in one line.

use soft_domain::event::Name;
use soft_domain::ids::{MS, Ns};
use soft_domain::policies;
use soft_domain::service::Pattern;
use soft_domain::sim::cost::Costs;
use soft_domain::sim::program::Workload;
use soft_domain::sim::results::Results;
use soft_domain::sim::watch::Watch;
use soft_domain::sim::{Machine, Setup, workload};
use soft_domain::soft_domain::Settings;
use soft_domain::timeline::{Timeline, from_sim, from_trace, html, json};
use soft_domain::topology::{Level, Topology};
use soft_domain::trace::header::Header;
use soft_domain::trace::reader::Reader;
use soft_domain::trace::{Recorded, Sink, Writer};
use std::cell::RefCell;
use std::rc::Rc;

pub const NASTY: &[u8] = b"</script><b>\"'\\\x01\xff";

#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Vec<Vec<u8>>>>);

impl Sink for Shared {
    fn put(&mut self, record: &[u8]) -> bool {
        self.0.borrow_mut().put(record)
    }
}

pub struct Ran {
    pub topology: Topology,
    pub watch: Watch,
    pub results: Results,
    pub records: Vec<Vec<u8>>,
    pub header: Header,
}

pub fn parse(text: &str, topology: &Topology) -> Workload {
    workload::parse(text, topology).expect("a workload")
}

pub fn run(policy: &str, topology: Topology, workload: Workload, duration: Ns, room: usize) -> Ran {
    let services = workload.services.iter().map(|s| Pattern::new(s).expect("a pattern")).collect();
    let settings = Settings { services, max_tasks: 1 << 12, ..Settings::default() };
    let built = policies::build(policy, &topology, &settings).expect("a policy");
    let sink = Shared::default();
    let recorded = Recorded::new(built, sink.clone(), settings.max_tasks);
    let setup = Setup { topology: &topology, costs: &Costs::default(), level: Level::Cpu, seed: 3 };
    let mut machine = Machine::new(&setup, Box::new(recorded), workload);
    machine.watch(room);
    machine.run(duration);
    let (results, watch) = (machine.results(), machine.take_watch().expect("it was watched"));
    let header = Header { about: "a test".into(), policy: policy.into(), topology: topology.clone(), settings };
    let records = sink.0.borrow().clone();
    Ran { topology, watch, results, records, header }
}

/// A busy machine of two nodes.
pub fn busy(policy: &str, workload: &str) -> Ran {
    let topology = Topology::grid(2, 2, 2, 2);
    let workload = parse(workload, &topology);
    run(policy, topology, workload, 40 * MS, usize::MAX)
}

/// Processes that were named to do harm.
pub fn nasty() -> Ran {
    let topology = Topology::grid(1, 2, 2, 1);
    let mut workload = parse("burners", &topology);
    for spec in &mut workload.tasks {
        spec.name = Name::new(NASTY);
    }
    run("fifo", topology, workload, 40 * MS, usize::MAX)
}

impl Ran {
    pub fn timeline(&self) -> Timeline {
        from_sim::timeline("a <test> of \"it\"".into(), Vec::new(), &self.topology, self.watch.clone())
    }

    pub fn file(&self) -> Vec<u8> {
        let mut w = Writer::new(Vec::new()).expect("memory");
        w.begin(&self.header).expect("memory");
        self.records.iter().for_each(|r| w.put(r).expect("memory"));
        w.finish(0).expect("memory")
    }

    pub fn recorded(&self) -> Timeline {
        let file = self.file();
        let (t, damage) = from_trace::timeline("a test".into(), &mut Reader::open(&file[..]).expect("a trace"));
        assert_eq!(damage, None);
        t
    }
}

pub fn page(t: &Timeline) -> String {
    let mut out = Vec::new();
    html::write(t, &mut out).expect("memory");
    String::from_utf8(out).expect("UTF-8")
}

pub fn chrome(t: &Timeline) -> String {
    let mut out = Vec::new();
    json::write(t, &mut out).expect("memory");
    String::from_utf8(out).expect("UTF-8")
}

/// What holds in every picture.
pub fn check(t: &Timeline) {
    for pair in t.spans.windows(2).filter(|p| p[0].cpu == p[1].cpu) {
        assert!(pair[0].end <= pair[1].start, "two at once on a CPU: {pair:?}");
    }
    for s in &t.spans {
        assert!(s.start <= s.end && s.end <= t.length, "{s:?} in {} ns", t.length);
        assert!(s.waited <= s.start && t.topology.cpu(s.cpu).is_some(), "{s:?}");
        let task = &t.tasks[s.task as usize];
        assert!((task.process as usize) < t.processes.len(), "{task:?}");
    }
    assert!(t.marks.iter().all(|m| m.at <= t.length && m.from != m.to));
    assert!(t.marks.is_sorted() && t.spans.is_sorted_by_key(|s| (s.cpu, s.start)));
    assert_eq!(t.latency.buckets().iter().map(|(_, n)| *n).sum::<u64>(), t.latency.count() as u64);
    assert_eq!(t.queues.lengths.len(), t.topology.nr_llcs());
    for (most, mean) in t.queues.lengths.iter().flatten() {
        assert!(u64::from(*mean) <= u64::from(*most) * 1000);
    }
}
