//! Labels: how far something is believed, and who may learn it. `docs/security.md` has the rules that use them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use strum::{EnumString, IntoStaticStr};

use super::text::plain_identity;

/// How far the text behind a request is believed. It only falls along a lineage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[derive(IntoStaticStr, EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum Trust {
    /// Somebody whom nobody introduced.
    Stranger,
    /// A contact of the owner.
    Known,
    /// The daemon itself: schedules, housekeeping.
    System,
    /// The owner, through an identity of their own.
    Owner,
}

crate::named!(Trust);

impl Trust {
    /// Reads the name back; anything unknown is a stranger.
    pub fn from_name(s: &str) -> Self {
        s.parse().unwrap_or(Trust::Stranger)
    }
}

/// The name under which rows and envelopes carry [`Audience::Public`].
const PUBLIC: &str = "*";

/// Somebody outside of the household who can learn something: a person as a channel names them, or all members of a
/// group.
///
/// Written `channel:identity`, `channel?identity` where the identity is only claimed, or
/// `channel#LENGTH:endpoint:thread` for a group. A channel's name holds none of these marks, so that no two are written
/// alike.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Principal(String);

impl Principal {
    /// A person, by the identity that the channel gives them.
    pub fn person(channel: &str, identity: &str) -> Self {
        Self(format!("{channel}:{}", plain_identity(identity)))
    }

    /// Whoever writes under an identity that nobody has proven: not the person whose identity it is.
    pub fn claimed(channel: &str, identity: &str) -> Self {
        Self(format!("{channel}?{}", plain_identity(identity)))
    }

    /// All who read along in a group.
    pub fn group(channel: &str, endpoint: &str, thread: &str) -> Self {
        Self(format!("{channel}#{}:{endpoint}:{thread}", endpoint.len()))
    }

    /// As rows have it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who may learn something. The household always may.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Audience {
    /// The household alone.
    #[default]
    Household,
    /// The household and these: never empty.
    People(Arc<BTreeSet<Principal>>),
    /// Anybody: what the owner published, such as a butler's prompt files.
    Public,
}

impl Audience {
    /// The household and these.
    pub fn people(people: impl IntoIterator<Item = Principal>) -> Self {
        let people: BTreeSet<Principal> = people.into_iter().collect();
        if people.is_empty() { Self::Household } else { Self::People(Arc::new(people)) }
    }

    /// Who may learn what was made out of both: those who may learn each.
    #[must_use]
    pub fn join(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Public, one) | (one, Self::Public) => one.clone(),
            (Self::Household, _) | (_, Self::Household) => Self::Household,
            (Self::People(one), Self::People(other)) if one == other => self.clone(),
            (Self::People(one), Self::People(other)) => Self::people(one.intersection(other).cloned()),
        }
    }

    /// Whether this one may learn it.
    pub fn includes(&self, principal: &Principal) -> bool {
        match self {
            Self::Household => false,
            Self::People(people) => people.contains(principal),
            Self::Public => true,
        }
    }

    /// Whether all who may learn `other` may learn this.
    pub fn covers(&self, other: &Self) -> bool {
        self.join(other) == *other
    }

    /// As rows have it: no name is the household alone.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Household => Vec::new(),
            Self::People(people) => people.iter().map(Principal::as_str).collect(),
            Self::Public => vec![PUBLIC],
        }
    }

    /// Reads a row's names.
    pub fn from_names<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        if names.iter().any(|name| name == PUBLIC) {
            Self::Public
        } else {
            Self::people(names.into_iter().map(Principal))
        }
    }
}

impl Serialize for Audience {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
    }
}

impl<'de> Deserialize<'de> for Audience {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<String>::deserialize(deserializer).map(Self::from_names)
    }
}

/// How far something is believed, and who may learn it. Labels form a lattice: joining lowers trust and narrows
/// audiences.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// Of the least trusted of those who could have influenced it.
    pub trust: Trust,
    pub audience: Audience,
}

impl Label {
    /// What influences nothing and gives nothing away: joined with a label it is that label.
    pub const NOTHING: Self = Self { trust: Trust::Owner, audience: Audience::Public };

    /// What the household alone may learn.
    pub fn household(trust: Trust) -> Self {
        Self { trust, audience: Audience::Household }
    }

    /// The label of what was made out of both.
    #[must_use]
    pub fn join(&self, other: &Self) -> Self {
        Self { trust: self.trust.min(other.trust), audience: self.audience.join(&other.audience) }
    }

    /// Whether somebody besides the owner and the house could have influenced it.
    pub fn is_influenced(&self) -> bool {
        self.trust < Trust::System
    }
}

/// The join of all that something was shown so far.
#[derive(Debug)]
pub struct Seen(Mutex<Label>);

impl Default for Seen {
    fn default() -> Self {
        Self(Mutex::new(Label::NOTHING))
    }
}

impl Seen {
    fn lock(&self) -> std::sync::MutexGuard<'_, Label> {
        // A label is written whole, so a panic of another holder left a good one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something with this label was seen.
    pub fn observe(&self, label: &Label) {
        let mut seen = self.lock();
        *seen = seen.join(label);
    }

    /// [`Label::NOTHING`] while nothing was seen.
    pub fn label(&self) -> Label {
        self.lock().clone()
    }

    /// As if nothing had been seen.
    pub fn forget(&self) {
        *self.lock() = Label::NOTHING;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn people(names: &[&str]) -> Audience {
        Audience::people(names.iter().map(|name| Principal::person("email", name)))
    }

    #[test]
    fn joining_narrows_and_its_order_does_not_matter() {
        let all = [Audience::Public, Audience::Household, people(&["a"]), people(&["b"]), people(&["a", "b"])];
        for one in &all {
            for other in &all {
                let joined = one.join(other);
                assert_eq!(joined, other.join(one));
                assert!(one.covers(&joined) && other.covers(&joined), "{one:?} {other:?}");
                for third in &all {
                    assert_eq!(joined.join(third), one.join(&other.join(third)));
                }
            }
            assert_eq!(one.join(one), *one);
            assert_eq!(Audience::Public.join(one), *one);
            assert_eq!(Audience::Household.join(one), Audience::Household);
        }
        assert_eq!(people(&["a"]).join(&people(&["b"])), Audience::Household);
        assert_eq!(people(&["a", "b"]).join(&people(&["b"])), people(&["b"]));
    }

    #[test]
    fn names_come_back_as_they_were() {
        for audience in [Audience::Public, Audience::Household, people(&["Ada <A@x.org>", "b"])] {
            assert_eq!(Audience::from_names(audience.names()), audience);
            let json = serde_json::to_string(&audience).unwrap();
            assert_eq!(serde_json::from_str::<Audience>(&json).unwrap(), audience);
        }
        assert!(people(&["Ada <A@x.org>"]).includes(&Principal::person("email", "a@X.org")));
    }

    #[test]
    fn no_two_groups_are_written_alike() {
        let group = |endpoint, thread| Principal::group("telegram", endpoint, thread);
        assert_ne!(group("bot:1", "2"), group("bot", "1:2"));
        assert_ne!(group("", ":a"), Principal::person("telegram", "#0::a"));
    }
}
