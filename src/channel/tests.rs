use super::*;
use crate::event::{MoveReason, Name};
use crate::stats::Counter;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The same memory twice, as two processes have it.
fn pair() -> (Channel, Channel) {
    let host = Channel::create().unwrap();
    let fd = host.fd().try_clone_to_owned().unwrap();
    let dispatcher = Channel::open(fd).unwrap();
    (host, dispatcher)
}

fn notices() -> impl Strategy<Value = Notice> {
    let pid = || (0..i32::MAX).prop_map(Pid);
    let cpu = || (0u16..1024).prop_map(CpuId);
    let why = prop_oneof![
        Just(MoveReason::LessLoaded),
        Just(MoveReason::LlcTaken),
        Just(MoveReason::Return),
        Just(MoveReason::Spread),
        Just(MoveReason::Mask),
        Just(MoveReason::Exchange)
    ];
    prop_oneof![
        (pid(), any::<u16>(), proptest::collection::vec(any::<u8>(), 0..40), cpu())
            .prop_map(|(pid, service, name, home)| Notice::Adopted { pid, service, name: Name::new(&name), home }),
        (pid(), cpu()).prop_map(|(pid, home)| Notice::Left { pid, home }),
        (pid(), cpu(), cpu(), any::<(u32, u32)>(), why).prop_map(|(pid, from, to, load, why)| Notice::Moved {
            pid,
            from,
            to,
            load,
            why
        }),
    ]
}

proptest! {
    #[test]
    fn notices_arrive_as_sent_and_in_order(list in proptest::collection::vec((any::<u64>(), notices()), 0..50)) {
        let (host, dispatcher) = pair();
        for (now, notice) in &list {
            prop_assert!(dispatcher.notice(*now, notice));
        }
        let got: Vec<_> = std::iter::from_fn(|| host.next_notice()).collect();
        prop_assert_eq!(got, list);
    }

    #[test]
    fn arbitrary_memory_neither_panics_nor_hangs_the_host(
        seed in any::<u64>(), head in any::<u64>(), tail in any::<u64>(), ones in any::<bool>()
    ) {
        let (host, dispatcher) = pair();
        scribble(&dispatcher, seed, ones);
        dispatcher.shared().head.0.store(head, Relaxed);
        dispatcher.shared().tail.0.store(tail, Relaxed);
        let read = std::iter::from_fn(|| host.next_notice()).take(2 * RING).count();
        prop_assert!(read <= RING);
        host.phase();
        host.counters();
        if let Some(end) = host.end() {
            prop_assert!(!end.text.chars().any(char::is_control));
        }
        for (pid, cpu) in host.homes() {
            prop_assert!(pid.0 > 0 && cpu.index() < crate::ids::MAX_CPUS);
        }
    }

    #[test]
    fn the_homes_are_those_set_last(
        steps in proptest::collection::vec((1..2000i32, proptest::option::of(0u16..1024)), 0..400)
    ) {
        let (host, dispatcher) = pair();
        let mut model = BTreeMap::new();
        for (pid, cpu) in steps {
            let (pid, cpu) = (Pid(pid), cpu.map(CpuId));
            if dispatcher.set_home(pid, cpu) {
                match cpu {
                    Some(c) => model.insert(pid, c),
                    None => model.remove(&pid),
                };
            }
        }
        let mut got = host.homes();
        got.sort();
        prop_assert_eq!(got, model.into_iter().collect::<Vec<_>>());
    }
}

/// Fills everything but the magic with noise.
fn scribble(channel: &Channel, seed: u64, ones: bool) {
    let mut x = seed | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        if ones { x | 0xff00_0000_0000_00ff } else { x }
    };
    let s = channel.shared();
    s.phase.store(next() as u32, Relaxed);
    s.end_kind.store(next() as u32 % 6, Relaxed);
    s.end_text.set("");
    let noise: Vec<u8> = (0..200).flat_map(|_| next().to_le_bytes()).collect();
    s.end_text.fill(&noise);
    s.counters.iter().for_each(|c| c.store(next(), Relaxed));
    s.homes.fill(&mut next);
    for r in &s.ring {
        // Half of the records with a kind that exists.
        let mut words: [u64; WORDS] = std::array::from_fn(|_| next());
        if words[0].is_multiple_of(2) {
            words[1] = (words[1] & !0xff) | (words[0] % 6);
            words[2] &= 0x7fff_ffff;
        }
        r.set(&words);
    }
}

#[test]
fn a_full_ring_refuses_and_loses_nothing_older() {
    let (host, dispatcher) = pair();
    let notice = |i: usize| Notice::Left { pid: Pid(i as i32), home: CpuId(1) };
    for i in 0..RING {
        assert!(dispatcher.notice(i as u64, &notice(i)));
    }
    assert!(!dispatcher.notice(9, &notice(9)));
    assert_eq!(host.next_notice(), Some((0, notice(0))));
    assert!(dispatcher.notice(7777, &notice(7)));
    assert_eq!(std::iter::from_fn(|| host.next_notice()).last(), Some((7777, notice(7))));
}

#[test]
fn an_end_is_told_in_words_that_are_safe_to_print() {
    let (host, dispatcher) = pair();
    assert_eq!(host.end(), None);
    let end = End {
        kind: EndKind::Ejected,
        kernel_kind: 1026,
        kernel_code: -3,
        restart: true,
        text: "runnable task stall (\u{1b}[31mevil\n[12] failed to run)".into(),
    };
    dispatcher.set_end(&end);
    dispatcher.set_phase(Phase::Ended);
    let text = "runnable task stall (\\u{1b}[31mevil\\n[12] failed to run)".to_string();
    assert_eq!(host.end(), Some(End { text, ..end }));
    assert_eq!(host.phase(), Phase::Ended);
}

#[test]
fn each_phase_arrives_as_it_was_told() {
    let (host, dispatcher) = pair();
    for phase in [Phase::Running, Phase::Ending, Phase::Ended, Phase::Starting] {
        dispatcher.set_phase(phase);
        assert_eq!(host.phase(), phase);
    }
}

#[test]
fn a_fresh_start_keeps_homes_and_unread_notices_only() {
    let (host, dispatcher) = pair();
    let mut counters = Counters::default();
    counters.add(Counter::Enqueued);
    dispatcher.publish(&counters);
    assert_eq!(host.counters(), counters);
    assert!(dispatcher.set_home(Pid(5), Some(CpuId(3))));
    assert!(dispatcher.notice(1, &Notice::Left { pid: Pid(1), home: CpuId(0) }));
    host.request_stop();
    assert!(dispatcher.stop_requested());
    dispatcher.set_phase(Phase::Ended);

    host.begin();
    assert!(!dispatcher.stop_requested());
    assert_eq!(host.phase(), Phase::Starting);
    assert_eq!(host.counters(), Counters::default());
    assert_eq!(host.homes(), [(Pid(5), CpuId(3))]);
    assert!(host.next_notice().is_some());
}

#[test]
fn a_memory_of_another_size_or_version_is_refused() {
    let fd = rustix::fs::memfd_create("short", MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&fd, 100).unwrap();
    assert!(Channel::open(fd).is_err());
    let host = Channel::create().unwrap();
    host.shared().magic.store(MAGIC + 1, Relaxed);
    assert!(Channel::open(host.fd().try_clone_to_owned().unwrap()).is_err());
}
