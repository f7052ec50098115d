//! Facts as the edges of a graph.

use jiff::Timestamp;
use memory::sql::graph::{self, GraphFact};
use memory::write::{self, Kind, Origin, WriteError};
use memory::{Ask, Kind as AskKind};
use serde_json::{Value, json};
use tools::{EffectTx, ToolCall};
use uuid::Uuid;

use super::Graph;
use super::arguments::{Failed, WITHIN, group_of, moment, most, said, scopes, texts};
use super::edges::{sentence, source_of, target_of};
use crate::memory_calls::{in_tx, origin};

/// So many are given at once.
const AT_ONCE: usize = 200;

/// The name of what a fact says, as Graphiti writes it.
fn name(fact: &GraphFact) -> String {
    fact.predicate.to_uppercase()
}

fn shown(fact: &GraphFact) -> Value {
    json!({
        "uuid": fact.id,
        "group_id": group_of(&fact.scope),
        "source_node_uuid": source_of(fact),
        "target_node_uuid": target_of(fact),
        "created_at": fact.created_at,
        "name": name(fact),
        "fact": sentence(fact),
        "episodes": fact.episodes,
        "expired_at": fact.superseded_at,
        "valid_at": fact.valid_from,
        "invalid_at": fact.valid_to,
        "reference_time": fact.said_at,
        // What Graphiti does not have: how far it is believed.
        "attributes": {"trust": fact.trust, "confidence": (f64::from(fact.confidence) * 1000.0).round() / 1000.0},
    })
}

/// The ids of facts of scopes that answer a question, the best first.
pub(super) async fn ranked(
    call: &ToolCall,
    graph: &Graph,
    scopes: &[String],
    limit: usize,
) -> Result<Vec<Uuid>, Failed> {
    let text = call.text("query").unwrap_or_default().trim();
    if text.is_empty() || scopes.is_empty() {
        return Ok(Vec::new());
    }
    let ask = Ask {
        text: text.to_owned(),
        limit,
        kinds: vec![AskKind::Fact],
        scopes: scopes.to_vec(),
        butlers: vec![graph.memory.butler.to_string()],
        ..Ask::default()
    };
    let hits = graph.memory.search(&call.context().tenant_id, &ask).await?.hits;
    let ids: Vec<Uuid> = hits.iter().map(|hit| hit.id).collect();
    if let Some(session) = call.session() {
        graph.memory.has_shown(session, &ids);
    }
    Ok(ids)
}

/// Which facts are wanted, besides that they answer.
struct Wanted {
    names: Option<Vec<String>>,
    valid: (Option<Timestamp>, Option<Timestamp>),
    invalid: (Option<Timestamp>, Option<Timestamp>),
}

impl Wanted {
    fn of(call: &ToolCall) -> Result<Self, Failed> {
        let at = |name: &str| moment(call, name);
        let valid = (at("valid_at_after")?, at("valid_at_before")?);
        let invalid = (at("invalid_at_after")?, at("invalid_at_before")?);
        Ok(Self { names: texts(call, "edge_types"), valid, invalid })
    }

    fn all(&self) -> bool {
        self.names.is_none() && self.valid == (None, None) && self.invalid == (None, None)
    }

    fn has(&self, fact: &GraphFact) -> bool {
        let named =
            self.names.as_ref().is_none_or(|names| names.iter().any(|n| n.eq_ignore_ascii_case(&fact.predicate)));
        named && within(self.valid, fact.valid_from) && within(self.invalid, fact.valid_to)
    }
}

/// Whether a time is between two, of which each may be missing. What has no time is between none.
fn within((after, before): (Option<Timestamp>, Option<Timestamp>), at: Option<Timestamp>) -> bool {
    let holds = |bound: Option<Timestamp>, fits: &dyn Fn(Timestamp, Timestamp) -> bool| match (bound, at) {
        (None, _) => true,
        (Some(bound), Some(at)) => fits(at, bound),
        (Some(_), None) => false,
    };
    holds(after, &|at, bound| at >= bound) && holds(before, &|at, bound| at <= bound)
}

/// Facts that answer a question, those that hold before what held earlier.
pub(super) async fn search(call: &ToolCall, graph: &Graph) -> Result<Value, Failed> {
    let limit = most(call, "max_facts", 10, AT_ONCE);
    if limit == 0 {
        return Err(said("max_facts must be a positive integer"));
    }
    let (wanted, scopes) = (Wanted::of(call)?, scopes(call, &graph.group)?);
    // What is left out afterwards must not have taken the place of what is not.
    let looked_at = if wanted.all() { limit } else { AT_ONCE };
    let ids = ranked(call, graph, &scopes, looked_at).await?;
    let mut found = graph::facts(&mut &*call, &scopes, &ids).await?;
    let before = graph::former(&mut &*call, &scopes, &ids).await?;
    found.extend(before);
    found.retain(|fact| wanted.has(fact));
    if let Some(center) = call.text("center_node_uuid") {
        found.sort_by_key(|fact| source_of(fact) != center && target_of(fact) != center);
    }
    found.truncate(limit);
    let message = if found.is_empty() { "No relevant facts found" } else { "Facts retrieved successfully" };
    Ok(json!({"message": message, "facts": found.iter().map(shown).collect::<Vec<_>>()}))
}

/// One of them.
pub(super) async fn get(call: &ToolCall) -> Result<Value, Failed> {
    let uuid = call.text("uuid").unwrap_or_default();
    let found = match uuid.parse() {
        Ok(id) => graph::fact(&mut &*call, WITHIN, id).await?,
        Err(_) => None,
    };
    let fact = found.ok_or_else(|| said(format!("Error getting entity edge: edge {uuid} not found")))?;
    Ok(shown(&fact))
}

/// Forgets one.
pub(super) async fn delete(call: &ToolCall, graph: &Graph) -> Result<Value, Failed> {
    let uuid = call.text("uuid").unwrap_or_default();
    let origin = origin(call, &graph.memory).await?;
    let event = in_tx!(call, graph, |tx| forget(&mut tx, &origin, uuid));
    let back = format!("memory_undo takes it back by {event}");
    Ok(json!({"message": format!("Entity edge with UUID {uuid} deleted successfully; {back}")}))
}

async fn forget(tx: &mut EffectTx<'_, '_>, origin: &Origin, uuid: &str) -> Result<Uuid, WriteError> {
    let none = || WriteError::refused("not_found", format!("Error deleting entity edge: edge {uuid} not found"));
    let id = uuid.parse().map_err(|_| none())?;
    memory::sql::take_lock(tx).await?;
    graph::fact(tx, WITHIN, id).await?.ok_or_else(none)?;
    write::forget(tx, origin, Kind::Fact, id, None).await
}
