//! How urgent a message to a person is.

use serde::Deserialize;
use strum::{EnumString, IntoStaticStr};

/// In quiet hours only `high` is delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, IntoStaticStr, EnumString)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Priority {
    High,
    #[default]
    Medium,
    Low,
}

crate::named!(Priority);

impl Priority {
    /// Reads the name back; anything unknown is `medium`.
    pub fn from_name(name: &str) -> Self {
        name.parse().unwrap_or_default()
    }
}
