//! The kinds of memories.

use serde::{Deserialize, Serialize};

/// What kind of memory it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Something that was said or done.
    Episode,
    /// Something that is so.
    Fact,
    /// Something to keep to.
    Rule,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Episode, Self::Fact, Self::Rule];

    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Episode => "episode",
            Kind::Fact => "fact",
            Kind::Rule => "rule",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}
