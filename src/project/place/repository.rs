//! Where a repository lies and what its files say.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::PlaceError;
use super::config::OriginSetting;
use crate::git::Git;

/// What stands in `HEAD` where branches are not kept as files.
const NOT_IN_FILES: &str = ".invalid";

/// A repository, seen from one of its working trees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Repository {
    /// The top of the working tree; the directory of the repository where it has none.
    pub top: PathBuf,
    /// What belongs to this working tree.
    git_dir: PathBuf,
    /// What all of its worktrees share.
    pub common_dir: PathBuf,
}

impl Repository {
    /// The repository that a directory, which is canonical, belongs to: the nearest one. A submodule is one of its own.
    ///
    /// A bare one counts only where no working tree is around it: what lies in a tree was fetched with it, and may only
    /// look like a repository.
    pub fn around(directory: &Path) -> Result<Option<Self>, PlaceError> {
        let mut bare = None;
        for top in directory.ancestors() {
            let entry = top.join(".git");
            match fs::metadata(&entry) {
                Ok(found) if found.is_dir() && is_repository(&entry) => return Self::at(top, &entry).map(Some),
                Ok(found) if found.is_file() => {
                    let target = target_of(&entry)?;
                    if !is_repository(&target) {
                        return Err(PlaceError::NoRepository { path: entry, target });
                    }
                    return Self::at(top, &target).map(Some);
                }
                Ok(_) => {}
                Err(source) if source.kind() == ErrorKind::PermissionDenied => return Err(unread(&entry)(source)),
                Err(_) => {}
            }
            // A bare one, or the inside of one.
            if bare.is_none() && is_repository(top) {
                bare = Some(top);
            }
        }
        bare.map(|top| Self::at(top, top)).transpose()
    }

    fn at(top: &Path, git_dir: &Path) -> Result<Self, PlaceError> {
        let git_dir = git_dir.canonicalize().map_err(unread(git_dir))?;
        let common_dir = match fs::read_to_string(git_dir.join("commondir")) {
            Ok(path) => {
                let path = git_dir.join(path.trim_end_matches(['\n', '\r']));
                path.canonicalize().map_err(unread(&path))?
            }
            Err(_) => git_dir.clone(),
        };
        Ok(Self { top: top.to_owned(), git_dir, common_dir })
    }

    /// What people call it: the name of the directory that it was cloned to, in each of its worktrees.
    pub fn name(&self) -> String {
        let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let common = name(&self.common_dir).unwrap_or_default();
        let above = || self.common_dir.parent().and_then(name);
        let found = if common == ".git" {
            above()
        } else if self.git_dir == self.common_dir && self.top != self.common_dir {
            // A submodule, or a repository that lies elsewhere.
            name(&self.top)
        } else if common.starts_with('.') {
            above()
        } else {
            Some(common.strip_suffix(".git").unwrap_or(&common).to_owned())
        };
        found.filter(|name| !name.is_empty()).unwrap_or_else(|| "root".to_owned())
    }

    /// The branch that is checked out, with or without a commit.
    pub fn branch(&self) -> Option<String> {
        let head = fs::read_to_string(self.git_dir.join("HEAD")).ok()?;
        let branch = head.strip_prefix("ref:")?.trim().strip_prefix("refs/heads/")?;
        if branch != NOT_IN_FILES {
            return Some(branch.to_owned());
        }
        let said = Git::at(&self.top).text(&["branch", "--show-current"]).ok()?;
        Some(said).filter(|said| !said.is_empty())
    }

    /// From where it is fetched, as its settings have it.
    pub fn origin_url(&self) -> Result<Option<String>, PlaceError> {
        let path = self.common_dir.join("config");
        let text = match fs::read(&path) {
            Ok(text) => String::from_utf8_lossy(&text).into_owned(),
            Err(source) if source.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(unread(&path)(source)),
        };
        let found = OriginSetting::read(&text);
        if found.url.is_some() || !found.has_includes {
            return Ok(found.url);
        }
        // It may stand in an included file; git knows which count.
        let said = Git::at(&self.top).text(&["config", "--get-all", "remote.origin.url"]).ok();
        Ok(said.and_then(|said| said.lines().next().map(str::to_owned)))
    }
}

/// Where a file `.git` says that the repository is.
fn target_of(entry: &Path) -> Result<PathBuf, PlaceError> {
    let text = fs::read_to_string(entry).map_err(unread(entry))?;
    let target = text.strip_prefix("gitdir:").unwrap_or_default().trim_start().trim_end_matches(['\n', '\r']);
    Ok(entry.parent().unwrap_or(entry).join(target))
}

/// Whether a directory is a repository's, or what belongs to one of its worktrees.
fn is_repository(path: &Path) -> bool {
    let is_there = |name: &str| path.join(name).symlink_metadata().is_ok();
    is_there("HEAD") && (is_there("commondir") || (path.join("objects").is_dir() && path.join("refs").is_dir()))
}

/// Whether its history was cut when it was fetched.
pub fn is_shallow(common_dir: &Path) -> bool {
    fs::metadata(common_dir.join("shallow")).is_ok_and(|file| file.len() > 0)
}

/// The first commit; of several, the smallest. None without commits, and where history was cut: what is first there is
/// so by chance.
pub fn root_commit(top: &Path, common_dir: &Path) -> Option<String> {
    if is_shallow(common_dir) {
        return None;
    }
    let git = Git::at(top).with("GIT_NO_REPLACE_OBJECTS", "1");
    // Git takes a bare one only from somebody who names it.
    let git = if top == common_dir { git.on(common_dir) } else { git };
    let roots = git.text(&["rev-list", "--max-parents=0", "HEAD"]).ok()?;
    roots.lines().map(str::trim).filter(|root| !root.is_empty()).min().map(str::to_owned)
}

fn unread(path: &Path) -> impl Fn(std::io::Error) -> PlaceError + use<> {
    let path = path.to_owned();
    move |source| PlaceError::Read { path: path.clone(), source }
}
