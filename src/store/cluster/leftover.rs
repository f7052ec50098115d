//! What an earlier run left behind: a server still running, orphans of a killed one, stale pid and socket files.
//!
//! The caller holds the data directory's lock, so no living daemon of ours owns what is found here. Nothing is believed
//! because of a number in a file: a process counts as the cluster's only if it runs a program called `postgres` with
//! the cluster's directory as its working directory (PostgreSQL's processes all stay there), and a file is removed only
//! when that is known of no process.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{ClusterError, SOCKET_FILE};

/// A fast shutdown ends with a checkpoint, which may take its time on a slow disk.
const FAST_PATIENCE: Duration = Duration::from_secs(30);
/// An immediate one has nothing to write.
const QUIT_PATIENCE: Duration = Duration::from_secs(5);

/// What was found and done; for the log and for tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cleared {
    /// A whole server was running and has been stopped.
    pub server: Option<i32>,
    /// Backends of a server that was killed.
    pub orphans: usize,
    /// A pid file that named no process, or one which isn't the cluster's, was removed.
    pub stale_pid_file: bool,
}

/// Stops whatever still runs in `cluster` and removes stale files, so that a new server can start.
pub(super) fn clear(cluster: &Path, socket_dir: &Path) -> Result<Cleared, ClusterError> {
    let mut cleared = Cleared::default();
    let pid_file = cluster.join("postmaster.pid");
    let text = match std::fs::read_to_string(&pid_file) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            // An orderly end removes the file last; what may be left then is at most a socket that nobody listens on.
            remove_socket(socket_dir);
            return Ok(cleared);
        }
        Err(source) => return Err(ClusterError::Files { action: "read", path: pid_file, source }),
    };
    let noted = parse_pid_file(&text);
    let pid = noted.as_ref().map(|file| file.pid);
    if let Some(pid) = pid.filter(|pid| is_server_of(*pid, cluster)) {
        tracing::warn!(pid, "a PostgreSQL server of an earlier run is still there; stopping it");
        stop(pid, cluster)?;
        cleared.server = Some(pid);
    }
    cleared.orphans = end_orphans(cluster)?;
    // Nothing of this cluster runs any more. PostgreSQL would refuse to start over a file that is empty (its writer was
    // killed) or whose pid lives again as something else, so these go. A pid that is dead is left to PostgreSQL, which
    // then also checks for shared memory still in use.
    if pid_file.exists() && pid.is_none_or(exists) {
        tracing::warn!(pid, "removing the pid file of a killed server");
        std::fs::remove_file(&pid_file).map_err(ClusterError::files("remove", &pid_file))?;
        cleared.stale_pid_file = true;
    }
    remove_socket(socket_dir);
    if let Some(noted) = noted
        && let Some(dir) = noted.socket_dir.as_deref().filter(|dir| *dir != socket_dir)
    {
        // The data directory was moved, or another place was taken for the socket then.
        remove_socket_of(dir, noted.pid);
    }
    Ok(cleared)
}

/// The socket's directory of a server that runs in `cluster` at this moment.
pub(super) fn running(cluster: &Path) -> Option<std::path::PathBuf> {
    let file = parse_pid_file(&std::fs::read_to_string(cluster.join("postmaster.pid")).ok()?)?;
    file.socket_dir.filter(|_| is_server_of(file.pid, cluster))
}

/// Ends what is left of a server whose first process was killed. Backends notice that by themselves, but not while
/// they compute, and a new server can't start before the last is gone.
pub(super) fn end_orphans(cluster: &Path) -> Result<usize, ClusterError> {
    let found = processes_in(cluster);
    for (signal, patience) in [(libc::SIGQUIT, QUIT_PATIENCE), (libc::SIGKILL, QUIT_PATIENCE)] {
        let left = processes_in(cluster);
        if left.is_empty() {
            return Ok(found.len());
        }
        for pid in left {
            send(pid, signal, cluster);
        }
        wait_until(patience, || processes_in(cluster).is_empty());
    }
    match processes_in(cluster).first() {
        None => Ok(found.len()),
        Some(pid) => Err(refuses_to_go(*pid, cluster)),
    }
}

fn stop(pid: i32, cluster: &Path) -> Result<(), ClusterError> {
    for (signal, patience) in
        [(libc::SIGINT, FAST_PATIENCE), (libc::SIGQUIT, QUIT_PATIENCE), (libc::SIGKILL, QUIT_PATIENCE)]
    {
        send(pid, signal, cluster);
        if wait_until(patience, || !is_server_of(pid, cluster)) {
            return Ok(());
        }
    }
    Err(refuses_to_go(pid, cluster))
}

fn refuses_to_go(pid: i32, cluster: &Path) -> ClusterError {
    let why = if may_signal(pid) { "" } else { " (it belongs to another user)" };
    ClusterError::Leftover { path: cluster.to_path_buf(), pid, why: why.into() }
}

fn send(pid: i32, signal: libc::c_int, cluster: &Path) {
    if is_server_of(pid, cluster) {
        // SAFETY: a signal to a process just proven to be this cluster's.
        unsafe { libc::kill(pid, signal) };
    }
}

fn wait_until(patience: Duration, mut done: impl FnMut() -> bool) -> bool {
    let give_up = Instant::now() + patience;
    loop {
        if done() {
            return true;
        }
        if Instant::now() >= give_up {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the kernel knows a process of this number, whosoever it is; a zombie counts.
fn exists(pid: i32) -> bool {
    // SAFETY: signal 0 only asks.
    let status = unsafe { libc::kill(pid, 0) };
    status == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

fn may_signal(pid: i32) -> bool {
    // SAFETY: signal 0 only asks.
    unsafe { libc::kill(pid, 0) == 0 }
}

/// The lines of `postmaster.pid` that are of use.
#[derive(Debug, PartialEq, Eq)]
struct PidFile {
    pid: i32,
    socket_dir: Option<std::path::PathBuf>,
}

/// Lines: pid, data directory, start time, port, socket directory, listen address, shared memory, state. A server
/// killed while writing it leaves fewer.
fn parse_pid_file(text: &str) -> Option<PidFile> {
    let mut lines = text.lines();
    let pid: i32 = lines.next()?.trim().parse().ok()?;
    // A single-user backend writes its pid negative.
    let pid = pid.checked_abs().filter(|pid| *pid > 1)?;
    let socket_dir = lines.nth(3).map(str::trim).filter(|line| line.starts_with('/')).map(Into::into);
    Some(PidFile { pid, socket_dir })
}

fn remove_socket(socket_dir: &Path) {
    let _ = std::fs::remove_file(socket_dir.join(SOCKET_FILE));
    let _ = std::fs::remove_file(socket_dir.join(format!("{SOCKET_FILE}.lock")));
}

/// Removes the socket in a directory that isn't ours by name, if its lock file says it was this server's.
fn remove_socket_of(dir: &Path, pid: i32) {
    let lock = std::fs::read_to_string(dir.join(format!("{SOCKET_FILE}.lock"))).unwrap_or_default();
    if parse_pid_file(&lock).is_some_and(|file| file.pid == pid) {
        remove_socket(dir);
        // Only an empty one goes.
        let _ = std::fs::remove_dir(dir);
    }
}

/// Whether `pid` is a living PostgreSQL process of this cluster.
#[cfg(target_os = "linux")]
fn is_server_of(pid: i32, cluster: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;
    let proc = Path::new("/proc").join(pid.to_string());
    match std::fs::read_link(proc.join("exe")) {
        // The kernel marks a program that was replaced by an upgrade.
        Ok(exe) => {
            let name = exe.file_name().map(|n| n.as_bytes().to_vec()).unwrap_or_default();
            if !matches!(name.strip_suffix(b" (deleted)").unwrap_or(&name), b"postgres" | b"postmaster") {
                return false;
            }
        }
        // A process that is just ending has no program any more, but the kernel may still be taking down its memory,
        // and with it the segment that a new server finds in use. It keeps its working directory until that is done.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        // Another user's, which can't be in our closed directory.
        Err(_) => return false,
    }
    // A zombie has no directory either.
    let (Ok(cwd), Ok(dir)) = (std::fs::metadata(proc.join("cwd")), std::fs::metadata(cluster)) else { return false };
    (cwd.dev(), cwd.ino()) == (dir.dev(), dir.ino())
}

#[cfg(target_os = "linux")]
fn processes_in(cluster: &Path) -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    pids.filter(|pid| is_server_of(*pid, cluster)).collect()
}

/// Without /proc the process table is asked for the command line, in which `-D` names the directory.
#[cfg(not(target_os = "linux"))]
fn is_server_of(pid: i32, cluster: &Path) -> bool {
    let out =
        std::process::Command::new("/bin/ps").args(["-ww", "-o", "stat=,command=", "-p", &pid.to_string()]).output();
    let Ok(out) = out else { return false };
    let line = String::from_utf8_lossy(&out.stdout);
    let line = line.trim();
    !line.starts_with('Z') && line.contains("postgres") && line.contains(&format!("-D {}", cluster.display()))
}

/// Backends show no directory in their command line; PostgreSQL's own check for shared memory has to do.
#[cfg(not(target_os = "linux"))]
fn processes_in(_cluster: &Path) -> Vec<i32> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pid_files_are_read() {
        let whole = "4711\n/d/postgres\n1763690000\n5432\n/d/sock\n\n  1234 5678\nready   \n";
        assert_eq!(parse_pid_file(whole), Some(PidFile { pid: 4711, socket_dir: Some("/d/sock".into()) }));
        assert_eq!(parse_pid_file("-4711\n").unwrap().pid, 4711);
        for bad in ["", "x", "0\n", "1\n", "-2147483648\n"] {
            assert_eq!(parse_pid_file(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_stranger_with_the_same_number_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        // This test's own pid: alive, and no PostgreSQL.
        let me = std::process::id();
        std::fs::write(dir.path().join("postmaster.pid"), format!("{me}\n{}\n", dir.path().display())).unwrap();
        std::fs::write(dir.path().join(SOCKET_FILE), "").unwrap();
        let cleared = clear(dir.path(), dir.path()).unwrap();
        assert_eq!(cleared, Cleared { server: None, orphans: 0, stale_pid_file: true });
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_empty_pid_file_goes() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("postmaster.pid"), "").unwrap();
        assert!(clear(dir.path(), dir.path()).unwrap().stale_pid_file);
        assert!(!dir.path().join("postmaster.pid").exists());
    }

    #[test]
    fn a_dead_number_is_left_to_postgresql() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        child.wait().unwrap();
        std::fs::write(dir.path().join("postmaster.pid"), format!("{}\n", child.id())).unwrap();
        assert_eq!(clear(dir.path(), dir.path()).unwrap(), Cleared::default());
        assert!(dir.path().join("postmaster.pid").exists());
    }
}
