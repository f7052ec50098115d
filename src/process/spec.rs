//! What a child is to be.

use std::fmt;
use std::path::PathBuf;

use nix::unistd::{Uid, User};

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
    /// A regular file that it reads as standard input; `None` is `/dev/null`.
    pub stdin: Option<PathBuf>,
    /// Whose mark it and its descendants carry.
    pub session: SessionId,
    pub output: OutputLimits,
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

/// An unprivileged user for children, without supplementary groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChildUser {
    pub uid: u32,
    pub gid: u32,
}

/// Where `nobody` is the one to avoid. No distribution gives this number to anybody.
const SPARE_ID: u32 = 65_533;

/// Why nobody suitable was found to run children as.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserError {
    #[error("spawner.child_user: there is no user `{0}` on this machine; create it, or leave the setting out")]
    Unknown(String),
    #[error("spawner.child_user: `{0}` is root, from whom children are to be kept apart; name an unprivileged user")]
    Root(String),
    #[error(
        "spawner.child_user: `{0}` is the user of the database, whose files children must not reach; name another user"
    )]
    Database(String),
    #[error(
        "spawner.child_user: only root can start children as `{0}`, and butlerd is not running as root; leave it out"
    )]
    NotRoot(String),
    #[error("spawner.child_user: cannot look up the user `{name}`: {reason}")]
    Lookup { name: String, reason: String },
}

impl ChildUser {
    /// Whom this process starts its children as: `None` (itself) unless it is root. As root the configured user (name
    /// or number), else `nobody`; never root, and never `avoid_uid`, the user of the database.
    pub fn choose(configured: Option<&str>, avoid_uid: Option<u32>) -> Result<Option<Self>, UserError> {
        Self::choose_as(Uid::effective().as_raw(), configured, avoid_uid)
    }

    pub(super) fn choose_as(
        own_uid: u32,
        configured: Option<&str>,
        avoid_uid: Option<u32>,
    ) -> Result<Option<Self>, UserError> {
        let Some(name) = configured else {
            if own_uid != 0 {
                return Ok(None);
            }
            let nobody = lookup("nobody")?.unwrap_or(Self { uid: 65_534, gid: 65_534 });
            let usable = nobody.uid != 0 && Some(nobody.uid) != avoid_uid;
            return Ok(Some(if usable { nobody } else { Self { uid: SPARE_ID, gid: SPARE_ID } }));
        };
        let user = lookup(name)?.ok_or_else(|| UserError::Unknown(name.to_owned()))?;
        if own_uid != 0 {
            return if user.uid == own_uid { Ok(None) } else { Err(UserError::NotRoot(name.to_owned())) };
        }
        match user.uid {
            0 => Err(UserError::Root(name.to_owned())),
            uid if Some(uid) == avoid_uid => Err(UserError::Database(name.to_owned())),
            _ => Ok(Some(user)),
        }
    }
}

/// By name, else by number. A number needs no entry in the user database; its group has the same number then.
fn lookup(name: &str) -> Result<Option<ChildUser>, UserError> {
    let failed = |e: nix::Error| UserError::Lookup { name: name.to_owned(), reason: e.to_string() };
    let entry = |u: User| ChildUser { uid: u.uid.as_raw(), gid: u.gid.as_raw() };
    if let Some(user) = User::from_name(name).map_err(failed)? {
        return Ok(Some(entry(user)));
    }
    let Ok(uid) = name.parse::<u32>() else { return Ok(None) };
    let user = User::from_uid(Uid::from_raw(uid)).map_err(failed)?;
    Ok(Some(user.map_or(ChildUser { uid, gid: uid }, entry)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_never_root_nor_the_database_s_user() {
        assert_eq!(ChildUser::choose_as(1000, None, None), Ok(None));
        let nobody = ChildUser::choose_as(0, None, None).unwrap().unwrap();
        assert_ne!(nobody.uid, 0);
        assert_eq!(ChildUser::choose_as(0, None, Some(nobody.uid)).unwrap().unwrap().uid, SPARE_ID);
        assert_eq!(ChildUser::choose_as(0, Some("54321"), None), Ok(Some(ChildUser { uid: 54321, gid: 54321 })));
        assert_eq!(ChildUser::choose_as(0, Some("54321"), Some(54321)), Err(UserError::Database("54321".into())));
        assert_eq!(ChildUser::choose_as(0, Some("root"), None), Err(UserError::Root("root".into())));
        assert_eq!(ChildUser::choose_as(0, Some("no-such-user"), None), Err(UserError::Unknown("no-such-user".into())));
        assert_eq!(ChildUser::choose_as(1000, Some("1000"), None), Ok(None));
        assert_eq!(ChildUser::choose_as(1000, Some("54321"), None), Err(UserError::NotRoot("54321".into())));
    }

    #[test]
    fn a_spec_shows_no_value_of_the_environment() {
        let spec = ChildSpec {
            program: "/bin/sh".into(),
            args: vec![],
            env: vec![("KEY".into(), "sk-hidden".into())],
            cwd: "/".into(),
            user: None,
            limits: Rlimits::default(),
            sandbox: None,
            stdin: None,
            session: SessionId::new(),
            output: OutputLimits::default(),
        };
        let shown = format!("{spec:?}");
        assert!(shown.contains("KEY") && !shown.contains("sk-hidden"), "{shown}");
    }
}
