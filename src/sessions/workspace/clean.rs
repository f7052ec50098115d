//! Taking secrets out of a workspace that is kept.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat, readlinkat, renameat};
use nix::sys::stat::{FchmodatFlags, Mode, SFlag, fchmodat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::remove::{cstring, enter, list};
use super::{WorkspaceError, failed};
use base::redact::household;

/// A longer file is removed: nobody looks through it for a reason that would outweigh a secret in it.
const MAX_FILE: u64 = 16 << 20;
/// Deeper than this nobody looks; it is an error, after which the workspace is removed.
const MAX_DEPTH: u32 = 64;

/// Takes the household's secrets out of all files below `root`, out of their names and of links. No process of the
/// session is left, and nobody else may pass to where it is.
pub(super) fn clean_tree(root: &Path) -> Result<(), WorkspaceError> {
    let error = |e: Errno| failed("clean", root)(io::Error::from(e));
    let top = open(root, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty()).map_err(error)?;
    directory(&top, 0).map_err(error)
}

fn directory(dir: &OwnedFd, depth: u32) -> Result<(), Errno> {
    if depth > MAX_DEPTH {
        return Err(Errno::ELOOP);
    }
    for name in list(dir)? {
        let name = renamed(dir, name)?;
        let stat = fstatat(dir, name.as_c_str(), nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW)?;
        match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
            SFlag::S_IFDIR => directory(&enter(dir, &name)?, depth + 1)?,
            SFlag::S_IFREG if u64::try_from(stat.st_size).unwrap_or(u64::MAX) > MAX_FILE => {
                tracing::info!(name = %name.to_string_lossy(), "a workspace file is too long to keep");
                unlinkat(dir, name.as_c_str(), UnlinkatFlags::NoRemoveDir)?;
            }
            SFlag::S_IFREG => file(dir, &name)?,
            SFlag::S_IFLNK if household().cleaned(readlinkat(dir, name.as_c_str())?.as_bytes()).is_some() => {
                unlinkat(dir, name.as_c_str(), UnlinkatFlags::NoRemoveDir)?;
            }
            // Pipes and sockets hold nothing any more.
            _ => {}
        }
    }
    Ok(())
}

/// The entry under a name without secrets.
fn renamed(dir: &OwnedFd, name: CString) -> Result<CString, Errno> {
    let Some(clean) = household().cleaned(name.as_bytes()) else { return Ok(name) };
    let to = cstring(OsStr::from_bytes(&clean));
    // Of two that are then called alike the last one stays; a directory in its way makes it an error.
    renameat(dir, name.as_c_str(), dir, to.as_c_str())?;
    Ok(to)
}

fn file(dir: &OwnedFd, name: &CStr) -> Result<(), Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let opened = match openat(dir, name, flags, Mode::empty()) {
        Err(Errno::EACCES) => {
            fchmodat(dir, name, Mode::S_IRUSR | Mode::S_IWUSR, FchmodatFlags::FollowSymlink)?;
            openat(dir, name, flags, Mode::empty())?
        }
        other => other?,
    };
    let errno = |e: io::Error| e.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
    let mut bytes = Vec::new();
    File::from(opened).take(MAX_FILE).read_to_end(&mut bytes).map_err(errno)?;
    let Some(clean) = household().cleaned(&bytes) else { return Ok(()) };
    // A file of its own: the old one may have other names, and other modes than one that can be written.
    unlinkat(dir, name, UnlinkatFlags::NoRemoveDir)?;
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let fresh = openat(dir, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?;
    File::from(fresh).write_all(&clean).map_err(errno)
}
