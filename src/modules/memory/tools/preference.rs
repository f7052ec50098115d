//! What the owner prefers: facts about the owner with the tag `preference`.

use memory::sql::upkeep;
use serde_json::{Value, json};

use super::store::stored;
use super::{With, define, importance, number, permanence, permanence_of, telling, text, vector};
use crate::ModuleError;
use memory::write::{NewFact, Permanence};
use memory_index::rank::fact_text;
use tools::{Effect, Meta, Tool, ToolCall, ToolError, handler};

pub(super) const NAMES: &[&str] = &["memory_set_preference", "memory_get_preferences"];

pub(super) fn tools(with: &With) -> Result<Vec<Tool>, ModuleError> {
    Ok(vec![
        tool!(
            with,
            telling(Meta::write(Effect::Idempotent), &["value", "metadata"]),
            memory_set_preference,
            "Remember what the owner prefers, in the place of what was preferred before.",
            json!({"predicate": text(100, "What it is about, such as news_format or coffee"),
                   "value": text(8000, "What is preferred"),
                   "permanence": permanence(Permanence::Stable),
                   "importance": importance(8.0),
                   "metadata": {"type": "object", "description": "What else is to be noted"}}),
            &["predicate", "value"]
        ),
        tool!(
            with,
            Meta::read(),
            memory_get_preferences,
            "What the owner prefers.",
            json!({"scope": text(64, "Of this scope and of `global`"),
                   "predicate_pattern": text(100, "Only these, `%` for any letters, such as news_%")}),
            &[]
        ),
    ])
}

async fn memory_set_preference(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let (predicate, value) = (call.text("predicate").unwrap_or_default(), call.text("value").unwrap_or_default());
    let words = fact_text(predicate, value);
    let vector = vector(&with.memory, Some("owner"), &words).await;
    let fact = NewFact {
        importance: number(&call, "importance", 8.0),
        permanence: permanence_of(&call, "permanence", Permanence::Stable),
        tags: vec!["preference".to_owned()],
        retention_class: Some("personal_profile".to_owned()),
        metadata: call.args.get("metadata").cloned().unwrap_or_else(|| json!({})),
        vector,
        ..NewFact::new("owner", predicate, value)
    };
    stored(&call, &with, &fact).await
}

async fn memory_get_preferences(call: ToolCall, _: With) -> Result<Value, ToolError> {
    let (scope, pattern) = (call.text("scope"), call.text("predicate_pattern"));
    Ok(upkeep::preferences(&mut &call, scope, pattern).await?.into())
}
