//! A repository that is there for one push. It holds the newest commit of the branch and nothing is ever checked out of
//! it, so the developer's own repository and working tree stay as they are.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::exchange::{Exchange, as_argument, commit_at, is_missing_branch};
use super::{BRANCH, SyncError};
use crate::git::Git;

/// What git says when somebody else's push came first.
const OVERTAKEN: [&str; 8] = [
    "non-fast-forward",
    "fetch first",
    "cannot lock ref",
    "failed to update ref",
    "incorrect old value",
    "reference already exists",
    "stale info",
    "needs force",
];

/// What became of a push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pushed {
    Through,
    /// Somebody else's came first.
    Overtaken,
}

/// The repository. Dropping it removes it.
pub struct Temporary {
    path: PathBuf,
    git: Git,
}

impl Temporary {
    /// Makes it. The caller holds the exchange's lock, so one that is there was left by a process that is gone.
    pub fn new(exchange: &Exchange) -> Result<Self, SyncError> {
        // It lies in the developer's, so settings that they make for repositories in some directory hold here as well.
        let path = exchange.directory.join("sync.git");
        let fail = |source| SyncError::File { path: path.clone(), source };
        remove(&path).map_err(fail)?;
        let repository = as_argument(&path);
        let mut arguments = vec!["init", "--quiet", "--bare", "--template="];
        // A git that does not know of formats has only one.
        let format = exchange.git.text(&["rev-parse", "--show-object-format"]);
        let format = format.ok().filter(|name| name != "sha1").map(|name| format!("--object-format={name}"));
        arguments.extend(format.as_deref());
        arguments.push(&repository);
        // From here on a failure removes what there is.
        let git = exchange.git.clone().on(&path).set("push.gpgSign=false");
        let made = Self { git, path: path.clone() };
        Git::at(&exchange.place.top).text(&arguments)?;
        let settings = exchange.git.text(&["config", "--local", "--includes", "-z", "--list"])?;
        add_settings(&path.join("config"), &settings).map_err(fail)?;
        Ok(made)
    }

    /// Fetches the branch's newest commit; `None`: there is no such branch.
    pub fn fetch(&self) -> Result<Option<String>, SyncError> {
        let name = format!("refs/heads/{BRANCH}");
        let refspec = format!("+{name}:{name}");
        let options = ["--quiet", "--no-tags", "--depth=1", "--no-write-fetch-head", "--no-recurse-submodules"];
        match self.git.text(&[&["fetch"][..], &options, &["origin", &refspec]].concat()) {
            Ok(_) => commit_at(&self.git, &name),
            Err(error) if is_missing_branch(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The text of a file of a commit; `None`: there is no such file.
    pub fn read(&self, commit: &str, file: &str) -> Result<Option<String>, SyncError> {
        if self.git.text(&["ls-tree", "--full-tree", commit, "--", file])?.is_empty() {
            return Ok(None);
        }
        let bytes = self.git.bytes(&["cat-file", "blob", &format!("{commit}:{file}")], &[])?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Makes a commit in which a file has this text and all others are as in `above`; the first one without.
    pub fn commit(
        &self,
        above: Option<&str>,
        file: &str,
        text: &str,
        message: &str,
        exchange: &Exchange,
    ) -> Result<String, SyncError> {
        self.git.text(&["read-tree", above.unwrap_or("--empty")])?;
        let blob = self.git.bytes(&["hash-object", "-w", "--stdin"], text.as_bytes())?;
        let blob = String::from_utf8_lossy(&blob).trim().to_owned();
        self.git.text(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},{file}")])?;
        let tree = self.git.text(&["write-tree"])?;
        let mut arguments = vec!["commit-tree", "--no-gpg-sign", &tree, "-m", message];
        if let Some(above) = above {
            arguments.extend(["-p", above]);
        }
        let of_developer = |setting| exchange.git.text(&["config", "--get", setting]).ok().filter(|s| !s.is_empty());
        let name = of_developer("user.name").unwrap_or_else(|| "wt-memory".to_owned());
        let email = of_developer("user.email").unwrap_or_else(|| "wt-memory@localhost".to_owned());
        let git = self.git.clone().with("GIT_AUTHOR_NAME", &name).with("GIT_AUTHOR_EMAIL", &email);
        let git = git.with("GIT_COMMITTER_NAME", &name).with("GIT_COMMITTER_EMAIL", &email);
        Ok(git.text(&arguments)?)
    }

    /// Pushes a commit as the branch. Never over what somebody else pushed.
    pub fn push(&self, commit: &str) -> Result<Pushed, SyncError> {
        let refspec = format!("{commit}:refs/heads/{BRANCH}");
        match self.git.text(&["push", "--quiet", "--no-verify", "--no-follow-tags", "origin", &refspec]) {
            Ok(_) => Ok(Pushed::Through),
            Err(error) if OVERTAKEN.iter().any(|said| error.stderr().contains(said)) => Ok(Pushed::Overtaken),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // The next exchange tries again.
        drop(remove(&self.path));
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Takes over what the developer's repository says of the way to origin, its credentials among it.
fn add_settings(config: &Path, listed: &str) -> io::Result<()> {
    let mut text = String::new();
    for setting in listed.split('\0') {
        let (key, value) = setting.split_once('\n').unwrap_or((setting, "true"));
        if let Some((section, name)) = key.rsplit_once('.')
            && is_about_the_way(section, name)
        {
            let (section, sub) = section.split_once('.').map_or((section, None), |(s, sub)| (s, Some(sub)));
            let sub = sub.map(|sub| format!(" \"{}\"", escaped(sub))).unwrap_or_default();
            let value = escaped(value).replace('\n', "\\n").replace('\t', "\\t");
            // Writing to a text does not fail.
            let _ = writeln!(text, "[{section}{sub}]\n\t{name} = \"{value}\"");
        }
    }
    // There may be a token in it.
    fs::set_permissions(config, Permissions::from_mode(0o600))?;
    OpenOptions::new().append(true).open(config)?.write_all(text.as_bytes())
}

fn is_about_the_way(section: &str, name: &str) -> bool {
    const OF_CORE: [&str; 3] = ["sshcommand", "askpass", "gitproxy"];
    const OF_ORIGIN: [&str; 8] =
        ["url", "pushurl", "proxy", "proxyauthmethod", "uploadpack", "receivepack", "vcs", "serveroption"];
    match section.split_once('.').map_or(section, |(section, _)| section) {
        "credential" | "http" | "url" | "ssh" | "protocol" => true,
        "core" => OF_CORE.contains(&name),
        "remote" => section == "remote.origin" && OF_ORIGIN.contains(&name),
        _ => false,
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
