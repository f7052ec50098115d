//! The journal, and projects' memories.

use ::journal::wire::{Checkpoint, Edit, FileText, Status};
use admin::calls::LocalAnswersApiServer;
use admin::{Failure, ProjectPage, ProjectRow};
use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use super::butlers::{OfButler, PagesOf};
use crate::endpoint::{Endpoint, get};
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

/// Which file.
#[derive(Deserialize, JsonSchema)]
struct FileOf {
    /// The butler.
    butler: String,
    /// From the journal's directory, as the journal lists it.
    #[schemars(length(min = 1, max = 500))]
    file: String,
}

async fn checkpoints(visit: &Visit, of: PagesOf) -> Result<Page<Checkpoint>, Failure> {
    let start = visit.start::<i64>(&of.paging)?;
    let found = visit.calls.journal_checkpoints(&visit.ext, of.butler, start.at, start.limit + 1).await?;
    Ok(visit.page(&start, found, |checkpoint| checkpoint.id))
}

/// Which project.
#[derive(Deserialize, JsonSchema)]
struct ProjectOf {
    /// The butler that remembers it.
    butler: String,
    /// Its id.
    id: Uuid,
}

forwards! {
    status(of: OfButler) -> Status = journal_status(of.butler);
    file(of: FileOf) -> FileText = journal_file(of.butler, of.file);
    project(of: ProjectOf) -> ProjectPage = project_show(of.butler, of.id);
}

lists! {
    edits(of: OfButler) -> Edit = journal_edits(of.butler);
    projects(of: OfButler) -> ProjectRow = project_list(of.butler);
}
