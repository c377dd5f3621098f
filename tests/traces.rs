//! Frozen recordings: each folder of tests/traces holds a trace and what its replay gives (`sdlab freeze`).

use soft_domain::trace::cli::{expectation, open};
use soft_domain::trace::freeze::{EXPECT, TRACE};
use soft_domain::trace::replay::{replay, same_policy};
use std::path::Path;

#[test]
fn every_frozen_trace_replays_as_it_did() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces");
    let mut folders: Vec<_> = std::fs::read_dir(&root)
        .unwrap_or_else(|e| panic!("{}: {e}", root.display()))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    assert!(!folders.is_empty(), "nothing in {}", root.display());
    for folder in folders {
        let (trace, expect) = (folder.join(TRACE), folder.join(EXPECT));
        let kept = std::fs::read_to_string(&expect).unwrap_or_else(|e| panic!("{}: {e}", expect.display()));
        let now = expectation(&trace).unwrap_or_else(|e| panic!("{e}"));
        if !now.same(&kept) {
            let mut reader = open(&trace).unwrap_or_else(|e| panic!("{e}"));
            let replay = replay(&mut reader, &mut same_policy).unwrap_or_else(|e| panic!("{e}"));
            panic!("{}\nexpected\n{kept}\ngot\n{now}\n{replay}", folder.display());
        }
    }
}
