//! Small files of sysfs: read leniently, and count what made no sense.

use crate::cpumask::CpuMask;
use crate::host::cpulist::{parse_list, parse_mask};
use crate::ids::CpuId;
use std::fs::{File, ReadDir};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// More than any sysfs attribute (a page; lists of CPUs can be longer).
const MAX_FILE: u64 = 256 * 1024;

/// A thing that was read.
pub(super) enum Seen {
    /// A folder; that it is there is all that counts.
    Folder(PathBuf),
    /// A file and its content.
    File(PathBuf, Vec<u8>),
}

/// Reads files; one that is absent or says nonsense is `None`, and nonsense is remembered.
#[derive(Default)]
pub(super) struct Files {
    /// Everything that was read, for a copy; `None` where nobody wants one.
    pub seen: Option<Vec<Seen>>,
    bad: Vec<PathBuf>,
    contradictions: Vec<PathBuf>,
}

/// The names of the two files that say the same, as a list and as a mask.
pub(super) struct Stem {
    pub list: &'static str,
    pub map: &'static str,
}

impl Stem {
    /// Two file names.
    pub const fn new(list: &'static str, map: &'static str) -> Self {
        Stem { list, map }
    }
}

impl Files {
    /// The text of a file without white space around it; `None` if it cannot be read.
    pub fn text(&mut self, path: &Path) -> Option<String> {
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(MAX_FILE).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes).trim().to_string();
        if let Some(seen) = &mut self.seen {
            seen.push(Seen::File(path.to_path_buf(), bytes));
        }
        Some(text)
    }

    /// The numbers of the entries of `dir` that are called `prefix` and a number, in order.
    pub fn numbered(&mut self, dir: &Path, prefix: &str) -> io::Result<Vec<u32>> {
        let numbers = numbered(std::fs::read_dir(dir)?, prefix);
        if let Some(seen) = &mut self.seen {
            seen.extend(numbers.iter().map(|n| Seen::Folder(dir.join(format!("{prefix}{n}")))));
        }
        Ok(numbers)
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

    /// The CPUs that share something with `cpu`: from the first of `stems` in `dir` whose `STEM_list`, or mask `STEM`,
    /// has `cpu` in it. Old kernels have only masks. Where the two differ (the L2 of AMD's compute units on some old
    /// kernels) the mask counts, as it does for hwloc.
    pub fn sharers(&mut self, dir: &Path, stems: &[Stem], cpu: CpuId) -> Option<CpuMask> {
        stems.iter().find_map(|stem| {
            let path = dir.join(stem.list);
            let list = self.list(&path).filter(|m| m.has(cpu));
            let map = self.map(&dir.join(stem.map)).filter(|m| m.has(cpu));
            if list.is_some() && map.is_some() && list != map {
                self.contradictions.push(path);
            }
            map.or(list)
        })
    }

    fn sense<T>(&mut self, value: Option<T>, path: &Path) -> Option<T> {
        if value.is_none() {
            self.bad.push(path.to_path_buf());
        }
        value
    }

    /// Adds notes about files that made no sense.
    pub fn tell(&self, notes: &mut Vec<String>) {
        let mut say = |paths: &[PathBuf], one: &str, many: &str| match paths {
            [] => (),
            [path] => notes.push(format!("{} {one}.", path.display())),
            [first, ..] => notes.push(format!("{} files {many}, first {}.", paths.len(), first.display())),
        };
        say(&self.bad, "makes no sense and is ignored", "make no sense and are ignored");
        say(
            &self.contradictions,
            "contradicts the mask beside it: the mask counts",
            "contradict the masks beside them and the masks count",
        );
    }
}

fn numbered(listing: ReadDir, prefix: &str) -> Vec<u32> {
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
