//! `--record FILE` in the host process: a thread that takes records out of the ring and writes them into the file. If
//! that fails, the recording ends, is told once, and the scheduler goes on.

use super::header::Header;
use super::ring::{BYTES, Nonsense, Ring};
use super::{Totals, Writer};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the ring is emptied: it holds some hundred ms of a very busy machine.
const EVERY: Duration = Duration::from_millis(20);
/// So many turns go by before a chunk is written that is not full: what a crash of this process can lose.
const FLUSH_TURNS: u32 = 25;
/// Records taken in one turn at most, so that an end is not delayed by a dispatcher that never stops writing.
const MOST_RECORDS: usize = 1 << 20;

/// A running recording.
pub struct Recording {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    path: PathBuf,
    ring: Ring,
    state: Mutex<State>,
    stop: AtomicBool,
}

struct State {
    /// `None` once it has failed or is finished.
    writer: Option<Writer<File>>,
    buf: Vec<u8>,
    trouble: Option<String>,
}

impl Recording {
    /// Makes the file, readable for its owner only. One that exists is left alone: an error.
    pub fn start(path: &Path) -> io::Result<Self> {
        Self::with_ring(path, Ring::create(BYTES)?)
    }

    fn with_ring(path: &Path, ring: Ring) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let writer = Some(Writer::new(file)?);
        let state = State { writer, buf: Vec::new(), trouble: None };
        let (state, stop) = (Mutex::new(state), AtomicBool::new(false));
        let shared = Arc::new(Shared { path: path.to_owned(), ring, state, stop });
        let mine = shared.clone();
        let thread = std::thread::Builder::new().name("scx_sd_record".into()).spawn(move || {
            let mut turn = 0u32;
            while !mine.stop.load(Relaxed) {
                std::thread::sleep(EVERY);
                turn = turn.wrapping_add(1);
                mine.turn(turn.is_multiple_of(FLUSH_TURNS));
            }
        })?;
        Ok(Recording { shared, thread: Some(thread) })
    }

    /// The ring, for the dispatcher.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.shared.ring.fd()
    }

    /// A dispatcher is about to start with a fresh policy; the one before it, if any, is dead.
    pub fn begin(&self, header: &Header) {
        self.shared.turn(true);
        let mut state = self.shared.lock();
        let lost = self.shared.ring.take_lost();
        state.attempt(&self.shared.path, |writer| {
            writer.add_dropped(lost);
            writer.begin(header)?;
            writer.flush()
        });
    }

    /// Why the recording has ended, in one line; told once.
    pub fn trouble(&self) -> Option<String> {
        self.shared.lock().trouble.take()
    }

    /// Takes what is left and closes the file. A line for the operator.
    pub fn finish(mut self) -> String {
        self.shared.stop.store(true, Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
        self.shared.turn(true);
        let mut state = self.shared.lock();
        let lost = self.shared.ring.take_lost();
        let path = self.shared.path.display();
        let Some(writer) = state.writer.take() else {
            let text = state.trouble.take();
            return text.unwrap_or_else(|| format!("{path} holds what was recorded before the recording ended"));
        };
        let Totals { records, dropped } = writer.totals();
        let dropped = dropped.saturating_add(lost);
        match writer.finish(lost) {
            Ok(_) => format!("recorded {records} records into {path}; {dropped} calls were lost"),
            Err(e) => format!("recording into {path} could not be closed ({e}); it is good up to the last whole chunk"),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is in the ring. Once the recording has ended the ring just stays full.
    fn turn(&self, flush: bool) {
        let mut state = self.lock();
        let mut buf = std::mem::take(&mut state.buf);
        state.attempt(&self.path, |writer| {
            for _ in 0..MOST_RECORDS {
                match self.ring.take(&mut buf) {
                    Ok(true) => writer.put(&buf)?,
                    Ok(false) => break,
                    Err(Nonsense) => return Err(io::Error::other("the dispatcher sent something that is no record")),
                }
            }
            if flush { writer.flush() } else { Ok(()) }
        });
        state.buf = buf;
    }
}

impl State {
    fn attempt(&mut self, path: &Path, f: impl FnOnce(&mut Writer<File>) -> io::Result<()>) {
        let Some(writer) = &mut self.writer else { return };
        if let Err(e) = f(writer) {
            self.trouble = Some(format!(
                "recording into {} has ended: {e}; the scheduler goes on, the file is good up to its last whole chunk",
                path.display()
            ));
            self.writer = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Answers, Ready, Spent};
    use crate::ids::{CpuId, MS};
    use crate::policies;
    use crate::policy::Policy;
    use crate::soft_domain::Settings;
    use crate::topology::Topology;
    use crate::trace::Recorded;
    use crate::trace::replay::{Ending, replay, same_policy};
    use crate::trace::{Reader, Sink};
    use std::os::unix::fs::PermissionsExt;

    fn header() -> Header {
        let settings = Settings { max_tasks: 64, ..Settings::default() };
        Header { about: "a test".into(), policy: "fifo".into(), topology: Topology::grid(1, 1, 2, 1), settings }
    }

    /// Calls as a dispatcher makes them, on a view of the ring of its own.
    fn dispatcher(recording: &Recording, calls: u64) -> Recorded<Box<dyn Policy>, Ring> {
        let h = header();
        let ring = Ring::open(recording.fd().try_clone_to_owned().unwrap()).unwrap();
        let policy = policies::build(&h.policy, &h.topology, &h.settings).unwrap();
        let mut policy = Recorded::new(policy, ring, 64);
        let mut out = Answers::with_capacity(8);
        for i in 0..calls {
            out.clear();
            policy.observe(i * MS, CpuId(0), &Spent::default());
            policy.dispatch(i * MS, &Ready { asking: Some(CpuId(0)), next: false, idle: Default::default() }, &mut out);
        }
        policy
    }

    #[test]
    fn a_recording_is_private_whole_and_replays_with_its_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sdt");
        let recording = Recording::start(&path).unwrap();
        for calls in [5000, 100] {
            recording.begin(&header());
            dispatcher(&recording, calls);
        }
        assert_eq!(recording.trouble(), None);
        let text = recording.finish();
        assert!(text.starts_with("recorded 10200 records into ") && text.ends_with("; 0 calls were lost"), "{text}");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let file = std::fs::read(&path).unwrap();
        let r = replay(&mut Reader::open(&file[..]).unwrap(), &mut same_policy).unwrap();
        assert!(r.identical() && r.calls == 10_200 && r.restarts == 1, "{r}");
        assert!(matches!(r.ending, Some(Ending::Closed(_))), "{r}");
        // It is not written over.
        assert!(Recording::start(&path).is_err_and(|e| e.kind() == io::ErrorKind::AlreadyExists));
    }

    #[test]
    fn what_a_full_ring_loses_is_counted_to_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sdt");
        let recording = Recording::with_ring(&path, Ring::create(64).unwrap()).unwrap();
        // The thread waits for the lock.
        let held = recording.shared.lock();
        let policy = dispatcher(&recording, 1000);
        let lost = policy.lost_at_the_end();
        assert!(lost > 1900 && lost == policy.lost(), "{lost}");
        drop(held);
        let text = recording.finish();
        assert!(text.ends_with(&format!("; {lost} calls were lost")), "{text}");
    }

    #[test]
    fn a_full_disk_ends_the_recording_with_one_line() {
        // Every write to this device fails with "no space left".
        let Ok(file) = OpenOptions::new().write(true).open("/dev/full") else { return };
        let mut state = State { writer: Some(Writer::resume(file)), buf: Vec::new(), trouble: None };
        state.attempt(Path::new("the file"), |w| {
            w.put(b"x")?;
            w.flush()
        });
        let text = state.trouble.take().unwrap();
        assert!(text.contains("the file has ended: No space left") && !text.contains('\n'), "{text}");
        state.attempt(Path::new("the file"), |_| panic!("it has ended"));
        assert_eq!((state.trouble, state.writer.is_none()), (None, true));
    }

    #[test]
    fn nonsense_in_the_ring_ends_the_recording() {
        let dir = tempfile::tempdir().unwrap();
        let recording = Recording::with_ring(&dir.path().join("a.sdt"), Ring::create(1024).unwrap()).unwrap();
        recording.begin(&header());
        let mut ring = Ring::open(recording.fd().try_clone_to_owned().unwrap()).unwrap();
        ring.spoil();
        recording.shared.turn(false);
        // The thread may have found it first; it is told once in any case.
        let text = recording.trouble().unwrap();
        assert!(text.contains("no record"), "{text}");
        assert!(ring.put(b"x"), "the dispatcher goes on");
        assert_eq!(recording.trouble(), None);
        assert!(recording.finish().contains("before the recording ended"));
    }
}
