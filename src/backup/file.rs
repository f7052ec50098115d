//! The file that is being written: under another name beside, until all of it is on the disk.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use super::error::BackupError;

/// A backup that is not whole yet. Dropped, it goes; what a killed process left of one is overwritten by the next.
pub(super) struct Draft {
    out: BufWriter<File>,
    temporary: PathBuf,
    target: PathBuf,
    force: bool,
    done: bool,
}

fn fail(path: &Path, step: &'static str) -> impl Fn(io::Error) -> BackupError {
    move |source| BackupError::File { path: path.to_owned(), step, source }
}

impl Draft {
    /// Begins a file that will be `target`, which may be there only with `force`.
    pub fn begin(target: &Path, force: bool) -> Result<Self, BackupError> {
        let name = target.file_name().filter(|_| !target.is_dir());
        let name = name.ok_or_else(|| fail(target, "written")(io::ErrorKind::IsADirectory.into()))?;
        if !force && target.symlink_metadata().is_ok() {
            return Err(BackupError::Exists(target.to_owned()));
        }
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(".partial");
        let temporary = target.with_file_name(hidden);
        let mut options = OpenOptions::new();
        // Not through a link that somebody put there.
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let file = options.open(&temporary).map_err(fail(&temporary, "written"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(BackupError::Busy(target.to_owned())),
            Err(TryLockError::Error(source)) => return Err(fail(&temporary, "locked")(source)),
        }
        let meta = file.metadata().map_err(fail(&temporary, "looked at"))?;
        if meta.uid() != nix::unistd::geteuid().as_raw() {
            return Err(fail(&temporary, "written: it is another user's")(io::ErrorKind::PermissionDenied.into()));
        }
        file.set_permissions(Permissions::from_mode(0o600)).map_err(fail(&temporary, "closed to others"))?;
        file.set_len(0).map_err(fail(&temporary, "written"))?;
        let out = BufWriter::with_capacity(1 << 20, file);
        Ok(Self { out, temporary, target: target.to_owned(), force, done: false })
    }

    /// Gives the file its name, once it is on the disk. Returns its size.
    pub fn finish(mut self) -> Result<u64, BackupError> {
        let written = fail(&self.target, "written");
        self.out.flush().map_err(&written)?;
        self.out.get_ref().sync_all().map_err(&written)?;
        let size = self.out.get_ref().metadata().map_err(&written)?.len();
        base::crash::point("backup.before_rename");
        self.rename()?;
        self.done = true;
        let dir = self.target.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(&written)?;
        Ok(size)
    }

    fn rename(&self) -> Result<(), BackupError> {
        let written = fail(&self.target, "written");
        if self.force {
            return std::fs::rename(&self.temporary, &self.target).map_err(written);
        }
        // A file that came meanwhile stays.
        match renameat2(AT_FDCWD, &self.temporary, AT_FDCWD, &self.target, RenameFlags::RENAME_NOREPLACE) {
            Ok(()) => Ok(()),
            Err(nix::Error::EEXIST) => Err(BackupError::Exists(self.target.clone())),
            // Not every file system can say it in one step.
            Err(nix::Error::EINVAL | nix::Error::ENOSYS) if self.target.symlink_metadata().is_err() => {
                std::fs::rename(&self.temporary, &self.target).map_err(written)
            }
            Err(nix::Error::EINVAL | nix::Error::ENOSYS) => Err(BackupError::Exists(self.target.clone())),
            Err(e) => Err(written(e.into())),
        }
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.done {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_whole_or_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("a.backup");
        let names = || std::fs::read_dir(dir.path()).unwrap().count();
        let mut given_up = Draft::begin(&target, false).unwrap();
        given_up.write_all(b"half").unwrap();
        assert!(matches!(Draft::begin(&target, false), Err(BackupError::Busy(_))));
        drop(given_up);
        assert_eq!(names(), 0);
        // What a killed process left.
        std::fs::write(dir.path().join(".a.backup.partial"), "a long rest of an earlier one").unwrap();
        let mut draft = Draft::begin(&target, false).unwrap();
        draft.write_all(b"whole").unwrap();
        assert!(!target.exists());
        assert_eq!(draft.finish().unwrap(), 5);
        assert_eq!((std::fs::read(&target).unwrap().as_slice(), names()), (b"whole".as_slice(), 1));

        assert!(matches!(Draft::begin(&target, false), Err(BackupError::Exists(_))));
        let mut forced = Draft::begin(&target, true).unwrap();
        forced.write_all(b"other").unwrap();
        forced.finish().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"other");
        assert_eq!(std::fs::metadata(&target).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_came_meanwhile_stays() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("a.backup");
        let draft = Draft::begin(&target, false).unwrap();
        std::fs::write(&target, "mine").unwrap();
        assert!(matches!(draft.finish(), Err(BackupError::Exists(_))));
        assert_eq!(std::fs::read(&target).unwrap(), b"mine");
        assert!(matches!(Draft::begin(dir.path(), true), Err(BackupError::File { .. })));
    }
}
