//! `triage_rule_list|add|update|remove` and `triage_dry_run`. Every session may look; people alone change rules.

use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use super::dry_run::dry_run;
use super::rules::{Kind, Rule};
use crate::handle::Inbox;
use crate::tools::{define, operators};
use crate::types::Action;
use base::TenantId;
use tools::{Effect, Meta, Tool, ToolCall, ToolError, handler};

const COLUMNS: &str = "id, position, kind, pattern, action, butler, enabled, note";
/// Between the positions of rules that name none, so that others fit in.
const STEP: i32 = 10;

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
    let list_def = define(
        "triage_rule_list",
        "The rules that decide what becomes of a message before any model is asked, in their order.",
        json!({}),
        &[],
        Meta::read(),
    );
    let add_def = define(
        "triage_rule_add",
        "Add a triage rule. The first rule that fits a message decides; without a position it comes last.",
        new_rule,
        &["kind", "pattern", "action"],
        operators(Effect::Once),
    );
    let update_def = define(
        "triage_rule_update",
        "Switch a triage rule on or off, move it, or change its note. Only the given fields change.",
        json!({"id": id, "enabled": {"type": "boolean"}, "position": position,
               "note": {"type": "string", "maxLength": 1000}}),
        &["id"],
        operators(Effect::Idempotent),
    );
    let remove_def = define(
        "triage_rule_remove",
        "Remove a triage rule.",
        json!({"id": id}),
        &["id"],
        Meta { destructive: true, ..operators(Effect::Idempotent) },
    );
    let try_def = define(
        "triage_dry_run",
        "Which of the newest messages a rule fits (one on record by rule_id, a new one by kind, pattern and action, or \
         all that are switched on), and what would become of them. Nothing is changed.",
        tried,
        &[],
        Meta { reads_untrusted: true, ..Meta::read() },
    );
    let (adding, updating, removing, trying) = (inbox.clone(), inbox.clone(), inbox.clone(), inbox.clone());
    vec![
        Tool::new(&list_def, handler(list)),
        Tool::new(&add_def, handler(move |call| add(call, adding.clone()))),
        Tool::new(&update_def, handler(move |call| update(call, updating.clone()))),
        Tool::new(&remove_def, handler(move |call| remove(call, removing.clone()))),
        Tool::new(&try_def, handler(move |call| dry_run(call, trying.clone()))),
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

async fn list(call: ToolCall) -> Result<Value, ToolError> {
    let sql = format!("SELECT {COLUMNS} FROM triage_rules ORDER BY position, id");
    Ok(call.query(&sql, &[]).await?.iter().map(show).collect())
}

fn show(row: &Row) -> Value {
    json!({"id": row.get::<_, Uuid>(0), "position": row.get::<_, i32>(1), "kind": row.get::<_, String>(2),
           "pattern": row.get::<_, String>(3), "action": row.get::<_, String>(4),
           "butler": row.get::<_, Option<String>>(5), "enabled": row.get::<_, bool>(6),
           "note": row.get::<_, Option<String>>(7)})
}

/// The rule that the arguments speak of, if they are sound.
pub(super) fn rule_of(call: &ToolCall, inbox: &Inbox) -> Result<Rule, ToolError> {
    let wrong = |why: String| ToolError::refused("invalid_rule", why);
    let text = |name: &str| call.text(name).map(str::trim).unwrap_or_default();
    let kind = Kind::from_name(text("kind")).ok_or_else(|| wrong("A rule needs a kind.".to_owned()))?;
    let action = serde_json::from_value::<Action>(text("action").into());
    let action = action.map_err(|_| wrong("A rule needs an action.".to_owned()))?;
    let pattern = text("pattern");
    if let Some(why) = mistake(kind, pattern) {
        return Err(wrong(why));
    }
    let butler = call.text("butler").map(str::to_owned);
    match (action, &butler) {
        (Action::RouteTo, None) => {
            return Err(wrong(format!("route_to needs a butler; there are: {}.", names(inbox))));
        }
        (Action::RouteTo, Some(butler)) if !inbox.routable().iter().any(|(name, _)| name == butler) => {
            let message = format!("There is no butler `{butler}` to route to; there are: {}.", names(inbox));
            return Err(ToolError::refused("unknown_butler", message));
        }
        (Action::RouteTo, Some(_)) | (_, None) => {}
        (action, Some(_)) => return Err(wrong(format!("Only route_to takes a butler, not {}.", action.as_str()))),
    }
    let note = call.text("note").map(str::to_owned);
    Ok(Rule { id: Uuid::now_v7(), position: 0, kind, pattern: pattern.to_owned(), action, butler, enabled: true, note })
}

fn names(inbox: &Inbox) -> String {
    inbox.routable().into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(", ")
}

/// Why a pattern can never fit.
fn mistake(kind: Kind, pattern: &str) -> Option<String> {
    if pattern.is_empty() {
        return Some("The pattern is empty.".to_owned());
    }
    match kind {
        Kind::SenderDomain if pattern.trim_start_matches('@').contains('@') || pattern == "@" => {
            Some(format!("`{pattern}` is not a domain; give example.org, or the kind sender_address for one sender."))
        }
        Kind::Header if pattern.split(':').next().is_none_or(|name| name.trim().is_empty()) => {
            Some(format!("`{pattern}` names no header; write it as in `List-Id: news`."))
        }
        Kind::MimeType if !pattern.contains('/') => {
            Some(format!("`{pattern}` is not a type; give text/calendar, or image/* for a family."))
        }
        _ => None,
    }
}

/// From now on messages are looked at anew.
fn changed(call: &ToolCall, inbox: &Inbox) {
    let tenant: &TenantId = &call.context().tenant_id;
    inbox.rules().forget(tenant);
}

async fn add(call: ToolCall, inbox: Inbox) -> Result<Value, ToolError> {
    let rule = rule_of(&call, &inbox)?;
    let position = call.args.get("position").and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok());
    let sql = format!(
        "INSERT INTO triage_rules (id, position, kind, pattern, action, butler, note)
         VALUES ($1, coalesce($2, (SELECT coalesce(max(position), 0) + $8 FROM triage_rules)), $3, $4, $5, $6, $7)
         RETURNING {COLUMNS}"
    );
    let (kind, action) = (rule.kind.as_str(), rule.action.as_str());
    let rows = call
        .effect(&sql, &[&rule.id, &position, &kind, &rule.pattern, &action, &rule.butler, &rule.note, &STEP])
        .await?;
    changed(&call, &inbox);
    Ok(rows.first().map(show).unwrap_or_default())
}

fn id_of(call: &ToolCall) -> Uuid {
    call.text("id").and_then(|id| id.parse().ok()).unwrap_or_default()
}

pub(super) fn no_such_rule() -> ToolError {
    ToolError::refused("not_found", "There is no rule of that id; triage_rule_list (butlerd rules list) shows them.")
}

async fn update(call: ToolCall, inbox: Inbox) -> Result<Value, ToolError> {
    let enabled = call.args.get("enabled").and_then(Value::as_bool);
    let position = call.args.get("position").and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok());
    let sql = format!(
        "UPDATE triage_rules SET enabled = coalesce($2, enabled), position = coalesce($3, position),
                note = coalesce($4, note), updated_at = shared.clock()
         WHERE id = $1 RETURNING {COLUMNS}"
    );
    let rows = call.effect(&sql, &[&id_of(&call), &enabled, &position, &call.text("note")]).await?;
    changed(&call, &inbox);
    rows.first().map(show).ok_or_else(no_such_rule)
}

async fn remove(call: ToolCall, inbox: Inbox) -> Result<Value, ToolError> {
    let sql = format!("DELETE FROM triage_rules WHERE id = $1 RETURNING {COLUMNS}");
    let rows = call.effect(&sql, &[&id_of(&call)]).await?;
    changed(&call, &inbox);
    rows.first().map(|row| json!({"status": "ok", "removed": show(row)})).ok_or_else(no_such_rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_can_never_fit_are_named() {
        for (kind, pattern) in [
            (Kind::Substring, ""),
            (Kind::SenderDomain, "ada@example.org"),
            (Kind::Header, ": x"),
            (Kind::MimeType, "calendar"),
        ] {
            assert!(mistake(kind, pattern).is_some(), "{kind:?} {pattern:?}");
        }
        for (kind, pattern) in [
            (Kind::SenderDomain, "@example.org"),
            (Kind::Header, "List-Id"),
            (Kind::Header, "Precedence: bulk"),
            (Kind::MimeType, "image/*"),
            (Kind::SenderAddress, "ada@example.org"),
        ] {
            assert_eq!(mistake(kind, pattern), None, "{kind:?} {pattern:?}");
        }
    }
}
