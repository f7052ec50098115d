//! A memory of a project as programs see it, in the shape that wt-memory's users know, and the file it travels in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What kind of memory it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, strum::IntoStaticStr)]
pub enum ExperienceType {
    /// What was decided, and why.
    Decision,
    /// What was found out: a pitfall, a fix, how something works.
    #[default]
    Learning,
    /// What is good to know besides.
    Context,
}

base::named!(ExperienceType);

impl ExperienceType {
    pub const ALL: [Self; 3] = [Self::Decision, Self::Learning, Self::Context];

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
    /// 0 to 1; in the middle where a file does not say it: the least would be taken for noise.
    #[serde(default = "middle")]
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

fn middle() -> f64 {
    0.5
}

/// The tag of what every session is told at its start.
pub const CHEAT_SHEET: &str = "cheat-sheet";

/// The value of `format` in an export.
pub const FORMAT: &str = "wt-memory-export";
/// The value of `version`.
pub const VERSION: u64 = 1;

/// A project's memories as a file.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
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
    /// Memories that became part of another one here: they are not lost, and nobody else forgets them for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<String>,
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

/// About so many bytes of memories go to the daemon at once, …
const PART_BYTES: usize = 4 << 20;
/// … and so many memories at most: each part is one transaction, for which other writers wait.
const PART_RECORDS: usize = 500;

impl Export {
    /// It in parts that the daemon takes. The first says what was deleted; there is always one.
    pub fn parts(self) -> Vec<Self> {
        self.parts_of(PART_BYTES, PART_RECORDS)
    }

    fn parts_of(self, bytes: usize, most: usize) -> Vec<Self> {
        let Self { records, deleted, merged, .. } = self;
        let head = Self { records: Vec::new(), deleted: Vec::new(), merged: Vec::new(), count: 0, ..self };
        let mut part = Self { deleted, merged, ..head.clone() };
        let (mut parts, mut size) = (Vec::new(), 0);
        for record in records {
            let own = serde_json::to_vec(&record).map_or(0, |text| text.len());
            if part.count > 0 && (size + own > bytes || part.count >= most) {
                parts.push(std::mem::replace(&mut part, head.clone()));
                size = 0;
            }
            size += own;
            part.records.push(record);
            part.count += 1;
        }
        parts.push(part);
        parts
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_goes_in_parts() {
        let record = |n: usize| Record { id: n.to_string(), content: "x".repeat(100), ..Record::default() };
        let export = |count: usize| Export {
            version: VERSION,
            format: FORMAT.to_owned(),
            count,
            records: (0..count).map(record).collect(),
            deleted: vec!["gone".to_owned()],
            ..Export::default()
        };
        for (bytes, most, count) in [(1, 99, 10), (700, 99, 5), (1 << 20, 99, 1), (1 << 20, 4, 3)] {
            let parts = export(10).parts_of(bytes, most);
            assert_eq!(parts.len(), count, "{bytes} {most}");
            let ids: Vec<_> = parts.iter().flat_map(|part| part.records.iter().map(|r| r.id.as_str())).collect();
            assert_eq!(ids, (0..10).map(|n| n.to_string()).collect::<Vec<_>>());
            assert!(parts.iter().all(|part| part.count == part.records.len()));
            assert_eq!(parts.iter().map(|part| part.deleted.len()).sum::<usize>(), 1);
        }
        assert_eq!(export(0).parts().len(), 1);
    }
}
