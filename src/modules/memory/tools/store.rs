//! Storing: episodes, facts and rules.

use serde_json::{Value, json};

use super::{
    With, define, importance, in_tx, list, maybe_id, moment, number, origin, own_butler, permanence, permanence_of,
    retention_class, scope, sensitivity, session_id, strings, telling, text, vector,
};
use crate::ModuleError;
use base::redact::hide_secrets;
use memory::write::{NewEpisode, NewFact, NewRule, Permanence, store_episode, store_fact, store_rule};
use memory_index::rank::fact_text;
use tools::{Effect, Meta, Tool, ToolCall, ToolError, handler};

pub(super) const NAMES: &[&str] = &["memory_store_episode", "memory_store_fact", "memory_store_rule"];

pub(super) fn tools(with: &With) -> Result<Vec<Tool>, ModuleError> {
    let meta = || telling(Meta::write(Effect::Idempotent).labelled(), &["content"]);
    let key = text(200, "With the same key the same is stored once, however often it is called");
    Ok(vec![
        tool!(
            with,
            meta(),
            memory_store_episode,
            "Remember that something happened, in a few sentences. Sessions are remembered by themselves; use it for what \
             happened elsewhere.",
            json!({
                "content": {"type": "string", "maxLength": 20000, "description": "What happened, without secrets"},
                "butler": text(40, "Not needed: yours"),
                "session_id": text(200, "Of a conversation elsewhere, to keep its parts together"),
                "importance": importance(5.0),
                "occurred_at": text(64, "When it happened; now without it"),
                "speaker": text(200, "Who said it"),
                "learn": {"type": "boolean", "default": true,
                          "description": "Whether facts are made from it later; false where nobody said anything new"},
                "idempotency_key": key, "retention_class": retention_class(), "sensitivity": sensitivity(),
            }),
            &["content"]
        ),
        tool!(
            with,
            meta(),
            memory_store_fact,
            "Remember one thing that is so, as subject, predicate and content: `Ada`, `lives_in`, `Lyon`. What is known \
             already is confirmed; a new value of a property takes the place of the old one, which is kept as history. \
             With valid_at it is something that happened then, with object_entity_id a tie between two entities.",
            json!({
                "subject": text(200, "Of whom or what; `owner` for the owner"),
                "predicate": text(100, "In a few words, such as lives_in, likes, allergy, birthday"),
                "content": {"type": "string", "maxLength": 20000, "description": "What is so, without secrets"},
                "importance": importance(5.0),
                "permanence": permanence(Permanence::Standard),
                "scope": text(64, "`global` without it, for all butlers of the house; your name: for you alone"),
                "tags": strings(20, "Words to find it by"),
                "entity_id": super::id_of("entity it is about, as memory_entity_resolve tells"),
                "object_entity_id": super::id_of("entity it ties that one to"),
                "valid_at": text(64, "When it happened, of something that happened"),
                "said_at": text(64, "When it was said, of what was said earlier than now and may be out of date"),
                "idempotency_key": key, "retention_class": retention_class(), "sensitivity": sensitivity(),
            }),
            &["subject", "predicate", "content"]
        ),
        tool!(
            with,
            meta(),
            memory_store_rule,
            "Remember how something is to be done, as one sentence. It ripens with memory_mark_helpful and falls with \
             memory_mark_harmful.",
            json!({
                "content": {"type": "string", "maxLength": 20000, "description": "What to do, and when"},
                "scope": text(64, "`global` without it; your name: for you alone"),
                "tags": strings(20, "Words to find it by"),
                "idempotency_key": key, "retention_class": retention_class(),
            }),
            &["content"]
        ),
    ])
}

fn owned(call: &ToolCall, name: &str) -> Option<String> {
    call.text(name).map(str::to_owned)
}

async fn memory_store_episode(call: ToolCall, with: With) -> Result<Value, ToolError> {
    own_butler(&call)?;
    let mut origin = origin(&call, &with.memory).await?;
    // A session's episodes are its own; others say to which conversation it belongs.
    let session = origin.session.or_else(|| call.text("session_id").map(session_id));
    origin.session = session;
    let given = call.text("content").unwrap_or_default();
    // What the daemon saw is kept without the secrets that were in it; nobody is there to say it again.
    let content = if call.caller.is_daemon() { hide_secrets(given) } else { given.to_owned() };
    let speaker = owned(&call, "speaker");
    let vector = vector(&with.memory, speaker.as_deref(), &content).await;
    let episode = NewEpisode {
        importance: number(&call, "importance", 5.0),
        occurred_at: moment(&call, "occurred_at")?,
        session,
        idempotency_key: owned(&call, "idempotency_key"),
        retention_class: owned(&call, "retention_class"),
        sensitivity: owned(&call, "sensitivity"),
        metadata: json!({}),
        keep: with.settings.episodes.retention.0,
        left_out: call.args.get("learn") == Some(&json!(false)),
        content,
        speaker,
        vector,
    };
    Ok(json!(in_tx!(&call, &with, |tx| store_episode(&mut tx, &origin, &episode))))
}

async fn memory_store_fact(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let fact = fact_of(&call, &with).await?;
    stored(&call, &with, &fact).await
}

async fn fact_of(call: &ToolCall, with: &With) -> Result<NewFact, ToolError> {
    let said = |name: &str| call.text(name).unwrap_or_default();
    let words = fact_text(said("predicate"), said("content"));
    let vector = vector(&with.memory, Some(said("subject")), &words).await;
    Ok(NewFact {
        importance: number(call, "importance", 5.0),
        permanence: permanence_of(call, "permanence", Permanence::Standard),
        scope: scope(call)?,
        tags: list(call, "tags"),
        entity: maybe_id(call, "entity_id")?,
        object: maybe_id(call, "object_entity_id")?,
        valid_at: moment(call, "valid_at")?,
        said_at: moment(call, "said_at")?,
        idempotency_key: owned(call, "idempotency_key"),
        retention_class: owned(call, "retention_class"),
        sensitivity: owned(call, "sensitivity"),
        vector,
        ..NewFact::new(said("subject"), said("predicate"), said("content"))
    })
}

/// Stores a fact in the call's own transaction.
pub(super) async fn stored(call: &ToolCall, with: &With, fact: &NewFact) -> Result<Value, ToolError> {
    let origin = origin(call, &with.memory).await?;
    Ok(json!(in_tx!(call, with, |tx| store_fact(&mut tx, &origin, fact))))
}

async fn memory_store_rule(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let content = call.text("content").unwrap_or_default();
    let origin = origin(&call, &with.memory).await?;
    let vector = vector(&with.memory, None, content).await;
    let rule = NewRule {
        scope: scope(&call)?,
        tags: list(&call, "tags"),
        idempotency_key: owned(&call, "idempotency_key"),
        retention_class: owned(&call, "retention_class"),
        vector,
        ..NewRule::new(content)
    };
    Ok(json!(in_tx!(&call, &with, |tx| store_rule(&mut tx, &origin, &rule))))
}
