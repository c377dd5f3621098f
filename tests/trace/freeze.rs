//! An incident becomes a test.

use crate::machine::FOREVER;
use crate::script::{Mask, Op};
use crate::support::{file, records, replayed};
use clap::Parser;
use soft_domain::ids::MS;
use soft_domain::topology::Topology;
use soft_domain::trace::cli::{FreezeArgs, ReplayArgs, expectation, run_freeze, run_replay};
use std::path::Path;

#[derive(Parser)]
enum Command {
    Replay(ReplayArgs),
    Freeze(FreezeArgs),
}

fn sdlab(args: &[&dyn AsRef<std::ffi::OsStr>]) -> soft_domain::trace::cli::Outcome {
    let args = [std::ffi::OsString::from("sdlab")].into_iter().chain(args.iter().map(|a| a.as_ref().to_owned()));
    match Command::parse_from(args) {
        Command::Replay(args) => run_replay(&args),
        Command::Freeze(args) => run_freeze(&args),
    }
    .expect("it works")
}

fn record(path: &Path) {
    let t = Topology::grid(1, 2, 2, 1);
    let ops: Vec<Op> = (0..30).flat_map(|n| [Op::Start(n % 4, MS, MS), Op::Advance(5 * MS)]).collect();
    std::fs::write(path, file("least-loaded", &t, &records("least-loaded", &t, &ops))).expect("a file");
}

#[test]
fn a_frozen_trace_is_cut_replayed_and_expected() {
    let dir = tempfile::tempdir().expect("a folder");
    let (trace, frozen) = (dir.path().join("incident.sdt"), dir.path().join("made/here"));
    record(&trace);
    let whole = sdlab(&[&"replay", &trace]);
    assert!(whole.fine && whole.text.contains("identical: "), "{}", whole.text);

    let made = sdlab(&[&"freeze", &trace, &frozen, &"--events", &"500"]);
    assert!(made.fine && made.text.contains("500 calls"), "{}", made.text);
    let file = std::fs::read(frozen.join("trace.sdt")).expect("a file");
    let r = replayed(&file);
    assert!(r.identical() && r.calls == 500, "{r}");
    let expect = std::fs::read_to_string(frozen.join("expect.txt")).expect("a file");
    assert!(expect.contains("calls = 500\n") && expect.contains("answered otherwise = 0\n"), "{expect}");
    assert!(expectation(&frozen.join("trace.sdt")).expect("a trace").same(&expect));
    assert!(!expectation(&trace).expect("a trace").same(&expect));

    // Again from itself, shorter, by time.
    sdlab(&[&"freeze", &frozen.join("trace.sdt"), &frozen, &"--until-ms", &"20"]);
    let r = replayed(&std::fs::read(frozen.join("trace.sdt")).expect("a file"));
    assert!(r.identical() && r.calls < 500 && r.span <= 20 * MS, "{r}");
}

#[test]
fn a_damaged_trace_is_frozen_up_to_the_damage() {
    let dir = tempfile::tempdir().expect("a folder");
    let (trace, frozen) = (dir.path().join("torn.sdt"), dir.path().join("frozen"));
    record(&trace);
    let bytes = std::fs::read(&trace).expect("a file");
    std::fs::write(&trace, &bytes[..bytes.len() - 10]).expect("a file");
    let torn = sdlab(&[&"replay", &trace]);
    assert!(!torn.fine && torn.text.contains("damaged: the file is cut off inside a chunk at byte"), "{}", torn.text);
    let made = sdlab(&[&"freeze", &trace, &frozen]);
    assert!(made.text.contains("the original is damaged"), "{}", made.text);
    assert!(sdlab(&[&"replay", &frozen.join("trace.sdt")]).fine);
}

#[test]
fn another_policy_is_compared_by_name() {
    let dir = tempfile::tempdir().expect("a folder");
    let trace = dir.path().join("a.sdt");
    record(&trace);
    let other = sdlab(&[&"replay", &trace, &"--policy", &"fifo"]);
    for words in ["policy fifo instead of least-loaded", "tasks sent", "mean wait for a decision"] {
        assert!(other.text.contains(words), "'{words}' is not in\n{}", other.text);
    }
}

/// Makes the samples of tests/traces again: `cargo test --test trace make_the_samples -- --ignored`.
#[test]
#[ignore = "writes into tests/traces"]
fn make_the_samples() {
    // Three tasks for each CPU, a third of them never sleep, some may use one LLC only.
    let t = Topology::grid(1, 2, 2, 1);
    for (name, folder) in [("least-loaded", "crowd-least-loaded"), ("deadline", "crowd-deadline")] {
        let dir = tempfile::tempdir().expect("a folder");
        let trace = dir.path().join("sample.sdt");
        let step = |n: usize| {
            let run = if n.is_multiple_of(3) { FOREVER } else { (1 + n as u64 % 7) * MS };
            let mask = if n.is_multiple_of(5) { Mask::Llc(n) } else { Mask::All };
            let exit = if n < 12 { Op::Wake(n) } else { Op::Exit(n * 7) };
            [
                Op::Start(n % 4, run, 3 * MS),
                Op::SetMask(n, mask),
                Op::Weight(n, 10 + 90 * (n as u32 % 3)),
                exit,
                Op::Advance(4 * MS),
            ]
        };
        let ops: Vec<Op> = (0..100).flat_map(step).collect();
        std::fs::write(&trace, file(name, &t, &records(name, &t, &ops))).expect("a file");
        let to = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces").join(folder);
        sdlab(&[&"freeze", &trace, &to, &"--events", &"4000"]);
    }
}
