//! The command line as users meet it, as far as it goes without a sched_ext kernel; the rest is in
//! `vm/scenarios/errors.sh`, which runs in a guest.

use std::path::Path;
use std::process::{Command, Output, Stdio};

const BIN: &str = env!("CARGO_BIN_EXE_scx_soft_domain");

fn run(args: &[&str]) -> Output {
    Command::new(BIN).args(args).stdin(Stdio::null()).output().unwrap()
}

fn stdout(o: &Output) -> String {
    String::from_utf8(o.stdout.clone()).unwrap()
}

/// It ends with `code`, and says why on one line of standard error and nothing else.
fn refused(args: &[&str], code: i32, text: &str) {
    let o = run(args);
    let err = String::from_utf8(o.stderr.clone()).unwrap();
    assert_eq!(o.status.code(), Some(code), "{args:?}: {err}");
    assert!(err.starts_with("scx_soft_domain: ") && err.contains(text), "{args:?}: {err}");
    assert_eq!(err.lines().count(), 1, "{args:?}: {err}");
    assert_eq!(stdout(&o), "", "{args:?}");
}

#[test]
fn bad_usage_is_exit_code_2_and_one_line() {
    refused(&["-s", "fast"], 2, "give a whole number of microseconds");
    refused(&["-S", "9000"], 2, "lower -S or raise -s");
    refused(&["-l", "socket"], 2, "use node, llc, cluster, core or cpu");
    refused(&["-P", ""], 2, "a name cannot be empty");
    refused(&["--limit", "home-margin=2"], 2, "a share of one CPU");
    refused(&["--policy", "best"], 2, "there is no such policy");
    refused(&["--partial"], 2, "name at least one with -P NAME");
    refused(&["--no-such-option"], 2, "unexpected argument '--no-such-option' found (see --help)");
}

#[test]
fn help_version_and_limits_are_exit_code_0() {
    for (args, text) in [
        (["--help"], "Exit codes:"),
        (["-h"], "Examples:"),
        (["--version"], "scx_rustland_core 2."),
        (["-V"], "scx_soft_domain 0."),
        (["--help-limits"], "home-margin"),
    ] {
        let o = run(&args);
        assert_eq!(o.status.code(), Some(0), "{args:?}");
        assert!(stdout(&o).contains(text), "{args:?}: {}", stdout(&o));
    }
}

#[test]
fn a_kernel_without_sched_ext_is_exit_code_3() {
    if Path::new("/sys/kernel/sched_ext").exists() {
        return;
    }
    refused(&[], 3, "has no sched_ext: there is no /sys/kernel/sched_ext; boot one of version 6.12 or later");
    refused(&["-P", "valkey-server"], 3, "CONFIG_SCHED_CLASS_EXT=y");
    let o = run(&["check"]);
    assert_eq!(o.status.code(), Some(3));
    assert!(stdout(&o).contains("FAILED  sched_ext: this kernel"), "{}", stdout(&o));
    assert!(stdout(&o).contains("ok      topology: "), "{}", stdout(&o));
}

#[test]
fn a_sysroot_without_a_topology_is_exit_code_3() {
    refused(&["check", "--sysroot", "/nonexistent"], 3, "cannot read the topology: there is neither /nonexistent/");
    let empty = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(empty.path().join("devices/system/cpu")).unwrap();
    refused(&["check", "--sysroot", empty.path().to_str().unwrap()], 3, "has no folder cpu0");
}

#[test]
fn the_topology_of_this_machine_is_printed_as_a_tree() {
    let o = run(&["check", "--sysroot", "/sys"]);
    assert_eq!(o.status.code(), Some(0));
    assert!(stdout(&o).contains("node 0 ") && stdout(&o).contains("LLC 0 "), "{}", stdout(&o));
}

#[test]
fn a_saved_topology_is_read_back_and_never_overwrites() {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("copy");
    let copy = copy.to_str().unwrap();
    let saved = run(&["check", "--save-topology", copy]);
    assert_eq!(saved.status.code(), Some(0), "{}", String::from_utf8_lossy(&saved.stderr));
    let (tree, end) = stdout(&saved).split_once("\nsaved in ").map(|(t, e)| (t.to_owned(), e.to_owned())).unwrap();
    assert!(end.contains("small files"), "{end}");
    let read = run(&["check", "--sysroot", copy]);
    assert_eq!((read.status.code(), stdout(&read)), (Some(0), tree));
    let mut sim = Command::new(env!("CARGO_BIN_EXE_sdlab"));
    let sim = sim.args(["sim", "--duration", "10ms", "--topology-from", copy]).output().unwrap();
    assert_eq!(sim.status.code(), Some(0), "{}", String::from_utf8_lossy(&sim.stderr));
    refused(&["check", "--save-topology", copy], 2, "is not empty; name a new folder");
    refused(&["check", "--save-topology", "/proc/no/folder"], 2, "cannot be written");
    refused(&["check", "--sysroot", "/nonexistent", "--save-topology", "x"], 3, "cannot read the topology");
}

#[test]
fn a_reader_that_goes_away_is_no_crash() {
    let mut child = Command::new(BIN).arg("--help").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let o = child.wait_with_output().unwrap();
    assert_eq!((o.status.code(), o.stderr.len()), (Some(0), 0));
}

#[test]
fn the_dispatcher_is_not_for_people() {
    // Standard input is no channel.
    let o = run(&["dispatch", "--channel-fd", "0"]);
    let err = String::from_utf8_lossy(&o.stderr);
    assert!(err.contains("the dispatcher cannot use its channel"), "{err}");
}
