//! What rules would have done with messages that are here already.

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::book::list;
use super::given::{no_such_rule, rule_of};
use super::rules::Rules;
use crate::accept::triage;
use crate::handle::Inbox;
use crate::sql::shown::{self, PastRow};
use crate::types::{Envelope, Triage};
use base::text;
use tools::{ToolCall, ToolError};

/// Messages looked at where nobody says how many.
const LAST: i64 = 100;
/// Bytes of a message's text that are shown.
const SHOWN: usize = 160;

/// A message on record, as the rules look at it.
struct Past {
    request_id: Uuid,
    received_at: Timestamp,
    envelope: Envelope,
    /// What was decided when it came.
    was: Option<Triage>,
}

/// `triage_dry_run`
pub(super) async fn dry_run(call: ToolCall, inbox: Inbox) -> Result<Value, ToolError> {
    let inline = ["kind", "pattern", "action", "butler"].iter().any(|name| call.args.contains_key(*name));
    let rules = match (call.text("rule_id"), inline) {
        (Some(_), true) => {
            return Err(ToolError::refused("invalid_rule", "Give either rule_id or a rule of your own, not both."));
        }
        (None, true) => Rules { list: vec![rule_of(&call, &inbox)?] },
        (id, false) => {
            let mut on_record = list(&mut call.lease().await?).await?;
            if let Some(id) = id.and_then(|id| Uuid::parse_str(id).ok()) {
                on_record.retain(|rule| rule.id == id);
                // What it would do if it were switched on.
                on_record.iter_mut().for_each(|rule| rule.enabled = true);
                if on_record.is_empty() {
                    return Err(no_such_rule());
                }
            }
            Rules { list: on_record }
        }
    };
    let last = call.args.get("last").and_then(Value::as_i64).unwrap_or(LAST);
    let messages: Vec<Past> = shown::past(&call, last).await?.into_iter().filter_map(past).collect();
    let looked_at = messages.len();
    let fitted: Vec<Value> = messages.iter().filter_map(|message| told(message, &rules)).collect();
    Ok(json!({"looked_at": looked_at, "fitted": fitted.len(), "messages": fitted}))
}

/// The message, if a rule decides it.
fn told(message: &Past, rules: &Rules) -> Option<Value> {
    let would = triage(&message.envelope, rules).filter(|triage| triage.rule_id.is_some())?;
    let envelope = &message.envelope;
    Some(json!({
        "request_id": message.request_id, "received_at": message.received_at.to_string(),
        "channel": envelope.source.channel, "sender": envelope.sender.identity,
        "text": text::truncate(&envelope.payload.normalized_text, SHOWN),
        "rule_id": would.rule_id, "would": would.action, "butler": would.butler,
        "was": message.was.as_ref().map(|was| was.action),
    }))
}

/// The envelope as it came in, put together again from its row.
fn past(row: PastRow) -> Option<Past> {
    let rest = &row.envelope;
    let envelope = json!({
        "schema_version": "ingest.v1",
        "source": {"channel": row.channel, "provider": row.provider, "endpoint_identity": row.endpoint},
        "event": {"external_event_id": row.external_event_id.unwrap_or_default(), "external_thread_id": row.thread,
                  "observed_at": row.observed_at.to_string()},
        "sender": rest["sender"],
        "payload": {"raw": rest["raw"], "normalized_text": row.body, "attachments": row.attachments},
        "control": rest["control"],
    });
    Some(Past {
        request_id: row.request_id,
        received_at: row.received_at,
        envelope: serde_json::from_value(envelope).ok()?,
        was: row.triage.and_then(|triage| serde_json::from_value(triage).ok()),
    })
}
