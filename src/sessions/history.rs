//! What is on record of sessions: the events of one, and all that one trace led to.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::core::Spawner;
use super::sql::{self, EventRow, PromptRow, SessionEnd};
use super::tools::show;
use super::types::{EventKind, SessionEvent, SessionResult, SessionState};
use base::{IdBeginning, RequestContext, SessionId};
use store::{AsRows, Lease, StoreError};
use tools::sql::audited::AuditedCall;
use tools::sql::calls;

/// Events in one answer; each is some 16 KiB at most.
const PAGE: i64 = 500;
/// Sessions and calls that a trace is shown with.
const MOST: i64 = 200;
/// The newest sessions of a source, such as a schedule.
const LAST: i64 = 10;

/// A part of a session's transcript.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EventPage {
    pub butler: String,
    pub state: SessionState,
    /// In order. Of a session that is over the last one is how it ended.
    pub events: Vec<SessionEvent>,
    /// Whether there are more on record by now.
    pub more: bool,
    /// What there was, before these were read, of the text that it writes just now.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub writing: String,
}

/// What one butler has of some traces.
#[derive(Clone, Debug, Default)]
pub struct TracePart {
    /// Rows as the tool `sessions_list` shows them, with the request each came from.
    pub sessions: Vec<Value>,
    /// The ids of these sessions.
    pub ids: Vec<Uuid>,
    /// Of these sessions, in order for each.
    pub events: Vec<SessionEvent>,
    /// Calls of tools outside of sessions.
    pub calls: Vec<Value>,
    /// There was more than is shown.
    pub cut: bool,
}

impl Spawner {
    /// What is stored of a session after the event numbered `after`, everything told so far included. `None`: this
    /// butler and tenant have no such session.
    pub async fn events(&self, ctx: &RequestContext, id: Uuid, after: i32) -> Result<Option<EventPage>, StoreError> {
        // First: a text that is whole by then is among the events.
        let writing = self.transcript().writing(SessionId(id));
        self.transcript().flush().await;
        let mut lease = self.store().lease(ctx).await?;
        let page = self.page(&mut lease, id, after).await?;
        Ok(page.map(|page| EventPage { writing, ..page }))
    }

    async fn page(&self, lease: &mut Lease, id: Uuid, after: i32) -> Result<Option<EventPage>, StoreError> {
        // The row first: all events are written before it says that the session is over.
        let Some(row) = sql::end_of(lease, id).await? else { return Ok(None) };
        let rows = lease.read(sql::PART_OF_EVENTS, &[&id, &after, &PAGE]).await;
        let rows = rows.map_err(StoreError::query("reading a session's events"))?;
        let butler = self.name();
        let mut events: Vec<SessionEvent> = rows.iter().map(|r| SessionEvent::of_row(butler, id, r.into())).collect();
        let more = rows.len() as i64 == PAGE;
        let last = row.last_seq;
        let (state, end) = ending(row, id);
        if let (Some((at, end)), false) = (end, more) {
            let seq = last + 1;
            if seq > after {
                let kind = EventKind::Ended(end);
                events.push(SessionEvent {
                    butler: butler.to_owned(),
                    session_id: SessionId(id),
                    seq: Some(seq),
                    at,
                    kind,
                });
            }
        }
        Ok(Some(EventPage { butler: butler.to_owned(), state, events, more, writing: String::new() }))
    }

    /// The newest sessions queued before a moment, or at that moment with a lower id, as the tool `sessions_list` shows
    /// them.
    pub async fn newest_before(
        &self,
        ctx: &RequestContext,
        before: (Timestamp, Uuid),
        limit: i64,
    ) -> Result<Vec<Value>, StoreError> {
        let mut lease = self.store().lease(ctx).await?;
        Ok(sql::newest_before(&mut lease, before, limit).await?.iter().map(show).collect())
    }

    /// The composed system prompt of a session, and what its trigger came with; null when there is none yet.
    pub async fn prompt_of(&self, ctx: &RequestContext, id: Uuid) -> Result<Value, StoreError> {
        let mut lease = self.store().lease(ctx).await?;
        let rows = lease.read(sql::PROMPT, &[&id]).await.map_err(StoreError::query("reading a session"))?;
        let shown = |row: PromptRow| json!({"system_prompt": row.system_prompt, "context": row.context});
        Ok(rows.first().map_or(Value::Null, |row| shown(row.into())))
    }

    /// The traces that an id belongs to here: a session's, a request's, a trace's own, and those of the last sessions
    /// that `source` started.
    pub async fn traces_of(
        &self,
        ctx: &RequestContext,
        id: Uuid,
        source: Option<&str>,
    ) -> Result<Vec<String>, StoreError> {
        let mut lease = self.store().lease(ctx).await?;
        let trace = id.simple().to_string();
        let rows = lease.read(sql::TRACES, &[&id, &trace, &LAST, &source]).await;
        rows.column("trace_id").map_err(StoreError::query("looking for a trace"))
    }

    /// The ids of sessions that begin so; with `traced`, also those of requests and traces.
    pub async fn ids(
        &self,
        ctx: &RequestContext,
        beginning: &IdBeginning,
        traced: bool,
        most: i64,
    ) -> Result<Vec<Uuid>, StoreError> {
        let (first, last) = beginning.range();
        let mut lease = self.store().lease(ctx).await?;
        let rows = lease.read(if traced { sql::TRACED_IDS } else { sql::IDS }, &[&first, &last, &most]).await;
        rows.column("id").map_err(StoreError::query("looking for an id"))
    }

    /// What this butler has of these traces, and of the request `id` itself.
    pub async fn trace_part(&self, ctx: &RequestContext, id: Uuid, traces: &[String]) -> Result<TracePart, StoreError> {
        self.transcript().flush().await;
        let mut lease = self.store().lease(ctx).await?;
        let rows = sql::of_traces(&mut lease, traces, MOST).await?;
        let mut part = TracePart { cut: rows.len() as i64 == MOST, ..TracePart::default() };
        let mut requests = vec![id];
        for row in &rows {
            requests.push(row.get("request_id"));
            let mut shown = show(row);
            shown["request"] = row.get("request");
            part.sessions.push(shown);
        }
        for row in &rows {
            let id: Uuid = row.get("id");
            part.ids.push(id);
            if let Some(page) = self.page(&mut lease, id, 0).await? {
                part.events.extend(page.events);
                part.cut |= page.more;
            }
        }
        let calls = calls::outside_of_sessions(&mut lease, &requests, MOST).await?;
        part.cut |= calls.len() as i64 == MOST;
        part.calls = calls.into_iter().map(call).collect();
        Ok(part)
    }
}

/// A session's state, and how it ended if it did.
fn ending(row: SessionEnd, id: Uuid) -> (SessionState, Option<(Timestamp, SessionResult)>) {
    // The table allows no other names than these.
    let state = serde_json::from_value(Value::String(row.state)).unwrap_or(SessionState::Interrupted);
    let result = SessionResult {
        session_id: SessionId(id),
        state,
        output: row.result,
        error_class: row.error_class,
        error: row.error,
        duration_ms: row.duration_ms.unwrap_or_default(),
        input_tokens: row.input_tokens,
        output_tokens: row.output_tokens,
        all_tokens: None,
        cost_usd: row.cost_usd.map(|d| d.normalize().to_string()),
        tool_calls: row.tool_calls,
    };
    (state, row.completed_at.map(|at| (at, result)))
}

impl SessionEvent {
    /// An event on record.
    pub fn of_row(butler: &str, id: Uuid, row: EventRow) -> Self {
        let EventRow { seq, at, kind, mut body } = row;
        if let Value::Object(members) = &mut body {
            members.insert("event".to_owned(), Value::String(kind));
        }
        // A row of a later version may be of another shape.
        let kind = serde_json::from_value(body).unwrap_or(EventKind::Unknown);
        Self { butler: butler.to_owned(), session_id: SessionId(id), seq: Some(seq), at, kind }
    }
}

fn call(c: AuditedCall) -> Value {
    json!({"tool": c.tool, "arguments": c.arguments, "outcome": c.outcome, "detail": c.detail, "effect": c.effect,
           "called_at": c.called_at.to_string(), "duration_us": c.duration_us, "request_id": c.request_id,
           "caller": c.caller})
}
