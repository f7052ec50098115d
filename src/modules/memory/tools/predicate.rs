//! The words in which facts are put, to look at.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{With, define, text};
use crate::ModuleError;
use memory::sql::upkeep::predicates;
use memory_index::predicates::{SEEDS, distance, snake_case};
use tools::{Meta, Tool, ToolCall, ToolError, handler};

pub(super) const NAMES: &[&str] = &["memory_predicate_list", "memory_predicate_search"];

pub(super) fn tools(with: &With) -> Result<Vec<Tool>, ModuleError> {
    let meta = || Meta { reads_private: false, ..Meta::read() };
    Ok(vec![
        tool!(
            with,
            meta(),
            memory_predicate_list,
            "The predicates that facts are put in, with their other names and what kind of fact each makes.",
            json!({"edges_only": {"type": "boolean", "default": false, "description": "Only ties between entities"}}),
            &[]
        ),
        tool!(
            with,
            meta(),
            memory_predicate_search,
            "Predicates that fit these words, the nearest first. Look here before you make up a new one.",
            json!({"query": text(200, "What the fact says, in a word or two"), "scope": text(64, "Not looked at")}),
            &["query"]
        ),
    ])
}

async fn all(call: &ToolCall) -> Result<BTreeMap<String, Value>, ToolError> {
    let mut all: BTreeMap<String, Value> = SEEDS
        .iter()
        .map(|s| {
            let shown = json!({"name": s.name, "aliases": s.aliases, "is_edge": s.edge, "is_temporal": s.temporal,
                "is_many": s.many, "usage_count": 0, "status": "active"});
            (s.name.to_owned(), shown)
        })
        .collect();
    for (name, mut shown) in predicates(&mut &*call).await? {
        // One that was only counted keeps its seed's other names.
        let bare = shown["aliases"].as_array().is_none_or(Vec::is_empty);
        if let Some(seed) = all.get(&name).filter(|_| bare) {
            shown["aliases"] = seed["aliases"].clone();
        }
        all.insert(name, shown);
    }
    all.retain(|_, p| p["status"] == "active");
    Ok(all)
}

async fn memory_predicate_list(call: ToolCall, _: With) -> Result<Value, ToolError> {
    let edges = call.args.get("edges_only").and_then(Value::as_bool).unwrap_or(false);
    Ok(all(&call).await?.into_values().filter(|p| !edges || p["is_edge"] == true).collect())
}

async fn memory_predicate_search(call: ToolCall, _: With) -> Result<Value, ToolError> {
    let query = snake_case(call.text("query").unwrap_or_default()).unwrap_or_default();
    let words: Vec<&str> = query.split('_').filter(|w| w.len() > 1).collect();
    let score = |name: &str| -> usize {
        if name == query {
            return 100;
        }
        let parts: Vec<&str> = name.split('_').collect();
        let shared = words
            .iter()
            .filter(|w| {
                parts.iter().any(|p| p == *w || p.len() > 3 && w.starts_with(p) || w.len() > 3 && p.starts_with(*w))
            })
            .count();
        let near = query.len() >= 4 && distance(name, &query) <= 2;
        20 * shared + if near { 40 } else { 0 }
    };
    let mut found: Vec<(usize, Value)> = all(&call)
        .await?
        .into_values()
        .filter_map(|p| {
            let aliases = p["aliases"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let names = p["name"].as_str().into_iter().map(|n| score(n) + 1).chain(aliases.map(score));
            let described = p["description"]
                .as_str()
                .map_or(0, |d| 5 * words.iter().filter(|w| d.to_lowercase().contains(**w)).count());
            let best = names.max().unwrap_or_default() + described;
            (best > 1).then_some((best, p))
        })
        .collect();
    found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    Ok(found
        .into_iter()
        .take(10)
        .map(|(score, mut p)| {
            p["score"] = json!(score);
            p
        })
        .collect())
}
