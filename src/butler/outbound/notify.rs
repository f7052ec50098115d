//! `notify`: a butler's answer to whoever wrote, and its messages to the owner and to others.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::define;
use super::files::carried;
use crate::quarantine::{Quoted, quoted};
use crate::sql::{self, Said, Words};
use base::Label;
use inbox::{HOUSE_CHANNELS, Inbox, Lane, LiveKind};
use outbox::{
    ATTACHMENTS_TO_OWNER, FILES_TOO_LATE, OutFile, Outbox, SendRequest, egress_target_fn, files_to_save, send,
};
use tools::{Definition, Effect, EgressTargetFn, Meta, Tool, ToolCall, ToolError, handler};

/// The tool. To whom an answer goes, the session's request says, not its model.
pub fn notify_tool(inbox: &Inbox, outbox: &Outbox) -> Tool {
    static DEFINITION: LazyLock<Arc<Definition>> = LazyLock::new(|| {
        let schema = json!({"type": "object", "additionalProperties": false, "properties": {
            "intent": {"type": "string", "enum": ["send", "reply", "react"],
                       "description": "reply: to the person whose message you deal with (the default then); react: an \
                                       emoji on it; send: to the owner or to `recipient`"},
            "message": {"type": "string", "maxLength": 65536, "description": "For reply and send"},
            "emoji": {"type": "string", "minLength": 1, "maxLength": 32, "description": "For react"},
            "channel": {"type": "string", "maxLength": 31,
                        "description": "For send: chat, email, telegram, …; else the one that the owner chose"},
            "recipient": {"type": "string", "maxLength": 500,
                          "description": "For send: somebody whom the household knows; else the owner"},
            "subject": {"type": "string", "maxLength": 500, "description": "For send"},
            "priority": {"type": "string", "enum": ["high", "medium", "low"], "default": "medium",
                         "description": "For send: only high is delivered in quiet hours"},
            "quote": {"type": "string", "maxLength": 40,
                      "description": "untrusted:N: that message is shown whole below yours, to the owner alone"},
            // Every session pays for it, and a tool less is shown where it costs more: a wrong call is told the rest.
            "files": {"description": "[{name, text}]"},
            // Of older prompts. Who is answered comes with the session.
            "request_context": {}}});
        let description = "Answer the person whose message you are dealing with, or send somebody a message. For an \
                           emoji and words call it twice.";
        define("notify", description, schema, Meta { sends_out: true, ..Meta::write(Effect::Once) }.labelled())
    });
    let (targeting, sending) = (inbox.clone(), egress_target_fn(outbox, None));
    let egress_target: EgressTargetFn = Arc::new(move |call| {
        let (inbox, sending) = (targeting.clone(), sending.clone());
        Box::pin(async move {
            match intent_of(call).await?.as_str() {
                "send" => sending(call).await,
                _ => Ok(Some(inbox.answer_reaches(call.context()))),
            }
        })
    });
    let (inbox, outbox) = (inbox.clone(), outbox.clone());
    Tool::new(&DEFINITION, handler(move |call| notify(call, inbox.clone(), outbox.clone())))
        .with_egress_target(egress_target)
}

/// Names of arguments that only a message to somebody has.
const OF_SEND: [&str; 3] = ["channel", "recipient", "subject"];

fn names_somebody(call: &ToolCall) -> bool {
    OF_SEND.iter().any(|name| call.args.contains_key(*name))
}

/// What the call means to do.
async fn intent_of(call: &ToolCall) -> Result<String, ToolError> {
    Ok(match call.text("intent") {
        Some(intent) => intent.to_owned(),
        None if call.text("emoji").is_some() => "react".to_owned(),
        None if names_somebody(call) || !sql::answers_somebody(call).await? => "send".to_owned(),
        None => "reply".to_owned(),
    })
}

fn refused<T>(code: &'static str, why: &str) -> Result<T, ToolError> {
    Err(ToolError::refused(code, why))
}

async fn notify(call: ToolCall, inbox: Inbox, outbox: Outbox) -> Result<Value, ToolError> {
    let intent = intent_of(&call).await?;
    if call.text("message").is_some_and(|m| m.trim().is_empty()) {
        return refused("invalid_arguments", "The message is empty.");
    }
    match (intent.as_str(), call.text("message"), call.text("emoji")) {
        ("react", None, Some(_)) | ("reply" | "send", Some(_), None) => {}
        ("react", Some(_), _) => {
            return refused("invalid_arguments", "react takes an emoji only; send words with intent reply.");
        }
        ("react", None, None) => return refused("invalid_arguments", "react needs an emoji."),
        (_, None, _) => return refused("invalid_arguments", &format!("{intent} needs a message.")),
        _ => {
            let why = format!("{intent} takes a message only; give the emoji with intent react.");
            return refused("invalid_arguments", &why);
        }
    }
    if intent == "react" && (call.text("quote").is_some() || call.args.contains_key("files")) {
        return refused("invalid_arguments", "react takes an emoji only; quote and send files with intent reply.");
    }
    let quoted = quoted(&call).await?;
    let carried = carried(&call).await?;
    // What the row holds and the session did not write carries its own label on.
    let labels = quoted.iter().map(|quoted| quoted.label.clone()).chain(carried.holds.clone());
    let holds = labels.reduce(|one, other| one.join(&other));
    if intent == "send" {
        let (files, files_of_others) = (carried.files.as_slice(), carried.holds.is_some());
        let wanted = SendRequest { channel: call.text("channel"), files, files_of_others, ..SendRequest::of(&call) };
        let message = quoted.as_ref().map_or(wanted.message, |quoted| quoted.message.as_str());
        return send(&call, &outbox, SendRequest { message, holds: holds.as_ref(), ..wanted }).await;
    }
    if names_somebody(&call) {
        let why = format!("{intent} goes to the person whose message you deal with; name others with intent send.");
        return refused("invalid_arguments", &why);
    }
    if quoted.is_some() && !inbox.is_own(call.context()) {
        return refused(
            "owner_only",
            "Nothing was said: only the owner is shown a quote, and somebody else wrote here.",
        );
    }
    if carried.holds.is_some() && !inbox.is_own(call.context()) {
        return refused("owner_only", ATTACHMENTS_TO_OWNER);
    }
    answer(call, &intent, (quoted, &carried.files), holds.as_ref(), inbox, outbox).await
}

async fn answer(
    call: ToolCall,
    intent: &str,
    (quoted, files): (Option<Quoted>, &[OutFile]),
    holds: Option<&Label>,
    inbox: Inbox,
    outbox: Outbox,
) -> Result<Value, ToolError> {
    let Some(session) = call.session() else {
        return refused("nobody_to_answer", "Only a session that deals with a person's message can answer one.");
    };
    let emoji = call.text("emoji");
    let message = quoted.as_ref().map(|quoted| quoted.message.as_str()).or_else(|| call.text("message"));
    let ctx = call.context().clone();
    // Read where it is, or kept for a channel: files are shown nowhere but on channels.
    let below =
        (!files.is_empty() && HOUSE_CHANNELS.contains(&ctx.source_channel.as_str())).then(|| files_to_save(files));
    let whole = below.map(|below| format!("{}\n\n{below}", message.unwrap_or_default()));
    let message = whole.as_deref().or(message);
    let (lane, request, trust) = (Lane::of_request(&ctx), ctx.request_id.0, ctx.trust.as_str());
    let context = json!(ctx);
    let words = Words { session: session.0, request, lane: &lane.0, intent, message, emoji, trust, context: &context };
    match sql::say(&call, words, holds, files).await? {
        Said::Yes => {}
        Said::WithoutFiles => return refused("said_already", FILES_TOO_LATE),
        Said::ToNobody => {
            let why =
                "This session was not started by a person's message; send the owner a message, or end with a report.";
            return refused("nobody_to_answer", why);
        }
    }
    base::crash::point("answer.committed");
    inbox.tell(ctx.request_id, LiveKind::Replied);
    let mut said = json!({"status": "ok", "channel": ctx.source_channel, "intent": intent});
    if outbox.takes_answers(&ctx.source_channel) {
        outbox.wake();
    } else {
        outbox.alarm();
        let waits = "It is kept, and goes out once the household sends over this channel. The owner is told; don't say it again.";
        (said["state"], said["note"]) = (json!("waiting"), json!(waits));
    }
    Ok(said)
}
