//! Every error case and every way to end, on a kernel with sched_ext: boots a guest, so it takes minutes and is not
//! among the ordinary tests.
//!
//! `cargo test --release --test guest_errors -- --ignored` after `vm/setup.sh`.

use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "boots a guest"]
fn errors_and_ends_are_as_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let bin = env!("CARGO_BIN_EXE_scx_soft_domain");
    assert!(!bin.starts_with("/tmp/"), "the guest has a /tmp of its own: build elsewhere");
    let status = Command::new(root.join("vm/run"))
        .args(["--machine", "2", "--timeout", "400", "--env", &format!("BIN={bin}"), "--", "bash"])
        .arg(root.join("vm/scenarios/errors.sh"))
        .status()
        .expect("vm/run");
    assert!(status.success(), "{status}");
}
