//! A memory of a project as programs see it, in the shape that wt-memory's users know, and the file it travels in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What kind of memory it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum ExperienceType {
    /// What was decided, and why.
    Decision,
    /// What was found out: a pitfall, a fix, how something works.
    #[default]
    Learning,
    /// What is good to know besides.
    Context,
}

impl ExperienceType {
    pub const ALL: [Self; 3] = [Self::Decision, Self::Learning, Self::Context];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Decision => "Decision",
            Self::Learning => "Learning",
            Self::Context => "Context",
        }
    }

    /// A type by its name, in any case; and whether the name is an older one that is taken for it: `Observation` for
    /// learning, `Event` for context.
    pub fn read(name: &str) -> Option<(Self, bool)> {
        let known = Self::ALL.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(name));
        known.map(|known| (known, false)).or_else(|| match name.to_ascii_lowercase().as_str() {
            "observation" => Some((Self::Learning, true)),
            "event" => Some((Self::Context, true)),
            _ => None,
        })
    }
}

/// A memory.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    pub id: String,
    pub content: String,
    /// As [`ExperienceType`] names it; other programs' files have more.
    pub experience_type: String,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default)]
    pub entities: Vec<Value>,
    /// Values are texts in what this program writes.
    #[serde(default)]
    pub metadata: BTreeMap<String, Value>,
    /// 0 to 1.
    #[serde(default)]
    pub importance: f64,
    #[serde(default)]
    pub access_count: i64,
    /// RFC 3339.
    #[serde(default)]
    pub created_at: String,
    /// RFC 3339; when it was recalled last, or made.
    #[serde(default)]
    pub last_accessed: String,
    #[serde(default)]
    pub compressed: bool,
    #[serde(default)]
    pub is_failure: bool,
    #[serde(default)]
    pub is_anomaly: bool,
    /// What other programs' files have besides; it is read and not kept.
    #[serde(flatten, skip_serializing)]
    pub rest: BTreeMap<String, Value>,
}

/// The tag of what every session is told at its start.
pub const CHEAT_SHEET: &str = "cheat-sheet";

/// The value of `format` in an export.
pub const FORMAT: &str = "wt-memory-export";
/// The value of `version`.
pub const VERSION: u64 = 1;

/// A project's memories as a file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Export {
    pub version: u64,
    pub format: String,
    pub project: String,
    /// RFC 3339.
    pub exported_at: String,
    pub count: usize,
    pub records: Vec<Record>,
    /// Memories that were forgotten on purpose, so that they are forgotten wherever this file is read. Other programs
    /// pass over it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<String>,
}

/// Why a file is no export.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormatError {
    #[error("it is not valid JSON: {0}")]
    Json(String),
    #[error("its format is {0}, and {FORMAT:?} is expected")]
    Format(String),
    #[error("its version is {0}, and this program reads version {VERSION}")]
    Version(String),
    #[error("its records can't be read: {0}")]
    Records(String),
}

impl Export {
    /// Reads an export. Format and version are looked at before anything else.
    pub fn read(text: &str) -> Result<Self, FormatError> {
        let value: Value = serde_json::from_str(text).map_err(|e| FormatError::Json(e.to_string()))?;
        if value["format"] != FORMAT {
            return Err(FormatError::Format(value["format"].to_string()));
        }
        if value["version"] != VERSION {
            return Err(FormatError::Version(value["version"].to_string()));
        }
        serde_json::from_value(value).map_err(|e| FormatError::Records(e.to_string()))
    }
}
