//! The directory in which hooks keep what must outlive them.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use uuid::Uuid;

/// `$XDG_STATE_HOME/butlerd`. Its files are the user's alone.
#[derive(Clone, Debug)]
pub struct StateDirectory(PathBuf);

impl StateDirectory {
    /// None: the environment names no home directory.
    pub fn of_environment() -> Option<Self> {
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
        Some(Self(state.join("butlerd")))
    }

    #[cfg(test)]
    pub fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.path(name)).ok()
    }

    /// Replaces a file as a whole. It is not forced to the disk: what a crash of the machine takes along is a count.
    pub fn replace(&self, name: &str, text: &str) -> io::Result<()> {
        let path = self.path(name);
        make_parent(&path)?;
        let temporary = path.with_extension(format!("{}.tmp", Uuid::now_v7().simple()));
        let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary);
        let written = written.and_then(|mut file| file.write_all(text.as_bytes()));
        let replaced = written.and_then(|()| std::fs::rename(&temporary, &path));
        if replaced.is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
        replaced
    }

    /// A lock that is held until it is dropped. None: another process holds it, or it can't be had at all.
    pub fn lock(&self, name: &str) -> Option<File> {
        let path = self.path(name);
        make_parent(&path).ok()?;
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).ok()?;
        file.try_lock().ok()?;
        Some(file)
    }
}

fn make_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.is_dir() => DirBuilder::new().recursive(true).mode(0o700).create(parent),
        _ => Ok(()),
    }
}
