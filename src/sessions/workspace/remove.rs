//! Removing a directory that belonged to somebody who may have meant harm.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat, renameat};
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::{WorkspaceError, failed};

/// Rounds after which somebody must be filling the directory faster than it is emptied.
const MAX_ROUNDS: u32 = 1_000_000;

/// Removes a directory with all that is in it, whatever its permissions, however deep it is. Links are removed and
/// never followed. That it is not there is fine.
pub(super) fn remove_tree(root: &Path) -> Result<(), WorkspaceError> {
    let (Some(parent), Some(name)) = (root.parent(), root.file_name()) else {
        return Err(WorkspaceError::Path(root.to_owned()));
    };
    let error = |e: Errno| failed("remove", root)(io::Error::from(e));
    let parent = open(parent, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty()).map_err(error)?;
    match enter(&parent, &cstring(name)) {
        Ok(dir) => empty(&dir).map_err(error)?,
        Err(Errno::ENOENT) => return Ok(()),
        Err(e) => return Err(error(e)),
    }
    unlinkat(&parent, name, UnlinkatFlags::RemoveDir).map_err(error)
}

pub(super) fn cstring(name: &OsStr) -> CString {
    // A name that came from a path has no NUL; an empty one is found nowhere.
    CString::new(name.as_bytes()).unwrap_or_default()
}

/// Empties a directory without recursion: a directory found in a directory is moved up to the top, where its turn comes.
fn empty(top: &OwnedFd) -> Result<(), Errno> {
    let mut moved = 0u64;
    for _ in 0..MAX_ROUNDS {
        let names = list(top)?;
        if names.is_empty() {
            return Ok(());
        }
        for name in names {
            if remove_file(top, &name)? {
                continue;
            }
            let dir = enter(top, &name)?;
            for inner in list(&dir)? {
                if remove_file(&dir, &inner)? {
                    continue;
                }
                // To be moved it must be writable, for its `..` changes.
                drop(enter(&dir, &inner)?);
                // A name that the child took already is somebody's turn to wait for.
                loop {
                    moved += 1;
                    let target = cstring(OsStr::new(&format!(".removing-{moved}")));
                    match renameat(&dir, inner.as_c_str(), top, target.as_c_str()) {
                        Err(Errno::EEXIST | Errno::ENOTEMPTY | Errno::ENOTDIR) => {}
                        other => break other?,
                    }
                }
            }
            unlinkat(top, name.as_c_str(), UnlinkatFlags::RemoveDir)?;
        }
    }
    Err(Errno::ENOTEMPTY)
}

/// Removes an entry, unless it is a directory: `false`.
fn remove_file(dir: &OwnedFd, name: &CStr) -> Result<bool, Errno> {
    match unlinkat(dir, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(true),
        Err(Errno::EISDIR) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Opens a directory, not a link to one, and makes it ours to change.
pub(super) fn enter(dir: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let opened = match openat(dir, name, flags, Mode::empty()) {
        // Root is never denied. Anybody else owns all of this, and a link swapped in would lead to something that they
        // own as well.
        Err(Errno::EACCES) => {
            fchmodat(dir, name, Mode::S_IRWXU, FchmodatFlags::FollowSymlink)?;
            openat(dir, name, flags, Mode::empty())?
        }
        other => other?,
    };
    nix::sys::stat::fchmod(&opened, Mode::S_IRWXU)?;
    Ok(opened)
}

/// The names in a directory. The link in `/proc` leads to the open directory itself, wherever its path leads now.
pub(super) fn list(dir: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let errno = |e: io::Error| e.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
    let entries = std::fs::read_dir(format!("/proc/self/fd/{}", dir.as_raw_fd())).map_err(errno)?;
    entries.map(|entry| Ok(cstring(&entry.map_err(errno)?.file_name()))).collect()
}
