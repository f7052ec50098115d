//! Calls on record, what can be taken back, notes for the owner, names of secrets, tokens.

use access::TokenInfo;
use admin::calls::{AuditApiServer, NotesApiServer, SecretsApiServer, TokensApiServer, UndoApiServer};
use admin::{AuditRow, Failure, Need, SecretName, UndoableCall};
use outbox::Note;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tools::sql::audited::AuditFilter;
use uuid::Uuid;

use super::messages::word;
use crate::endpoint::{Endpoint, get};
use crate::input::{Nothing, Paging};
use crate::list::Page;
use crate::visit::Visit;

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/audit", "listCalls", "Calls of tools on record, the newest first", audit),
        get("/undo", "listUndoable", "Calls that can be taken back, the newest first", undo),
        get("/notes", "listNotes", "What the household told its owner, the newest first", notes),
        get("/secrets", "listSecrets", "Names and times of the stored secrets; never a value", secrets)
            .needs(Need::Household),
        get("/tokens", "listTokens", "The live tokens, without their secret part", tokens).needs(Need::Household),
    ]
}

/// How a call ended.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum CallOutcome {
    Ok,
    Refused,
    Error,
    Cancelled,
}

/// Which calls.
#[derive(Deserialize, JsonSchema)]
struct CallsWanted {
    /// Of this butler's tools alone.
    butler: Option<String>,
    /// Of this tool alone.
    tool: Option<String>,
    /// Of this session alone.
    session: Option<Uuid>,
    /// With this outcome.
    outcome: Option<CallOutcome>,
    #[serde(flatten)]
    paging: Paging,
}

async fn audit(visit: &Visit, wanted: CallsWanted) -> Result<Page<AuditRow>, Failure> {
    let start = visit.start::<String>(&wanted.paging)?;
    let filter = AuditFilter { tool: wanted.tool, session: wanted.session, outcome: word(wanted.outcome) };
    let page = visit.calls.audit_list(&visit.ext, wanted.butler, filter, start.at, Some(start.limit)).await?;
    Ok(visit.part(page.calls, page.next, page.unavailable))
}

/// Which calls.
#[derive(Deserialize, JsonSchema)]
struct UndoWanted {
    /// Of this butler alone.
    butler: Option<String>,
    #[serde(flatten)]
    paging: Paging,
}

async fn undo(visit: &Visit, wanted: UndoWanted) -> Result<Page<UndoableCall>, Failure> {
    let start = visit.start::<String>(&wanted.paging)?;
    let page = visit.calls.undo_page(&visit.ext, wanted.butler, start.at, Some(start.limit)).await?;
    Ok(visit.part(page.calls, page.next, page.unavailable))
}

async fn notes(visit: &Visit, wanted: Paging) -> Result<Page<Note>, Failure> {
    let start = visit.start::<Uuid>(&wanted)?;
    let found = visit.calls.notes_list(&visit.ext, start.at, start.one_more()).await?;
    Ok(visit.page(&start, found, |note| note.id))
}

lists! {
    secrets(_: Nothing) -> SecretName = secret_list();
    tokens(_: Nothing) -> TokenInfo = token_list();
}
