//! What an entity is tied to.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use uuid::Uuid;

use super::entity::type_of;
use super::{With, define, id, id_of, list, strings};
use crate::memory::predicates::snake_case;
use tools::{Meta, Tool, ToolCall, ToolError, handler};

pub(super) const NAMES: &[&str] = &["memory_entity_neighbors"];

/// So many ties are followed at most.
const MOST: usize = 200;

pub(super) fn tools(with: &With) -> Result<Vec<Tool>, String> {
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
    from: Uuid,
    depth: usize,
    fact: Uuid,
    predicate: String,
    outgoing: bool,
    content: String,
}

async fn memory_entity_neighbors(call: ToolCall, _: With) -> Result<Value, ToolError> {
    let asked = id(&call, "entity_id")?;
    let depth = call.args.get("max_depth").and_then(Value::as_u64).and_then(|d| usize::try_from(d).ok()).unwrap_or(2);
    let only: Vec<String> = list(&call, "predicate_filter").iter().filter_map(|p| snake_case(p)).collect();
    let direction = call.text("direction").unwrap_or("both");
    let now = call.query("SELECT shared.entity_standing($1)", &[&asked]).await?;
    let Some(start) = now.first().and_then(|r| r.get::<_, Option<Uuid>>(0)) else {
        return Err(ToolError::refused("not_found", format!("There is no entity {asked}.")));
    };
    let mut seen = HashSet::from([start]);
    let mut steps: Vec<Step> = Vec::new();
    let mut edge = vec![start];
    for depth in 1..=depth {
        let mut found = Vec::new();
        for (near, far, outgoing) in [("entity_id", "object_entity_id", true), ("object_entity_id", "entity_id", false)]
        {
            if direction == "incoming" && outgoing || direction == "outgoing" && !outgoing {
                continue;
            }
            // By the ids alone, so that what is not shown is not read.
            let sql = format!(
                "SELECT f.{near}, shared.entity_standing(f.{far}), f.id, f.predicate, f.content FROM memory_facts f
                 WHERE f.{near} = ANY($1) AND f.{far} IS NOT NULL AND f.forgotten_at IS NULL
                   AND f.validity IN ('active', 'fading') ORDER BY f.importance DESC, f.id LIMIT {MOST}"
            );
            for row in call.query(&sql, &[&edge]).await? {
                let predicate: String = row.get(3);
                let Some(entity) = row.get::<_, Option<Uuid>>(1) else { continue };
                if only.is_empty() || only.contains(&predicate) {
                    let (from, fact, content) = (row.get(0), row.get(2), row.get(4));
                    found.push(Step { entity, from, depth, fact, predicate, outgoing, content });
                }
            }
        }
        edge =
            found.iter().map(|s| s.entity).filter(|e| !seen.contains(e)).collect::<HashSet<_>>().into_iter().collect();
        edge.sort_unstable();
        // A tie to where one came from is shown once.
        found.retain(|s| !steps.iter().any(|own| own.fact == s.fact));
        let mut facts = HashSet::new();
        found.retain(|s| facts.insert(s.fact));
        seen.extend(&edge);
        steps.extend(found);
        if edge.is_empty() || steps.len() >= MOST {
            break;
        }
    }
    steps.truncate(MOST);
    let ids: Vec<Uuid> = steps.iter().map(|s| s.entity).collect();
    let rows = call.query("SELECT id, kind, name FROM shared.entities WHERE id = ANY($1)", &[&ids]).await?;
    let names: HashMap<Uuid, (String, String)> =
        rows.iter().map(|r| (r.get(0), (type_of(r.get(1)).to_owned(), r.get(2)))).collect();
    let shown = steps.iter().map(|s| {
        let (kind, name) = names.get(&s.entity).cloned().unwrap_or_default();
        json!({"entity_id": s.entity, "canonical_name": name, "entity_type": kind, "depth": s.depth, "via": s.from,
            "predicate": s.predicate, "direction": if s.outgoing { "outgoing" } else { "incoming" },
            "fact_id": s.fact, "content": s.content})
    });
    Ok(shown.collect())
}
