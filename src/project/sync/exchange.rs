//! What an exchange works on: a developer's repository, its origin and this machine's name there.

use std::fs::File;
use std::path::{Path, PathBuf};

use base::Clock;
use jiff::Timestamp;

use super::{BRANCH, SyncError};
use crate::git::{Git, GitError};
use crate::place::ProjectPlace;

/// Where the branch is kept here, out of the way of the developer's own.
const PRIVATE: &str = "refs/butlerd/wt-memory";

/// The name of each identity's file.
const FILE: &str = "memories.json";

/// An exchange.
pub struct Exchange<'a> {
    pub place: &'a ProjectPlace,
    /// Git in the developer's repository.
    pub git: Git,
    /// Where notes are kept: `butlerd` in the repository's directory.
    pub directory: PathBuf,
    /// `<user>/<machine>`.
    pub identity: String,
    /// From where the repository is fetched, as the developer wrote it. It may hold a password.
    pub origin: String,
}

impl<'a> Exchange<'a> {
    pub fn of(place: &'a ProjectPlace) -> Result<Self, SyncError> {
        let path = || place.top.clone();
        let Some(common_dir) = &place.common_dir else { return Err(SyncError::NoRepository { path: path() }) };
        // Neither the developer's hooks nor a collection of garbage are for a branch that they never see.
        let git = Git::at(&place.top).set("core.hooksPath=/dev/null").set("gc.auto=0").set("maintenance.auto=false");
        let origin = match git.text(&["remote", "get-url", "origin"]) {
            Ok(origin) => origin,
            Err(error) if error.stderr().contains("No such remote") => {
                return Err(SyncError::NoOrigin { path: path() });
            }
            Err(error) => return Err(error.into()),
        };
        let identity = format!("{}/{}", user(&git), machine());
        Ok(Self { place, git, directory: common_dir.join("butlerd"), identity, origin })
    }

    /// The path of this machine's file on the branch.
    pub fn file(&self) -> String {
        format!("{}/{FILE}", self.identity)
    }

    /// Keeps others of this repository out until it is dropped.
    pub fn lock(&self) -> Result<File, SyncError> {
        let path = self.directory.join("sync.lock");
        let open = || {
            std::fs::create_dir_all(&self.directory)?;
            let file = File::options().create(true).truncate(false).write(true).open(&path)?;
            file.lock()?;
            Ok(file)
        };
        open().map_err(|source| SyncError::File { path: path.clone(), source })
    }

    /// Fetches the branch and returns its commit; `None`: there is no such branch.
    pub fn fetch(&self) -> Result<Option<String>, SyncError> {
        let refspec = format!("+refs/heads/{BRANCH}:{PRIVATE}");
        let mut arguments = vec!["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"];
        // Nothing else of the developer's changes, not what they know of origin's branches either.
        arguments.extend(["--no-prune", "--refmap="]);
        let tip = format!("--negotiation-tip={PRIVATE}");
        if commit_at(&self.git, PRIVATE)?.is_some() {
            // Their own commits have nothing in common with the branch, so the server need not hear of them.
            arguments.push(&tip);
        }
        arguments.extend(["origin", &refspec]);
        match self.git.text(&arguments) {
            Ok(_) => commit_at(&self.git, PRIVATE),
            Err(error) if is_missing_branch(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What was fetched last.
    pub fn fetched(&self) -> Result<Option<String>, SyncError> {
        commit_at(&self.git, PRIVATE)
    }

    /// Whose memories are there in a commit of the branch, by name.
    pub fn sources(&self, commit: &str) -> Result<Vec<String>, SyncError> {
        let listed = self.git.text(&["ls-tree", "-r", "-z", "-l", "--full-tree", commit])?;
        let identity = |entry: &str| {
            let (about, path) = entry.split_once('\t')?;
            let mut about = about.split_ascii_whitespace();
            let (mode, size) = (about.next()?, about.nth(2)?.parse::<usize>().ok()?);
            let identity = path.strip_suffix(FILE)?.strip_suffix('/')?;
            let is_file = mode == "100644" && size <= LONGEST_FILE;
            (is_file && identity.split('/').count() == 2 && identity.split('/').all(is_name))
                .then(|| identity.to_owned())
        };
        let mut sources: Vec<String> = listed.split('\0').filter_map(identity).collect();
        sources.sort_unstable();
        Ok(sources)
    }

    /// The text of an identity's file in a commit of the branch.
    pub fn read(&self, commit: &str, identity: &str) -> Result<String, SyncError> {
        let bytes = self.git.bytes(&["show", &format!("{commit}:{identity}/{FILE}")], &[])?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The longest file of memories that is read.
const LONGEST_FILE: usize = 64 << 20;

/// Whether it may be a part of an identity. Whoever can push may name files as they like; such a name is printed.
fn is_name(part: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
    !part.is_empty() && !part.starts_with(['.', '-']) && part.chars().all(is_fine)
}

/// The commit that a name of a repository stands for.
pub fn commit_at(git: &Git, name: &str) -> Result<Option<String>, SyncError> {
    match git.text(&["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")]) {
        Ok(commit) => Ok(Some(commit)),
        Err(GitError::Failed { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether a fetch failed only because nobody has pushed the branch yet.
pub fn is_missing_branch(error: &GitError) -> bool {
    error.stderr().contains("couldn't find remote ref")
}

/// The present, to the second.
pub fn now() -> String {
    let now = Clock::default().now();
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

fn user(git: &Git) -> String {
    let of_git = git.text(&["config", "--get", "user.name"]).unwrap_or_default();
    let of_system = || std::env::var("USER").unwrap_or_default();
    [of_git, of_system()].iter().map(|name| plain(name)).find(|name| !name.is_empty()).unwrap_or("unknown".to_owned())
}

fn machine() -> String {
    let name = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let short = plain(name.split('.').next().unwrap_or_default());
    if short.is_empty() { "unknown".to_owned() } else { short }
}

/// A name as part of a path: `Ada Lovelace` is `ada-lovelace`.
fn plain(name: &str) -> String {
    let name = name.trim().to_lowercase().replace(' ', "-");
    name.chars().filter(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-').collect()
}

/// The directory of a repository as git is to be told it.
pub fn as_argument(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn names_become_parts_of_a_path() {
        assert_eq!(plain(" Ada B. Lovelace "), "ada-b-lovelace");
        assert_eq!(plain("../x/.git"), "xgit");
        assert_eq!(plain("表"), "");
    }
}
