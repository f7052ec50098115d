//! What was found out about a repository, kept beside it in `butlerd/project.json`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::PlaceError;
use super::file;

const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Cache {
    pub root_commit: Option<String>,
    pub origin: Option<String>,
    pub id: Option<Uuid>,
}

impl Cache {
    fn path(common_dir: &Path) -> PathBuf {
        common_dir.join("butlerd").join("project.json")
    }

    /// What is kept; `None` as well where it can't be read: it is found out anew.
    pub fn read(common_dir: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(Self::path(common_dir)).ok()?).ok()
    }

    pub fn write(&self, common_dir: &Path) -> Result<(), PlaceError> {
        let path = Self::path(common_dir);
        let written = serde_json::to_vec(self).map_err(Into::into).and_then(|text| file::replace(&path, &text));
        written.map_err(|source| PlaceError::Write { path, source })
    }

    /// Whether it was written within a day.
    pub fn is_of_today(common_dir: &Path) -> bool {
        let modified = std::fs::metadata(Self::path(common_dir)).and_then(|metadata| metadata.modified());
        modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < A_DAY))
    }

    /// What is kept once it was found out anew. The project stays the same as long as the origin or the first commit
    /// does; where both are others, it is another one.
    pub fn anew(before: Option<&Self>, root_commit: Option<String>, origin: Option<String>) -> Self {
        let same =
            |before: &&Self| before.origin == origin || (root_commit.is_some() && before.root_commit == root_commit);
        let id = before.filter(same).and_then(|before| before.id);
        Self { root_commit, origin, id }
    }
}
