//! Two processes over one ring, and one of them is killed in the middle of its work.

use crate::script::{Op, apply};
use crate::support::{header, recording, replayed};
use soft_domain::ids::MS;
use soft_domain::topology::Topology;
use soft_domain::trace::recording::Recording;
use soft_domain::trace::ring::Ring;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};

/// The ring's descriptor, for the process below.
const FD: &str = "SDLAB_TEST_RING_FD";
const READY: &str = "thousands are written";

fn machine() -> Topology {
    Topology::grid(1, 2, 2, 1)
}

/// The dispatcher's side: records for ever.
#[test]
#[ignore = "the other process of the test below"]
fn write_until_killed() {
    let Some(fd) = std::env::var(FD).ok().and_then(|fd| fd.parse().ok()) else { return };
    // SAFETY: the parent has made this descriptor for us.
    let ring = Ring::open(unsafe { OwnedFd::from_raw_fd(fd) }).expect("the ring");
    let mut m = recording("least-loaded", &machine(), ring);
    for n in 0.. {
        let ops = [Op::Start(n % 4, MS, MS), Op::Advance(20 * MS), Op::Exit(n), Op::Advance(MS), Op::Exit(n / 2)];
        ops.into_iter().for_each(|op| apply(&mut m, op));
        if n == 300 {
            println!("{READY}");
        }
        // The host keeps up, so that this test sees no gap; what gaps do is tested elsewhere.
        std::thread::yield_now();
    }
}

#[test]
fn a_killed_writer_leaves_whole_records_and_its_successor_goes_on() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("a.sdt");
    let host = Recording::start(&path).expect("a recording");
    for _ in 0..2 {
        host.begin(&header("least-loaded", &machine()));
        // Not close-on-exec.
        let fd = rustix::io::dup(host.fd()).expect("a descriptor");
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "processes::write_until_killed", "--ignored", "--nocapture"])
            .env(FD, fd.as_raw_fd().to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let ready = lines.map_while(Result::ok).any(|line| line.contains(READY));
        child.kill().expect("killed");
        child.wait().expect("dead");
        assert!(ready, "it ended before its time");
    }
    assert_eq!(host.trouble(), None);
    // As if the host had been killed here: good up to its last chunk.
    host.begin(&header("least-loaded", &machine()));
    let early = replayed(&std::fs::read(&path).expect("a file"));
    assert!(early.differing == 0 && early.calls > 2000, "{early}");
    assert!(early.to_string().contains("the file ends without its closing chunk"), "{early}");
    let text = host.finish();
    let r = replayed(&std::fs::read(&path).expect("a file"));
    assert!(r.differing == 0 && r.restarts == 2 && r.calls == early.calls && r.faults == 0, "{text}\n{r}");
}
