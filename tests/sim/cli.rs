//! The command line as users meet it.

use std::process::{Command, Output, Stdio};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sdlab")).arg("sim").args(args).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn bad_input_is_exit_code_2_and_one_line() {
    let cases: [(&[&str], &str); 13] = [
        (&["--workload", "nix"], "'nix' is none of fleet"),
        (&["--workload", "fleet,x=1"], "no key 'x'"),
        (&["--policy", "nix"], "no policy 'nix': use soft-domain"),
        (&["--compare", "fifo,nix"], "no policy 'nix'"),
        (&["--cost", "nix=1"], "no cost 'nix': --list-costs"),
        (&["--cost", "kick"], "NAME=VALUE"),
        (&["--costs-from", "/nix"], "--costs-from /nix: "),
        (&["--topology", "nodes=64,cores=64"], "4096 CPUs"),
        (&["--topology", "nix"], "cloud-2cpu"),
        (&["--topology-from", "/nix"], "/nix"),
        (&["--duration", "10"], "10s, 500ms"),
        (&["--limit", "nix=1"], "no limit 'nix'"),
        (&["--nix"], "'--nix'"),
    ];
    for (args, words) in cases {
        let o = run(args);
        let err = text(&o.stderr);
        assert_eq!(o.status.code(), Some(2), "{args:?}: {err}");
        assert!(err.starts_with("sdlab: ") && err.contains(words) && err.lines().count() == 1, "{args:?}: {err}");
        assert!(o.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn a_broken_file_is_named_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.json");
    std::fs::write(&path, "{\n\"tasks\": { \"t\": { \"exec\": 5 } } }").unwrap();
    let o = run(&["--workload", path.to_str().unwrap()]);
    let err = text(&o.stderr);
    assert_eq!(o.status.code(), Some(2), "{err}");
    assert!(err.contains("w.json: line 2: key \"exec\" of task \"t\"") && err.lines().count() == 1, "{err}");
}

#[test]
fn a_single_cost_goes_before_those_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("costs");
    std::fs::write(&path, "kick=11 # measured\nwake-up=12\n").unwrap();
    let listed =
        |args: &[&str]| text(&run(&[&["--costs-from", path.to_str().unwrap(), "--list-costs"], args].concat()).stdout);
    let value = |out: &str, name: &str| {
        let line = out.lines().find(|l| l.trim_start().starts_with(name)).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    let both = listed(&["--cost", "kick=13"]);
    assert_eq!((value(&both, "kick"), value(&both, "wake-up")), ("13".into(), "12".into()));
    std::fs::write(&path, "kick=11\nwake-up=\n").unwrap();
    let o = run(&["--costs-from", path.to_str().unwrap()]);
    let err = text(&o.stderr);
    assert!(o.status.code() == Some(2) && err.contains("line 2: ''") && err.lines().count() == 1, "{err}");
}

#[test]
fn the_same_command_gives_the_same_bytes_on_standard_output() {
    let args = ["--topology", "nodes=2,llcs=2,cores=2,smt=2", "--duration", "50ms", "--json", "--seed", "9"];
    let (a, b) = (run(&args), run(&args));
    assert!(a.status.success() && a.stdout == b.stdout);
    assert!(text(&a.stdout).starts_with("{\"version\":1,\"policy\":\"soft-domain\""));
}

#[test]
fn a_comparison_shows_every_policy_in_a_column() {
    let o = run(&["--compare", "soft-domain,fifo", "--seeds", "2", "--duration", "20ms", "--topology", "cloud-2cpu"]);
    let out = text(&o.stdout);
    assert!(o.status.success());
    for words in ["soft-domain", "fifo", "requests/s", "at home", "2 seeds from 1", "idle while work waited"] {
        assert!(out.contains(words), "{words} in {out}");
    }
}

#[test]
fn lists_and_help_are_exit_code_0() {
    for (args, words) in
        [(["--list-costs"], "context-switch"), (["--list-workloads"], "rt-app"), (["--help"], "kunpeng-920")]
    {
        let o = run(&args);
        assert!(o.status.success() && text(&o.stdout).contains(words), "{args:?}");
    }
}

#[test]
fn the_published_fleet_is_shown_beside_the_published_figures_with_what_is_left_out() {
    let published = |args: &[&str]| {
        let args = [&["published"], args].concat();
        Command::new(env!("CARGO_BIN_EXE_sdlab")).args(args).stdin(Stdio::null()).output().unwrap()
    };
    let o = published(&["--duration", "5ms", "--baseline", "fifo"]);
    let out = text(&o.stdout);
    assert!(o.status.success(), "{}", text(&o.stderr));
    for words in ["384 CPUs", "127.23", "136.86", "6.531", "here: fifo", "Left out", "No cost and no parameter"] {
        assert!(out.contains(words), "{words} in {out}");
    }
    let o = published(&["--baseline", "nix"]);
    assert!(o.status.code() == Some(2) && text(&o.stderr).contains("no policy 'nix'"), "{}", text(&o.stderr));
}
