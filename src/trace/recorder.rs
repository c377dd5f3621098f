//! Records what passes between a policy and its caller, while it schedules the machine: nothing here allocates, waits
//! or fails. What the sink has no room for is lost and counted.

use super::call::Call;
use super::given::{Fresh, Mark};
use super::known::Known;
use super::record;
use crate::event::{Answers, ProcessEvent, Ready, Runnable, Spent};
use crate::ids::{CpuId, Ns, Pid};
use crate::policy::Policy;
use crate::stats::Counters;

/// Where encoded records go.
pub trait Sink {
    /// Takes the whole record, at once, or not at all: `false`.
    fn put(&mut self, record: &[u8]) -> bool;

    /// Bytes of records that it would take now. A snapshot is begun only where it fits.
    fn room(&self) -> usize {
        usize::MAX
    }

    /// Calls lost so far that no record tells of: the reader's last chance to count them, should the writer end.
    fn set_lost(&mut self, _calls: u64) {}
}

impl Sink for Vec<Vec<u8>> {
    fn put(&mut self, record: &[u8]) -> bool {
        self.push(record.to_vec());
        true
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn put(&mut self, record: &[u8]) -> bool {
        (**self).put(record)
    }

    fn room(&self) -> usize {
        (**self).room()
    }

    fn set_lost(&mut self, calls: u64) {
        (**self).set_lost(calls);
    }
}

/// A policy whose every call and answer is recorded. It decides just as it would alone.
#[derive(Debug)]
pub struct Recorded<P, S> {
    policy: P,
    sink: S,
    known: Known,
    buf: Vec<u8>,
    /// In a gap: calls that were lost and that no record tells of yet.
    gap: Option<u64>,
    lost: u64,
}

impl<P: Policy, S: Sink> Recorded<P, S> {
    /// Around a fresh policy. Snapshots tell of `tasks` threads at most, at some 350 bytes of memory each.
    pub fn new(policy: P, sink: S, tasks: usize) -> Self {
        let buf = Vec::with_capacity(record::MOST_BYTES);
        Recorded { policy, sink, known: Known::new(tasks), buf, gap: None, lost: 0 }
    }

    /// Calls lost so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Those of them that no record tells of yet.
    pub fn lost_at_the_end(&self) -> u64 {
        self.gap.unwrap_or(0)
    }

    /// The policy.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// The sink.
    pub fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// The policy and the sink again.
    pub fn into_parts(self) -> (P, S) {
        (self.policy, self.sink)
    }

    /// What the answers were before the call and are now; `None` for a call that cannot be answered.
    fn record(&mut self, call: &Call, answers: Option<(&Mark, &Answers)>) {
        let waiting = self.policy.waiting();
        let given = answers.map_or(Fresh::nothing(waiting), |(mark, out)| Fresh::since(mark, out, waiting));
        self.known.note(call, &given);
        if self.gap.is_none() && record::encode_call(&mut self.buf, call, &given) && self.sink.put(&self.buf) {
            return;
        }
        self.gap = Some(self.lost_at_the_end() + 1);
        self.lost += 1;
        // A pass has ended: the policy has decided all that it could.
        if let Call::Dispatch(now, _) = call {
            self.resume(*now);
        }
        self.sink.set_lost(self.lost_at_the_end());
    }

    /// After a gap: a snapshot, if there is room for it.
    fn resume(&mut self, now: Ns) {
        if self.sink.room() < self.known.most_bytes() + 64 {
            return;
        }
        record::encode_gap(&mut self.buf, self.gap.unwrap_or(0));
        if !self.sink.put(&self.buf) {
            return;
        }
        // From here on a failure is a new gap; what this one lost is told.
        let (sink, buf) = (&mut self.sink, &mut self.buf);
        let told = self.known.tell(now, &mut |call| {
            record::encode_snapshot(buf, call);
            sink.put(buf)
        });
        record::encode_snapshot_end(&mut self.buf, now);
        self.gap = if told && self.sink.put(&self.buf) { None } else { Some(0) };
    }
}

impl<P: Policy, S: Sink> Policy for Recorded<P, S> {
    fn process(&mut self, now: Ns, event: &ProcessEvent, out: &mut Answers) {
        let mark = Mark::of(out);
        self.policy.process(now, event, out);
        self.record(&Call::Process(now, *event), Some((&mark, out)));
    }

    fn enqueue(&mut self, now: Ns, task: &Runnable, out: &mut Answers) {
        let mark = Mark::of(out);
        self.policy.enqueue(now, task, out);
        self.record(&Call::Enqueue(now, *task), Some((&mark, out)));
    }

    fn observe(&mut self, now: Ns, cpu: CpuId, spent: &Spent) {
        self.policy.observe(now, cpu, spent);
        self.record(&Call::Observe(now, cpu, *spent), None);
    }

    fn dispatch(&mut self, now: Ns, ready: &Ready, out: &mut Answers) {
        let mark = Mark::of(out);
        self.policy.dispatch(now, ready, out);
        self.record(&Call::Dispatch(now, *ready), Some((&mark, out)));
    }

    fn waiting(&self) -> usize {
        self.policy.waiting()
    }

    fn restore_home(&mut self, pid: Pid, home: CpuId) {
        self.policy.restore_home(pid, home);
        self.record(&Call::RestoreHome(pid, home), None);
    }

    fn counters(&self) -> Option<&Counters> {
        self.policy.counters()
    }
}
