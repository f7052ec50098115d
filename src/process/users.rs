//! Who a household's children run as, where the daemon is root.
//!
//! A user that other programs of the machine run as, as `nobody` is, reads a child's environment in `/proc`, and with
//! it the session's token. So each session has a user of its own, out of numbers that nothing else uses: no neighbour
//! and no other session shares it.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::unistd::{Uid, User};

use super::ChildUser;

/// Ranges of user numbers that distributions, systemd, containers and directory services leave alone (systemd's
/// UIDS-GIDS.md has the list). The second is for containers that have no higher numbers.
const RANGES: [Range; 2] = [Range { first: 2_000_300_000, size: 1 << 26 }, Range { first: 60_578, size: 606 }];

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
    #[error(
        "butlerd runs as root in a container that has no user numbers to give to children (it has neither {} nor {}); run \
         it as an unprivileged user, or set spawner.child_user to a user that nothing else runs as",
        RANGES[0], RANGES[1]
    )]
    NoNumbers,
}

/// User numbers in a row; the group of each has the same number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Range {
    first: u32,
    size: u32,
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {}", self.first, self.first + self.size - 1)
    }
}

/// The users of a household's children. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ChildUsers {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// The daemon's own: it is not root.
    Own,
    /// The configured one.
    One(ChildUser),
    /// Each session another one.
    Each { range: Range, taken: Arc<AtomicU32> },
}

impl ChildUsers {
    /// Whom this process starts its children as: itself unless it is root. As root the configured user (name or
    /// number), else one for each session; never root, and never `avoid_uid`, the user of the database.
    pub fn choose(configured: Option<&str>, avoid_uid: Option<u32>) -> Result<Self, UserError> {
        let map = |file: &str| std::fs::read_to_string(file).ok();
        let maps = [map("/proc/self/uid_map"), map("/proc/self/gid_map")];
        Self::choose_as(Uid::effective().as_raw(), configured, avoid_uid, &maps)
    }

    /// `maps`: which numbers this process's user namespace has, for users and for groups; without one, all.
    fn choose_as(
        own_uid: u32,
        configured: Option<&str>,
        avoid_uid: Option<u32>,
        maps: &[Option<String>],
    ) -> Result<Self, UserError> {
        let Some(name) = configured else {
            if own_uid != 0 {
                return Ok(Self { kind: Kind::Own });
            }
            let free = |range: &&Range| {
                let all = maps.iter().all(|map| map.as_ref().is_none_or(|map| range.is_mapped(map)));
                all && avoid_uid.is_none_or(|uid| !range.has(uid))
            };
            let range = *RANGES.iter().find(free).ok_or(UserError::NoNumbers)?;
            // Two households of one machine begin elsewhere.
            let begin = RandomState::new().hash_one(std::process::id()) as u32;
            return Ok(Self { kind: Kind::Each { range, taken: Arc::new(AtomicU32::new(begin)) } });
        };
        let user = lookup(name)?.ok_or_else(|| UserError::Unknown(name.to_owned()))?;
        if own_uid != 0 {
            let own = user.uid == own_uid;
            return if own { Ok(Self { kind: Kind::Own }) } else { Err(UserError::NotRoot(name.to_owned())) };
        }
        match user.uid {
            0 => Err(UserError::Root(name.to_owned())),
            uid if Some(uid) == avoid_uid => Err(UserError::Database(name.to_owned())),
            _ => Ok(Self { kind: Kind::One(user) }),
        }
    }

    /// The user of the next session's child; `None` is the daemon's own.
    pub fn next(&self) -> Option<ChildUser> {
        match &self.kind {
            Kind::Own => None,
            Kind::One(user) => Some(*user),
            Kind::Each { range, taken } => {
                let id = range.first + taken.fetch_add(1, Ordering::Relaxed) % range.size;
                Some(ChildUser { uid: id, gid: id })
            }
        }
    }

    /// Whether children run as the daemon's own user.
    pub fn is_own(&self) -> bool {
        matches!(self.kind, Kind::Own)
    }

    /// Whether each session has a user of its own.
    pub fn is_each(&self) -> bool {
        matches!(self.kind, Kind::Each { .. })
    }

    /// Who they are, for people: `user 54321`, or a range.
    pub fn shown(&self) -> String {
        match &self.kind {
            Kind::Own => "butlerd's own user".to_owned(),
            Kind::One(user) => match User::from_uid(Uid::from_raw(user.uid)) {
                Ok(Some(entry)) => entry.name,
                _ => format!("user {}", user.uid),
            },
            Kind::Each { range, .. } => format!("a user of each session's own ({range})"),
        }
    }
}

impl Range {
    fn has(&self, uid: u32) -> bool {
        (self.first..self.first + self.size).contains(&uid)
    }

    /// Whether a user namespace has all of these numbers: its lines are `first inside, first outside, how many`.
    fn is_mapped(&self, map: &str) -> bool {
        map.lines().any(|line| {
            let numbers: Vec<u64> = line.split_whitespace().filter_map(|n| n.parse().ok()).collect();
            let (first, end) = (u64::from(self.first), u64::from(self.first) + u64::from(self.size));
            matches!(numbers[..], [inside, _, count] if inside <= first && end <= inside + count)
        })
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

    fn choose(own: u32, configured: Option<&str>, avoid: Option<u32>) -> Result<Option<ChildUser>, UserError> {
        ChildUsers::choose_as(own, configured, avoid, &[]).map(|users| users.next())
    }

    #[test]
    fn children_are_never_root_nor_the_database_s_user() {
        assert_eq!(choose(1000, None, None), Ok(None));
        assert_eq!(choose(0, Some("54321"), None), Ok(Some(ChildUser { uid: 54321, gid: 54321 })));
        assert_eq!(choose(0, Some("54321"), Some(54321)), Err(UserError::Database("54321".into())));
        assert_eq!(choose(0, Some("root"), None), Err(UserError::Root("root".into())));
        assert_eq!(choose(0, Some("no-such-user"), None), Err(UserError::Unknown("no-such-user".into())));
        assert_eq!(choose(1000, Some("1000"), None), Ok(None));
        assert_eq!(choose(1000, Some("54321"), None), Err(UserError::NotRoot("54321".into())));
    }

    #[test]
    fn each_session_has_a_user_whom_nobody_else_is() {
        let users = ChildUsers::choose_as(0, None, None, &[]).unwrap();
        let mut seen: Vec<u32> = (0..600).map(|_| users.clone().next().unwrap().uid).collect();
        assert!(seen.iter().all(|uid| RANGES[0].has(*uid)), "{seen:?}");
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 600);
    }

    #[test]
    fn a_container_has_the_numbers_that_it_was_given() {
        let chosen = |map: &str, avoid: Option<u32>| {
            let maps = [Some(map.to_owned()), Some("0 0 4294967295\n".to_owned())];
            ChildUsers::choose_as(0, None, avoid, &maps).map(|users| users.next().unwrap().uid)
        };
        let in_second = |uid: Result<u32, UserError>| uid.is_ok_and(|uid| RANGES[1].has(uid));
        assert!(chosen("         0          0 4294967295\n", None).is_ok_and(|uid| RANGES[0].has(uid)));
        assert!(in_second(chosen("0 100000 65536\n", None)));
        assert!(in_second(chosen("0 0 4294967295\n", Some(RANGES[0].first))), "the database's user is in the first");
        assert_eq!(chosen("0 1000 1\n", None), Err(UserError::NoNumbers));
    }
}
