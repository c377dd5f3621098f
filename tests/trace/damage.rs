//! A trace is foreign input: whatever is in it, the reader ends with words, and what came before the damage is good.

use crate::script::Op;
use crate::support::{file, header, records};
use proptest::prelude::*;
use soft_domain::ids::MS;
use soft_domain::topology::Topology;
use soft_domain::trace::reader::{Damage, OpenError};
use soft_domain::trace::record::{self, Record};
use soft_domain::trace::replay::{replay, same_policy};
use soft_domain::trace::{Item, MAGIC, Reader, VERSION, Writer};
use std::sync::LazyLock;

/// A trace of several chunks, with its records.
static WHOLE: LazyLock<(Vec<u8>, Vec<Vec<u8>>)> = LazyLock::new(|| {
    let t = Topology::grid(1, 2, 2, 1);
    let ops: Vec<Op> =
        (0..40).flat_map(|n| [Op::Start(n % 4, MS, MS), Op::Wake(n), Op::Advance(3 * MS), Op::Exit(n)]).collect();
    let records = records("soft-domain", &t, &ops);
    let mut w = Writer::new(Vec::new()).expect("memory");
    w.begin(&header("soft-domain", &t)).expect("memory");
    for part in records.chunks(records.len() / 8) {
        part.iter().for_each(|r| w.put(r).expect("memory"));
        w.flush().expect("memory");
    }
    (w.finish(0).expect("memory"), records)
});

/// Everything up to the end or the damage; the closing chunk must be there for `None`.
fn read(file: &[u8]) -> Result<(Vec<Vec<u8>>, Option<Damage>), OpenError> {
    let mut reader = Reader::open(file)?;
    let mut got = Vec::new();
    loop {
        match reader.step() {
            Ok(Some(Item::Record(_))) => got.push(reader.bytes().to_vec()),
            Ok(Some(Item::Begin(_))) => {}
            Ok(Some(Item::End(_))) | Ok(None) => return Ok((got, None)),
            Err(damage) => {
                assert_eq!(damage.records, got.len() as u64, "{damage}");
                assert!(damage.at <= file.len() as u64, "{damage}");
                assert!(matches!(reader.step(), Ok(None)), "a damage is told once");
                return Ok((got, Some(damage)));
            }
        }
    }
}

#[test]
fn a_file_cut_anywhere_is_good_up_to_the_cut() {
    let (whole, records) = &*WHOLE;
    let (mut opened, mut last) = (0, 0);
    for len in 0..whole.len() {
        match read(&whole[..len]) {
            Ok((got, Some(damage))) => {
                opened += 1;
                assert!(got[..] == records[..got.len()] && got.len() >= last, "cut at {len}");
                assert!(damage.to_string().contains("records before it are good"), "{damage}");
                last = got.len();
            }
            Ok((_, None)) => panic!("cut at {len} looks whole"),
            Err(e) => assert!(len < 400 && !e.to_string().is_empty(), "cut at {len}: {e}"),
        }
    }
    assert!(opened > 1000 && last == records.len());
    assert!(read(whole).is_ok_and(|(got, damage)| got == *records && damage.is_none()));
}

#[test]
fn foreign_files_are_told_in_words() {
    let words = |file: &[u8]| Reader::open(file).expect_err("no trace").to_string();
    assert!(words(b"").contains("empty"));
    assert!(words(b"PERFILE2 and more of it").contains("no trace"));
    let mut newer = MAGIC.to_vec();
    newer.extend((VERSION + 1).to_le_bytes());
    assert!(words(&newer).contains("format version 2, this program reads version 1"));
    newer[8..12].copy_from_slice(&VERSION.to_le_bytes());
    assert!(words(&newer).contains("no readable header"));
}

#[test]
fn a_policy_that_is_not_there_is_told_with_those_that_are() {
    let file = file("no\u{1b}such", &Topology::grid(1, 1, 1, 1), &[]);
    let e = replay(&mut Reader::open(&file[..]).expect("a trace"), &mut same_policy).expect_err("no policy");
    assert!(e.to_string().contains("'no\\u{1b}such'") && e.to_string().contains("least-loaded"), "{e}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 500, ..ProptestConfig::default() })]

    #[test]
    fn flipped_bytes_are_found(at in any::<prop::sample::Index>(), flip in 1u8..) {
        let (whole, records) = &*WHOLE;
        let mut file = whole.clone();
        let at = at.index(file.len());
        file[at] ^= flip;
        match read(&file) {
            // Padding and the like is inside the checksum too, so that nothing passes.
            Ok((got, damage)) => {
                prop_assert!(damage.is_some(), "byte {at} ^ {flip} was not found");
                prop_assert!(got[..] == records[..got.len()]);
            }
            Err(e) => prop_assert!(!e.to_string().is_empty()),
        }
    }

    #[test]
    fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..300), start in 0usize..3) {
        let mut file = MAGIC.to_vec();
        file.extend(VERSION.to_le_bytes());
        let file = match start { 0 => bytes, 1 => [file, bytes].concat(), _ => [&WHOLE.0[..WHOLE.0.len() / 3], &bytes].concat() };
        let _ = read(&file);
    }

    /// With a checksum that is right: the content itself is foreign.
    #[test]
    fn any_content_of_a_chunk_is_read_and_replayed_without_harm(
        list in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)), 0..200),
        noise in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut w = Writer::new(Vec::new()).expect("memory");
        w.begin(&header("soft-domain", &Topology::grid(1, 2, 2, 1))).expect("memory");
        for (which, flips) in list {
            let mut bytes = which.get(&WHOLE.1).clone();
            for (at, b) in flips {
                let at = at.index(bytes.len());
                bytes[at] = b;
            }
            w.put(&bytes).expect("memory");
        }
        w.put(&noise).expect("memory");
        let file = w.finish(0).expect("memory");
        let mut reader = Reader::open(&file[..]).expect("a trace");
        let r = replay(&mut reader, &mut same_policy).expect("a policy");
        prop_assert!(!r.to_string().is_empty());
    }

    #[test]
    fn any_record_is_taken_apart_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(Record::Call(call, given)) = record::decode(&bytes) {
            prop_assert!(given.dispatch.len() + given.hints.len() + given.notices.len() <= bytes.len(), "{call:?}");
        }
    }
}
