//! Gives the owner's user of the system the journal's files where the daemon runs as another user. Root does that, with
//! access lists: the files stay the daemon's, which keeps what the lists say.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::super::local::variable;
use base::access_list::{ALL, READ_WRITE, THROUGH, give, give_what_comes};
use nix::libc::{O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK};
use nix::unistd::{Uid, User};

/// How many directories above a journal's are its own: the tenant's, that of all journals, the data directory.
const OWN_ABOVE: usize = 3;
/// Where the daemon makes files before they take their place.
const WRITTEN: &str = ".written";

/// Why a user was not given the files.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error("this system has no user {0}")]
    NoUser(String),
    #[error("only root can give another user the files")]
    NotRoot,
    #[error("{path} lets no other user through, and is not the journal's own")]
    Closed { path: PathBuf },
    #[error("{path} is not the daemon's own")]
    Foreign { path: PathBuf },
    #[error("{path} can't be opened to another user: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// Who is to have the files: the user that was named, or the one who became root for this command.
pub fn user(named: Option<&str>) -> Result<Option<User>, AccessError> {
    let no_user = |name: &str| AccessError::NoUser(name.to_owned());
    let found = match named {
        Some(name) => User::from_name(name).ok().flatten().ok_or_else(|| no_user(name))?,
        None if !Uid::effective().is_root() => return Ok(None),
        None => {
            let before = variable("SUDO_UID").and_then(|uid| uid.to_str()?.parse::<u32>().ok()).filter(|uid| *uid != 0);
            let Some(uid) = before else { return Ok(None) };
            User::from_uid(Uid::from_raw(uid)).ok().flatten().ok_or_else(|| no_user(&uid.to_string()))?
        }
    };
    if !Uid::effective().is_root() {
        return Err(AccessError::NotRoot);
    }
    Ok(Some(found))
}

/// Lets a user read and edit all files of the journal in `dir`, those that come as well, and come to them.
pub fn open_to(uid: Uid, dir: &Path, directories: &[String]) -> Result<(), AccessError> {
    let uid = uid.as_raw();
    let fail = |path: &Path, source| AccessError::Io { path: path.to_owned(), source };
    let dir = &fs::canonicalize(dir).map_err(|e| fail(dir, e))?;
    let root = opened(dir, O_DIRECTORY).map_err(|e| fail(dir, e))?;
    let daemon = root.metadata().map_err(|e| fail(dir, e))?.uid();
    for (n, above) in dir.ancestors().skip(1).enumerate() {
        let directory = opened(above, O_DIRECTORY).map_err(|e| fail(above, e))?;
        let about = directory.metadata().map_err(|e| fail(above, e))?;
        match () {
            () if about.mode() & 0o001 != 0 => {}
            () if n < OWN_ABOVE && about.uid() == daemon => {
                give(&directory, uid, THROUGH).map_err(|e| fail(above, e))?;
            }
            () => return Err(AccessError::Closed { path: above.to_owned() }),
        }
    }
    // From here on somebody else may write there: nothing is followed, and nothing opened but what is the daemon's own.
    let own = |path: &Path, flags| {
        let file = opened(path, flags).map_err(|e| fail(path, e))?;
        let about = file.metadata().map_err(|e| fail(path, e))?;
        let is_own = about.uid() == daemon && (about.is_dir() || about.is_file() && about.nlink() == 1);
        if is_own { Ok(file) } else { Err(AccessError::Foreign { path: path.to_owned() }) }
    };
    let written = dir.join(WRITTEN);
    give_what_comes(own(&written, O_DIRECTORY)?, &[uid, daemon]).map_err(|e| fail(&written, e))?;
    for directory in std::iter::once(dir.to_owned()).chain(directories.iter().map(|name| dir.join(name))) {
        let file = own(&directory, O_DIRECTORY)?;
        give_what_comes(&file, &[uid, daemon]).map_err(|e| fail(&directory, e))?;
        give(&file, uid, ALL).map_err(|e| fail(&directory, e))?;
        for entry in fs::read_dir(&directory).map_err(|e| fail(&directory, e))? {
            let path = entry.map_err(|e| fail(&directory, e))?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                // What is somebody else's there is not the journal's, and no reason to stop.
                match own(&path, 0) {
                    Ok(file) => give(file, uid, READ_WRITE).map_err(|e| fail(&path, e))?,
                    Err(_) => continue,
                }
            }
        }
    }
    Ok(())
}

fn opened(path: &Path, flags: i32) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(flags | O_NOFOLLOW | O_NONBLOCK).open(path)
}
