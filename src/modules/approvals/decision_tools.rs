//! Deciding: for people and programs that they gave the scope `admin`. A session can't, whatever its token says.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{id_of, moment, own_action, own_rule};
use crate::ModuleError;
use access::{GrantScope, Holder};
use approvals::{ApprovalGate, Constraints, Draft, Rule, Ruling, people};
use tools::{Effect, Meta, Tool, ToolCall, ToolError, handler};

pub(super) const NAMES: [&str; 6] = [
    "approve_action",
    "reject_action",
    "expire_stale_actions",
    "create_approval_rule",
    "create_rule_from_action",
    "revoke_approval_rule",
];

pub(super) fn tools(gate: &ApprovalGate) -> Result<Vec<Tool>, ModuleError> {
    let text =
        |most: u32, what: &str| json!({"type": "string", "minLength": 1, "maxLength": most, "description": what});
    let bounds = json!({
        "expires_at": {"type": "string", "format": "date-time", "description": "Until when the rule counts"},
        "max_uses": {"type": "integer", "minimum": 1, "maximum": 1_000_000, "description": "For how many calls it counts"},
        "also_influenced_by": {"type": "array", "maxItems": 50, "items": text(500, "channel:identity of a known person"),
            "description": "People, such as email:bob@example.org, whose sessions the rule is for as well. Without it only \
                            the owner's own; never a stranger's"}});
    let with = |mut own: Value| {
        if let (Some(own), Some(bounds)) = (own.as_object_mut(), bounds.as_object()) {
            own.extend(bounds.clone());
        }
        own
    };
    let constraints = json!({"type": "object", "description":
        "By argument: {\"type\": \"exact\", \"value\": …}, {\"type\": \"pattern\", \"value\": \"*@example.org\"} or \
         {\"type\": \"any\"}. All must hold."});
    Ok(tools!(
        gate,
        Meta { operators: true, ..Meta::write(Effect::Once) },
        (
            approve_action,
            "Let a call through that waits. It is made once, with exactly the arguments that were shown. One of several \
             pages has to be looked at with show_pending_action first.",
            json!({"action_id": id_of("action"), "seen": text(64, "Only if it is still what show_pending_action gave this `seen` for"),
                   "create_rule": {"type": "boolean", "default": false,
                                   "description": "Allow calls with the same arguments from now on"}}),
            &["action_id"]
        ),
        (
            reject_action,
            "Turn down a call that waits; its butler is told.",
            json!({"action_id": id_of("action"), "reason": text(2000, "What its butler is told")}),
            &["action_id"]
        ),
        (expire_stale_actions, "End what nobody has decided in time. It happens by itself as well.", json!({}), &[]),
        (
            create_approval_rule,
            "Allow calls of a gated tool in advance.",
            with(json!({"tool_name": text(200, "The tool"), "arg_constraints": constraints,
                        "description": text(1000, "What the rule is for")})),
            &["tool_name", "arg_constraints", "description"]
        ),
        (
            create_rule_from_action,
            "Allow calls like one that waits or waited: with the same arguments, but for those that you override.",
            with(json!({"action_id": id_of("action"), "constraint_overrides": constraints,
                        "description": text(1000, "What the rule is for")})),
            &["action_id"]
        ),
        (revoke_approval_rule, "End a standing rule.", json!({"rule_id": id_of("rule")}), &["rule_id"]),
    ))
}

/// Who decides. Only a person may, or what a person gave the right to.
fn person(call: &ToolCall) -> Result<String, ToolError> {
    let refused = |why: &str| Err(ToolError::refused("human_actor_required", why));
    match &call.caller.grant.holder {
        Holder::Operator { .. } if call.caller.grant.has(GrantScope::Admin) => Ok(call.caller.label().to_owned()),
        Holder::Operator { .. } => refused(
            "Deciding needs a token with the scope `admin`. Decide with `butlerd approvals`, or make such a token.",
        ),
        _ => refused("Only a person decides. Say what waits, and let the owner decide."),
    }
}

async fn approve_action(call: ToolCall, gate: ApprovalGate) -> Result<Value, ToolError> {
    let actor = person(&call)?;
    let (action, tenant) = (own_action(&call, &gate).await?, &call.context().tenant_id);
    let wants_rule = call.args.get("create_rule").and_then(Value::as_bool).unwrap_or(false);
    if wants_rule {
        // Whether there may be such a rule is known before anything is let through.
        from_action(&call, &gate, action.id)
            .await?
            .check(gate.tier(&action.tool_name), call.store.clock().now())
            .map_err(|why| {
                ToolError::refused("invalid_rule", format!("Not approved: {why}. Approve it without a rule."))
            })?;
    }
    let ruling = Ruling::Approve(call.text("seen").map(str::to_owned));
    let decided = gate.actions().decide_on(tenant, action.id, &actor, &ruling).await?;
    gate.wake();
    let mut shown = json!(decided);
    if wants_rule {
        let draft = from_action(&call, &gate, action.id).await?;
        shown["rule"] = json!(gate.allow(&call.context().tenant_id, &draft, &actor).await?);
    }
    Ok(shown)
}

async fn reject_action(call: ToolCall, gate: ApprovalGate) -> Result<Value, ToolError> {
    let actor = person(&call)?;
    let action = own_action(&call, &gate).await?;
    let tenant = &call.context().tenant_id;
    let ruling = Ruling::Reject(call.text("reason").map(str::to_owned));
    let decided = gate.actions().decide_on(tenant, action.id, &actor, &ruling).await?;
    gate.wake();
    Ok(json!(decided))
}

async fn expire_stale_actions(call: ToolCall, gate: ApprovalGate) -> Result<Value, ToolError> {
    person(&call)?;
    let expired = gate.actions().expire(call.butler.as_str()).await?;
    gate.wake();
    Ok(json!({"status": "ok", "expired": expired}))
}

fn constraints(given: Option<&Value>) -> Result<Constraints, ToolError> {
    let Some(given) = given else { return Ok(Constraints::default()) };
    Constraints::read(given).map_err(|why| ToolError::refused("invalid_rule", format!("Not done: {why}.")))
}

fn max_uses(call: &ToolCall) -> Option<i32> {
    call.args.get("max_uses").and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok())
}

fn also_influenced_by(call: &ToolCall) -> Result<Vec<String>, ToolError> {
    let given = call.args.get("also_influenced_by").and_then(Value::as_array).into_iter().flatten();
    let given: Vec<String> = given.filter_map(|who| who.as_str().map(str::to_owned)).collect();
    people(&given).map_err(|why| ToolError::refused("invalid_rule", format!("Not done: {why}.")))
}

async fn create_approval_rule(call: ToolCall, gate: ApprovalGate) -> Result<Value, ToolError> {
    let actor = person(&call)?;
    let draft = Draft {
        tool_name: call.text("tool_name").unwrap_or_default().to_owned(),
        constraints: constraints(call.args.get("arg_constraints"))?,
        also_influenced_by: also_influenced_by(&call)?,
        description: call.text("description").unwrap_or_default().to_owned(),
        expires_at: moment(&call, "expires_at")?,
        max_uses: max_uses(&call),
        created_from: None,
    };
    Ok(json!(gate.allow(&call.context().tenant_id, &draft, &actor).await?))
}

/// The rule for calls like this action.
async fn from_action(call: &ToolCall, gate: &ApprovalGate, action: Uuid) -> Result<Draft, ToolError> {
    let (tenant, overrides) = (&call.context().tenant_id, constraints(call.args.get("constraint_overrides"))?);
    let draft = gate.draft_like(tenant, action, overrides, call.text("description")).await?;
    let also_influenced_by = also_influenced_by(call)?;
    Ok(Draft { expires_at: moment(call, "expires_at")?, max_uses: max_uses(call), also_influenced_by, ..draft })
}

async fn create_rule_from_action(call: ToolCall, gate: ApprovalGate) -> Result<Value, ToolError> {
    let actor = person(&call)?;
    let action = own_action(&call, &gate).await?;
    let draft = from_action(&call, &gate, action.id).await?;
    Ok(json!(gate.allow(&call.context().tenant_id, &draft, &actor).await?))
}

async fn revoke_approval_rule(call: ToolCall, gate: ApprovalGate) -> Result<Value, ToolError> {
    let actor = person(&call)?;
    let rule = own_rule(&call, &gate).await?;
    if !gate.actions().revoke_rule(&call.context().tenant_id, rule.id, &actor).await? {
        return Err(ToolError::refused("already_decided", "The rule was ended before."));
    }
    Ok(json!(Rule { active: false, ..rule }))
}
