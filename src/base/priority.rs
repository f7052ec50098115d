//! How urgent a message to a person is.

use serde::Deserialize;

/// In quiet hours only `high` is delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    High,
    #[default]
    Medium,
    Low,
}

impl Priority {
    /// The name under which rows and tools carry it.
    pub fn as_str(self) -> &'static str {
        match self {
            Priority::High => "high",
            Priority::Medium => "medium",
            Priority::Low => "low",
        }
    }

    /// Reads the name back; anything unknown is `medium`.
    pub fn from_name(name: &str) -> Self {
        match name {
            "high" => Priority::High,
            "low" => Priority::Low,
            _ => Priority::Medium,
        }
    }
}
