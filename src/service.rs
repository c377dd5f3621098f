//! Which processes are instances: glob patterns over comm or the executable's base name.

use crate::event::Name;

/// One `-P` pattern: `*` is any run of bytes, `?` any byte, everything else itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Vec<u8>);

impl Pattern {
    /// Any non-empty text; the text is what is shown.
    pub fn new(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Pattern(text.as_bytes().to_vec()))
    }

    /// The text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    /// Whether the process with this comm and this executable is meant. The kernel cuts a comm at 15 bytes, so a
    /// comm of full length also matches the pattern's first 15 bytes where those have no wildcard.
    pub fn matches(&self, comm: &Name, exe: &Name) -> bool {
        let cut = comm.bytes().len() == 15
            && self.0.len() > 15
            && !self.0[..15].iter().any(|b| matches!(b, b'*' | b'?'))
            && comm.bytes() == &self.0[..15];
        cut || glob(&self.0, comm.bytes()) || glob(&self.0, exe.bytes())
    }
}

/// Wildcard match in linear space; the classic two-pointer backtrack to the last `*`.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                back = Some((p, t));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match back {
                Some((star, from)) => {
                    p = star + 1;
                    t = from + 1;
                    back = Some((star, t));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|b| *b == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, comm: &str, exe: &str) -> bool {
        Pattern::new(pattern).unwrap().matches(&Name::new(comm.as_bytes()), &Name::new(exe.as_bytes()))
    }

    #[test]
    fn a_pattern_matches_comm_or_executable_as_a_whole() {
        assert!(matches("valkey-server", "valkey-server", "bash"));
        assert!(matches("valkey-server", "main", "valkey-server"));
        assert!(!matches("valkey", "valkey-server", "valkey-server"));
        assert!(matches("valkey-*", "valkey-server", ""));
        assert!(matches("*ser?er", "valkey-server", ""));
        assert!(!matches("*x*", "valkey-server", "y"));
    }

    #[test]
    fn a_comm_cut_by_the_kernel_matches_the_long_name() {
        assert!(matches("my-very-long-service", "my-very-long-se", ""));
        assert!(!matches("my-very-long-service", "my-very-long-s", ""));
    }

    #[test]
    fn hostile_names_neither_match_nor_panic() {
        assert!(!matches("redis", ")\u{1b}[31m(", "\n"));
        assert!(Pattern::new("").is_none());
    }
}
