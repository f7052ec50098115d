//! The tools that ask memory: search, recall, the catalog, and the block that a session is told.

mod block;
mod context;
mod rows;
mod search;

use std::sync::Arc;

use serde_json::json;

use super::core::Memory;
use super::tools::define;
use tools::{Effect, Meta, Tool, handler};

/// Their names.
pub(super) const NAMES: [&str; 4] = ["memory_search", "memory_recall", "memory_catalog_search", "memory_context"];

pub(super) fn tools(memory: &Arc<Memory>) -> Result<Vec<Tool>, String> {
    let text = |description: &str| json!({"type": "string", "description": description});
    let limit = json!({"type": "integer", "minimum": 1, "maximum": 100, "description": "How many at most"});
    let explain = json!({"type": "boolean", "description": "Tell what each score is made of"});
    let mode = json!({"type": "string", "enum": ["hybrid", "semantic", "keyword"],
                      "description": "By words and meaning, by meaning, or by words"});
    let scope = text("`global` for what is known to all butlers; else that and this butler's own");
    let reading = || Meta { reads_untrusted: true, ..Meta::read() };
    let search = define(
        "memory_search",
        "Look for memories: episodes (what happened), facts (what is so), rules (what to do). The best first, each with its \
         score, its date and how far it is trusted.",
        json!({"query": text("What is looked for, in a few words"),
               "types": {"type": "array", "items": {"type": "string", "enum": ["episode", "fact", "rule"]},
                         "description": "Only these"},
               "scope": scope, "mode": mode, "limit": limit,
               "min_confidence": {"type": "number", "minimum": 0, "maximum": 1, "description": "Facts and rules believed at least so far"},
               "filters": search::filters(), "explain": explain}),
        &["query"],
        reading(),
    )?;
    let recall = define(
        "memory_recall",
        "Recall what is known of a topic: facts and rules, the best first. What is recalled is noted as used.",
        json!({"topic": text("What is to be recalled, in a few words"), "scope": scope, "limit": limit,
               "filters": search::filters(), "explain": explain}),
        &["topic"],
        Meta { effect: Some(Effect::Idempotent), ..reading() },
    )?;
    let catalog = define(
        "memory_catalog_search",
        "Look for what any butler of the household has published.",
        json!({"query": text("What is looked for, in a few words"),
               "memory_type": {"type": "string", "enum": ["fact"], "description": "Facts are what is published"},
               "limit": limit, "mode": mode,
               "max_sensitivity": {"type": "string", "enum": ["normal"], "description": "Nothing more sensitive is published"}}),
        &["query"],
        reading(),
    )?;
    let context = define(
        "memory_context",
        "The few memories that matter to a task, as text for a prompt: what is known of the owner, facts, rules.",
        json!({"trigger_prompt": text("The task"), "butler": text("This butler's own name"),
                       "token_budget": {"type": "integer", "minimum": 100, "maximum": 100_000, "description": "At most so many tokens"},
                       "include_recent_episodes": {"type": "boolean", "description": "Also what happened lately"},
                       "include_fleet_knowledge": {"type": "boolean", "description": "Also what other butlers have published"},
        }),
        &["trigger_prompt"],
        reading(),
    )?;
    let with = |memory: &Arc<Memory>| memory.clone();
    let (a, b, c, d) = (with(memory), with(memory), with(memory), with(memory));
    Ok(vec![
        Tool::new(&search, handler(move |call| search::memory_search(call, a.clone()))),
        Tool::new(&recall, handler(move |call| search::memory_recall(call, b.clone()))),
        Tool::new(&catalog, handler(move |call| search::memory_catalog_search(call, c.clone()))),
        Tool::new(&context, handler(move |call| context::memory_context(call, d.clone()))),
    ])
}
