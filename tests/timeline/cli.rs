//! The command line as users meet it.

use crate::support::busy;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sdlab"));
    command.current_dir(dir).arg("timeline").args(args).stdin(Stdio::null()).output().expect("it runs")
}

#[test]
fn bad_input_is_exit_code_2_and_one_line() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("foreign"), "no trace").expect("a file");
    let cases: [(&[&str], &str); 11] = [
        (&["--sim", "-o", "out.png"], "use .html for a page or .json"),
        (&["--sim", "-o", "out"], "use .html for a page or .json"),
        (&["--sim"], "--output"),
        (&["-o", "out.html"], "FILE"),
        (&["nix", "-o", "out.html"], "cannot open it"),
        (&["foreign", "-o", "out.html"], "no trace"),
        (&["foreign", "--sim", "-o", "out.html"], "cannot be used with"),
        (&["foreign", "--seed", "2", "-o", "out.html"], "cannot be used with"),
        (&["foreign", "--duration", "2s", "-o", "out.html"], "cannot be used with"),
        (&["--sim", "--policy", "nix", "-o", "out.html"], "no policy 'nix'"),
        (&["--sim", "-o", "nix/out.html"], "cannot write nix/out.html"),
    ];
    for (args, words) in cases {
        let o = run(dir.path(), args);
        let err = String::from_utf8_lossy(&o.stderr);
        assert_eq!(o.status.code(), Some(2), "{args:?}: {err}");
        assert!(err.starts_with("sdlab: ") && err.contains(words) && err.lines().count() == 1, "{args:?}: {err}");
    }
}

#[test]
fn simulations_and_recordings_become_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = busy("soft-domain", "fleet,batch=20").file();
    std::fs::write(dir.path().join("run.sdt"), &file).expect("a file");
    std::fs::write(dir.path().join("torn.sdt"), &file[..file.len() - 3]).expect("a file");
    let cases: [(&[&str], &str, i32); 4] = [
        (&["--sim", "--duration", "5ms", "-o", "sim.html"], "sim.html", 0),
        (&["--sim", "--duration", "5ms", "-o", "sim.JSON"], "sim.JSON", 0),
        (&["run.sdt", "-o", "run.html"], "run.html", 0),
        (&["torn.sdt", "-o", "torn.json"], "torn.json", 1),
    ];
    for (args, name, code) in cases {
        let o = run(dir.path(), args);
        assert_eq!(o.status.code(), Some(code), "{args:?}: {}", String::from_utf8_lossy(&o.stderr));
        assert!(String::from_utf8_lossy(&o.stdout).contains(" stints on "), "{args:?}");
        assert!(std::fs::metadata(dir.path().join(name)).expect("the file").len() > 1000);
    }
}
