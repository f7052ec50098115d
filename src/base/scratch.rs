//! A directory for a household that is thrown away.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A directory of this process alone, removed when it is dropped.
pub struct Scratch {
    dir: PathBuf,
}

impl Scratch {
    /// Makes it. Its name is short, because the database's socket lies below it; it is passable for the unprivileged
    /// users when we are root.
    pub fn new(what: &str) -> io::Result<Self> {
        let dir = std::env::temp_dir().join(format!("butlerd-{what}-{}", std::process::id()));
        std::fs::create_dir(&dir)?;
        let scratch = Self { dir };
        std::fs::set_permissions(&scratch.dir, std::fs::Permissions::from_mode(0o711))?;
        Ok(scratch)
    }

    pub fn path(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(e) = std::fs::remove_dir_all(&self.dir) {
            eprintln!("The scratch directory {} was not removed: {e}", self.dir.display());
        }
    }
}
