//! Looking at what waits, what became of it, and the standing rules. Only the butler's own, and nothing that is hidden.

use base::Label;
use serde_json::{Value, json};

use super::{id, id_of, moment, own_action, own_rule};
use crate::ModuleError;
use approvals::{Action, ApprovalGate, Filter, Status};
use tools::{Meta, Tool, ToolCall, ToolError, handler};

pub(super) const NAMES: [&str; 7] = [
    "list_pending_actions",
    "show_pending_action",
    "pending_action_count",
    "list_executed_actions",
    "list_approval_rules",
    "show_approval_rule",
    "suggest_rule_constraints",
];

const USUAL: i64 = 50;

pub(super) fn tools(gate: &ApprovalGate) -> Result<Vec<Tool>, ModuleError> {
    let limit = json!({"type": "integer", "minimum": 1, "maximum": 200, "description": "How many; 50 without it"});
    let statuses: Vec<&str> = Status::ALL.iter().map(|s| s.as_str()).collect();
    let action = json!({"action_id": id_of("action")});
    let tool = json!({"type": "string", "minLength": 1, "maxLength": 200, "description": "Only of this tool"});
    Ok(tools!(
        gate,
        // The words of an action may be anybody's; whose they are, each row says.
        Meta::read(),
        (
            list_pending_actions,
            "Your calls that wait for the owner's word, or with `status` those that were decided; the newest first.",
            json!({"status": {"type": "string", "enum": statuses, "description": "pending without it"}, "limit": limit}),
            &[]
        ),
        (
            show_pending_action,
            "One call that waits or waited: what exactly it would do, and what happened to it so far.",
            action.clone(),
            &["action_id"]
        ),
        (pending_action_count, "How many of your calls wait for the owner's word.", json!({}), &[]),
        (
            list_executed_actions,
            "Your calls that were approved and made, and what came of them; the newest first.",
            json!({"tool_name": tool, "rule_id": id_of("rule"), "limit": limit,
                   "since": {"type": "string", "format": "date-time", "description": "Only those asked for since then"}}),
            &[]
        ),
        (
            list_approval_rules,
            "The standing rules by which calls of yours may be made without asking.",
            json!({"tool_name": tool, "active_only": {"type": "boolean", "default": true,
                   "description": "false: those that ended as well"}}),
            &[]
        ),
        (show_approval_rule, "One standing rule.", json!({"rule_id": id_of("rule")}), &["rule_id"]),
        (
            suggest_rule_constraints,
            "The narrowest standing rule that would allow calls like this one.",
            action,
            &["action_id"]
        ),
    ))
}

fn limit(call: &ToolCall) -> i64 {
    call.args.get("limit").and_then(Value::as_i64).unwrap_or(USUAL)
}

fn listed(call: &ToolCall, actions: &[Action]) -> Value {
    actions.iter().for_each(|action| call.shows(&Label::household(action.trust)));
    json!(actions)
}

async fn list_pending_actions(call: ToolCall, gate: ApprovalGate) -> Result<Value, ToolError> {
    let status = call.text("status").and_then(Status::from_name).unwrap_or(Status::Pending);
    let butler = Some(call.butler.to_string());
    let filter = Filter { butler, status: Some(status), ..Filter::default() };
    let actions = gate.actions().list(&call.context().tenant_id, &filter, limit(&call)).await?;
    Ok(listed(&call, &actions))
}

async fn show_pending_action(call: ToolCall, gate: ApprovalGate) -> Result<Value, ToolError> {
    let action = own_action(&call, &gate).await?;
    let (tenant, pages) = (&call.context().tenant_id, action.pages());
    let events = gate.actions().events(tenant, action.id).await?;
    if call.session().is_none() {
        // Whoever may decide was shown all of it.
        let numbers: Vec<i32> = (1..).take(pages.len()).collect();
        gate.actions().note_shown(tenant, &action, call.caller.label(), &numbers).await?;
    }
    let mut shown = json!(action);
    shown["pages"] = json!(pages);
    shown["seen"] = json!(action.shown_sha256());
    shown["events"] = json!(events);
    Ok(shown)
}

async fn pending_action_count(call: ToolCall, gate: ApprovalGate) -> Result<Value, ToolError> {
    let count = gate.actions().waiting(&call.context().tenant_id, call.butler.as_str()).await?;
    Ok(json!({"status": "ok", "pending": count}))
}

async fn list_executed_actions(call: ToolCall, gate: ApprovalGate) -> Result<Value, ToolError> {
    let filter = Filter {
        butler: Some(call.butler.to_string()),
        status: Some(Status::Executed),
        tool_name: call.text("tool_name").map(str::to_owned),
        rule: call.args.contains_key("rule_id").then(|| id(&call, "rule_id")).transpose()?,
        since: moment(&call, "since")?,
        before: None,
        sessions: None,
    };
    let actions = gate.actions().list(&call.context().tenant_id, &filter, limit(&call)).await?;
    Ok(listed(&call, &actions))
}

async fn list_approval_rules(call: ToolCall, gate: ApprovalGate) -> Result<Value, ToolError> {
    let active = call.args.get("active_only").and_then(Value::as_bool).unwrap_or(true);
    let (tenant, butler) = (&call.context().tenant_id, Some(call.butler.as_str()));
    let rules = gate.actions().rules(tenant, butler, call.text("tool_name"), active).await?;
    rules.iter().for_each(|rule| call.shows(&Label::household(rule.trust)));
    Ok(json!(rules))
}

async fn show_approval_rule(call: ToolCall, gate: ApprovalGate) -> Result<Value, ToolError> {
    Ok(json!(own_rule(&call, &gate).await?))
}

async fn suggest_rule_constraints(call: ToolCall, gate: ApprovalGate) -> Result<Value, ToolError> {
    let action = own_action(&call, &gate).await?;
    let (_, tool, _, constraints) = gate.actions().suggest(&call.context().tenant_id, action.id).await?;
    let tier = gate.tier(&tool);
    Ok(json!({"status": "ok", "action_id": action.id, "tool_name": tool, "risk_tier": tier,
              "needs_bounds": tier.wants_bounds(), "arg_constraints": constraints.write()}))
}
