//! Taking calls back: the rows that a roster's tools changed are put back as they were, and calls of others' tools are undone
//! by the tool that the owner named for it.

use std::cmp::Reverse;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::failure::Failure;
use super::rights::Need;
use super::rpc::{Rpc, Unavailable, limited, to_its_end};
use super::visitor::may;
use access::Grant;
use base::{TenantId, crash};
use butler::Butler;
use store::{Lease, StoreError};
use tools::undo::{CallUndo, ChangingCall, Place, UndoError, UndoState, Which};
use tools::undo::{came_to, claim, effects, maker, put_back, record, undoable};

const MOST: u32 = 200;
const USUAL: u32 = 20;

/// Taking back.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait UndoApi {
    /// The newest calls of one butler or of all that can be taken back, at most `limit` (1 to 200, else 20). Scope
    /// `read`.
    #[method(name = "undo_list", param_kind = map, with_extensions)]
    async fn undo_list(&self, butler: Option<String>, limit: Option<u32>) -> Result<Vec<UndoableCall>, Failure>;

    /// The same, page by page: behind the cursor of an earlier page, if it is given. Scope `read`.
    #[method(name = "undo_page", param_kind = map, with_extensions)]
    async fn undo_page(
        &self,
        butler: Option<String>,
        before: Option<String>,
        limit: Option<u32>,
    ) -> Result<UndoPage, Failure>;

    /// Puts the rows that a call changed back as they were: all, or none when something newer stands on one. Or has the tool
    /// called that takes it back. Scope `admin`.
    #[method(name = "undo_call", param_kind = map, with_extensions)]
    async fn undo_call(&self, butler: String, call: i64) -> Result<Undone, Failure>;

    /// The same for all calls of a session, the newest first: the rows of all or none, and then by other tools, until one
    /// can't. Scope `admin`.
    #[method(name = "undo_session", param_kind = map, with_extensions)]
    async fn undo_session(&self, id: Uuid) -> Result<Undone, Failure>;
}

/// A call that can be taken back.
#[derive(Debug, Clone, Default, Serialize, Deserialize, schemars::JsonSchema)]
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
    /// The tool that takes it back; null: its rows are put back.
    pub by: Option<String>,
    /// Since when it is being taken back, if somebody began and no end is on record.
    pub begun_at: Option<Timestamp>,
    /// What came of the last try to take it back.
    pub why: Option<String>,
}

/// What `undo_page` answers.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct UndoPage {
    /// The newest first.
    pub calls: Vec<UndoableCall>,
    /// Where the next page begins. `None`: there is none.
    pub next: Option<String>,
    /// Butlers whose calls can't be read just now.
    pub unavailable: Vec<Unavailable>,
}

/// A call that was taken back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TakenBack {
    pub call: String,
    pub tool: String,
    pub rows: i64,
    /// The tool that did it; null: its rows were put back.
    pub by: Option<String>,
}

/// What was taken back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Undone {
    pub butler: String,
    /// The record of this undo, by which it can be taken back itself; null: no row was put back.
    pub undo: Option<String>,
    /// The newest first.
    pub calls: Vec<TakenBack>,
    /// The tools of calls of which no way back is known.
    pub left: Vec<String>,
    /// Why the next call and all before it stay, in sentences.
    pub stopped: Option<String>,
}

impl UndoableCall {
    fn of(butler: &str, call: ChangingCall) -> Self {
        Self {
            call: format!("{butler}/{}", call.id),
            butler: butler.to_owned(),
            tool: call.tool,
            called_at: call.called_at,
            session_id: call.session_id,
            rows: call.rows,
            by: call.undo.as_ref().map(|undo| undo.tool.clone()),
            begun_at: call.undo.as_ref().filter(|undo| undo.state == UndoState::Undoing).map(|undo| undo.at),
            why: call.undo.and_then(|undo| undo.why),
        }
    }
}

/// The place of a cursor.
fn place_of(cursor: &str) -> Option<Place> {
    let (at, tx) = cursor.split_once('~')?;
    // The database has no times as old as a text may name.
    let at = at.parse().ok().filter(|at| *at >= Timestamp::UNIX_EPOCH)?;
    Some(Place { at, tx: tx.parse().ok()? })
}

/// The calls of all butlers in order, as many as fit, and where the next page begins; `seen_from` is from where on those of
/// all butlers are known.
fn cut(
    mut found: Vec<(Place, UndoableCall)>,
    seen_from: Option<Place>,
    most: usize,
) -> (Vec<UndoableCall>, Option<String>) {
    found.sort_by_key(|(place, _)| Reverse(*place));
    // What is older may have calls of another butler between that were not looked at.
    found.retain(|(place, _)| seen_from.is_none_or(|from| *place >= from));
    let more = found.len() > most;
    found.truncate(most);
    let last = if more { found.last().map(|(place, _)| *place) } else { seen_from };
    let next = last.map(|place| format!("{}~{}", place.at, place.tx));
    (found.into_iter().map(|(_, call)| call).collect(), next)
}

#[async_trait]
impl UndoApiServer for Rpc {
    async fn undo_list(
        &self,
        ext: &Extensions,
        butler: Option<String>,
        limit: Option<u32>,
    ) -> Result<Vec<UndoableCall>, Failure> {
        Ok(self.undo_page(ext, butler, None, limit).await?.calls)
    }

    async fn undo_page(
        &self,
        ext: &Extensions,
        butler: Option<String>,
        before: Option<String>,
        limit: Option<u32>,
    ) -> Result<UndoPage, Failure> {
        let grant = may(ext, Need::Look)?;
        let limit = limited(limit, USUAL, MOST)?;
        let before = match before {
            None => Place::END,
            Some(text) => place_of(&text).ok_or_else(|| Failure::invalid("That is not a cursor of this list."))?,
        };
        let (butlers, unavailable) = self.butlers(&grant, butler.as_deref()).await?;
        let (mut found, mut seen_from) = (Vec::new(), None);
        let mut lease = self.shared(&grant.tenant).await?;
        for butler in butlers {
            let part = undoable(&mut lease, butler.schema(), &grant.tenant, before, limit + 1).await?;
            seen_from = seen_from.max(part.seen_from);
            let named = |(place, call)| (place, UndoableCall::of(butler.name().as_str(), call));
            found.extend(part.calls.into_iter().map(named));
        }
        let (calls, next) = cut(found, seen_from, limit as usize);
        Ok(UndoPage { calls, next, unavailable })
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
    async fn shared(&self, tenant: &TenantId) -> Result<Lease, StoreError> {
        self.supervisor.services().db.shared(tenant).await
    }

    /// Takes it back, whoever is still there to hear of it: all rows or none, and then call by call.
    async fn undo(&self, grant: &Arc<Grant>, butler: &Butler, which: Which) -> Result<Undone, Failure> {
        let (rpc, grant, butler) = (self.clone(), grant.clone(), butler.clone());
        to_its_end("undo", "The undo", async move { rpc.take_back(&grant, &butler, which).await }).await
    }

    async fn take_back(&self, grant: &Arc<Grant>, butler: &Butler, which: Which) -> Result<Undone, Failure> {
        let (schema, tenant, name) = (butler.schema(), &grant.tenant, butler.name().as_str());
        let mut lease = self.shared(tenant).await?;
        let mut tx = lease.begin().await.map_err(StoreError::query("taking calls back"))?;
        let calls = effects(&mut tx, schema, tenant, which).await?;
        let (kept, others): (Vec<ChangingCall>, Vec<ChangingCall>) = calls.into_iter().partition(|call| call.rows > 0);
        let is = |call: &ChangingCall, states: &[UndoState]| {
            call.undo.as_ref().is_some_and(|undo| states.contains(&undo.state))
        };
        // Of one that was named, the person hears why it can't be.
        let named = |call: &ChangingCall| call.undo.is_some() && matches!(which, Which::Call(_));
        let (others, mut left): (Vec<ChangingCall>, Vec<ChangingCall>) =
            others.into_iter().partition(|call| named(call) || is(call, &[UndoState::Ready, UndoState::Undoing]));
        left.retain(|call| !is(call, &[UndoState::Undone]));
        let left: Vec<String> = left.into_iter().map(|call| call.tool).collect();
        if kept.is_empty() && others.is_empty() {
            return Err(nothing(which, name, &left));
        }
        let mut undone = Undone { butler: name.to_owned(), undo: None, calls: Vec::new(), left, stopped: None };
        for call in &kept {
            match put_back(&mut tx, schema, tenant, call.id).await {
                Ok(rows) => {
                    undone.calls.push(TakenBack { call: full(name, call), tool: call.tool.clone(), rows, by: None })
                }
                Err(e) => {
                    tx.rollback().await.map_err(StoreError::query("taking calls back"))?;
                    return Err(self.refusal(grant, butler, call, e).await);
                }
            }
        }
        if !kept.is_empty() {
            let caller = self.caller(grant);
            let names: Vec<String> = undone.calls.iter().map(|t| t.call.clone()).collect();
            let undo = record(&mut tx, schema, &caller.context, caller.label(), &names).await?;
            undone.undo = Some(format!("{name}/{undo}"));
        }
        tx.commit().await.map_err(StoreError::query("taking calls back"))?;
        drop(lease);
        for call in &others {
            match self.call_back(grant, butler, call).await {
                Ok(taken) => undone.calls.push(taken),
                Err(e) if undone.calls.is_empty() => return Err(e),
                Err(e) => {
                    undone.stopped = Some(e.message);
                    break;
                }
            }
        }
        Ok(undone)
    }

    /// Has the other tool called that takes a call back. That it is about to be called is on record first, and no connection
    /// is held while its server answers.
    async fn call_back(&self, grant: &Arc<Grant>, butler: &Butler, call: &ChangingCall) -> Result<TakenBack, Failure> {
        let (schema, tenant, name) = (butler.schema(), &grant.tenant, butler.name().as_str());
        let which = full(name, call);
        let stays = |(code, why): (&str, String)| {
            Failure::new(code, format!("Nothing was taken back: {which} ({}) stays, because {why}", call.tool))
        };
        let Some(undo) = &call.undo else { return Err(nothing(Which::Call(call.id), name, &[])) };
        let arguments = match (&undo.arguments, undo.state) {
            (Some(Value::Object(arguments)), UndoState::Ready | UndoState::Undoing) => arguments.clone(),
            _ => return Err(stays(unready(undo, &which))),
        };
        let Some(claimed_at) = claim(&mut self.shared(tenant).await?, schema, tenant, undo).await? else {
            return Err(stays(unready(undo, &which)));
        };
        crash::point("undo.claimed");
        let tried = self.try_back(grant, butler, (&which, call), (&undo.tool, arguments)).await;
        crash::point("undo.tried");
        let (state, why) = match &tried {
            Ok(()) => (UndoState::Undone, None),
            Err((state, failure)) => (*state, Some(failure.message.as_str())),
        };
        let mut lease = self.shared(tenant).await?;
        let mut tx = lease.begin().await.map_err(StoreError::query("noting that a call was taken back"))?;
        came_to(&mut tx, schema, tenant, (undo, claimed_at), (state, why)).await?;
        if tried.is_ok() {
            let caller = self.caller(grant);
            record(&mut tx, schema, &caller.context, caller.label(), std::slice::from_ref(&which)).await?;
        }
        tx.commit().await.map_err(StoreError::query("noting that a call was taken back"))?;
        tried.map_err(|(_, failure)| failure)?;
        Ok(TakenBack { call: which, tool: call.tool.clone(), rows: 0, by: Some(undo.tool.clone()) })
    }

    /// Calls the other tool as this person. `Err`: what state the undo is in then, and why.
    async fn try_back(
        &self,
        grant: &Arc<Grant>,
        butler: &Butler,
        (which, call): (&str, &ChangingCall),
        (tool, arguments): (&str, Map<String, Value>),
    ) -> Result<(), (UndoState, Failure)> {
        let said = |code: &str, why: &str| {
            let again = format!("try again: butlerd undo {which}");
            let why = format!("{}.", why.trim_end_matches('.'));
            // The call may have come to its end.
            if ["outcome_unknown", "done_but_unreadable", "internal"].contains(&code) {
                let why = format!("Whether {which} was taken back is unknown. {why} If it stands still, {again}");
                return (UndoState::Undoing, Failure::new("undo_unknown", why));
            }
            let why = format!("Nothing was taken back: {which} ({}) stays. {why} To {again}", call.tool);
            (UndoState::Ready, Failure::new(code, why))
        };
        let answer = self.run_tool(grant, butler, tool, arguments).await.map_err(|e| said(&e.code, &e.message))?;
        if answer.is_error || answer.result["status"] == "error" {
            let word = |key: &str| answer.result[key].as_str().unwrap_or("failed");
            return Err(said(word("code"), word("error")));
        }
        Ok(())
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
        let which = format!("{} ({})", full(butler.name().as_str(), call), call.tool);
        Failure::new("newer_change", format!("Nothing was taken back: {which} stays, because {why}."))
    }

    /// Which call made a change, in words.
    async fn newer(&self, grant: &Grant, butler: &Butler, change: i64) -> Option<String> {
        let mut lease = self.shared(&grant.tenant).await.ok()?;
        let call = maker(&mut lease, butler.schema(), &grant.tenant, change).await.ok()??;
        let of = call.session_id.map(|session| format!(" of session {session}")).unwrap_or_default();
        Some(format!("{}/{} ({}){of} at {:.0}", butler.name(), call.id, call.tool, call.called_at))
    }
}

/// A call's name for people.
fn full(butler: &str, call: &ChangingCall) -> String {
    format!("{butler}/{}", call.id)
}

/// Why an undo can't be begun now, and what to do; before it the reason's name.
fn unready(undo: &CallUndo, which: &str) -> (&'static str, String) {
    let by_hand = "Look at what it did, and change it back with a tool of the server.";
    let no_way = |why: &str| ("no_way_back", format!("no way back is known for this call: {why}. {by_hand}"));
    match undo.state {
        UndoState::Undone => ("already_undone", format!("`{}` took it back at {:.0} already.", undo.tool, undo.at)),
        UndoState::Lacking => no_way(undo.why.as_deref().unwrap_or("nothing says why")),
        UndoState::Called => no_way("its answer is not on record; it is under way, or butlerd ended in its middle"),
        UndoState::Ready | UndoState::Undoing => {
            let again = format!("If no end is on record after two minutes, try again: butlerd undo {which}");
            ("undo_under_way", format!("somebody is taking it back just now. {again}"))
        }
    }
}

/// No row is kept of what was to be taken back; `left` are the tools that were called.
fn nothing(which: Which, butler: &str, left: &[String]) -> Failure {
    let tools = left.join(", ");
    let why = match which {
        Which::Call(id) if left.is_empty() => {
            return Failure::new("not_found", format!("There is no call {butler}/{id}. See: butlerd undo"));
        }
        Which::Call(id) => {
            format!("No way back is known for the call {butler}/{id} of {tools}: no changed rows are kept of it.")
        }
        Which::Session(_) if left.is_empty() => "No call of this session had an effect.".to_owned(),
        Which::Session(_) => format!("No changed rows are kept of this session's calls: {tools}."),
    };
    let hint = "`butlerd memory undo` takes back what a butler remembers; what was sent stays sent.";
    Failure::new("nothing_to_undo", format!("{why} {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, second: i64, tx: u64) -> (Place, UndoableCall) {
        let at = Timestamp::from_second(second).unwrap();
        let call = UndoableCall { call: name.to_owned(), called_at: at, ..UndoableCall::default() };
        (Place { at, tx }, call)
    }

    #[test]
    fn no_call_is_left_out_between_two_pages() {
        let found = || vec![call("a/1", 5, 1), call("a/2", 5, 3), call("b/1", 5, 2), call("b/2", 4, 4)];
        let names = |calls: Vec<UndoableCall>| calls.into_iter().map(|c| c.call).collect::<Vec<_>>();
        let (calls, next) = cut(found(), None, 2);
        assert_eq!(names(calls), ["a/2", "b/1"]);
        assert_eq!(place_of(&next.unwrap()), Some(call("b/1", 5, 2).0));
        let (calls, next) = cut(found(), None, 4);
        assert_eq!((calls.len(), next), (4, None));
        // What is older than what was looked at of every butler waits for the next page.
        let seen = Place { at: Timestamp::from_second(5).unwrap(), tx: 2 };
        let (calls, next) = cut(found(), Some(seen), 10);
        assert_eq!((names(calls), place_of(&next.unwrap())), (vec!["a/2".to_owned(), "b/1".to_owned()], Some(seen)));
        for other in ["", "x~1", "2026-01-01T10:00:00Z", "2026-01-01T10:00:00Z~-1", "-009999-01-02T01:59:59Z~1"] {
            assert_eq!(place_of(other), None, "{other}");
        }
    }
}
