//! Running git as the developer: with their settings and credentials, never waiting for a person at a terminal.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// So long a run of git may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Variables that say which repository git works on. Somebody else's hook may have set them for another one.
const ELSEWHERE: [&str; 9] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_PREFIX",
    "GIT_NAMESPACE",
    "GIT_SHALLOW_FILE",
];

/// Why git did not do it. `command` is git's own, such as `fetch`, without its arguments, which may hold secrets.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git can't be started: {0}")]
    Start(std::io::Error),
    #[error("git {command} can't be followed: {source}")]
    Follow { command: String, source: std::io::Error },
    #[error("git {command} failed: {stderr}")]
    Failed { command: String, stderr: String },
    #[error("git {command} took longer than {} seconds and was ended", .limit.as_secs())]
    TooLong { command: String, limit: Duration },
}

impl GitError {
    /// What git said, if it ran and failed.
    pub fn stderr(&self) -> &str {
        match self {
            Self::Failed { stderr, .. } => stderr,
            _ => "",
        }
    }
}

/// Git in a directory.
#[derive(Clone, Debug)]
pub struct Git {
    directory: PathBuf,
    repository: Option<PathBuf>,
    variables: Vec<(&'static str, OsString)>,
    settings: Vec<&'static str>,
    limit: Duration,
}

impl Git {
    /// Git in this directory, of whichever repository it belongs to.
    pub fn at(directory: &Path) -> Self {
        let (variables, settings) = (Vec::new(), Vec::new());
        Self { directory: directory.to_owned(), repository: None, variables, settings, limit: LIMIT }
    }

    /// Works on this repository, wherever the directory belongs to.
    pub fn on(mut self, repository: &Path) -> Self {
        self.repository = Some(repository.to_owned());
        self
    }

    pub fn with(mut self, variable: &'static str, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((variable, value.as_ref().to_owned()));
        self
    }

    /// Lets a setting, such as `core.hooksPath=/dev/null`, stand over what the developer has.
    pub fn set(mut self, setting: &'static str) -> Self {
        self.settings.push(setting);
        self
    }

    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs git and returns what it printed, without white space at the end.
    pub fn text(&self, arguments: &[&str]) -> Result<String, GitError> {
        let printed = self.bytes(arguments, &[])?;
        Ok(String::from_utf8_lossy(&printed).trim_end().to_owned())
    }

    /// Runs git, gives it `input` to read, and returns all that it printed.
    pub fn bytes(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, GitError> {
        let command = name_of(arguments);
        let mut child = self.command(arguments).spawn().map_err(GitError::Start)?;
        let follow = |source| GitError::Follow { command: command.clone(), source };
        let ended = Ended::of(&mut child, input, self.limit).map_err(follow)?;
        let Some((status, stdout, stderr)) = ended.0 else {
            return Err(GitError::TooLong { command, limit: self.limit });
        };
        if status.success() {
            return Ok(stdout);
        }
        let stderr = without_logins(String::from_utf8_lossy(&stderr).trim());
        Err(GitError::Failed { command, stderr: if stderr.is_empty() { status.to_string() } else { stderr } })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        if let Some(repository) = &self.repository {
            command.arg("--git-dir").arg(repository);
        }
        // A directory that was fetched and looks like a repository is none: its settings would name programs to run.
        command.args(["-c", "safe.bareRepository=explicit"]);
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        command.args(arguments).current_dir(&self.directory);
        for name in ELSEWHERE {
            command.env_remove(name);
        }
        command.env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, so that what git started (ssh, a helper) ends with it.
        command.process_group(0);
        command
    }
}

/// How a run ended; `None`: it took too long.
struct Ended(Option<(ExitStatus, Vec<u8>, Vec<u8>)>);

impl Ended {
    fn of(child: &mut Child, input: &[u8], limit: Duration) -> std::io::Result<Self> {
        let until = Instant::now() + limit;
        if let Some(mut pipe) = child.stdin.take()
            && !input.is_empty()
        {
            let input = input.to_owned();
            // Who does not read it all ends; that it did not is told by its exit code.
            std::thread::spawn(move || drop(pipe.write_all(&input)));
        }
        let (stdout, stderr) = (child.stdout.take().map(collect), child.stderr.take().map(collect));
        let of = |what: Option<Receiver<Vec<u8>>>| {
            let what = what?;
            what.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
        };
        let (Some(stdout), Some(stderr)) = (of(stdout), of(stderr)) else {
            end(child)?;
            return Ok(Self(None));
        };
        // Both ends are closed, so it ends now.
        Ok(Self(Some((child.wait()?, stdout, stderr))))
    }
}

/// Reads to the end beside the others, so that no pipe is ever full.
fn collect(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (done, receiver) = channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        // What was read until then is what there is.
        drop(pipe.read_to_end(&mut text));
        drop(done.send(text));
    });
    receiver
}

fn end(child: &mut Child) -> std::io::Result<()> {
    use nix::sys::signal::{Signal, killpg};
    use nix::unistd::Pid;
    if let Ok(group) = i32::try_from(child.id()) {
        // The group is gone where all of it ended by itself.
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    child.wait().map(drop)
}

/// Git's own command among the arguments.
fn name_of(arguments: &[&str]) -> String {
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match *argument {
            // Its value follows.
            "-c" | "-C" => {
                rest.next();
            }
            option if option.starts_with('-') => {}
            command => return command.to_owned(),
        }
    }
    String::new()
}

/// A text without what stands between `://` and `@` of its URLs.
fn without_logins(text: &str) -> String {
    let mut clean = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, url) = rest.split_at(at + 3);
        clean.push_str(before);
        let host = url.find(|c: char| c == '/' || c.is_whitespace() || c == '\'').unwrap_or(url.len());
        rest = url[..host].rfind('@').map_or(url, |login| &url[login + 1..]);
    }
    clean + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_prints_and_says_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let git = Git::at(dir.path());
        git.text(&["init", "-q"]).unwrap();
        let id = git.bytes(&["hash-object", "-w", "--stdin"], &vec![b'x'; 1 << 20]).unwrap();
        let id = String::from_utf8(id).unwrap();
        assert_eq!(git.bytes(&["cat-file", "blob", id.trim()], &[]).unwrap().len(), 1 << 20);
        let error = git.text(&["-c", "a.b=secret", "cat-file", "blob", "HEAD:x"]).unwrap_err();
        assert!(error.to_string().starts_with("git cat-file failed: fatal: "), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[test]
    fn what_hangs_is_ended_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let git = Git::at(dir.path()).within(Duration::from_millis(300));
        let before = Instant::now();
        let error = git.text(&["-c", "alias.hang=!sleep 60 & sleep 60", "hang"]).unwrap_err();
        assert!(matches!(&error, GitError::TooLong { command, .. } if command == "hang"), "{error}");
        assert!(before.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn logins_are_left_out_of_what_git_said() {
        let said = "fatal: unable to access 'https://ada:pw@example.org/x.git/': no; see ssh://git@h:22/y and a@b";
        let want = "fatal: unable to access 'https://example.org/x.git/': no; see ssh://h:22/y and a@b";
        assert_eq!(without_logins(said), want);
    }

    #[test]
    fn another_repository_in_the_environment_is_passed_over() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        Git::at(dir.path()).text(&["init", "-q"]).unwrap();
        let command = Git::at(dir.path()).with("GIT_CEILING_DIRECTORIES", other.path()).command(&["status"]);
        let removed: Vec<_> = command.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        assert!(
            removed.contains(&OsStr::new("GIT_DIR")) && removed.contains(&OsStr::new("GIT_INDEX_FILE")),
            "{removed:?}"
        );
    }
}
