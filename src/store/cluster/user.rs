//! As whom PostgreSQL runs. It refuses root, so root drops to an unprivileged user; anybody else just runs it.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::unistd::{Uid, User};

use super::ClusterError;

/// The users that root drops to, in this order. An own user comes after `postgres`, because a machine that has
/// `postgres` has its packages' permissions set for it.
const CANDIDATES: [&str; 3] = ["postgres", "butlerd", "nobody"];

/// The identity of the server's processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunAs {
    /// Login name, or the number where the user has no entry in passwd.
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    /// True if we are root and must change to it.
    pub switch: bool,
    /// Whether passwd knows it.
    pub(super) known: bool,
}

impl RunAs {
    /// Ourselves, unless we are root. Root takes the owner of an existing cluster, else the first of `postgres`,
    /// `butlerd` and `nobody` that exists.
    pub fn choose(existing_owner: Option<u32>) -> Result<Self, ClusterError> {
        let me = nix::unistd::geteuid();
        if !me.is_root() {
            let user = User::from_uid(me).ok().flatten();
            let known = user.is_some();
            let name = user.map_or_else(|| me.to_string(), |u| u.name);
            return Ok(Self { name, uid: me.as_raw(), gid: nix::unistd::getegid().as_raw(), switch: false, known });
        }
        let owner = existing_owner.filter(|uid| *uid != 0).and_then(|uid| User::from_uid(Uid::from_raw(uid)).ok()?);
        owner
            .or_else(|| CANDIDATES.iter().find_map(|name| User::from_name(name).ok()?))
            .filter(|user| !user.uid.is_root())
            .map(|user| Self {
                name: user.name,
                uid: user.uid.as_raw(),
                gid: user.gid.as_raw(),
                switch: true,
                known: true,
            })
            .ok_or(ClusterError::NoUser { tried: "postgres, butlerd, nobody" })
    }

    /// Gives one file or directory to this user, where we are root; links are not followed.
    pub(super) fn own(&self, path: &Path) -> Result<(), ClusterError> {
        if !self.switch {
            return Ok(());
        }
        std::os::unix::fs::lchown(path, Some(self.uid), Some(self.gid)).map_err(ClusterError::files("chown", path))
    }

    /// Gives a whole tree to this user. Only for a cluster that root copied into place (a restored backup).
    pub(super) fn own_tree(&self, dir: &Path) -> Result<(), ClusterError> {
        self.own(dir)?;
        for entry in std::fs::read_dir(dir).map_err(ClusterError::files("read", dir))? {
            let entry = entry.map_err(ClusterError::files("read", dir))?;
            let kind = entry.file_type().map_err(ClusterError::files("look at", entry.path()))?;
            if kind.is_dir() { self.own_tree(&entry.path())? } else { self.own(&entry.path())? }
        }
        Ok(())
    }

    /// Checks that this user can pass through every directory down to and including `dir`, and names the one that
    /// blocks. Without a change of user there is nothing to check: we got there ourselves.
    pub(super) fn check_reach(&self, dir: &Path, what: &'static str) -> Result<(), ClusterError> {
        if !self.switch {
            return Ok(());
        }
        let path = dir.canonicalize().map_err(ClusterError::files("look at", dir))?;
        match self.blocked_by_mode(&path) {
            Some(blocker) if !self.can_enter(&path) => {
                Err(ClusterError::Unreachable { path, blocker, user: self.name.clone(), what })
            }
            _ => Ok(()),
        }
    }

    /// The first directory on the way to `path` whose mode bits keep this user out.
    fn blocked_by_mode(&self, path: &Path) -> Option<PathBuf> {
        let mut ways: Vec<&Path> = path.ancestors().collect();
        ways.reverse();
        ways.into_iter()
            .find(|dir| {
                let Ok(meta) = std::fs::metadata(dir) else { return false };
                let search = match () {
                    () if meta.uid() == self.uid => 0o100,
                    () if meta.gid() == self.gid => 0o010,
                    () => 0o001,
                };
                meta.is_dir() && meta.mode() & search == 0
            })
            .map(Path::to_path_buf)
    }

    /// Mode bits don't know of access lists, so what they forbid is tried before it is called an error.
    fn can_enter(&self, dir: &Path) -> bool {
        Command::new("/bin/true")
            .uid(self.uid)
            .gid(self.gid)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|s| s.success())
    }
}
