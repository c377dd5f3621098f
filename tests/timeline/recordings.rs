//! A picture of a recording is worked out; beside that of the same simulation it shows how well.

use crate::support::{Ran, busy, check};
use soft_domain::policies;
use soft_domain::timeline::model::Span;
use soft_domain::timeline::{Timeline, from_trace};
use soft_domain::trace::reader::Reader;
use soft_domain::trace::record;
use std::collections::BTreeSet;

#[test]
fn stints_of_a_recording_are_those_of_the_simulation() {
    for (policy, _) in policies::NAMES {
        for workload in ["fleet,batch=20", "mixed", "forks"] {
            let ran = busy(policy, workload);
            let (exact, worked_out) = (ran.timeline(), ran.recorded());
            check(&worked_out);
            let key = |t: &Timeline, s: &Span| (t.tasks[s.task as usize].tid, s.cpu, s.start, s.end);
            let of = |t: &Timeline| t.spans.iter().map(|s| key(t, s)).collect::<BTreeSet<_>>();
            let (all, known) = (of(&exact), of(&worked_out));
            let told = worked_out.spans.iter().filter(|s| !s.guessed).count();
            let right = known.intersection(&all).count();
            assert!(right * 100 >= told * 99 && told > 5, "{policy}, {workload}: {right} of {told} are right");
        }
    }
}

#[test]
fn homes_and_names_of_a_recording_are_those_of_the_simulation() {
    let ran = busy("soft-domain", "fleet,batch=20");
    let (exact, worked_out) = (ran.timeline(), ran.recorded());
    let names = |t: &Timeline| t.processes.iter().map(|p| (p.pid, p.name.clone())).collect::<BTreeSet<_>>();
    assert_eq!(names(&exact), names(&worked_out));
    assert!(worked_out.latency.count() > 0 && worked_out.spans.iter().any(|s| s.at_home));
}

fn torn(ran: &Ran, bytes: usize) -> String {
    let file = ran.file();
    let cut = &file[..file.len() - bytes];
    let (t, damage) = from_trace::timeline("torn".into(), &mut Reader::open(cut).expect("a trace"));
    check(&t);
    damage.map_or_else(String::new, |d| d.to_string())
}

#[test]
fn a_torn_recording_is_shown_up_to_the_damage() {
    let ran = busy("fifo", "fleet,batch=20");
    assert!(torn(&ran, 3).contains("cut off"));
    assert_eq!(torn(&ran, 0), "");
}

#[test]
fn a_gap_ends_what_was_open() {
    let mut ran = busy("soft-domain", "burners,tasks=40,run=1ms");
    let mut gap = Vec::new();
    record::encode_gap(&mut gap, 7);
    let middle = ran.records.len() / 2;
    ran.records.drain(middle - 20..middle + 20);
    ran.records.insert(middle - 20, gap);
    let t = ran.recorded();
    check(&t);
    assert!(t.facts.iter().any(|(name, n)| name == "gaps" && n == "1"), "{:?}", t.facts);
}
