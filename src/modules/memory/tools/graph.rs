//! What an entity is tied to.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use uuid::Uuid;

use super::entity::type_of;
use super::{With, define, id, id_of, list, strings};
use crate::ModuleError;
use memory::sql::entities::{self, Tie};
use memory_index::predicates::snake_case;
use tools::{Meta, Tool, ToolCall, ToolError, handler};

pub(super) const NAMES: &[&str] = &["memory_entity_neighbors"];

/// So many ties are followed at most.
const MOST: usize = 200;

pub(super) fn tools(with: &With) -> Result<Vec<Tool>, ModuleError> {
    Ok(vec![tool!(
        with,
        Meta::read(),
        memory_entity_neighbors,
        "What an entity is tied to by facts between entities, the nearest first.",
        json!({"entity_id": id_of("entity"),
               "max_depth": {"type": "integer", "minimum": 1, "maximum": 4, "default": 2, "description": "How many ties away"},
               "predicate_filter": strings(20, "Only along these predicates"),
               "direction": {"type": "string", "enum": ["outgoing", "incoming", "both"], "default": "both",
                             "description": "From the entity, to it, or both"}}),
        &["entity_id"]
    )])
}

struct Step {
    entity: Uuid,
    depth: usize,
    outgoing: bool,
    tie: Tie,
}

async fn memory_entity_neighbors(call: ToolCall, _: With) -> Result<Value, ToolError> {
    let asked = id(&call, "entity_id")?;
    let depth = call.args.get("max_depth").and_then(Value::as_u64).and_then(|d| usize::try_from(d).ok()).unwrap_or(2);
    let only: Vec<String> = list(&call, "predicate_filter").iter().filter_map(|p| snake_case(p)).collect();
    let direction = call.text("direction").unwrap_or("both");
    let from = &mut &call;
    let Some(start) = entities::standing_now(from, asked).await? else {
        return Err(ToolError::refused("not_found", format!("There is no entity {asked}.")));
    };
    let mut seen = HashSet::from([start]);
    let mut steps: Vec<Step> = Vec::new();
    let mut edge = vec![start];
    for depth in 1..=depth {
        let mut found = Vec::new();
        for outgoing in [true, false] {
            if direction == if outgoing { "incoming" } else { "outgoing" } {
                continue;
            }
            for tie in entities::ties(from, &edge, outgoing, MOST).await? {
                let Some(entity) = tie.far else { continue };
                if only.is_empty() || only.contains(&tie.predicate) {
                    found.push(Step { entity, depth, outgoing, tie });
                }
            }
        }
        edge =
            found.iter().map(|s| s.entity).filter(|e| !seen.contains(e)).collect::<HashSet<_>>().into_iter().collect();
        edge.sort_unstable();
        // A tie to where one came from is shown once.
        found.retain(|s| !steps.iter().any(|own| own.tie.id == s.tie.id));
        let mut facts = HashSet::new();
        found.retain(|s| facts.insert(s.tie.id));
        seen.extend(&edge);
        steps.extend(found);
        if edge.is_empty() || steps.len() >= MOST {
            break;
        }
    }
    steps.truncate(MOST);
    let ids: Vec<Uuid> = steps.iter().map(|s| s.entity).collect();
    let names: HashMap<Uuid, (String, String)> =
        entities::by_id(from, &ids).await?.into_iter().map(|e| (e.id, (type_of(&e.kind).to_owned(), e.name))).collect();
    let shown = steps.iter().map(|s| {
        let (kind, name) = names.get(&s.entity).cloned().unwrap_or_default();
        json!({"entity_id": s.entity, "canonical_name": name, "entity_type": kind, "depth": s.depth, "via": s.tie.near,
            "predicate": s.tie.predicate, "direction": if s.outgoing { "outgoing" } else { "incoming" },
            "fact_id": s.tie.id, "content": s.tie.content})
    });
    Ok(shown.collect())
}
