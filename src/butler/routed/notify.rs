//! `notify`: a butler's answer to whoever wrote.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use crate::switchboard::{Desk, Lane, LiveKind};
use crate::tools::{Aim, AimOf, Definition, Effect, Meta, Tool, ToolCall, ToolError, handler};

/// The tool. To whom the answer goes, the session's request says, not its model.
pub fn notify_tool(desk: &Desk) -> Tool {
    static DEFINITION: OnceLock<Arc<Definition>> = OnceLock::new();
    let definition = DEFINITION.get_or_init(|| {
        let schema = json!({"type": "object", "additionalProperties": false, "properties": {
            "intent": {"type": "string", "enum": ["reply", "react"], "default": "reply",
                       "description": "reply: a message; react: an emoji on what they wrote"},
            "message": {"type": "string", "minLength": 1, "maxLength": 65536, "description": "What to say, for reply"},
            "emoji": {"type": "string", "minLength": 1, "maxLength": 32, "description": "Which emoji, for react"}}});
        let description = "Answer the person whose message you are dealing with. For an emoji and words call it twice.";
        let meta = Meta { sends_out: true, ..Meta::write(Effect::Once) };
        Arc::new(Definition::new("notify", description, schema, meta).expect("a schema in the source is right"))
    });
    let (aiming, desk) = (desk.clone(), desk.clone());
    let aim: AimOf = Arc::new(move |call| {
        let desk = aiming.clone();
        Box::pin(async move { Ok(Some(aim(call, &desk))) })
    });
    Tool::new(definition, handler(move |call| notify(call, desk.clone()))).aimed(aim)
}

/// To whom the answer goes: whoever wrote.
fn aim(call: &ToolCall, desk: &Desk) -> Aim {
    let request = call.context();
    let to = format!("{} on {}", request.source_sender_identity, request.source_channel);
    Aim { outward: !desk.is_own(request), to }
}

async fn notify(call: ToolCall, desk: Desk) -> Result<Value, ToolError> {
    let refused = |code, why: &str| Err(ToolError::refused(code, why));
    let Some(session) = call.session() else {
        return refused("nobody_to_answer", "Only a session that deals with a person's message can answer one.");
    };
    let intent = call.text("intent").unwrap_or("reply");
    let (message, emoji) = (call.text("message"), call.text("emoji"));
    match (intent, message, emoji) {
        ("react", None, Some(_)) | ("reply", Some(_), None) => {}
        ("react", Some(_), _) => {
            return refused("invalid_arguments", "react takes an emoji only; send words with intent reply.");
        }
        ("react", None, None) => return refused("invalid_arguments", "react needs an emoji."),
        (_, None, _) => return refused("invalid_arguments", "reply needs a message."),
        _ => return refused("invalid_arguments", "reply takes a message only; send the emoji with intent react."),
    }
    let ctx = call.context().clone();
    let (lane, request, trust) = (Lane::of_request(&ctx), ctx.request_id.0, ctx.trust.as_str());
    let rows = call
        .effect(
            "SELECT shared.say($1, r.id, $2, $3, $4, $5, $6, $7)
             FROM sessions s JOIN route_inbox r ON r.id = s.route_id
             WHERE s.id = $3 AND r.kind IN ('message', 'answer')",
            &[&request, &lane.0, &session.0, &intent, &message, &emoji, &trust],
        )
        .await?;
    if rows.is_empty() {
        return refused(
            "nobody_to_answer",
            "This session was not started by a person's message; end with a report instead.",
        );
    }
    desk.tell(ctx.request_id, LiveKind::Replied);
    Ok(json!({"status": "ok", "channel": ctx.source_channel, "intent": intent}))
}
