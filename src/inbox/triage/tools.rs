//! `triage_rule_list|add|update|remove` and `triage_dry_run`. Every session may look; people alone change rules.

use serde_json::{Value, json};
use uuid::Uuid;

use super::dry_run::dry_run;
use super::given::{no_such_rule, rule_of};
use super::rules::Kind;
use crate::define::operators;
use crate::handle::Inbox;
use crate::sql::rules as sql;
use base::TenantId;
use tools::{Effect, Meta, Tool, ToolCall, ToolError, handler};

/// The tools.
pub fn tools(inbox: &Inbox) -> Vec<Tool> {
    let id = json!({"type": "string", "format": "uuid", "description": "Id of the rule (from triage_rule_list)"});
    let position =
        json!({"type": "integer", "minimum": 0, "maximum": 1_000_000, "description": "Lower ones are asked first"});
    let mut new_rule = said();
    new_rule["position"] = position.clone();
    new_rule["note"] = json!({"type": "string", "maxLength": 1000, "description": "Why it is there"});
    let mut tried = said();
    tried["rule_id"] = id.clone();
    tried["last"] = json!({"type": "integer", "minimum": 1, "maximum": 1000, "default": 100,
                           "description": "How many of the newest messages to look at"});
    let (adding, updating, removing, trying) = (inbox.clone(), inbox.clone(), inbox.clone(), inbox.clone());
    vec![
        Tool::built_in(
            "triage_rule_list",
            "The rules that decide what becomes of a message before any model is asked, in their order.",
            json!({}),
            &[],
            Meta::read(),
            handler(|call| async move { sql::shown(&call).await }),
        ),
        Tool::built_in(
            "triage_rule_add",
            "Add a triage rule. The first rule that fits a message decides; without a position it comes last.",
            new_rule,
            &["kind", "pattern", "action"],
            operators(Effect::Once),
            handler(move |call| add(call, adding.clone())),
        ),
        Tool::built_in(
            "triage_rule_update",
            "Switch a triage rule on or off, move it, or change its note. Only the given fields change.",
            json!({"id": id, "enabled": {"type": "boolean"}, "position": position,
                   "note": {"type": "string", "maxLength": 1000}}),
            &["id"],
            operators(Effect::Idempotent),
            handler(move |call| update(call, updating.clone())),
        ),
        Tool::built_in(
            "triage_rule_remove",
            "Remove a triage rule.",
            json!({"id": id}),
            &["id"],
            Meta { destructive: true, ..operators(Effect::Idempotent) },
            handler(move |call| remove(call, removing.clone())),
        ),
        Tool::built_in(
            "triage_dry_run",
            "Which of the newest messages a rule fits (one on record by rule_id, a new one by kind, pattern and action, or \
             all that are switched on), and what would become of them. Nothing is changed.",
            tried,
            &[],
            Meta { reads_untrusted: true, ..Meta::read() },
            handler(move |call| dry_run(call, trying.clone())),
        ),
    ]
}

/// What a rule says.
fn said() -> Value {
    let kinds: Vec<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
    json!({
        "kind": {"type": "string", "enum": kinds, "description": "What of a message it looks at"},
        "pattern": {"type": "string", "minLength": 1, "maxLength": 1000,
                    "description": "sender_domain: example.org; header: `Name: text`; mime_type: text/calendar or image/*; \
                                    else the text itself"},
        "action": {"type": "string", "enum": ["skip", "metadata_only", "low_priority", "route_to", "pass"],
                   "description": "skip and metadata_only end it; pass goes on to classification, past later rules"},
        "butler": {"type": "string", "minLength": 1, "description": "Where to, for route_to"},
    })
}

/// From now on messages are looked at anew.
fn changed(call: &ToolCall, inbox: &Inbox) {
    let tenant: &TenantId = &call.context().tenant_id;
    inbox.rules().forget(tenant);
}

async fn add(call: ToolCall, inbox: Inbox) -> Result<Value, ToolError> {
    let rule = rule_of(&call, &inbox)?;
    let position = call.args.get("position").and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok());
    let added = sql::add(&call, &rule, position).await?;
    changed(&call, &inbox);
    Ok(json!(added))
}

fn id_of(call: &ToolCall) -> Uuid {
    call.text("id").and_then(|id| id.parse().ok()).unwrap_or_default()
}

async fn update(call: ToolCall, inbox: Inbox) -> Result<Value, ToolError> {
    let enabled = call.args.get("enabled").and_then(Value::as_bool);
    let position = call.args.get("position").and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok());
    let updated = sql::update(&call, id_of(&call), (enabled, position, call.text("note"))).await?;
    changed(&call, &inbox);
    updated.map(|row| json!(row)).ok_or_else(no_such_rule)
}

async fn remove(call: ToolCall, inbox: Inbox) -> Result<Value, ToolError> {
    let removed = sql::remove(&call, id_of(&call)).await?;
    changed(&call, &inbox);
    removed.map(|row| json!({"status": "ok", "removed": row})).ok_or_else(no_such_rule)
}
