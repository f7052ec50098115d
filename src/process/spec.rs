//! What a child is to be.

use std::fmt;
use std::path::PathBuf;

use base::SessionId;

use super::{OutputLimits, Rlimits, Sandbox};

/// Everything about a child. Nothing else of the daemon reaches it: no variable, no descriptor, no signal disposition.
#[derive(Clone)]
pub struct ChildSpec {
    /// Absolute; `/proc/self/exe` is the daemon's own binary.
    pub program: PathBuf,
    pub args: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    pub cwd: PathBuf,
    /// Who it runs as; `None` is the daemon's own user.
    pub user: Option<ChildUser>,
    pub limits: Rlimits,
    /// What it may reach; `None`: whatever its user may.
    pub sandbox: Option<Sandbox>,
    pub stdin: Stdin,
    /// Whose mark it and its descendants carry.
    pub session: SessionId,
    pub output: OutputLimits,
}

impl ChildSpec {
    /// A child at `/` as the daemon's own user, with no sandbox, limits or input, for a session of its own.
    pub fn new(program: impl Into<PathBuf>, args: Vec<String>, env: Vec<(String, String)>) -> Self {
        Self {
            program: program.into(),
            args,
            env,
            cwd: "/".into(),
            user: None,
            limits: Rlimits::default(),
            sandbox: None,
            stdin: Stdin::Nothing,
            session: SessionId::new(),
            output: OutputLimits::default(),
        }
    }
}

impl fmt::Debug for ChildSpec {
    /// Of the environment only the names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ChildSpec")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env", &names)
            .field("cwd", &self.cwd)
            .field("user", &self.user)
            .field("limits", &self.limits)
            .field("sandbox", &self.sandbox)
            .field("stdin", &self.stdin)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

/// What a child reads as standard input.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Stdin {
    /// `/dev/null`.
    #[default]
    Nothing,
    /// A regular file.
    File(PathBuf),
    /// What the daemon writes to [`super::Child::stdin`].
    Pipe,
}

/// An unprivileged user for children, without supplementary groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChildUser {
    pub uid: u32,
    pub gid: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_shows_no_value_of_the_environment() {
        let spec = ChildSpec::new("/bin/sh", vec![], vec![("KEY".into(), "sk-hidden".into())]);
        let shown = format!("{spec:?}");
        assert!(shown.contains("KEY") && !shown.contains("sk-hidden"), "{shown}");
    }
}
