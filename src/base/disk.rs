//! What a file system says of itself.

use std::io;
use std::path::Path;

use nix::sys::statvfs::{FsFlags, statvfs};

/// The room on the file system of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// All of it, in bytes.
    pub bytes: u64,
    /// What programs may still take, in bytes.
    pub free: u64,
    /// How many more files there may be; `None`: it does not count them.
    pub free_files: Option<u64>,
    pub read_only: bool,
}

impl DiskSpace {
    /// Asks the file system of `path`, which must exist. A disk that hangs blocks the caller's thread.
    pub fn of(path: &Path) -> io::Result<Self> {
        let stat = statvfs(path)?;
        Ok(Self {
            bytes: stat.blocks().saturating_mul(stat.fragment_size()),
            free: stat.blocks_available().saturating_mul(stat.fragment_size()),
            free_files: (stat.files() > 0).then(|| stat.files_available()),
            read_only: stat.flags().contains(FsFlags::ST_RDONLY),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_says_how_much_there_is_and_a_path_that_is_not_there_is_an_error() {
        let space = DiskSpace::of(Path::new("/")).unwrap();
        assert!(space.bytes > 0 && space.free <= space.bytes, "{space:?}");
        assert_eq!(DiskSpace::of(Path::new("/not/there")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
