//! Taking calls back: the rows that a roster's tools changed are put back as they were.

use std::cmp::Reverse;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::failure::Failure;
use super::rights::Need;
use super::rpc::{Rpc, limited, may};
use access::Grant;
use butler::Butler;
use store::{Lease, StoreError};
use tools::undo::{ChangingCall, UndoError, Which, effects, maker, put_back, record, undoable};

const MOST: u32 = 200;
const USUAL: u32 = 20;

/// Taking back.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait UndoApi {
    /// The newest calls of one butler or of all whose rows can be put back, at most `limit` (1 to 200, else 20). Scope
    /// `read`.
    #[method(name = "undo_list", param_kind = map, with_extensions)]
    async fn undo_list(&self, butler: Option<String>, limit: Option<u32>) -> Result<Vec<UndoableCall>, Failure>;

    /// Puts the rows that a call changed back as they were: all, or none when something newer stands on one. Scope
    /// `admin`.
    #[method(name = "undo_call", param_kind = map, with_extensions)]
    async fn undo_call(&self, butler: String, call: i64) -> Result<Undone, Failure>;

    /// The same for all calls of a session, the newest first. Scope `admin`.
    #[method(name = "undo_session", param_kind = map, with_extensions)]
    async fn undo_session(&self, id: Uuid) -> Result<Undone, Failure>;
}

/// A call whose rows can be put back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UndoableCall {
    /// Its name for people: `health/123`.
    pub call: String,
    pub butler: String,
    pub tool: String,
    pub called_at: Timestamp,
    /// Null: a person called, not a session.
    pub session_id: Option<Uuid>,
    /// How many rows it changed.
    pub rows: i64,
}

/// A call that was taken back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TakenBack {
    pub call: String,
    pub tool: String,
    pub rows: i64,
}

/// What was taken back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Undone {
    pub butler: String,
    /// The record of this undo, by which it can be taken back itself.
    pub undo: String,
    /// The newest first.
    pub calls: Vec<TakenBack>,
    /// The tools of calls that changed what is not kept.
    pub left: Vec<String>,
}

#[async_trait]
impl UndoApiServer for Rpc {
    async fn undo_list(
        &self,
        ext: &Extensions,
        butler: Option<String>,
        limit: Option<u32>,
    ) -> Result<Vec<UndoableCall>, Failure> {
        let grant = may(ext, Need::Look)?;
        let limit = limited(limit, USUAL, MOST)?;
        let (butlers, _) = self.butlers(&grant, butler.as_deref()).await?;
        let mut found = Vec::new();
        let mut lease = self.shared(&grant).await?;
        for butler in butlers {
            let calls = undoable(&mut lease, butler.schema(), &grant.tenant, limit).await?;
            found.extend(calls.into_iter().map(|c| UndoableCall {
                call: format!("{}/{}", butler.name(), c.id),
                butler: butler.name().to_string(),
                tool: c.tool,
                called_at: c.called_at,
                session_id: c.session_id,
                rows: c.rows,
            }));
        }
        found.sort_by_key(|call| Reverse(call.called_at));
        found.truncate(limit as usize);
        Ok(found)
    }

    async fn undo_call(&self, ext: &Extensions, butler: String, call: i64) -> Result<Undone, Failure> {
        let grant = may(ext, Need::Manage)?;
        let butler = self.butler(&grant, &butler).await?;
        self.undo(&grant, &butler, Which::Call(call)).await
    }

    async fn undo_session(&self, ext: &Extensions, id: Uuid) -> Result<Undone, Failure> {
        let grant = may(ext, Need::Manage)?;
        let (butler, _) = self.session(&grant, id).await?;
        self.undo(&grant, &butler, Which::Session(id)).await
    }
}

impl Rpc {
    async fn shared(&self, grant: &Grant) -> Result<Lease, StoreError> {
        self.supervisor.services().db.shared(&grant.tenant).await
    }

    /// Takes it back: all of it, or nothing.
    async fn undo(&self, grant: &Arc<Grant>, butler: &Butler, which: Which) -> Result<Undone, Failure> {
        let (schema, tenant, name) = (butler.schema(), &grant.tenant, butler.name().as_str());
        let mut lease = self.shared(grant).await?;
        let step = || StoreError::query("taking calls back");
        let mut tx = lease.begin().await.map_err(step())?;
        let calls = effects(&mut tx, schema, tenant, which).await?;
        let (kept, left): (Vec<ChangingCall>, Vec<ChangingCall>) = calls.into_iter().partition(|call| call.rows > 0);
        let left: Vec<String> = left.into_iter().map(|call| call.tool).collect();
        if kept.is_empty() {
            return Err(nothing(which, name, &left));
        }
        let mut taken = Vec::new();
        for call in &kept {
            match put_back(&mut tx, schema, tenant, call.id).await {
                Ok(rows) => {
                    taken.push(TakenBack { call: format!("{name}/{}", call.id), tool: call.tool.clone(), rows })
                }
                Err(e) => {
                    tx.rollback().await.map_err(step())?;
                    return Err(self.refusal(grant, butler, call, e).await);
                }
            }
        }
        let caller = self.caller(grant);
        let names: Vec<String> = taken.iter().map(|t| t.call.clone()).collect();
        let undo = record(&mut tx, schema, &caller.context, caller.label(), &names).await?;
        tx.commit().await.map_err(step())?;
        Ok(Undone { butler: name.to_owned(), undo: format!("{name}/{undo}"), calls: taken, left })
    }

    /// Why a call can't be taken back, for the person.
    async fn refusal(&self, grant: &Grant, butler: &Butler, call: &ChangingCall, e: UndoError) -> Failure {
        let why = match e {
            UndoError::Store(e) => return e.into(),
            UndoError::Newer { change: Some(change), message } => match self.newer(grant, butler, change).await {
                Some(newer) => format!("what it changed was changed again by {newer}"),
                None => message,
            },
            e => e.to_string(),
        };
        let which = format!("{}/{} ({})", butler.name(), call.id, call.tool);
        Failure::new("newer_change", format!("Nothing was taken back: {which} stays, because {why}."))
    }

    /// Which call made a change, in words.
    async fn newer(&self, grant: &Grant, butler: &Butler, change: i64) -> Option<String> {
        let mut lease = self.shared(grant).await.ok()?;
        let call = maker(&mut lease, butler.schema(), &grant.tenant, change).await.ok()??;
        let of = call.session_id.map(|session| format!(" of session {session}")).unwrap_or_default();
        Some(format!("{}/{} ({}){of} at {:.0}", butler.name(), call.id, call.tool, call.called_at))
    }
}

/// No row is kept of what was to be taken back; `left` are the tools that were called.
fn nothing(which: Which, butler: &str, left: &[String]) -> Failure {
    let tools = left.join(", ");
    let why = match which {
        Which::Call(id) if left.is_empty() => {
            return Failure::new("not_found", format!("There is no call {butler}/{id}. See: butlerd undo"));
        }
        Which::Call(id) => format!("No changed rows are kept of the call {butler}/{id} of {tools}."),
        Which::Session(_) if left.is_empty() => "No call of this session had an effect.".to_owned(),
        Which::Session(_) => format!("No changed rows are kept of this session's calls: {tools}."),
    };
    let hint = "`butlerd memory undo` takes back what a butler remembers; what was sent stays sent.";
    Failure::new("nothing_to_undo", format!("{why} {hint}"))
}
