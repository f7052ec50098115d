//! Housekeeping on demand.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{With, define, in_tx};
use crate::ModuleError;
use memory::Kind;
use memory::sql::{Unembedded, give_vector, unembedded};
use memory::write::WriteError;
use tools::{Effect, EffectTx, Meta, Tool, ToolCall, ToolError, handler};

pub(super) const NAMES: &[&str] =
    &["memory_run_consolidation", "memory_run_episode_cleanup", "memory_reembed", "memory_reembed_pending_count"];

/// Who does on demand what else is done on schedule.
#[async_trait]
pub trait Runs: Send + Sync {
    /// Makes episodes into facts, for the call's tenant. Returns the counts of what was done.
    async fn consolidate(&self, call: &ToolCall) -> Result<Value, ToolError>;
    /// Takes away old episodes, so that at most so many are kept. Returns the counts of what was done.
    async fn clean_up(&self, call: &ToolCall, most: u32) -> Result<Value, ToolError>;
}

pub(super) fn tools(with: &With) -> Result<Vec<Tool>, ModuleError> {
    let tiers = || {
        json!({"type": "array", "items": {"type": "string", "enum": ["episode", "fact", "rule"]},
            "description": "Only of these kinds; all without it"})
    };
    let mut all = vec![
        tool!(
            with,
            Meta::write(Effect::Idempotent),
            memory_reembed,
            "Make vectors for memories that have none of the present model; the newest first.",
            json!({"dry_run": {"type": "boolean", "default": true, "description": "Only say how many it would be"},
                   "tiers": tiers(),
                   "batch_size": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50,
                                  "description": "How many at once"}}),
            &[]
        ),
        tool!(
            with,
            Meta { reads_private: false, ..Meta::read() },
            memory_reembed_pending_count,
            "How many memories have no vector of the present model.",
            json!({"tiers": tiers()}),
            &[]
        ),
    ];
    if let Some(runs) = &with.runs {
        let pair = runs;
        let with = pair;
        all.push(tool!(
            with,
            Meta::write(Effect::Once),
            memory_run_consolidation,
            "Make facts and rules of what happened lately, now instead of on schedule.",
            json!({}),
            &[]
        ));
        all.push(tool!(
            with,
            Meta::write(Effect::Idempotent),
            memory_run_episode_cleanup,
            "Take away episodes that are past their time, now instead of on schedule.",
            json!({"max_entries": {"type": "integer", "minimum": 1, "maximum": 10_000_000, "default": 10_000,
                                   "description": "How many are kept at most"}}),
            &[]
        ));
    }
    Ok(all)
}

type Running = std::sync::Arc<dyn Runs>;

async fn memory_run_consolidation(call: ToolCall, runs: Running) -> Result<Value, ToolError> {
    runs.consolidate(&call).await
}

async fn memory_run_episode_cleanup(call: ToolCall, runs: Running) -> Result<Value, ToolError> {
    let most = call.args.get("max_entries").and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
    runs.clean_up(&call, most.unwrap_or(10_000)).await
}

async fn missing(call: &ToolCall, model: &str, most: i32) -> Result<Vec<Unembedded>, ToolError> {
    let given = super::list(call, "tiers");
    let mut kinds: Vec<&str> = given.iter().map(String::as_str).collect();
    if kinds.is_empty() {
        kinds = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
    }
    let mut from = call;
    Ok(unembedded(&mut from, &kinds, model, most).await?)
}

/// More are not counted one by one.
const COUNTED: i32 = 1_000_000;

async fn memory_reembed_pending_count(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let model = with.memory.embedder.model();
    let all = missing(&call, model, COUNTED).await?;
    let of = |kind: &str| all.iter().filter(|b| b.kind == kind).count();
    Ok(json!({"model": model, "pending": all.len(), "episode": of("episode"), "fact": of("fact"), "rule": of("rule")}))
}

async fn memory_reembed(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let model = with.memory.embedder.model();
    let dry = call.args.get("dry_run").and_then(Value::as_bool).unwrap_or(true);
    if dry {
        let pending = missing(&call, model, COUNTED).await?.len();
        return Ok(json!({"dry_run": true, "model": model, "pending": pending, "reembedded": 0}));
    }
    let most = call.args.get("batch_size").and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok()).unwrap_or(50);
    let batch = missing(&call, model, most).await?;
    let texts: Vec<String> = batch.iter().map(Unembedded::spoken).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = with.memory.embedder.embed(&texts).await.map_err(|e| {
        ToolError::refused("unavailable", format!("There are no vectors just now; nothing was changed: {e}."))
    })?;
    let done = in_tx!(&call, &with, |tx| embedded(&mut tx, model, &batch, &vectors));
    let pending = missing(&call, model, COUNTED).await?.len();
    Ok(json!({"dry_run": false, "model": model, "pending": pending, "reembedded": done}))
}

async fn embedded(
    tx: &mut EffectTx<'_, '_>,
    model: &str,
    batch: &[Unembedded],
    vectors: &[Vec<i8>],
) -> Result<usize, WriteError> {
    for (memory, vector) in batch.iter().zip(vectors) {
        give_vector(tx, memory, model, vector).await?;
    }
    Ok(batch.len())
}
