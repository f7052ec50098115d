//! Where things stand: the data directory's lock, the cluster, the socket.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::user::RunAs;
use super::{ClusterError, SOCKET_FILE};
use base::text::hex;

/// The longest path that fits a Unix socket address on every system: 107 bytes on Linux, 103 on macOS.
const MAX_SOCKET_PATH: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// How long a start waits for the lock: a daemon killed a moment ago may not be gone from the kernel yet.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);

/// The files of one data directory that concern the cluster.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub data_dir: PathBuf,
    /// PostgreSQL's own directory.
    pub cluster: PathBuf,
    pub log: PathBuf,
}

impl Layout {
    /// Makes the data directory where it is missing and resolves its path. Root lets others pass through it (0711),
    /// because the server's user must reach the cluster; an ordinary user keeps it closed.
    pub fn open(data_dir: &Path) -> Result<Self, ClusterError> {
        let mode = if nix::unistd::geteuid().is_root() { 0o711 } else { 0o700 };
        if !data_dir.exists() {
            if let Some(parent) = data_dir.parent() {
                let made = DirBuilder::new().recursive(true).mode(0o755).create(parent);
                made.map_err(ClusterError::files("make", parent))?;
            }
            match DirBuilder::new().mode(mode).create(data_dir) {
                Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(ClusterError::Files { action: "make", path: data_dir.into(), source: e });
                }
                _ => set_mode(data_dir, mode)?,
            }
        }
        let data_dir = data_dir.canonicalize().map_err(ClusterError::files("look at", data_dir))?;
        Ok(Self { cluster: data_dir.join("postgres"), log: data_dir.join("postgres.log"), data_dir })
    }

    /// Takes the lock that lets only one daemon use this data directory. It is held as long as the file is open: by
    /// no child (descriptors close on exec), and by no dead process.
    pub fn lock(&self) -> Result<File, ClusterError> {
        let path = self.data_dir.join("postgres.lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(ClusterError::files("open", &path))?;
        let give_up = Instant::now() + LOCK_PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(source)) => {
                    return Err(ClusterError::Files { action: "lock", path, source });
                }
                Err(TryLockError::WouldBlock) if Instant::now() < give_up => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(TryLockError::WouldBlock) => {
                    let mut text = String::new();
                    let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                    return Err(ClusterError::Locked { data_dir: self.data_dir.clone(), pid });
                }
            }
        }
        // The number is for people only; the lock is what counts.
        let noted = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "{}", std::process::id()));
        noted.map_err(ClusterError::files("write", &path))?;
        Ok(file)
    }

    /// What stands where the cluster should be.
    pub fn examine(&self) -> Result<Found, ClusterError> {
        let dir = &self.cluster;
        let meta = match std::fs::symlink_metadata(dir) {
            Ok(_) => std::fs::metadata(dir).map_err(ClusterError::files("look at", dir))?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(source) => return Err(ClusterError::Files { action: "look at", path: dir.clone(), source }),
        };
        let me = nix::unistd::geteuid();
        if !me.is_root() && meta.uid() != me.as_raw() {
            return Err(ClusterError::ForeignOwner { path: dir.clone(), owner: meta.uid(), uid: me.as_raw() });
        }
        let version = dir.join("PG_VERSION");
        match std::fs::read_to_string(&version) {
            Ok(text) => match text.trim().parse() {
                Ok(major) => Ok(Found::Cluster { major, owner: meta.uid() }),
                Err(_) => Err(ClusterError::NotACluster { path: dir.clone() }),
            },
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                let mut entries = std::fs::read_dir(dir).map_err(ClusterError::files("read", dir))?;
                match entries.next() {
                    None => Ok(Found::Nothing),
                    Some(_) => Err(ClusterError::NotACluster { path: dir.clone() }),
                }
            }
            Err(source) => Err(ClusterError::Files { action: "read", path: version, source }),
        }
    }

    /// The server's private directory for its socket: in the data directory, or where its path would be too long, in
    /// the user's runtime directory or under /tmp.
    pub fn socket_dir(&self, run_as: &RunAs) -> Result<PathBuf, ClusterError> {
        let mut tried = Vec::new();
        for dir in self.socket_dir_candidates(run_as) {
            match make_private_dir(&dir, run_as) {
                Ok(()) => return Ok(dir),
                Err(problem) => tried.push(format!("{} ({problem})", dir.display())),
            }
        }
        Err(ClusterError::SocketDir { tried: tried.join(", ") })
    }

    fn socket_dir_candidates(&self, run_as: &RunAs) -> Vec<PathBuf> {
        let home = self.data_dir.join("sock");
        if socket_path_fits(&home) {
            return vec![home];
        }
        let hash = Sha256::digest(self.data_dir.as_os_str().as_bytes());
        let hash = hex(&hash[..6]);
        let name = format!("butlerd-{hash}");
        let mut dirs = Vec::new();
        // Root's runtime directory is closed to the server's user.
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|_| !run_as.switch).map(PathBuf::from);
        if let Some(runtime) = runtime
            && runtime.is_absolute()
            && std::fs::metadata(&runtime).is_ok_and(|m| m.uid() == run_as.uid)
        {
            dirs.push(runtime.join(&name));
        }
        dirs.push(Path::new("/tmp").join(&name));
        // Somebody else may have taken that name, on purpose or not.
        let mut noise = [0u8; 6];
        if getrandom::fill(&mut noise).is_ok() {
            let noise = hex(&noise);
            dirs.push(Path::new("/tmp").join(format!("{name}-{noise}")));
        }
        dirs.retain(|dir| socket_path_fits(dir));
        dirs
    }

    /// Whether a directory given by [`Layout::socket_dir`] lies outside the data directory and should go at the end.
    pub fn is_borrowed(&self, socket_dir: &Path) -> bool {
        !socket_dir.starts_with(&self.data_dir)
    }
}

/// Whether another process holds the data directory's lock at this moment.
pub(super) fn is_locked(data_dir: &Path) -> bool {
    let file = OpenOptions::new().read(true).open(data_dir.join("postgres.lock"));
    file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// The state of the cluster's directory before a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Cluster { major: u32, owner: u32 },
}

fn socket_path_fits(dir: &Path) -> bool {
    dir.join(SOCKET_FILE).as_os_str().len() <= MAX_SOCKET_PATH
}

/// Makes `dir` (0700, the server's user's), or takes it as it is if it is exactly that.
fn make_private_dir(dir: &Path, run_as: &RunAs) -> Result<(), String> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {}
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(e.to_string()),
    }
    let meta = std::fs::symlink_metadata(dir).map_err(|e| e.to_string())?;
    if !meta.is_dir() {
        return Err("is not a directory".into());
    }
    // Made by ourselves just now or earlier; anything else was put there by somebody else.
    let ours = meta.uid() == run_as.uid || (run_as.switch && meta.uid() == 0);
    if !ours {
        return Err(format!("belongs to user id {}", meta.uid()));
    }
    set_mode(dir, 0o700).map_err(|e| e.to_string())?;
    if meta.uid() != run_as.uid {
        run_as.own(dir).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Sets the permission bits of `path`.
pub(super) fn set_mode(path: &Path, mode: u32) -> Result<(), ClusterError> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        .map_err(ClusterError::files("set the mode of", path))
}

/// Flushes a directory, so that a name made or moved in it outlives a power cut.
pub(super) fn sync_dir(dir: &Path) -> Result<(), ClusterError> {
    File::open(dir).and_then(|d| d.sync_all()).map_err(ClusterError::files("flush", dir))
}

/// Quotes a directory for `unix_socket_directories`, which is a list separated by commas.
pub(super) fn quoted_dir(dir: &Path) -> OsString {
    let mut out = vec![b'"'];
    for byte in dir.as_os_str().as_bytes() {
        if *byte == b'"' {
            out.push(b'"');
        }
        out.push(*byte);
    }
    out.push(b'"');
    std::os::unix::ffi::OsStringExt::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(dir: &str) -> Layout {
        Layout { data_dir: dir.into(), cluster: Path::new(dir).join("postgres"), log: Path::new(dir).join("log") }
    }

    #[test]
    fn long_paths_leave_the_data_directory() {
        let root = RunAs { name: "x".into(), uid: 1, gid: 1, switch: true, known: true };
        let fits = format!("/{}", "a".repeat(MAX_SOCKET_PATH - "//sock/".len() - SOCKET_FILE.len()));
        let dirs = layout(&fits).socket_dir_candidates(&root);
        assert_eq!(dirs, [Path::new(&fits).join("sock")]);
        assert_eq!(dirs[0].join(SOCKET_FILE).as_os_str().len(), MAX_SOCKET_PATH);

        let long = layout(&format!("{fits}b"));
        let dirs = long.socket_dir_candidates(&root);
        assert_eq!(dirs.len(), 2, "{dirs:?}");
        assert!(dirs[0].to_str().unwrap().starts_with("/tmp/butlerd-"), "{dirs:?}");
        assert_eq!(dirs[0], long.socket_dir_candidates(&root)[0], "the same at every start");
        assert!(long.is_borrowed(&dirs[0]));
    }

    #[test]
    fn foreign_directories_are_not_taken() {
        let me = RunAs::choose(None).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/tmp", &link).unwrap();
        assert_eq!(make_private_dir(&link, &me).unwrap_err(), "is not a directory");
        if me.uid != 0 && !me.switch {
            assert!(make_private_dir(Path::new("/usr"), &me).unwrap_err().contains("belongs to user id 0"));
        }
        let fine = dir.path().join("fine");
        make_private_dir(&fine, &me).unwrap();
        make_private_dir(&fine, &me).unwrap();
        let meta = std::fs::metadata(&fine).unwrap();
        assert_eq!((meta.uid(), meta.mode() & 0o777), (me.uid, 0o700));
    }

    #[test]
    fn directories_are_quoted_for_the_list() {
        assert_eq!(quoted_dir(Path::new("/a,b \"c\"")), "\"/a,b \"\"c\"\"\"");
    }
}
