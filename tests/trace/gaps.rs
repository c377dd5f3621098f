//! A sink that is full for a while: counted, and the recording goes on from a snapshot.

use crate::machine::Machine;
use crate::script::{Op, apply, op, policy_name, topology};
use crate::support::{file, recording, replayed};
use proptest::prelude::*;
use soft_domain::ids::MS;
use soft_domain::topology::Topology;
use soft_domain::trace::Sink;
use soft_domain::trace::record::{Record, decode};

/// Takes a number of bytes, then nothing until there is room again.
#[derive(Default)]
struct Narrow {
    records: Vec<Vec<u8>>,
    room: usize,
}

impl Sink for Narrow {
    fn put(&mut self, record: &[u8]) -> bool {
        let fits = record.len() <= self.room;
        if fits {
            self.room -= record.len();
            self.records.push(record.to_vec());
        }
        fits
    }

    fn room(&self) -> usize {
        self.room
    }
}

fn run(m: &mut Machine<impl soft_domain::policy::Policy>, ops: &[Op]) {
    ops.iter().for_each(|op| apply(m, *op));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 500, ..ProptestConfig::default() })]

    #[test]
    fn every_call_is_recorded_or_counted(
        name in policy_name(),
        t in topology(),
        parts in prop::collection::vec((0usize..40_000, prop::collection::vec(op(), 0..40)), 1..8),
    ) {
        let mut m = recording(name, &t, Narrow::default());
        for (room, ops) in &parts {
            m.policy.sink().room = *room;
            run(&mut m, ops);
        }
        let (lost, at_end) = (m.policy.lost(), m.policy.lost_at_the_end());
        let records = m.policy.into_parts().1.records;
        let told: u64 = records.iter().filter_map(|r| soft_domain::trace::record::dropped(r)).sum();
        prop_assert_eq!(told + at_end, lost);
        let r = replayed(&file(name, &t, &records));
        prop_assert_eq!((r.dropped, r.differing), (told, 0), "{}", r);
        prop_assert_eq!(r.identical(), told == 0);
    }
}

/// FIFO keeps nothing but its queue, so that a snapshot is its whole state.
#[test]
fn after_a_gap_a_policy_without_memory_answers_just_the_same() {
    let t = Topology::grid(1, 2, 2, 1);
    let mut m = recording("fifo", &t, Narrow { room: usize::MAX, ..Narrow::default() });
    let crowd: Vec<Op> = (0..30).map(|n| Op::Start(n % 4, (1 + n as u64) * MS / 4, MS)).collect();
    run(&mut m, &crowd);
    m.policy.sink().room = 0;
    m.advance(200 * MS);
    assert!(m.policy.lost() > 100 && m.policy.lost() == m.policy.lost_at_the_end());
    m.policy.sink().room = usize::MAX;
    m.advance(200 * MS);
    assert_eq!(m.policy.lost_at_the_end(), 0);
    let records = m.policy.into_parts().1.records;
    let r = replayed(&file("fifo", &t, &records));
    assert!(r.gaps == 1 && r.apart > 500 && r.apart_differing == 0 && r.faults == 0, "{r}");
    assert!(r.to_string().contains("1 gaps with"), "{r}");
}

#[test]
fn a_snapshot_tells_homes_and_waiting_tasks() {
    let t = Topology::grid(1, 2, 2, 1);
    let mut m = recording("soft-domain", &t, Narrow { room: usize::MAX, ..Narrow::default() });
    (100..140).for_each(|pid| {
        m.start(pid, "svc-a").run = u64::MAX;
        m.wake(pid);
    });
    m.policy.sink().room = 0;
    m.advance(50 * MS);
    m.policy.sink().room = usize::MAX;
    m.policy.sink().records.clear();
    m.advance(20 * MS);
    let (held, homes) = (m.held.len(), m.homes.len());
    let records: Vec<Record> = m.policy.into_parts().1.records.iter().map(|r| decode(r).expect("a record")).collect();
    assert!(matches!(records[0], Record::Gap { dropped } if dropped > 10));
    let count =
        |name: &str| records.iter().filter(|r| matches!(r, Record::Snapshot(call) if call.name() == name)).count();
    assert_eq!((count("restore_home"), count("process")), (homes, 2 * 40));
    // One more or less came to wait since.
    assert!(count("enqueue") >= held - 4 && count("enqueue") <= 40 && homes == 40, "{} of {held}", count("enqueue"));
    assert_eq!(records.iter().filter(|r| matches!(r, Record::SnapshotEnd(_))).count(), 1);
}
