//! Recordings of the made-up machine.

use crate::machine::Machine;
use crate::script::{Op, apply, settings};
use soft_domain::policies;
use soft_domain::policy::Policy;
use soft_domain::topology::{Level, Topology};
use soft_domain::trace::header::Header;
use soft_domain::trace::replay::{Replay, replay, same_policy};
use soft_domain::trace::{Reader, Recorded, Sink, Writer};

pub type Recording<S> = Machine<Recorded<Box<dyn Policy>, S>>;

pub fn header(name: &str, t: &Topology) -> Header {
    let (policy, topology) = (name.to_owned(), t.clone());
    Header { about: "a test".into(), policy, topology, settings: settings(Level::Cpu, 128) }
}

/// A machine whose policy is recorded into `sink`.
pub fn recording<S: Sink>(name: &str, t: &Topology, sink: S) -> Recording<S> {
    let h = header(name, t);
    let policy = policies::build(name, t, &h.settings).expect("a policy");
    let mut m = Machine::new(t, Recorded::new(policy, sink, h.settings.max_tasks), h.settings.limits);
    m.idle_bound = u64::MAX;
    m.preempts = true;
    m
}

/// The records of a run.
pub fn records(name: &str, t: &Topology, ops: &[Op]) -> Vec<Vec<u8>> {
    let mut m = recording(name, t, Vec::new());
    ops.iter().for_each(|op| apply(&mut m, *op));
    m.policy.into_parts().1
}

/// As a file that was closed in order.
pub fn file(name: &str, t: &Topology, records: &[Vec<u8>]) -> Vec<u8> {
    let mut w = Writer::new(Vec::new()).expect("memory");
    w.begin(&header(name, t)).expect("memory");
    records.iter().for_each(|r| w.put(r).expect("memory"));
    w.finish(0).expect("memory")
}

pub fn replayed(file: &[u8]) -> Replay {
    let mut reader = Reader::open(file).expect("a trace");
    replay(&mut reader, &mut same_policy).expect("a policy")
}
