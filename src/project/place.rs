//! Which project a directory belongs to.
//!
//! It is read from the repository's files where that is possible: a hook has ten milliseconds, and each run of git takes
//! three. Only the first commit is asked of git, once, and kept beside the repository.

mod cache;
mod config;
pub(crate) mod file;
mod origin;
mod repository;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use uuid::Uuid;

use self::cache::Cache;
pub use self::origin::normal_origin;
use self::repository::Repository;
use crate::wire::{GLOBAL, Identity};

/// A developer's directory and its project.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProjectPlace {
    /// The top of the working tree; the directory itself where there is no repository.
    pub top: PathBuf,
    /// The directory of the repository that all of its worktrees share; none: no repository.
    pub common_dir: Option<PathBuf>,
    pub identity: Identity,
    /// The branch that is checked out; none where there is none.
    pub branch: Option<String>,
}

/// Why it can't be said.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error("{path} can't be read: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path} can't be written: {source}")]
    Write { path: PathBuf, source: std::io::Error },
    #[error("{path} says that the repository is at {target}, and there is none")]
    NoRepository { path: PathBuf, target: PathBuf },
}

impl ProjectPlace {
    /// The project of a directory. `named` stands for the name that people call it, where somebody says so
    /// (`--project`).
    ///
    /// The first time in a repository this asks git for the first commit and keeps the answer beside the repository.
    pub fn of(directory: &Path, named: Option<&str>) -> Result<Self, PlaceError> {
        let fail = |source| PlaceError::Read { path: directory.to_owned(), source };
        let directory = directory.canonicalize().map_err(fail)?;
        let repository = Repository::around(&directory)?;
        let identity = match (named, &repository) {
            (Some(name), _) => Identity { name: name.to_owned(), ..Identity::default() },
            (None, Some(repository)) => identity(repository)?,
            (None, None) => Identity { name: GLOBAL.to_owned(), ..Identity::default() },
        };
        let branch = repository.as_ref().and_then(Repository::branch);
        let (top, common_dir) = repository.map_or((directory, None), |found| (found.top, Some(found.common_dir)));
        Ok(Self { top, common_dir, identity, branch })
    }

    /// Keeps what the daemon said which project this is, so that a rewritten history does not change it. Does nothing
    /// for a project that was named or lies in no repository.
    ///
    /// Costs a look at a file; once a day, and where the daemon says something new, also a run of git for the first
    /// commit, which somebody may have rewritten.
    pub fn keep(&self, project: Uuid) -> Result<(), PlaceError> {
        let (Some(common_dir), Some(_)) = (&self.common_dir, &self.identity.directory) else { return Ok(()) };
        let origin = &self.identity.origin;
        let known = Cache::read(common_dir).filter(|cache| cache.id == Some(project) && cache.origin == *origin);
        if known.is_some() && Cache::is_of_today(common_dir) {
            return Ok(());
        }
        let root_commit = repository::root_commit(&self.top, common_dir);
        // Git may be away or too slow just now; that is no reason to forget.
        let root_commit = root_commit.or_else(|| self.identity.root_commit.clone());
        Cache { root_commit, origin: origin.clone(), id: Some(project) }.write(common_dir)
    }

    /// Whether somebody named the project, so that it has nothing to do with the repository around it.
    pub(crate) fn is_named(&self) -> bool {
        self.common_dir.is_some() && self.identity.directory.is_none()
    }
}

fn identity(repository: &Repository) -> Result<Identity, PlaceError> {
    let common_dir = &repository.common_dir;
    let origin = repository.origin_url()?.and_then(|url| normal_origin(&url));
    let cached = Cache::read(common_dir);
    let complete =
        |cache: &&Cache| cache.origin == origin && (cache.root_commit.is_some() || repository::is_shallow(common_dir));
    let cache = match cached.as_ref().filter(complete) {
        Some(cache) => cache.clone(),
        None => {
            let fresh = Cache::anew(cached.as_ref(), repository::root_commit(&repository.top, common_dir), origin);
            if fresh.root_commit.is_some() {
                // It is asked again next time where it can't be kept.
                drop(fresh.write(common_dir));
            }
            fresh
        }
    };
    Ok(Identity {
        id: cache.id,
        root_commit: cache.root_commit,
        origin: cache.origin,
        name: repository.name(),
        directory: Some(common_dir.to_string_lossy().into_owned()),
    })
}
