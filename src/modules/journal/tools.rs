//! The tools of sessions: they read and write the journal in sections and entries, each within its budget.
//!
//! In a sync session what they write waits for the checkpoint; in any other session it is done at once, in the call's
//! own transaction.

use std::sync::Arc;

use ::journal::file::{FileName, Kind};
use ::journal::ops::{By, CORE_SECTIONS, Op, apply};
use base::{Label, Trust};
use serde::Deserialize;
use serde_json::{Value, json};
use store::Params;

use super::NAME;
use super::journals::{JournalError, Journals, touched};
use super::sql::{self, Files, Step, SyncRow};
use super::sync::{TOOLS, summary_of};
use crate::contract::ModuleError;
use ::tools::{Definition, Effect, Meta, Tool, ToolCall, ToolError, handler};

/// The names of all of them.
pub(super) fn names() -> Vec<String> {
    TOOLS.map(str::to_owned).into()
}

pub(super) fn tools(journals: &Arc<Journals>) -> Result<Vec<Tool>, ModuleError> {
    let file = |what: &str| json!({"type": "string", "maxLength": 120, "description": what});
    let text =
        |most: u32, what: &str| json!({"type": "string", "minLength": 1, "maxLength": most, "description": what});
    let title = text(200, "Its heading, without the day");
    let write = || Meta::write(Effect::Once).labelled();
    let core = CORE_SECTIONS.join(", ");
    let read = Definition::of(
        TOOLS[0],
        "Read a file of the journal: core.md, reference/<name>.md, users/<person>.md, sessions/today.md or an earlier day's.",
        json!({"file": file("Which one"), "others": {"type": "boolean", "default": false, "description":
            "Also entries made of what contacts and strangers said; this session is then trusted as little as they are"}}),
        json!(["file"]),
        Meta::read(),
    )?;
    let written = Definition::of(
        TOOLS[1],
        &format!(
            "Keep something in the journal: an entry of a reference or user file (one of the same title is replaced), or a \
             section of core.md ({core})."
        ),
        json!({"file": file("reference/decisions.md, projects, preferences, ideas, users/<person>.md, or core.md"), "title": title,
            "text": text(4000, "What is so, in one to three sentences"),
            "context": text(400, "Of a decision: why, in one sentence"),
            "status": {"type": "string", "enum": ["active", "superseded", "archived", "completed", "blocked", "planned"],
                "description": "Of a decision or a project"},
            "source": {"type": "string", "enum": ["conversation", "observation"], "description": "Of a preference"}}),
        json!(["file", "title", "text"]),
        write(),
    )?;
    let logged = Definition::of(
        TOOLS[2],
        "Add a line to the journal's log of today: an event, a completion, an error worth remembering.",
        json!({"text": text(1000, "What happened, in one line")}),
        json!(["text"]),
        write(),
    )?;
    let archived = Definition::of(
        TOOLS[3],
        "Move an entry that is not so any more from a reference or user file of the journal to its archive.",
        json!({"file": file("The file it stands in"), "title": title}),
        json!(["file", "title"]),
        write(),
    )?;
    let checkpoint = Definition::of(
        TOOLS[4],
        "End a memory sync: what it wrote is kept, and the conversations up to `end` count as summarized. Only in a sync.",
        json!({"end": {"type": "integer", "minimum": 1, "description": "The last conversation of the range"},
            "summary": text(600, "About 200 characters: what was kept")}),
        json!(["end", "summary"]),
        write(),
    )?;
    let with = |def: &Arc<Definition>, what: What| {
        let journals = journals.clone();
        Tool::new(def, handler(move |call| run(call, journals.clone(), what)))
    };
    Ok(vec![
        with(&read, What::Read),
        with(&written, What::Write),
        with(&logged, What::Log),
        with(&archived, What::Archive),
        with(&checkpoint, What::Checkpoint),
    ])
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Read,
    Write,
    Log,
    Archive,
    Checkpoint,
}

async fn run(call: ToolCall, journals: Arc<Journals>, what: What) -> Result<Value, ToolError> {
    let tenant = &call.context().tenant_id;
    let mut lease = journals.lease(tenant).await?;
    let sync = sql::sync_of(&mut lease, (journals.schema(), tenant), call.context().request_id).await?;
    drop(lease);
    let op = match what {
        What::Read => return read(&call, &journals, sync).await,
        What::Checkpoint => return checkpoint(&call, &journals, sync).await,
        What::Write => tagged(&call, "write")?,
        What::Log => tagged(&call, "log")?,
        What::Archive => tagged(&call, "archive")?,
    };
    match sync {
        Some(sync) => draft(&call, &journals, &sync, &op).await,
        None => change(&call, &journals, &op).await,
    }
}

/// The operation that the arguments are.
fn tagged(call: &ToolCall, op: &str) -> Result<Op, ToolError> {
    let mut args = (*call.args).clone();
    args.insert("op".to_owned(), json!(op));
    serde_json::from_value(Value::Object(args))
        .map_err(|e| ToolError::Internal(format!("{}: schema and handler disagree: {e}", call.def.name)))
}

impl From<JournalError> for ToolError {
    fn from(e: JournalError) -> Self {
        match e {
            JournalError::Store(e) => ToolError::Store(e),
            JournalError::Refused(refusal) => {
                ToolError::Refused { code: code(&refusal.code), message: refusal.message }
            }
        }
    }
}

/// The codes of refusals as tools have them.
fn code(code: &str) -> &'static str {
    const CODES: [&str; 16] = [
        "append_only",
        "read_only",
        "no_such_file",
        "no_title",
        "no_text",
        "too_long",
        "over_budget",
        "untrusted",
        "stable",
        "taken",
        "bad_status",
        "not_found",
        "no_summary",
        "bad_range",
        "no_sync",
        "under_way",
    ];
    CODES.into_iter().find(|known| *known == code).unwrap_or("refused")
}

#[derive(Deserialize)]
struct Read {
    file: String,
    #[serde(default)]
    others: bool,
}

async fn read(call: &ToolCall, journals: &Journals, sync: Option<SyncRow>) -> Result<Value, ToolError> {
    let Read { file, others } = call.parse()?;
    let file = FileName::read(&file)
        .ok_or_else(|| ToolError::refused("no_such_file", format!("There is no file `{file}` in the journal.")))?;
    if others && sync.as_ref().is_some_and(is_own) {
        let why = "This sync is over the words of the owner and the house, and its summary is told to every session: those of \
                   others are worked in apart.";
        return Err(ToolError::refused("untrusted", why));
    }
    let tenant = &call.context().tenant_id;
    let journal = match &sync {
        Some(sync) => journals.drafted(tenant, sync, trust_of(sync)).await?,
        None => journals.load(tenant, Files::All).await?,
    };
    let Some(document) = journal.get(&file) else {
        let there: Vec<&str> =
            journal.iter().map(|(file, _)| file.as_str()).filter(|file| !file.starts_with("sessions/2")).collect();
        return Err(ToolError::refused("not_found", format!("{file} is not there. There are: {}.", there.join(", "))));
    };
    // A session that is believed no more than others is shown all; one of the owner only what it asks for.
    let low = call.caller.taint().is_some_and(|taint| taint.label().trust < Trust::System)
        || call.context().trust < Trust::System;
    let least = if others || low { Trust::Stranger } else { Trust::System };
    let (text, left_out) = document.text_for(least);
    if let Some(lowest) = document.sections.iter().map(|section| section.trust).filter(|trust| *trust >= least).min() {
        call.shows(&Label::household(lowest));
    }
    let budget = file.budget();
    Ok(json!({"file": file.as_str(), "text": text, "bytes": document.text().len(), "budget": budget,
        "entries_of_others_left_out": left_out}))
}

/// Whether a pass is over the words of the owner and the house.
fn is_own(sync: &SyncRow) -> bool {
    sync.pass == "own"
}

/// How far what a pass writes is believed at most.
fn trust_of(sync: &SyncRow) -> Trust {
    if is_own(sync) { Trust::System } else { Trust::Known }
}

/// Adds to what a sync wrote.
async fn draft(call: &ToolCall, journals: &Journals, sync: &SyncRow, op: &Op) -> Result<Value, ToolError> {
    let trust = trust_of(sync);
    let mut journal = journals.drafted(&call.context().tenant_id, sync, trust).await?;
    let file =
        apply(&mut journal, op, By { trust, now: journals.now(), migrates: false }).map_err(JournalError::from)?;
    let params: Params<'_> =
        &[&sync.id, &sync.pass, &serde_json::to_value(op).map_err(|e| ToolError::Internal(e.to_string()))?];
    call.effect(sql::ADD_DRAFT, params).await?;
    Ok(
        json!({"status": "kept_at_checkpoint", "file": file.as_str(), "bytes": journal.text(&file).len(), "budget": file.budget()}),
    )
}

/// Whether the call's session takes another layout in: the module itself started it.
fn migrates(call: &ToolCall) -> bool {
    let context = call.context();
    context.source_channel == "module" && context.source_sender_identity == NAME
}

/// Changes the journal at once.
async fn change(call: &ToolCall, journals: &Journals, op: &Op) -> Result<Value, ToolError> {
    let tenant = &call.context().tenant_id;
    let mut lease = call.lease().await?;
    let mut tx = call.begin(&mut lease).await?;
    let trust = sql::lock_for(&mut tx).await?;
    let before = journals.load(tenant, Files::All).await?;
    let mut after = before.clone();
    let by = By { trust: trust.min(Trust::System), now: journals.now(), migrates: migrates(call) };
    let file = match apply(&mut after, op, by) {
        Ok(file) => file,
        Err(refusal) => {
            tx.rollback().await?;
            return Err(JournalError::from(refusal).into());
        }
    };
    let changes = after.since(&before);
    let kind = if by.migrates { "migrate" } else { "call" };
    let step = Step::new(kind, &call.def.name, call.session(), trust);
    sql::apply_for(&mut tx, &step, &changes).await?;
    base::crash::point("journal.call_applied");
    tx.commit().await?;
    base::crash::point("journal.call_committed");
    journals.render(tenant, touched(&before, &changes)).await;
    let (bytes, budget) = (after.text(&file).len(), file.budget());
    let note = (file.kind() == Kind::Core).then_some("Later sessions are told it from their start.");
    Ok(json!({"status": "kept", "file": file.as_str(), "bytes": bytes, "budget": budget, "note": note}))
}

#[derive(Deserialize)]
struct Checkpoint {
    end: i64,
    summary: String,
}

/// Ends a pass: what it wrote becomes the journal's, and the last one makes the checkpoint, in one transaction.
async fn checkpoint(call: &ToolCall, journals: &Journals, sync: Option<SyncRow>) -> Result<Value, ToolError> {
    let Checkpoint { end, summary } = call.parse()?;
    let Some(sync) = sync else {
        return Err(ToolError::refused("no_sync", "This session is no memory sync, so there is nothing to end."));
    };
    if end != sync.end_id {
        return Err(ToolError::refused("bad_range", format!("The range of this sync ends with {}.", sync.end_id)));
    }
    let summary = summary_of(&summary)?;
    let tenant = &call.context().tenant_id;
    let mut lease = call.lease().await?;
    let mut tx = call.begin(&mut lease).await?;
    let trust = sql::lock_for(&mut tx).await?.min(trust_of(&sync));
    if is_own(&sync) && trust < Trust::System {
        tx.rollback().await?;
        let why = "This session was shown words of others, so its summary can't be told to every session. Another one begins anew.";
        return Err(ToolError::refused("untrusted", why));
    }
    let before = journals.load(tenant, Files::All).await?;
    let mut after = before.clone();
    let drafts = sql::drafts(&mut journals.lease(tenant).await?, journals.schema(), &sync).await?;
    let misplaced = journals.apply_all(&mut after, &drafts, trust);
    let changes = after.since(&before);
    if !changes.is_empty() {
        sql::apply_for(&mut tx, &Step::of_sync(call.session(), trust), &changes).await?;
    }
    base::crash::point("journal.before_checkpoint");
    let next = sync.has_more().then_some("others");
    let made = sql::settle_for(&mut tx, (sync.id, &summary, next), call.session()).await?;
    tx.commit().await?;
    base::crash::point("journal.checkpoint_made");
    journals.render(tenant, touched(&before, &changes)).await;
    Ok(json!({"status": "done", "checkpoint": made, "start": sync.begin_id, "end": sync.end_id, "count": sync.count,
        "changes": drafts.len(), "misplaced": misplaced}))
}
