//! Small files of sysfs: read leniently, and count what made no sense.

use crate::cpumask::CpuMask;
use crate::host::cpulist::{parse_list, parse_mask};
use crate::ids::CpuId;
use std::fs::{File, ReadDir};
use std::io::Read;
use std::path::{Path, PathBuf};

/// More than any sysfs attribute (a page; lists of CPUs can be longer).
const MAX_FILE: u64 = 256 * 1024;

/// Reads files; one that is absent or says nonsense is `None`, and nonsense is remembered.
#[derive(Default)]
pub(super) struct Files {
    bad: Vec<PathBuf>,
}

impl Files {
    /// The text of a file without white space and NULs around it; `None` if it cannot be read.
    pub fn text(&mut self, path: &Path) -> Option<String> {
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(MAX_FILE).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        Some(text.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_string())
    }

    /// A whole number, perhaps negative.
    pub fn number(&mut self, path: &Path) -> Option<i64> {
        let text = self.text(path)?;
        let number = text.parse().ok();
        self.sense(number, path)
    }

    /// A CPU list such as `0-3,8`; may be empty.
    pub fn list(&mut self, path: &Path) -> Option<CpuMask> {
        let text = self.text(path)?;
        self.sense(parse_list(&text).ok(), path)
    }

    /// A CPU mask such as `ff,ffffffff`; may be empty.
    pub fn map(&mut self, path: &Path) -> Option<CpuMask> {
        let text = self.text(path)?;
        self.sense(parse_mask(&text).ok(), path)
    }

    /// The CPUs that share something with `cpu`: the first of `names` in `dir` that has `cpu` in it. Names that end
    /// in `list` are lists, others masks. Old kernels have only masks.
    pub fn sharers(&mut self, dir: &Path, names: &[&str], cpu: CpuId) -> Option<CpuMask> {
        names.iter().find_map(|name| {
            let path = dir.join(name);
            let mask = if name.ends_with("list") { self.list(&path) } else { self.map(&path) };
            mask.filter(|m| m.has(cpu))
        })
    }

    fn sense<T>(&mut self, value: Option<T>, path: &Path) -> Option<T> {
        if value.is_none() {
            self.bad.push(path.to_path_buf());
        }
        value
    }

    /// Adds a note if any file made no sense.
    pub fn tell(&self, notes: &mut Vec<String>) {
        match self.bad.as_slice() {
            [] => (),
            [one] => notes.push(format!("{} makes no sense and is ignored.", one.display())),
            [first, ..] => {
                let n = self.bad.len();
                notes.push(format!("{n} files make no sense and are ignored, first {}.", first.display()));
            }
        }
    }
}

/// The numbers of the entries called `prefix` and a number, in order.
pub(super) fn numbered(listing: ReadDir, prefix: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> = listing
        .filter_map(|entry| {
            let name = entry.ok()?.file_name();
            let digits = name.to_str()?.strip_prefix(prefix)?;
            // `cpu+1` is no CPU, and `cpu01` is none either.
            let number: u32 = digits.parse().ok()?;
            (number.to_string() == digits).then_some(number)
        })
        .collect();
    numbers.sort_unstable();
    numbers
}
