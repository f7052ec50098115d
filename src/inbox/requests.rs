//! What people do with messages by their tools: giving them to another butler, calling them off, saying that they are
//! done, trying again what came to nothing. The same as `butlerd inbox` does. Every session may look.

use serde_json::{Value, json};
use uuid::Uuid;

use super::define::operators;
use super::handle::Inbox;
use super::operator::{Operator, OperatorActionError, Reopened, Requests, Stop};
use super::sql::{dead, limits};
use base::task;
use tools::{Effect, Meta, Tool, ToolCall, ToolError, handler};

/// What is done with a message.
#[derive(Clone, Copy)]
enum OperatorAction {
    Reroute,
    Stop(Stop),
    Complete,
    Replay,
}

pub(super) fn tools(inbox: &Inbox) -> Vec<Tool> {
    let mut tools = vec![
        Tool::built_in(
            "list_replay_eligible_requests",
            "Messages that came to nothing and can be tried again (`butlerd inbox retry`), the newest first, with why: \
             not_routed (no butler was found in time), butler_failed, called_off (by a person).",
            json!({"limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
                   "failure_category": {"type": "string", "enum": ["not_routed", "butler_failed", "called_off"]}}),
            &[],
            Meta { reads_untrusted: true, ..Meta::read() },
            handler(list),
        ),
        Tool::built_in(
            "get_dead_letter_stats",
            "How many messages came to nothing, by why, by channel and by butler, and since when the oldest waits.",
            json!({"since": {"type": "string", "minLength": 1, "maxLength": 64,
                             "description": "Only those that ended since: 2026-11-24T09:00, or with an offset"}}),
            &[],
            Meta::read(),
            handler(stats),
        ),
        Tool::built_in(
            "list_refused_senders",
            "Strangers whose messages were refused because they had sent as many as [buffer] stranger_per_hour and \
             stranger_per_day allow: who, on which day, how many, and by which limit. The newest first.",
            json!({"limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}}),
            &[],
            Meta { reads_untrusted: true, ..Meta::read() },
            handler(refused),
        ),
    ];
    tools.extend(operator_actions(inbox));
    tools
}

fn operator_actions(inbox: &Inbox) -> [Tool; 5] {
    let action = |name: &str, description: &str, properties: Value, required: &[&str], action: OperatorAction| {
        let requests = inbox.requests();
        let work = handler(move |call| done(call, requests.clone(), action));
        Tool::built_in(name, description, properties, required, operators(Effect::Once), work)
    };
    let text =
        |most: u32, what: &str| json!({"type": "string", "minLength": 1, "maxLength": most, "description": what});
    let with = |of: &[(&str, Value)]| {
        let mut all = json!({
            "operator_identity": text(200, "Who you say you are: kept as a note; whose hand it is, the token says"),
            "reason": text(1000, "Why, for the record")});
        for (name, schema) in of {
            all[*name] = schema.clone();
        }
        all
    };
    let request = json!({"type": "string", "format": "uuid", "description": "Id of the message (butlerd inbox list)"});
    let dead = json!({"type": "string", "format": "uuid",
                      "description": "Id of the message that came to nothing (list_replay_eligible_requests)"});
    let named = ["request_id", "operator_identity", "reason"];
    [
        action(
            "manual_reroute_request",
            "For people: give a message, as a whole, to another butler. What its butlers have not begun is taken back; \
             what was done for it stands, and is named.",
            with(&[("request_id", request.clone()), ("new_target_butler", text(31, "Who gets it now"))]),
            &["request_id", "new_target_butler", "operator_identity", "reason"],
            OperatorAction::Reroute,
        ),
        action(
            "cancel_request",
            "For people: call off a message of which nothing has begun. It can be tried again later.",
            with(&[("request_id", request.clone())]),
            &named,
            OperatorAction::Stop(Stop::Cancel),
        ),
        action(
            "abort_request",
            "For people: end a message that is under way. What its butlers have not begun is taken back; a session that \
             works on it is ended first (`butlerd sessions cancel`). It can be tried again later.",
            with(&[("request_id", request.clone())]),
            &named,
            OperatorAction::Stop(Stop::Abort),
        ),
        action(
            "force_complete_request",
            "For people: say that a message is done, because it was seen to elsewhere.",
            with(&[("request_id", request), ("completion_summary", text(4000, "How it was done"))]),
            &["request_id", "operator_identity", "reason", "completion_summary"],
            OperatorAction::Complete,
        ),
        action(
            "replay_dead_letter_request",
            "For people: try a message that came to nothing again, from the beginning or from the parts that failed.",
            with(&[("dead_letter_id", dead)]),
            &["dead_letter_id", "operator_identity", "reason"],
            OperatorAction::Replay,
        ),
    ]
}

async fn done(call: ToolCall, requests: Requests, action: OperatorAction) -> Result<Value, ToolError> {
    let owned = |name: &str| call.text(name).map(|text| text.trim().to_owned());
    let operator =
        Operator { by: call.caller.label().to_owned(), said_by: owned("operator_identity"), reason: owned("reason") };
    let name = if matches!(action, OperatorAction::Replay) { "dead_letter_id" } else { "request_id" };
    let request: Uuid = call.text(name).and_then(|id| id.parse().ok()).unwrap_or_default();
    let tenant = call.context().tenant_id.clone();
    let by = operator.by.clone();
    let (butler, summary) = (owned("new_target_butler"), owned("completion_summary"));
    let reopened = |r: Reopened| json!({"butlers": r.butlers, "taken_before": r.taken_before, "rule": r.rule});
    // A task of its own: what is committed is begun, even when the caller hangs up just now.
    let work = task::spawn(task::Kind::Request, "inbox-by-tool", async move {
        Ok::<_, OperatorActionError>(match action {
            OperatorAction::Reroute => {
                let butler = butler.unwrap_or_default();
                reopened(requests.reroute(&tenant, request, &butler, None, &operator).await?)
            }
            OperatorAction::Replay => reopened(requests.retry(&tenant, request, &operator).await?),
            OperatorAction::Stop(how) => {
                json!({"before": requests.call_off(&tenant, request, how, &operator).await?, "state": "dead"})
            }
            OperatorAction::Complete => {
                let summary = summary.unwrap_or_default();
                json!({"before": requests.mark_done(&tenant, request, &summary, &operator).await?, "state": "done"})
            }
        })
    });
    let ended = work.await.map_err(|e| ToolError::Internal(format!("changing a message: {e}")))?;
    match ended {
        Ok(mut told) => {
            (told["status"], told["request_id"], told["by"]) = (json!("ok"), json!(request), json!(by));
            Ok(told)
        }
        Err(OperatorActionError::Store(e)) => Err(e.into()),
        Err(OperatorActionError::Unknown(id)) => {
            let why =
                format!("There is no message {id}; list_replay_eligible_requests and `butlerd inbox list` show them.");
            Err(ToolError::refused("not_found", why))
        }
        Err(e @ OperatorActionError::NoButler { .. }) => {
            Err(ToolError::refused("unknown_butler", format!("Nothing was changed: {e}.")))
        }
        Err(OperatorActionError::NotNow(why)) => {
            Err(ToolError::refused("not_now", format!("Nothing was changed: {why}.")))
        }
    }
}

async fn list(call: ToolCall) -> Result<Value, ToolError> {
    let limit = call.args.get("limit").and_then(Value::as_i64).unwrap_or(100);
    Ok(dead::list(&call, call.text("failure_category"), limit).await?.into())
}

async fn refused(call: ToolCall) -> Result<Value, ToolError> {
    let limit = call.args.get("limit").and_then(Value::as_i64).unwrap_or(100);
    Ok(limits::list_refused(&call, limit).await?.into())
}

async fn stats(call: ToolCall) -> Result<Value, ToolError> {
    let (since, _) = call.span()?;
    dead::stats(&call, since).await
}
