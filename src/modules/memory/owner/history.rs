//! `memory_history`: what was done to memories, and what it changed.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::telling_parts;
use tools::{ToolCall, ToolError};

const EVENTS: &str = "
    SELECT e.id, e.seq, e.event_type, e.memory_type, e.memory_id, e.actor, e.at, e.reason, e.session_id, e.request_id,
           e.undoes, e.payload, e.trust, EXISTS (SELECT 1 FROM memory_events u WHERE u.undoes = e.id) AS undone,
           memory_row(e.memory_type, e.memory_id) AS now
    FROM memory_events e
    WHERE ($1::uuid IS NULL OR e.memory_id = $1 OR e.id IN (SELECT h.event_id FROM memory_history h WHERE h.memory_id = $1))
      AND ($2::bigint IS NULL OR e.seq < $2)
    ORDER BY e.seq DESC LIMIT $3";

/// Of each row that an event changed: how it was, and how it was after it.
const CHANGES: &str = "
    SELECT h.event_id, h.memory_type, h.memory_id, h.before,
           coalesce((SELECT n.before FROM memory_history n WHERE n.memory_id = h.memory_id AND n.change > h.change
                     ORDER BY n.change LIMIT 1), memory_row(h.memory_type, h.memory_id)) AS after,
           memory_row(h.memory_type, h.memory_id) ->> 'forgotten_at' IS NOT NULL AS forgotten
    FROM memory_history h WHERE h.event_id = ANY($1) ORDER BY h.change";

pub(super) async fn memory_history(call: ToolCall) -> Result<Value, ToolError> {
    let of: Option<Uuid> = call.text("memory_id").and_then(|id| id.parse().ok());
    let number = |name: &str| call.args.get(name).and_then(Value::as_i64);
    let limit = number("limit").unwrap_or(50);
    let rows = call.query(EVENTS, &[&of, &number("before"), &limit]).await?;
    let ids: Vec<Uuid> = rows.iter().map(|r| r.get("id")).collect();
    let changes = call.query(CHANGES, &[&ids]).await?;
    let events: Vec<Value> = rows
        .iter()
        .map(|r| {
            let id: Uuid = r.get("id");
            let changed: Vec<Value> = changes
                .iter()
                .filter(|c| c.get::<_, Uuid>("event_id") == id)
                .map(|c| {
                    let (before, after): (Option<Value>, Option<Value>) = (c.get("before"), c.get("after"));
                    let what = difference(before.as_ref(), &after.unwrap_or_default(), c.get("forgotten"));
                    json!({"memory_type": c.get::<_, String>("memory_type"), "memory_id": c.get::<_, Uuid>("memory_id"),
                           "made": before.is_none(), "parts": what})
                })
                .collect();
            let now: Option<Value> = r.get("now");
            let says = now.filter(|now| now["forgotten_at"].is_null()).map(|now| now["content"].clone());
            json!({"event": id, "number": r.get::<_, i64>("seq"), "what": r.get::<_, String>("event_type"),
                   "memory_type": r.get::<_, String>("memory_type"), "memory_id": r.get::<_, Uuid>("memory_id"),
                   "by": r.get::<_, String>("actor"), "at": r.get::<_, Timestamp>("at"),
                   "reason": r.get::<_, Option<String>>("reason"), "session_id": r.get::<_, Option<Uuid>>("session_id"),
                   "request_id": r.get::<_, Option<Uuid>>("request_id"), "undoes": r.get::<_, Option<Uuid>>("undoes"),
                   "undone": r.get::<_, bool>("undone"), "trust": r.get::<_, String>("trust"),
                   "details": r.get::<_, Value>("payload"), "says_now": says, "changed": changed})
        })
        .collect();
    let whole = i64::try_from(events.len()).is_ok_and(|n| n < limit);
    let next = if whole { Value::Null } else { events.last().map(|e| e["number"].clone()).unwrap_or_default() };
    Ok(json!({"events": events, "next_before": next}))
}

/// The text of what was forgotten is not told.
const TEXT: [&str; 7] = ["content", "subject", "predicate", "speaker", "tags", "metadata", "last_error"];

/// `{part: {from, to}}` of what differs; of a memory that was made, what it says.
fn difference(before: Option<&Value>, after: &Value, forgotten: bool) -> Map<String, Value> {
    let (was, is) = (before.map(telling_parts), telling_parts(after));
    let mut parts = Map::new();
    for (name, to) in &is {
        let hidden = forgotten && TEXT.contains(&name.as_str());
        let told = was.is_some() || ["content", "subject", "predicate", "speaker"].contains(&name.as_str());
        let from = was.as_ref().and_then(|was| was.get(name)).unwrap_or(&Value::Null);
        if from != to && !hidden && told {
            parts.insert(name.clone(), json!({"from": from, "to": to}));
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_told_but_no_text_of_what_was_forgotten() {
        let (was, is) = (
            json!({"content": "a", "importance": 5, "change": 1}),
            json!({"content": "b", "importance": 5, "change": 2}),
        );
        assert_eq!(json!(difference(Some(&was), &is, false)), json!({"content": {"from": "a", "to": "b"}}));
        assert!(difference(Some(&was), &is, true).is_empty());
        assert_eq!(json!(difference(None, &is, false)), json!({"content": {"from": null, "to": "b"}}));
    }
}
