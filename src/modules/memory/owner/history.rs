//! `memory_history`: what was done to memories, and what it changed.

use memory::sql::story::{self, Change, Event};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::telling_parts;
use crate::memory::tools::With;
use tools::{ToolCall, ToolError};

pub(super) async fn memory_history(call: ToolCall, _: With) -> Result<Value, ToolError> {
    let of: Option<Uuid> = call.text("memory_id").and_then(|id| id.parse().ok());
    let number = |name: &str| call.args.get(name).and_then(Value::as_i64);
    let limit = number("limit").unwrap_or(50);
    let events = story::history(&mut &call, of, number("before"), limit).await?;
    let ids: Vec<Uuid> = events.iter().map(|e| e.id).collect();
    let changes = story::changes(&mut &call, &ids).await?;
    let whole = i64::try_from(events.len()).is_ok_and(|n| n < limit);
    let next = events.last().filter(|_| !whole).map(|e| e.seq);
    let told: Vec<Value> = events.iter().map(|e| told(e, &changes)).collect();
    Ok(json!({"events": told, "next_before": next}))
}

fn told(e: &Event, changes: &[Change]) -> Value {
    let changed = |c: &Change| {
        let parts = difference(c.before.as_ref(), c.after.as_ref().unwrap_or(&Value::Null), c.forgotten == Some(true));
        json!({"memory_type": c.memory_type, "memory_id": c.memory_id, "made": c.before.is_none(), "parts": parts})
    };
    let changed: Vec<Value> = changes.iter().filter(|c| c.event_id == e.id).map(changed).collect();
    let says = e.now.as_ref().filter(|now| now["forgotten_at"].is_null()).map(|now| &now["content"]);
    json!({"event": e.id, "number": e.seq, "what": e.event_type, "memory_type": e.memory_type, "memory_id": e.memory_id,
           "by": e.actor, "at": e.at, "reason": e.reason, "session_id": e.session_id, "request_id": e.request_id,
           "undoes": e.undoes, "undone": e.undone, "trust": e.trust, "details": e.payload, "says_now": says,
           "changed": changed})
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
