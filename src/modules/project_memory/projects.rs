//! Which project a request is about.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use base::TenantId;
use memory::sql::Rows;
use memory::write::WriteError;
use project::wire::Identity;
use uuid::Uuid;

use super::sql;

/// A project.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Project {
    pub id: Uuid,
    pub name: String,
    /// Of its facts.
    pub scope: String,
}

impl Project {
    fn new(row: sql::ProjectRow) -> Self {
        Self { scope: scope(row.id), id: row.id, name: row.name }
    }
}

/// The scope of a project's facts.
pub(super) fn scope(project: Uuid) -> String {
    format!("project:{project}")
}

/// The projects that were asked for, by all that they are known by: a hook asks each time.
#[derive(Default)]
pub(super) struct Projects {
    known: Mutex<HashMap<(TenantId, String), Project>>,
}

impl Projects {
    /// The project of an identity that was seen since the start.
    pub fn seen(&self, tenant: &TenantId, by: &Identity) -> Option<Project> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(tenant.clone(), key(by))).cloned()
    }

    /// The project of an identity; one that nobody knows yet is made. Runs in a transaction that its caller commits.
    pub async fn of(rows: &mut dyn Rows, by: &Identity) -> Result<Project, WriteError> {
        // Two first requests at once make one project.
        sql::lock(rows).await?;
        let found = match by.id {
            Some(id) => sql::by_id(rows, id).await?,
            None => None,
        };
        let found = match found {
            Some(found) => Some(found),
            None if is_named(by) => one_of(by, sql::by_name(rows, &by.name).await?)?,
            None => sql::by_identity(rows, by).await?,
        };
        let row = match found {
            Some(row) => row,
            None => sql::make(rows, &by.name).await?,
        };
        sql::add_identity(rows, row.id, by).await?;
        Ok(Project::new(row))
    }

    /// Remembers what was committed.
    pub fn committed(&self, tenant: &TenantId, by: &Identity, project: &Project) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert((tenant.clone(), key(by)), project.clone());
    }
}

/// Whether a person named it, instead of standing in it.
fn is_named(by: &Identity) -> bool {
    by.root_commit.is_none() && by.origin.is_none() && by.directory.is_none()
}

fn one_of(by: &Identity, mut found: Vec<sql::ProjectRow>) -> Result<Option<sql::ProjectRow>, WriteError> {
    if found.len() > 1 {
        let ids: Vec<String> = found.iter().map(|row| row.id.to_string()).collect();
        let why = format!("{} projects are called {:?}. Name one by its id: {}.", found.len(), by.name, ids.join(", "));
        return Err(WriteError::refused("ambiguous", why));
    }
    Ok(found.pop())
}

fn key(by: &Identity) -> String {
    let parts = [&by.root_commit, &by.origin, &by.directory];
    let id = by.id.map(|id| id.to_string()).unwrap_or_default();
    let parts = parts.map(|part| part.as_deref().unwrap_or_default());
    [&*id, parts[0], parts[1], parts[2], &by.name].join("\u{1f}")
}
