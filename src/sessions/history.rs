//! What is on record of sessions: the events of one, and all that one trace led to.

use jiff::Timestamp;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use super::core::Spawner;
use super::tools::{COLUMNS, show};
use super::types::{EventKind, SessionEvent, SessionResult, SessionState};
use base::{RequestContext, SessionId};
use store::{Lease, StoreError};

/// Events in one answer; each is some 16 KiB at most.
const PAGE: i64 = 500;
/// Sessions, calls and runs that a trace is shown with.
const MOST: i64 = 200;
/// The newest sessions of a schedule.
const RUNS: i64 = 10;

/// A part of a session's transcript.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EventPage {
    pub butler: String,
    pub state: SessionState,
    /// In order. Of a session that is over the last one is how it ended.
    pub events: Vec<SessionEvent>,
    /// Whether there are more on record by now.
    pub more: bool,
}

/// What one butler has of some traces.
#[derive(Clone, Debug, Default)]
pub struct TracePart {
    /// Rows as the tool `sessions_list` shows them, with the request each came from.
    pub sessions: Vec<Value>,
    /// Of these sessions, in order for each.
    pub events: Vec<SessionEvent>,
    /// Calls of tools outside of sessions.
    pub calls: Vec<Value>,
    /// Of schedules.
    pub runs: Vec<Value>,
    /// There was more than is shown.
    pub cut: bool,
}

impl Spawner {
    /// What is stored of a session after the event numbered `after`, everything told so far included. `None`: this
    /// butler and tenant have no such session.
    pub async fn events(&self, ctx: &RequestContext, id: Uuid, after: i32) -> Result<Option<EventPage>, StoreError> {
        self.transcript().flush().await;
        let mut lease = self.store().lease(ctx).await?;
        self.page(&mut lease, id, after).await
    }

    async fn page(&self, lease: &mut Lease, id: Uuid, after: i32) -> Result<Option<EventPage>, StoreError> {
        let failed = || StoreError::query("reading a session's events");
        // The row first: all events are written before it says that the session is over.
        let row = lease.read(ENDING, &[&id]).await.map_err(failed())?;
        let Some(row) = row.first() else { return Ok(None) };
        let rows = lease
            .read(
                "SELECT seq, at, kind, body FROM session_events WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT $3",
                &[&id, &after, &PAGE],
            )
            .await
            .map_err(failed())?;
        let butler = self.name();
        let mut events: Vec<SessionEvent> = rows.iter().map(|r| SessionEvent::of_row(butler, id, r)).collect();
        let more = rows.len() as i64 == PAGE;
        let (state, end) = ending(row, id);
        if let (Some((at, end)), false) = (end, more) {
            let seq = row.get::<_, i32>("last_seq") + 1;
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
        Ok(Some(EventPage { butler: butler.to_owned(), state, events, more }))
    }

    /// The composed system prompt of a session, and what its trigger came with; null when there is none yet.
    pub async fn prompt_of(&self, ctx: &RequestContext, id: Uuid) -> Result<Value, StoreError> {
        let mut lease = self.store().lease(ctx).await?;
        let sql = "SELECT system_prompt, context FROM sessions WHERE id = $1";
        let rows = lease.read(sql, &[&id]).await.map_err(StoreError::query("reading a session"))?;
        let shown = |r: &Row| json!({"system_prompt": r.get::<_, Option<String>>(0), "context": r.get::<_, Value>(1)});
        Ok(rows.first().map_or(Value::Null, shown))
    }

    /// The traces that an id belongs to here: a session's, a request's, a trace's own, or those of a schedule's last sessions.
    pub async fn traces_of(&self, ctx: &RequestContext, id: Uuid) -> Result<Vec<String>, StoreError> {
        let mut lease = self.store().lease(ctx).await?;
        let trace = id.simple().to_string();
        let rows = lease
            .read(
                "SELECT trace_id FROM sessions WHERE id = $1 OR request_id = $1 OR trace_id = $2
                 UNION (SELECT s.trace_id FROM scheduled_tasks t JOIN sessions s ON s.trigger_source = 'schedule:' || t.name
                        WHERE t.id = $1 ORDER BY s.queued_at DESC LIMIT $3)",
                &[&id, &trace, &RUNS],
            )
            .await
            .map_err(StoreError::query("looking for a trace"))?;
        Ok(rows.iter().map(|r| r.get(0)).collect())
    }

    /// What this butler has of these traces, and of the request or schedule `id` itself.
    pub async fn trace_part(&self, ctx: &RequestContext, id: Uuid, traces: &[String]) -> Result<TracePart, StoreError> {
        self.transcript().flush().await;
        let failed = || StoreError::query("reading a trace");
        let mut lease = self.store().lease(ctx).await?;
        let sql = format!(
            "SELECT {COLUMNS}, context -> 'request' AS request FROM sessions WHERE trace_id = ANY($1)
             ORDER BY queued_at, id LIMIT $2"
        );
        let rows = lease.read(&sql, &[&traces, &MOST]).await.map_err(failed())?;
        let mut part = TracePart { cut: rows.len() as i64 == MOST, ..TracePart::default() };
        let mut requests = vec![id];
        for row in &rows {
            requests.push(row.get("request_id"));
            let mut shown = show(row);
            shown["request"] = row.get("request");
            part.sessions.push(shown);
        }
        for row in &rows {
            if let Some(page) = self.page(&mut lease, row.get("id"), 0).await? {
                part.events.extend(page.events);
                part.cut |= page.more;
            }
        }
        let calls = lease
            .read(
                "SELECT tool, arguments, outcome, detail, effect, called_at, duration_us, request_id, caller
                 FROM tool_calls WHERE request_id = ANY($1) AND session_id IS NULL ORDER BY called_at, id LIMIT $2",
                &[&requests, &MOST],
            )
            .await
            .map_err(failed())?;
        part.cut |= calls.len() as i64 == MOST;
        part.calls = calls.iter().map(call).collect();
        let runs = lease
            .read(
                "SELECT t.name, r.task_id, r.fire_at, r.state, r.reason, r.session_id, r.created_at, r.finished_at
                 FROM schedule_runs r JOIN scheduled_tasks t ON t.id = r.task_id
                 WHERE r.task_id = $1 OR r.session_id IN (SELECT id FROM sessions WHERE trace_id = ANY($2))
                 ORDER BY r.fire_at DESC LIMIT $3",
                &[&id, &traces, &MOST],
            )
            .await
            .map_err(failed())?;
        part.runs = runs.iter().rev().map(run).collect();
        Ok(part)
    }
}

const ENDING: &str = "SELECT state, result, error_class, error, input_tokens, output_tokens, cost_usd, completed_at,
    coalesce(duration_ms, (extract(epoch FROM completed_at - queued_at) * 1000)::bigint) AS duration_ms,
    (SELECT count(*) FROM tool_calls c WHERE c.session_id = sessions.id) AS tool_calls,
    (SELECT coalesce(max(seq), 0) FROM session_events e WHERE e.session_id = sessions.id) AS last_seq
    FROM sessions WHERE id = $1";

/// A session's state, and how it ended if it did.
fn ending(row: &Row, id: Uuid) -> (SessionState, Option<(Timestamp, SessionResult)>) {
    let name: String = row.get("state");
    // The table allows no other names than these.
    let state = serde_json::from_value(Value::String(name)).unwrap_or(SessionState::Interrupted);
    let end = row.get::<_, Option<Timestamp>>("completed_at").map(|at| {
        let result = SessionResult {
            session_id: SessionId(id),
            state,
            output: row.get("result"),
            error_class: row.get("error_class"),
            error: row.get("error"),
            duration_ms: row.get::<_, Option<i64>>("duration_ms").unwrap_or_default(),
            input_tokens: row.get("input_tokens"),
            output_tokens: row.get("output_tokens"),
            cost_usd: row.get::<_, Option<Decimal>>("cost_usd").map(|d| d.normalize().to_string()),
            tool_calls: row.get("tool_calls"),
        };
        (at, result)
    });
    (state, end)
}

impl SessionEvent {
    /// Reads a row of `session_events`: seq, at, kind, body.
    pub fn of_row(butler: &str, id: Uuid, row: &Row) -> Self {
        let mut body: Value = row.get("body");
        if let Value::Object(members) = &mut body {
            members.insert("event".to_owned(), Value::String(row.get("kind")));
        }
        Self {
            butler: butler.to_owned(),
            session_id: SessionId(id),
            seq: Some(row.get("seq")),
            at: row.get("at"),
            // A row of a later version may be of another shape.
            kind: serde_json::from_value(body).unwrap_or(EventKind::Unknown),
        }
    }
}

fn call(r: &Row) -> Value {
    json!({"tool": r.get::<_, String>(0), "arguments": r.get::<_, Value>(1), "outcome": r.get::<_, String>(2),
           "detail": r.get::<_, Option<String>>(3), "effect": r.get::<_, String>(4),
           "called_at": r.get::<_, Timestamp>(5).to_string(), "duration_us": r.get::<_, i64>(6),
           "request_id": r.get::<_, Uuid>(7), "caller": r.get::<_, String>(8)})
}

fn run(r: &Row) -> Value {
    let time = |i: usize| r.get::<_, Option<Timestamp>>(i).map(|t| t.to_string());
    json!({"schedule": r.get::<_, String>(0), "task_id": r.get::<_, Uuid>(1), "fire_at": time(2),
           "state": r.get::<_, String>(3), "reason": r.get::<_, Option<String>>(4),
           "session_id": r.get::<_, Option<Uuid>>(5), "begun_at": time(6), "finished_at": time(7)})
}
