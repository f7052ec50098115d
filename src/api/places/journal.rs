//! The journal, and projects' memories.

use ::journal::wire::{Checkpoint, Edit, FileText, Status};
use admin::calls::LocalAnswersApiServer;
use admin::{Failure, ProjectPage, ProjectRow};
use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use super::butlers::OfButler;
use crate::endpoint::{Endpoint, get};
use crate::input::Paging;
use crate::list::Page;
use crate::visit::Visit;

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/butlers/{butler}/journal", "getJournal", "How a butler's journal is", status),
        get("/butlers/{butler}/journal/file", "getJournalFile", "One file of the journal", file),
        get(
            "/butlers/{butler}/journal/checkpoints",
            "listCheckpoints",
            "How far the conversation is summarized, the newest first",
            checkpoints,
        ),
        get("/butlers/{butler}/journal/edits", "listEdits", "Files of the journal that somebody edited", edits),
        get("/butlers/{butler}/projects", "listProjects", "Projects that are remembered", projects),
        get("/butlers/{butler}/projects/{id}", "getProject", "One project with its newest memories", project),
    ]
}

async fn status(visit: &Visit, of: OfButler) -> Result<Status, Failure> {
    visit.calls.journal_status(&visit.ext, of.butler).await
}

/// Which file.
#[derive(Deserialize, JsonSchema)]
struct FileOf {
    /// The butler.
    butler: String,
    /// From the journal's directory, as the journal lists it.
    #[schemars(length(min = 1, max = 500))]
    file: String,
}

async fn file(visit: &Visit, of: FileOf) -> Result<FileText, Failure> {
    visit.calls.journal_file(&visit.ext, of.butler, of.file).await
}

/// Whose checkpoints.
#[derive(Deserialize, JsonSchema)]
struct CheckpointsOf {
    /// The butler.
    butler: String,
    #[serde(flatten)]
    paging: Paging,
}

async fn checkpoints(visit: &Visit, of: CheckpointsOf) -> Result<Page<Checkpoint>, Failure> {
    let start = visit.start::<i64>(&of.paging)?;
    let found = visit.calls.journal_checkpoints(&visit.ext, of.butler, start.at, start.limit + 1).await?;
    Ok(visit.page(&start, found, |checkpoint| checkpoint.id))
}

async fn edits(visit: &Visit, of: OfButler) -> Result<Page<Edit>, Failure> {
    Ok(visit.whole(visit.calls.journal_edits(&visit.ext, of.butler).await?))
}

async fn projects(visit: &Visit, of: OfButler) -> Result<Page<ProjectRow>, Failure> {
    Ok(visit.whole(visit.calls.project_list(&visit.ext, of.butler).await?))
}

/// Which project.
#[derive(Deserialize, JsonSchema)]
struct ProjectOf {
    /// The butler that remembers it.
    butler: String,
    /// Its id.
    id: Uuid,
}

async fn project(visit: &Visit, of: ProjectOf) -> Result<ProjectPage, Failure> {
    visit.calls.project_show(&visit.ext, of.butler, of.id).await
}
