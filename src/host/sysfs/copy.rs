//! Copies what describes a machine's topology, to look at it elsewhere.

use super::files::{Files, Seen};
use super::{SysfsError, devices, read};
use crate::topology::Topology;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

/// Why there is no copy, or no whole one.
#[derive(Debug)]
pub enum SaveError {
    /// There is nothing to copy.
    Read(SysfsError),
    /// The target holds something already.
    NotEmpty(PathBuf),
    /// The target, or a file in it, cannot be made.
    Write(PathBuf, io::Error),
}

impl fmt::Display for SaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SaveError::Read(e) => e.fmt(f),
            SaveError::NotEmpty(dir) => {
                write!(f, "cannot save the topology: {} is not empty; name a new folder", dir.display())
            }
            SaveError::Write(path, e) => write!(
                f,
                "cannot save the topology: {} cannot be written ({e}); name a folder where this user may write",
                path.display()
            ),
        }
    }
}

impl std::error::Error for SaveError {}

/// Reads the topology below `root` as [`super::read_topology`] does, and writes into `to`, a new or empty folder,
/// exactly what was read: `to` is then a root that gives the same topology. Tells how many files that were.
pub fn save_topology(root: &Path, to: &Path) -> Result<(Topology, usize), SaveError> {
    let devices = devices(root).map_err(SaveError::Read)?;
    let mut files = Files::default();
    files.seen = Some(Vec::new());
    let topology = read(&devices, &mut files).map_err(SaveError::Read)?;

    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |e| SaveError::Write(path, e)
    };
    fs::create_dir_all(to).map_err(failed(to))?;
    if fs::read_dir(to).map_err(failed(to))?.next().is_some() {
        return Err(SaveError::NotEmpty(to.to_path_buf()));
    }
    let new_place = |path: &Path| to.join("devices").join(path.strip_prefix(&devices).unwrap_or(path));
    let mut written = std::collections::BTreeSet::new();
    for seen in files.seen.unwrap_or_default() {
        match seen {
            Seen::Folder(path) => {
                let path = new_place(&path);
                fs::create_dir_all(&path).map_err(failed(&path))?;
            }
            Seen::File(path, content) => {
                let path = new_place(&path);
                path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed(&path))?;
                fs::write(&path, content).map_err(failed(&path))?;
                written.insert(path);
            }
        }
    }
    Ok((topology, written.len()))
}
