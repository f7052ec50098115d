//! Where a running daemon is: `<data_dir>/run/daemon.json`, and beside it the token for the command line.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Deserialize;

use base::Secret;

/// What a running daemon tells of itself in `daemon.json`.
#[derive(Clone, Debug, Deserialize)]
pub struct DaemonFile {
    pub pid: i32,
    pub version: String,
    /// The admin port's address, as it is bound.
    pub admin: SocketAddr,
    /// The ports really bound, by butler.
    #[serde(default)]
    pub butlers: BTreeMap<String, u16>,
    pub started_at: Timestamp,
}

/// Why no daemon can be talked to.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error("no daemon runs with the data directory {}, or it is still starting", .data_dir.display())]
    NotRunning { data_dir: PathBuf },
    #[error("the daemon is not running any more: {} names process {pid}, which is gone", .file.display())]
    Gone { file: PathBuf, pid: i32 },
    #[error("{} can't be read: {problem}", .file.display())]
    Unreadable { file: PathBuf, problem: String, denied: bool },
}

fn unreadable(file: PathBuf, e: &std::io::Error) -> PlaceError {
    PlaceError::Unreadable { file, problem: e.to_string(), denied: e.kind() == ErrorKind::PermissionDenied }
}

impl DaemonFile {
    /// Reads the file of the daemon that runs with this data directory.
    pub fn read(data_dir: &Path) -> Result<Self, PlaceError> {
        let file = data_dir.join("run/daemon.json");
        let text = std::fs::read_to_string(&file).map_err(|e| match e.kind() {
            ErrorKind::NotFound => PlaceError::NotRunning { data_dir: data_dir.to_owned() },
            _ => unreadable(file.clone(), &e),
        })?;
        let found: Self = serde_json::from_str(&text).map_err(|e| PlaceError::Unreadable {
            file: file.clone(),
            problem: format!("it is damaged: {e}"),
            denied: false,
        })?;
        if alive(found.pid) { Ok(found) } else { Err(PlaceError::Gone { file, pid: found.pid }) }
    }

    /// The address under which the admin port is reached from this machine.
    pub fn reachable(&self) -> SocketAddr {
        reachable(self.admin)
    }
}

/// An address under which this machine reaches one that listens on all of its own.
pub(super) fn reachable(mut addr: SocketAddr) -> SocketAddr {
    // "Every address" is none to connect to, and no Host that the daemon answers to.
    if addr.ip().is_unspecified() {
        addr.set_ip(match addr {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    addr
}

/// Whether there is such a process. One that may not be signalled is there, too.
fn alive(pid: i32) -> bool {
    use nix::errno::Errno;
    use nix::sys::signal::kill;
    pid > 0 && !matches!(kill(nix::unistd::Pid::from_raw(pid), None), Err(Errno::ESRCH)) && !zombie(pid)
}

/// Whether the process has ended, and only nobody asked for its exit code yet.
fn zombie(pid: i32) -> bool {
    ended(&std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default())
}

fn ended(stat: &str) -> bool {
    // The command's name stands in parentheses and may hold anything.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
}

/// The token that the daemon left for the command line of its own user.
pub fn operator_token(data_dir: &Path) -> Result<Secret<String>, PlaceError> {
    let file = data_dir.join("run/operator.token");
    match std::fs::read_to_string(&file) {
        Ok(text) => {
            let whole = Secret::new(text);
            Ok(Secret::new(whole.expose().trim().to_owned()))
        }
        Err(e) => Err(unreadable(file, &e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &Path, pid: u32, admin: &str) {
        std::fs::create_dir_all(dir.join("run")).unwrap();
        let text = format!(
            r#"{{"pid":{pid},"version":"0.1.0","admin":"{admin}","butlers":{{"health":40103}},
                 "started_at":"2026-01-01T00:00:00Z"}}"#
        );
        std::fs::write(dir.join("run/daemon.json"), text).unwrap();
    }

    #[test]
    fn a_running_daemon_is_found_and_a_dead_one_is_told() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(DaemonFile::read(dir.path()), Err(PlaceError::NotRunning { .. })));
        write(dir.path(), std::process::id(), "127.0.0.1:40200");
        let found = DaemonFile::read(dir.path()).unwrap();
        assert_eq!(found.butlers["health"], 40103);
        // The largest pid that Linux gives is below this.
        write(dir.path(), 0x7fff_fffe, "127.0.0.1:40200");
        assert!(matches!(DaemonFile::read(dir.path()), Err(PlaceError::Gone { .. })));
        std::fs::write(dir.path().join("run/daemon.json"), "{").unwrap();
        assert!(matches!(DaemonFile::read(dir.path()), Err(PlaceError::Unreadable { .. })));
    }

    #[test]
    fn a_process_that_nobody_buried_is_dead() {
        assert!(ended("4711 (butlerd) Z 1 4711 4711 0"));
        assert!(ended("4711 (a) S (b) Z 1 4711 4711 0"));
        assert!(!ended("4711 (Z) S 1 4711 4711 0"));
        assert!(!zombie(std::process::id().cast_signed()));
    }

    #[test]
    fn every_address_is_reached_over_loopback() {
        let dir = tempfile::tempdir().unwrap();
        for (bound, reached) in
            [("0.0.0.0:40200", "127.0.0.1:40200"), ("[::]:1", "[::1]:1"), ("10.0.0.5:2", "10.0.0.5:2")]
        {
            write(dir.path(), std::process::id(), bound);
            assert_eq!(DaemonFile::read(dir.path()).unwrap().reachable().to_string(), reached);
        }
    }

    #[test]
    fn the_token_is_one_line() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("run")).unwrap();
        std::fs::write(dir.path().join("run/operator.token"), "abc\n").unwrap();
        assert_eq!(operator_token(dir.path()).unwrap().expose(), "abc");
    }
}
