//! Writing a file whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Puts `content` in the place of a file and makes its directory if need be. Whoever reads it sees the old or the new,
/// and after a kill one of them is there. A link stays one, and an old file's permissions stay.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let directory = target.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    fs::create_dir_all(directory)?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let temporary = directory.join(format!(".{name}.{}-{number}", std::process::id()));
    let write = || {
        // A file of that name is somebody else's, or a link to one.
        let mut file = File::options().write(true).create_new(true).open(&temporary)?;
        if let Ok(old) = fs::metadata(&target) {
            file.set_permissions(old.permissions())?;
        }
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, &target)
    };
    write().inspect_err(|_| drop(fs::remove_file(&temporary)))
}
