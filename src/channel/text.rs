//! A short text in shared memory.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Bytes kept of a text. The kernel's message has at most 1024, its reason 128.
const BYTES: usize = 1280;

/// NUL-terminated where it is shorter than the room.
#[repr(C)]
pub struct Text([AtomicU8; BYTES]);

impl Text {
    /// Keeps what fits.
    pub fn set(&self, text: &str) {
        let bytes = text.bytes().filter(|b| *b != 0).chain(std::iter::repeat(0));
        self.0.iter().zip(bytes).for_each(|(to, from)| to.store(from, Relaxed));
    }

    /// The text with everything made visible that could disturb a terminal or a log: control characters, line ends,
    /// and bytes that are not UTF-8.
    pub fn get(&self) -> String {
        let bytes: Vec<u8> = self.0.iter().map(|b| b.load(Relaxed)).take_while(|b| *b != 0).collect();
        let mut text = String::new();
        for c in String::from_utf8_lossy(&bytes).chars() {
            if c.is_control() {
                text.extend(c.escape_default());
            } else {
                text.push(c);
            }
        }
        text
    }
}

#[cfg(test)]
impl Text {
    /// Any bytes.
    pub fn fill(&self, bytes: &[u8]) {
        self.0.iter().zip(bytes).for_each(|(to, from)| to.store(*from, Relaxed));
    }
}
