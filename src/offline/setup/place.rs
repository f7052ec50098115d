//! Files that are made, and never made over another.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::SetupError;

/// Whether anything of this name is there, even a link that leads nowhere.
pub(super) fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Writes a new file; what is there stays, and that is an error.
pub(super) fn write_new(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Makes a directory by `fill` under a hidden name beside its place, then gives it its own name: there is all of it or
/// nothing.
pub(super) fn whole_directory(dir: &Path, fill: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), SetupError> {
    let failed = |e: io::Error| SetupError::failed(format!("{} can't be created: {e}.", dir.display()), "");
    let name = dir.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let hidden = dir.with_file_name(format!(".{name}.new-{}", std::process::id()));
    let made = fs::create_dir(&hidden).and_then(|()| fill(&hidden)).and_then(|()| {
        // Renaming would take an empty directory's place without a word.
        if is_there(dir) { Err(io::ErrorKind::AlreadyExists.into()) } else { fs::rename(&hidden, dir) }
    });
    made.map_err(|e| {
        // It is ours, and nobody reads it.
        let _ = fs::remove_dir_all(&hidden);
        failed(e)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_made_over_what_is_there() {
        let top = tempfile::tempdir().unwrap();
        let file = top.path().join("a/b.toml");
        write_new(&file, "first", 0o600).unwrap();
        assert!(write_new(&file, "second", 0o600).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "first");
        let dir = top.path().join("empty");
        fs::create_dir(&dir).unwrap();
        assert!(whole_directory(&dir, |at| fs::write(at.join("x"), "")).is_err());
        assert!(whole_directory(&top.path().join("half"), |_| Err(io::ErrorKind::StorageFull.into())).is_err());
        let left: Vec<_> = fs::read_dir(top.path()).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }
}
