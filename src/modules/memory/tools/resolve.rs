//! Whom or what a name means.

use std::collections::HashMap;

use serde_json::{Value, json};
use uuid::Uuid;

use super::entity::{TYPES, kind_of, type_of};
use super::{With, define, text};
use crate::ModuleError;
use memory::sql::entities;
use memory_index::predicates::distance;
use memory_index::text::normal;
use tools::{Meta, Tool, ToolCall, ToolError, handler};

pub(super) const NAMES: &[&str] = &["memory_entity_resolve", "entity_resolve"];

pub(super) fn tools(with: &With) -> Result<Vec<Tool>, ModuleError> {
    let mut all = Vec::new();
    for name in NAMES {
        all.push(tool!(
            with,
            Meta::read(),
            resolve as name,
            "Which entity a name means, the likeliest first; what facts say of each counts too. Empty: none.",
            json!({"identifier": text(200, "A name, another name, or a role such as `owner`"),
                   "entity_type": {"type": "string", "enum": TYPES, "description": "Only of this type"},
                   "context_hints": {"type": "object", "description":
                       "What the talk is about, such as {\"topic\": \"chess\", \"mentioned_with\": [\"Bea\"]}"},
                   "enable_fuzzy": {"type": "boolean", "default": false, "description": "Also names written nearly alike"}}),
            &["identifier"]
        ));
    }
    Ok(all)
}

struct Candidate {
    id: Uuid,
    score: f64,
    how: &'static str,
}

/// How well an entity's names fit: by role, by its name, by another name, by how one begins, or nearly.
fn fit(wanted: &str, name: &str, aliases: &[String], roles: &[&str], fuzzy: bool) -> Option<(f64, &'static str)> {
    let (name, aliases): (String, Vec<String>) = (normal(name), aliases.iter().map(|a| normal(a)).collect());
    let all = || std::iter::once(&name).chain(&aliases);
    if roles.iter().any(|r| normal(r) == wanted) {
        return Some((110.0, "role"));
    }
    if name == wanted {
        return Some((100.0, "exact"));
    }
    if aliases.iter().any(|a| a == wanted) {
        return Some((80.0, "alias"));
    }
    if all().any(|n| n.starts_with(wanted) || n.split(' ').any(|word| word == wanted)) {
        return Some((50.0, "prefix"));
    }
    let near = |n: &String| n.split(' ').chain([n.as_str()]).any(|n| n.len() >= 4 && distance(n, wanted) <= 2);
    (fuzzy && wanted.len() >= 4 && all().any(near)).then_some((20.0, "fuzzy"))
}

async fn resolve(call: ToolCall, _: With) -> Result<Value, ToolError> {
    let said = normal(call.text("identifier").unwrap_or_default());
    // "My sister" is whoever has that role; whose, the household knows.
    let wanted = ["my ", "our ", "the "].iter().find_map(|w| said.strip_prefix(w)).unwrap_or(&said).to_owned();
    let kind = call.text("entity_type").map(kind_of);
    let fuzzy = call.args.get("enable_fuzzy").and_then(Value::as_bool).unwrap_or(false);
    let mut found = Vec::new();
    let from = &mut &call;
    for entity in entities::names(from).await? {
        if kind.is_some_and(|k| k != entity.kind) {
            continue;
        }
        let roles: Vec<&str> = entity.roles.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if let Some((score, how)) = fit(&wanted, &entity.name, &entity.aliases, &roles, fuzzy) {
            found.push(Candidate { id: entity.id, score, how });
        }
    }
    if found.is_empty() {
        return Ok(json!([]));
    }
    let ids: Vec<Uuid> = found.iter().map(|c| c.id).collect();
    let hints = hints(call.args.get("context_hints"));
    let counted = entities::count_facts(from, &ids, &hints).await?;
    let counts: HashMap<Uuid, (i64, i64)> = counted.iter().map(|c| (c.entity, (c.facts, c.hits))).collect();
    for candidate in &mut found {
        let (facts, hits) = counts.get(&candidate.id).copied().unwrap_or_default();
        // What is much spoken of is meant sooner, and what is spoken of together soonest; never more than a better
        // name.
        candidate.score += 0.5 * f64::from(u8::try_from(facts.min(10)).unwrap_or(10));
        candidate.score += 3.0 * f64::from(u8::try_from(hits.min(5)).unwrap_or(5));
    }
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
    found.truncate(20);
    // Only those that are shown are read.
    let ids: Vec<Uuid> = found.iter().map(|c| c.id).collect();
    let rows = entities::by_id(from, &ids).await?;
    let shown = found.iter().filter_map(|c| {
        let row = rows.iter().find(|e| e.id == c.id)?;
        Some(json!({"entity_id": c.id, "canonical_name": row.name, "entity_type": type_of(&row.kind),
            "score": c.score, "name_match": c.how, "aliases": row.aliases,
            "fact_count": counts.get(&c.id).map_or(0, |(facts, _)| *facts)}))
    });
    Ok(shown.collect())
}

/// The words of the hints, any of which counts.
fn hints(given: Option<&Value>) -> String {
    let mut words = Vec::new();
    let mut take = |v: &Value| {
        if let Some(text) = v.as_str() {
            words.extend(text.split(|c: char| !c.is_alphanumeric()).filter(|w| w.len() > 2).map(str::to_owned));
        }
    };
    for value in given.and_then(Value::as_object).into_iter().flat_map(|o| o.values()) {
        match value {
            Value::Array(items) => items.iter().for_each(&mut take),
            one => take(one),
        }
    }
    words.truncate(20);
    words.join(" OR ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_better_name_goes_first() {
        let aliases = ["Addy".to_owned()];
        let fits = |wanted: &str, fuzzy| fit(wanted, "Ada Lovelace", &aliases, &["owner"], fuzzy).map(|f| f.1);
        assert_eq!(fits("owner", false), Some("role"));
        assert_eq!(fits("ada lovelace", false), Some("exact"));
        assert_eq!(fits("addy", false), Some("alias"));
        assert_eq!(fits("ada", false), Some("prefix"));
        assert_eq!(fits("lovelace", false), Some("prefix"));
        assert_eq!(fits("lovelase", false), None);
        assert_eq!(fits("lovelase", true), Some("fuzzy"));
        assert_eq!(fits("bea", true), None);
    }

    #[test]
    fn hints_are_words() {
        assert_eq!(hints(Some(&json!({"topic": "a game of chess", "with": ["Bea"]}))), "game OR chess OR Bea");
        assert_eq!(hints(None), "");
    }
}
