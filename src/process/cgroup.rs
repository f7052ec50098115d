//! Control groups (cgroup v2), where a part of their tree is ours: one group a session, below the daemon's own.
//!
//! A group bounds the memory and the number of processes of a session as a whole, and one write kills all of it,
//! however fast it forks. It needs a part of the tree that was handed to us (`Delegate=` of systemd, or a container's
//! own root): in any other part somebody else makes the groups, and two who do so undo each other's work.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base::SessionId;

/// Where the daemon and the database move, because a group with controllers for those below must hold no process.
const OWN: &str = "daemon";
/// How groups of sessions are called, before the id.
const SESSION: &str = "session-";
/// How long what was killed may take to leave its group.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there are no groups for sessions.
#[derive(Debug, thiserror::Error)]
pub enum NoGroups {
    #[error("this machine has no cgroup v2")]
    None,
    #[error("{} is not delegated to butlerd (systemd: Delegate=memory pids)", .0.display())]
    NotDelegated(PathBuf),
    #[error("cannot {step} {path}", path = path.display())]
    Io { step: &'static str, path: PathBuf, source: io::Error },
}

/// The part of the tree in which sessions get their groups.
#[derive(Clone, Debug)]
pub struct Groups {
    base: PathBuf,
    /// Whether memory and numbers of processes can be bounded; else groups only hold sessions together.
    pub bounds: bool,
}

/// How much a session may use, all of its processes together; `None` is no bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupLimits {
    /// Bytes of memory; none of it goes to swap.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u64>,
}

fn failed(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> NoGroups {
    move |source| NoGroups::Io { step, path: path.to_owned(), source }
}

/// This process's group, if it is delegated to us. Changes nothing.
pub fn delegated() -> Result<PathBuf, NoGroups> {
    let read = |path: &str| fs::read_to_string(path).map_err(|_| NoGroups::None);
    let dir = own_dir(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?).ok_or(NoGroups::None)?;
    // A daemon that has moved already, or was put there by `DelegateSubgroup=daemon`.
    let base = if dir.ends_with(OWN) { dir.parent().unwrap_or(&dir).to_owned() } else { dir };
    if is_delegated(&base) { Ok(base) } else { Err(NoGroups::NotDelegated(base)) }
}

/// The directory of the unified group, from what `/proc` tells of mounts and of this process.
fn own_dir(mountinfo: &str, cgroup: &str) -> Option<PathBuf> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mount = mountinfo.lines().find_map(|line| {
        let (fields, kind) = line.split_once(" - ")?;
        let mut fields = fields.split(' ').skip(3);
        (kind.starts_with("cgroup2 ")).then_some((fields.next()?, fields.next()?))
    })?;
    let below = if mount.0 == "/" { path } else { path.strip_prefix(mount.0)? };
    Some(Path::new(mount.1).join(below.trim_start_matches('/')))
}

fn is_delegated(dir: &Path) -> bool {
    let writable = |path: &Path| nix::unistd::access(path, nix::unistd::AccessFlags::W_OK).is_ok();
    // The root of all groups lacks this file; that of a container's own tree has it.
    if !dir.join("cgroup.events").exists() || !writable(dir) || !writable(&dir.join("cgroup.subtree_control")) {
        return false;
    }
    // Root may write everywhere, so the marks that systemd leaves count. Others were given what they may write.
    let own_root = fs::read_to_string("/proc/self/cgroup").is_ok_and(|t| t.lines().any(|l| l == "0::/"));
    // In a user's own systemd all groups belong to the user, delegated or not.
    let personal = dir.iter().any(|name| name.to_string_lossy().starts_with("user@"));
    let owner = fs::metadata(dir).is_ok_and(|m| m.uid() != 0 && m.uid() == nix::unistd::geteuid().as_raw());
    let owner = owner && !personal;
    own_root || owner || marked(dir, c"trusted.delegate") || marked(dir, c"user.delegate")
}

fn marked(dir: &Path, name: &std::ffi::CStr) -> bool {
    let Ok(dir) = CString::new(dir.as_os_str().as_bytes()) else { return false };
    let mut value = [0u8; 8];
    // SAFETY: C strings that outlive the call, and a buffer of the given size.
    let n = unsafe { libc::getxattr(dir.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
    n == 1 && value[0] == b'1'
}

impl Groups {
    /// Takes the delegated part: moves this process below it, hands the controllers down, and ends what sessions of the
    /// last run left there. To be called before this process has children.
    pub fn claim() -> Result<Self, NoGroups> {
        Self::claim_at(delegated()?)
    }

    fn claim_at(base: PathBuf) -> Result<Self, NoGroups> {
        let own = base.join(OWN);
        match fs::create_dir(&own) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(failed("make the group", &own)(e)),
            _ => {}
        }
        fs::write(own.join("cgroup.procs"), "0").map_err(failed("move into", &own))?;
        let there = fs::read_to_string(base.join("cgroup.controllers")).unwrap_or_default();
        let wanted = ["memory", "pids"];
        let all = wanted.iter().all(|name| there.split_whitespace().any(|c| c == *name));
        // Refused as long as somebody else's process is in the group itself.
        let bounds = all && fs::write(base.join("cgroup.subtree_control"), "+memory +pids").is_ok();
        let groups = Self { base, bounds };
        groups.clear();
        Ok(groups)
    }

    /// In a directory that the test has made.
    #[cfg(test)]
    pub(super) fn at(base: PathBuf, bounds: bool) -> Self {
        Self { base, bounds }
    }

    /// Ends and removes the groups of sessions that are there.
    pub(super) fn clear(&self) {
        let names = fs::read_dir(&self.base).into_iter().flatten().flatten();
        let left: Vec<PathBuf> =
            names.filter(|e| e.file_name().to_string_lossy().starts_with(SESSION)).map(|e| e.path()).collect();
        for dir in &left {
            if let Err(error) = fs::write(dir.join("cgroup.kill"), "1") {
                tracing::warn!(group = %dir.display(), %error, "processes of the last run could not be ended by their control group");
            }
        }
        let until = Instant::now() + PATIENCE;
        for dir in left {
            match remove(&dir, until) {
                Ok(()) => tracing::info!(group = %dir.display(), "ended a session that the last run left open"),
                Err(error) => tracing::warn!(group = %dir.display(), %error, "a control group could not be removed"),
            }
        }
    }

    /// Makes the group of a session.
    pub(super) fn make(&self, session: SessionId, limits: GroupLimits) -> Result<Group, NoGroups> {
        let dir = self.base.join(format!("{SESSION}{session}"));
        fs::create_dir(&dir).map_err(failed("make the group", &dir))?;
        let handle = fs::File::open(&dir).map_err(failed("open", &dir))?;
        let group = Group { dir, handle: handle.into() };
        if self.bounds {
            let set = |file: &str, value: Option<u64>| {
                let path = group.dir.join(file);
                value.map_or(Ok(()), |n| fs::write(&path, n.to_string()).map_err(failed("write", &path)))
            };
            set("memory.max", limits.memory)?;
            set("pids.max", limits.processes)?;
            // Neither is everywhere: machines without swap, older kernels.
            let _ = set("memory.swap.max", limits.memory.map(|_| 0));
            let _ = set("memory.oom.group", Some(1));
        }
        Ok(group)
    }
}

/// The group of one session. It is removed with this value, if it is empty then.
#[derive(Debug)]
pub(super) struct Group {
    dir: PathBuf,
    handle: OwnedFd,
}

impl Group {
    /// For a child to be born into.
    pub fn handle(&self) -> &OwnedFd {
        &self.handle
    }

    /// The processes in it.
    pub fn processes(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Kills all of them, and all that they fork meanwhile.
    pub fn kill(&self) {
        // Kernels before 5.14 lack the file; then each process is killed by itself.
        let _ = fs::write(self.dir.join("cgroup.kill"), "1");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let told = |dir: &Path, error: &io::Error| {
            // The next start removes it.
            tracing::warn!(group = %dir.display(), %error, "a session's control group could not be removed");
        };
        match fs::remove_dir(&self.dir) {
            Err(e) if is_busy(&e) => {
                // The dead leave it a moment after they are gone from its list; nobody here waits for that.
                let dir = self.dir.clone();
                std::thread::spawn(move || remove(&dir, Instant::now() + PATIENCE).inspect_err(|e| told(&dir, e)));
            }
            Err(error) => told(&self.dir, &error),
            Ok(()) => {}
        }
    }
}

fn is_busy(e: &io::Error) -> bool {
    e.raw_os_error() == Some(libc::EBUSY)
}

/// Removes a group that is empty by then.
fn remove(dir: &Path, until: Instant) -> io::Result<()> {
    loop {
        match fs::remove_dir(dir) {
            Err(e) if is_busy(&e) && Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_wherever_the_tree_is_mounted() {
        let mounts = "31 1 0:27 / /sys/fs/cgroup rw - tmpfs t rw\n41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        let cgroup = "4:memory:/x\n0::/system.slice/butlerd.service\n";
        let found = own_dir(mounts, cgroup);
        assert_eq!(found, Some("/sys/fs/cgroup/unified/system.slice/butlerd.service".into()));
        let inner = "41 31 0:38 /outer/box /sys/fs/cgroup ro shared:9 - cgroup2 cgroup rw\n";
        assert_eq!(own_dir(inner, "0::/outer/box/a\n"), Some("/sys/fs/cgroup/a".into()));
        assert_eq!(own_dir(inner, "0::/elsewhere\n"), None);
        assert_eq!(own_dir(mounts, "4:memory:/x\n"), None);
        assert_eq!(own_dir("31 1 0:27 / /sys/fs/cgroup rw - tmpfs t rw\n", cgroup), None);
    }

    #[test]
    fn a_directory_that_is_no_group_is_not_delegated() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_delegated(dir.path()) && !is_delegated(Path::new("/no/such")));
        assert!(!marked(dir.path(), c"user.delegate"));
    }
}
