//! Where programs are.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The program of this name on the daemon's PATH, or at this absolute path; `None`: there is none that can be run.
/// Links stay as they are.
pub fn find(wanted: &str) -> Option<PathBuf> {
    let given = Path::new(wanted);
    if given.is_absolute() {
        return is_program(given).then(|| given.to_owned());
    }
    if wanted.contains('/') {
        return None;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(wanted));
    places.find(|place| is_program(place))
}

/// Whether there is a file that can be run.
pub fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
