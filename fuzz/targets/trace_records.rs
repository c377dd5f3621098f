//! Records of a trace, replayed by the policy that is said to have made them and by all others: nonsense in a recording
//! must never make a policy panic. Input: which policy, then records, each behind its length.
#![no_main]

use libfuzzer_sys::fuzz_target;
use soft_domain::policies::{NAMES, build};
use soft_domain::service::Pattern;
use soft_domain::soft_domain::Settings;
use soft_domain::topology::Grid;
use soft_domain::trace::header::Header;
use soft_domain::trace::replay::replay;
use soft_domain::trace::{Reader, Writer};

fuzz_target!(|data: &[u8]| {
    let Some((which, mut rest)) = data.split_first() else { return };
    let (policy, _) = NAMES[usize::from(*which) % NAMES.len()];
    let services = vec![Pattern::new("*").expect("a pattern")];
    let settings = Settings { services, max_tasks: 8, ..Settings::default() };
    let topology = Grid::new(1, 2, 1, 2).sparse(1, 3).build();
    let header = Header { about: "fuzz".into(), policy: policy.into(), topology, settings };

    let mut w = Writer::new(Vec::new()).expect("memory");
    w.begin(&header).expect("memory");
    while let Some((len, more)) = rest.split_first() {
        let (record, more) = more.split_at(more.len().min(usize::from(*len)));
        w.put(record).expect("memory");
        rest = more;
    }
    let file = w.finish(0).expect("memory");
    let mut reader = Reader::open(&file[..]).expect("a trace");
    let r = replay(&mut reader, &mut |h: &Header| build(&h.policy, &h.topology, &h.settings)).expect("a policy");
    assert!(!r.to_string().is_empty());
});
