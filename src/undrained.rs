//! Records on their way to the kernel: what the dispatch loop knows of the ring that it cannot look into.

/// Records in the ring to the kernel that may not have been drained yet. The shim counts what it drains but for records
/// of tasks that have gone, and drains one whenever we were off the CPU, unless another CPU is in the middle of it.
#[derive(Debug, Default)]
pub struct Undrained {
    count: u64,
    sent: u64,
    /// All records ever sent: the number of the last one.
    written: u64,
}

impl Undrained {
    /// How many there may be.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// A turn begins; the shim has counted `drained` records since it started.
    pub fn pass(&mut self, drained: u64) {
        self.count = self.count.saturating_sub(1).min(self.sent.saturating_sub(drained));
        if self.count == 0 {
            self.sent = drained;
        }
    }

    /// One more; its number.
    pub fn add(&mut self) -> u64 {
        self.count += 1;
        self.sent += 1;
        self.written += 1;
        self.written
    }

    /// Whether the record of this number may still be in the ring; 0 is none.
    pub fn holds(&self, number: u64) -> bool {
        number > self.written - self.count
    }
}
