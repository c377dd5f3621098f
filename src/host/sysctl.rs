//! The one kernel setting that attaching changes: `vm.compact_unevictable_allowed`.
//!
//! The dispatcher sets it to 0, so that no page of its locked memory moves, and puts it back when it ends well. If
//! it dies otherwise, the host puts it back.

use std::path::PathBuf;

/// The setting as it was.
#[derive(Debug)]
pub struct Saved {
    path: PathBuf,
    value: Option<String>,
}

impl Saved {
    /// Remembers the setting below `proc` (normally `/proc`). Kernels without compaction do not have it.
    pub fn read(proc: &std::path::Path) -> Self {
        let path = proc.join("sys/vm/compact_unevictable_allowed");
        let value = std::fs::read_to_string(&path).ok().map(|v| v.trim().to_owned());
        Saved { path, value }
    }

    /// Puts it back if it differs. `true`: it did.
    pub fn restore(&self) -> std::io::Result<bool> {
        let Some(value) = &self.value else { return Ok(false) };
        if std::fs::read_to_string(&self.path)?.trim() == value {
            return Ok(false);
        }
        std::fs::write(&self.path, value)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_setting_is_put_back_and_an_absent_one_is_no_error() {
        let proc = tempfile::tempdir().unwrap();
        assert!(!Saved::read(proc.path()).restore().unwrap());
        let file = proc.path().join("sys/vm/compact_unevictable_allowed");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "1\n").unwrap();
        let saved = Saved::read(proc.path());
        assert!(!saved.restore().unwrap());
        std::fs::write(&file, "0\n").unwrap();
        assert!(saved.restore().unwrap());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "1");
    }
}
