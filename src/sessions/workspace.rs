//! A session's own directory: a fresh home, a place for temporary files, a working directory, and the butler's skills.
//!
//! `<data_dir>/work/<session id>/{home,tmp,work}`, these three 0700 and owned by the children's user. The directories
//! above are the daemon's and 0711: one can pass through them, but neither list nor change them. The skills lie beside
//! the three, in `agents/skills`, where the sandbox lets nobody write: there their scripts may be run.
//!
//! As root one must not trust a path that leads through a child's directory, because the child may turn any part of it
//! into a link at any moment, and where one user is configured for all of them another session's child may as well. So a workspace is filled while its root is closed to
//! everybody, and removed by descriptors instead of paths.

mod clean;
mod remove;

use std::collections::HashSet;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::{Component, Path, PathBuf};

use self::clean::clean_tree;
use self::remove::remove_tree;
use base::SessionId;
use config::Skill;
use config::skills::SkillFileError;
use process::{ChildUser, ChildUsers};

/// Why a workspace could not be made, filled or removed.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    #[error("cannot {step} {path}")]
    Io { step: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "the user of the children (uid {uid}) cannot pass through {dir}, so it would not reach its workspace; \
         run `chmod o+x {dir}`, or choose another daemon.data_dir", dir = dir.display()
    )]
    Unreachable { dir: PathBuf, uid: u32 },
    #[error(transparent)]
    Skill(#[from] SkillFileError),
    #[error("`{0}` is not a path inside a workspace")]
    Path(PathBuf),
    #[error("the workspace {0} has its files already")]
    Filled(PathBuf),
}

fn failed(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WorkspaceError {
    move |source| WorkspaceError::Io { step, path: path.to_owned(), source }
}

/// Where workspaces are made.
#[derive(Clone, Debug)]
pub struct Workspaces {
    dir: PathBuf,
    users: ChildUsers,
}

/// The directories of one session, all absolute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkspacePaths {
    /// Files of the adapter.
    pub root: PathBuf,
    /// `HOME`.
    pub home: PathBuf,
    /// `TMPDIR`.
    pub tmp: PathBuf,
    /// The working directory.
    pub work: PathBuf,
}

/// What programs know of the butler: its skills, and what they need besides to take those for a plug-in.
pub const AGENTS_DIR: &str = "agents";
/// The skills, below the workspace's root.
pub const SKILLS_DIR: &str = "agents/skills";
/// Where codex and gemini look for skills by themselves, from the working directory: a link leads to `AGENTS_DIR`.
pub const SKILLS_SEEN: &str = ".agents/skills";

impl WorkspacePaths {
    pub fn under(root: PathBuf) -> Self {
        Self { home: root.join("home"), tmp: root.join("tmp"), work: root.join("work"), root }
    }
}

/// A file that a session finds in its workspace. Its content may be secret, so `Debug` shows only its length.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionFile {
    /// Relative to the workspace's root.
    pub path: PathBuf,
    pub contents: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
}

impl std::fmt::Debug for SessionFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes, {:o})", self.path.display(), self.contents.len(), self.mode)
    }
}

/// One session's workspace. It stays until it is removed.
#[derive(Debug)]
pub struct Workspace {
    pub paths: WorkspacePaths,
    kept: PathBuf,
    user: Option<ChildUser>,
    filled: bool,
}

impl Workspaces {
    /// Makes `<data_dir>/work` and checks that `users` can pass through everything above it. `data_dir` itself, if it is
    /// ours, is opened for passing through.
    pub fn open(data_dir: &Path, users: ChildUsers) -> Result<Self, WorkspaceError> {
        let dir = data_dir.join("work");
        DirBuilder::new().recursive(true).mode(0o711).create(&dir).map_err(failed("create", &dir))?;
        let dir = dir.canonicalize().map_err(failed("resolve", &dir))?;
        // Whatever the umask took.
        fs::set_permissions(&dir, Permissions::from_mode(0o711)).map_err(failed("set the mode of", &dir))?;
        if let (Some(user), Some(above)) = (users.next(), dir.parent()) {
            let meta = above.metadata().map_err(failed("look at", above))?;
            if meta.uid() == nix::unistd::Uid::effective().as_raw() && meta.mode() & 0o011 != 0o011 {
                let mode = Permissions::from_mode(meta.mode() & 0o7777 | 0o011);
                fs::set_permissions(above, mode).map_err(failed("set the mode of", above))?;
            }
            for dir in above.ancestors() {
                let meta = dir.metadata().map_err(failed("look at", dir))?;
                let bit = match (meta.uid() == user.uid, meta.gid() == user.gid) {
                    (true, _) => 0o100,
                    (_, true) => 0o010,
                    _ => 0o001,
                };
                if meta.mode() & bit == 0 {
                    return Err(WorkspaceError::Unreachable { dir: dir.to_owned(), uid: user.uid });
                }
            }
        }
        Ok(Self { dir, users })
    }

    /// Who the children are.
    pub fn users(&self) -> &ChildUsers {
        &self.users
    }

    /// Where a session's workspace is, or would be.
    pub fn paths(&self, session: SessionId) -> WorkspacePaths {
        WorkspacePaths::under(self.dir.join(session.to_string()))
    }

    /// Makes the workspace of a session, with copies of these skills that the child cannot change (as root) or at least
    /// not by accident. The child can't enter it before [`Workspace::fill`]. On an error nothing is left of it.
    pub fn create(&self, session: SessionId, skills: &[Skill]) -> Result<Workspace, WorkspaceError> {
        let root = self.paths(session).root;
        let space = Workspace {
            paths: WorkspacePaths::under(root.clone()),
            kept: self.dir.join("kept"),
            user: self.users.next(),
            filled: false,
        };
        let made = space.make_dirs().and_then(|()| space.copy_skills(skills));
        if let Err(e) = made {
            // Not what was there before: `make_dirs` begins with what must not exist.
            if !matches!(&e, WorkspaceError::Io { source, .. } if source.kind() == io::ErrorKind::AlreadyExists) {
                let _ = remove_tree(&root);
            }
            return Err(e);
        }
        Ok(space)
    }

    /// Removes workspaces that no session of `alive` owns, those kept on purpose apart. For boot, after leftovers were
    /// killed. Returns how many are gone; what can't be removed is logged and left.
    pub fn sweep(&self, alive: &HashSet<SessionId>) -> Result<usize, WorkspaceError> {
        let mut gone = 0;
        for entry in fs::read_dir(&self.dir).map_err(failed("list", &self.dir))? {
            let entry = entry.map_err(failed("list", &self.dir))?;
            let Some(Ok(session)) = entry.file_name().to_str().map(str::parse::<SessionId>) else { continue };
            if alive.contains(&session) {
                continue;
            }
            match remove_tree(&entry.path()) {
                Ok(()) => gone += 1,
                Err(error) => tracing::warn!(path = %entry.path().display(), %error, "cannot remove an old workspace"),
            }
        }
        Ok(gone)
    }
}

impl Workspace {
    /// Who its child runs as; `None` is the daemon's own user.
    pub fn user(&self) -> Option<ChildUser> {
        self.user
    }

    fn make_dirs(&self) -> Result<(), WorkspaceError> {
        let paths = &self.paths;
        DirBuilder::new().mode(0o700).create(&paths.root).map_err(failed("create", &paths.root))?;
        for dir in [&paths.home, &paths.tmp, &paths.work] {
            DirBuilder::new().mode(0o700).create(dir).map_err(failed("create", dir))?;
            self.own(dir)?;
        }
        Ok(())
    }

    /// Gives a path that we have just made to the children's user, who cannot reach it yet.
    fn own(&self, path: &Path) -> Result<(), WorkspaceError> {
        match self.user {
            Some(user) => lchown(path, Some(user.uid), Some(user.gid)).map_err(failed("give away", path)),
            None => Ok(()),
        }
    }

    /// Copies skills without write permission for anybody.
    fn copy_skills(&self, skills: &[Skill]) -> Result<(), WorkspaceError> {
        if skills.is_empty() {
            return Ok(());
        }
        let (agents, to) = (self.paths.root.join(AGENTS_DIR), self.paths.root.join(SKILLS_DIR));
        DirBuilder::new().mode(0o700).create(&agents).map_err(failed("create", &agents))?;
        fs::set_permissions(&agents, Permissions::from_mode(0o755)).map_err(failed("set the mode of", &agents))?;
        let link = self.paths.work.join(".agents");
        symlink(Path::new("..").join(AGENTS_DIR), &link).map_err(failed("create", &link))?;
        self.own(&link)?;
        DirBuilder::new().mode(0o700).create(&to).map_err(failed("create", &to))?;
        let mut dirs = vec![to.clone()];
        for skill in skills {
            for file in skill.files()? {
                let (from, to) = (skill.dir.join(&file.path), to.join(&skill.name).join(&file.path));
                if file.is_dir {
                    DirBuilder::new().mode(0o700).create(&to).map_err(failed("create", &to))?;
                    dirs.push(to);
                } else {
                    fs::copy(&from, &to).map_err(failed("copy", &from))?;
                    let mode = if file.executable { 0o555 } else { 0o444 };
                    fs::set_permissions(&to, Permissions::from_mode(mode)).map_err(failed("set the mode of", &to))?;
                }
            }
        }
        for dir in dirs {
            fs::set_permissions(&dir, Permissions::from_mode(0o555)).map_err(failed("set the mode of", &dir))?;
        }
        Ok(())
    }

    /// Writes files that are not there yet, owned by the child, and then lets the child in. To be called once, before
    /// the child is started.
    pub fn fill(&mut self, files: &[SessionFile]) -> Result<(), WorkspaceError> {
        if std::mem::replace(&mut self.filled, true) {
            return Err(WorkspaceError::Filled(self.paths.root.clone()));
        }
        for file in files {
            if !file.path.components().all(|c| matches!(c, Component::Normal(_))) {
                return Err(WorkspaceError::Path(file.path.clone()));
            }
            let mut dir = self.paths.root.clone();
            for part in file.path.parent().into_iter().flat_map(Path::components) {
                dir.push(part);
                if !dir.is_dir() {
                    DirBuilder::new().mode(0o700).create(&dir).map_err(failed("create", &dir))?;
                    self.own(&dir)?;
                }
            }
            let path = self.paths.root.join(&file.path);
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(file.mode).custom_flags(libc::O_NOFOLLOW);
            let mut handle = options.open(&path).map_err(failed("create", &path))?;
            handle.write_all(&file.contents).map_err(failed("write", &path))?;
            handle.set_permissions(Permissions::from_mode(file.mode)).map_err(failed("set the mode of", &path))?;
            self.own(&path)?;
        }
        let (root, mode) = (&self.paths.root, if self.user.is_some() { 0o711 } else { 0o700 });
        fs::set_permissions(root, Permissions::from_mode(mode)).map_err(failed("set the mode of", root))
    }

    /// Removes everything. To be called when no process of the session is left.
    pub fn remove(self) -> Result<(), WorkspaceError> {
        remove_tree(&self.paths.root)
    }

    /// Keeps it for somebody to look at, out of the sweep's way, and says where it is now. Of the files named those at
    /// its root are removed, because they may hold a token; all others are cleaned of the household's secrets.
    pub fn keep(self, without: &[SessionFile]) -> Result<PathBuf, WorkspaceError> {
        // Further down a path would lead through directories of the child.
        for file in without.iter().filter(|f| f.path.components().count() == 1) {
            let path = self.paths.root.join(&file.path);
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed("remove", &path)(e)),
                _ => {}
            }
        }
        let root = &self.paths.root;
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.kept).map_err(failed("create", &self.kept))?;
        let to = self.kept.join(root.file_name().unwrap_or_default());
        fs::rename(root, &to).map_err(failed("move", root))?;
        // What can't be cleaned is not kept.
        match clean_tree(&to) {
            Ok(()) => Ok(to),
            Err(e) => remove_tree(&to).and(Err(e)),
        }
    }
}

#[cfg(test)]
#[path = "workspace_tests.rs"]
mod tests;
