//! `memory_search`, `memory_recall`, `memory_catalog_search`: a question, and what is known of it.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use memory::Kind;
use memory::sql::shown::{self, Shown};
use memory::sql::upkeep;
use memory::{Ask, Found, Memory};
use memory_index::rank::Mode;

use crate::memory::Settings;
use crate::memory::tools::With;
use base::Trust;
use tools::{ToolCall, ToolError};

/// The arguments of all three; those that a tool does not have are never given.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SearchArgs {
    query: String,
    topic: String,
    types: Option<Vec<String>>,
    memory_type: Option<String>,
    scope: Option<String>,
    mode: Option<Mode>,
    limit: Option<usize>,
    min_confidence: Option<f32>,
    max_sensitivity: Option<String>,
    filters: Filters,
    explain: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Filters {
    scope: Option<String>,
    entity_id: Option<Uuid>,
    object_entity_id: Option<Uuid>,
    predicate: Option<String>,
    source_butler: Option<String>,
    time_from: Option<Timestamp>,
    time_to: Option<Timestamp>,
    valid_at: Option<Timestamp>,
    retention_class: Option<String>,
    sensitivity: Option<String>,
    trust: Option<String>,
}

/// The schema of `filters`.
pub(super) fn filters() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let time = |description: &str| json!({"type": "string", "format": "date-time", "description": description});
    let id = |description: &str| json!({"type": "string", "format": "uuid", "description": description});
    json!({"type": "object", "additionalProperties": false, "description": "Leaves out all that does not fit, before ranking",
    "properties": {
        "scope": text("`global`, or this butler's own name"),
        "entity_id": id("Facts about this entity"),
        "object_entity_id": id("Facts that point to this entity"),
        "predicate": text("Facts with this predicate"),
        "source_butler": text("Of this butler alone"),
        "time_from": time("Not before"),
        "time_to": time("Not after"),
        "valid_at": time("Still so at this moment"),
        "retention_class": text("`transient`, `operational`, `personal_profile`, …"),
        "sensitivity": {"type": "string", "enum": SENSITIVITY, "description": "At most so sensitive"},
        "trust": {"type": "string", "enum": ["owner", "system", "known", "stranger"],
                  "description": "From somebody believed at least so far"}
    }})
}

pub(super) const SENSITIVITY: [&str; 3] = ["normal", "sensitive", "secret"];

impl SearchArgs {
    fn read(call: &ToolCall, memory: &Memory, settings: &Settings) -> Result<(Ask, bool), ToolError> {
        let given: Self = call.parse()?;
        let text = if given.query.is_empty() { given.topic } else { given.query };
        if text.trim().is_empty() {
            return Err(ToolError::refused("invalid_arguments", "What is looked for is empty; say it in a few words."));
        }
        let (filters, retrieval) = (given.filters, &settings.retrieval);
        let kinds = given.types.unwrap_or_default().into_iter().chain(given.memory_type);
        let sensitivity = given.max_sensitivity.or(filters.sensitivity);
        let ask = Ask {
            text,
            mode: given.mode.unwrap_or(retrieval.default_mode.into()),
            limit: given.limit.unwrap_or(retrieval.default_limit),
            min_confidence: given.min_confidence.unwrap_or(retrieval.min_confidence),
            kinds: kinds.filter_map(|kind| Kind::from_name(&kind)).collect(),
            scopes: scopes(memory, given.scope.or(filters.scope)),
            butlers: filters.source_butler.into_iter().collect(),
            classes: filters.retention_class.into_iter().collect(),
            predicate: filters.predicate,
            entity: filters.entity_id,
            object: filters.object_entity_id,
            time_from: filters.time_from,
            time_to: filters.time_to,
            valid_at: filters.valid_at,
            max_sensitivity: sensitivity
                .and_then(|s| SENSITIVITY.iter().position(|known| *known == s))
                .map(|at| at as u8),
            least_trust: filters.trust.map(|t| Trust::from_name(&t)),
            ..Ask::default()
        };
        Ok((ask, given.explain))
    }
}

/// What the butler may see: what is for all, and its own. A narrower wish is taken; a wider one is not.
fn scopes(memory: &Memory, scope: Option<String>) -> Vec<String> {
    let own = memory.butler.as_str().to_owned();
    match scope {
        Some(scope) if scope == "global" => vec![scope],
        _ => vec!["global".to_owned(), own],
    }
}

pub(super) async fn memory_search(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let With { memory, settings, .. } = with;
    let (ask, explain) = SearchArgs::read(&call, &memory, &settings)?;
    answer(&call, &memory, &ask, explain).await.map(|(value, _)| value)
}

pub(super) async fn memory_catalog_search(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let With { memory, settings, .. } = with;
    let (mut ask, explain) = SearchArgs::read(&call, &memory, &settings)?;
    // Published by all butlers, this one included.
    ask.scopes = vec!["global".to_owned()];
    ask.kinds = vec![Kind::Fact];
    ask.max_sensitivity = Some(0);
    answer(&call, &memory, &ask, explain).await.map(|(value, _)| value)
}

pub(super) async fn memory_recall(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let With { memory, settings, .. } = with;
    let (mut ask, explain) = SearchArgs::read(&call, &memory, &settings)?;
    ask.kinds = vec![Kind::Fact, Kind::Rule];
    let (value, ids) = answer(&call, &memory, &ask, explain).await?;
    if !ids.is_empty() {
        upkeep::touch(&call, &ids).await?;
        memory.step(&call.context().tenant_id).await?;
    }
    Ok(value)
}

/// The memories that answer, and their ids.
async fn answer(
    call: &ToolCall,
    memory: &Arc<Memory>,
    ask: &Ask,
    explain: bool,
) -> Result<(Value, Vec<Uuid>), ToolError> {
    let Found { hits, by } = memory.search(&call.context().tenant_id, ask).await?;
    let ids: Vec<Uuid> = hits.iter().map(|hit| hit.id).collect();
    let mut lease = call.lease().await?;
    let rows = shown::of(&mut lease, &ids, memory.store.clock().now()).await?;
    drop(lease);
    let mut shown_ids = Vec::with_capacity(ids.len());
    let mut results = Vec::with_capacity(ids.len());
    for hit in &hits {
        let Some(Shown { json, .. }) = rows.get(&hit.id) else { continue };
        let mut result = json.clone();
        result["score"] = json!((f64::from(hit.score) * 10_000.0).round() / 10_000.0);
        if explain {
            result["parts"] = serde_json::to_value(hit.parts).unwrap_or_default();
        }
        shown_ids.push(hit.id);
        results.push(result);
    }
    if let Some(session) = call.session() {
        memory.has_shown(session, &shown_ids);
    }
    Ok((json!({"results": results, "answered_by": by.as_str()}), shown_ids))
}
