//! The tools that ask memory: search, recall, the catalog, and the block that a session is told.

mod block;
mod context;
mod search;

use serde_json::json;
use tools::{Effect, Meta, Tool, handler};

use super::tools::{With, define};
use crate::ModuleError;
use context::memory_context;
use search::{filters, memory_catalog_search, memory_recall, memory_search};

/// Their names.
pub(super) const NAMES: [&str; 4] = ["memory_search", "memory_recall", "memory_catalog_search", "memory_context"];

pub(super) fn tools(with: &With) -> Result<Vec<Tool>, ModuleError> {
    let text = |description: &str| json!({"type": "string", "description": description});
    let limit = json!({"type": "integer", "minimum": 1, "maximum": 100, "description": "How many at most"});
    let explain = json!({"type": "boolean", "description": "Tell what each score is made of"});
    let mode = json!({"type": "string", "enum": ["hybrid", "semantic", "keyword"],
                      "description": "By words and meaning, by meaning, or by words"});
    let scope = text("`global` for what is known to all butlers; else that and this butler's own");
    let reading = || Meta { reads_untrusted: true, ..Meta::read() };
    Ok(vec![
        tool!(
            with,
            reading(),
            memory_search,
            "Look for memories: episodes (what happened), facts (what is so), rules (what to do). The best first, each with its \
             score, its date and how far it is trusted.",
            json!({"query": text("What is looked for, in a few words"),
                   "types": {"type": "array", "items": {"type": "string", "enum": ["episode", "fact", "rule"]},
                             "description": "Only these"},
                   "scope": scope, "mode": mode, "limit": limit,
                   "min_confidence": {"type": "number", "minimum": 0, "maximum": 1, "description": "Facts and rules believed at least so far"},
                   "filters": filters(), "explain": explain}),
            &["query"]
        ),
        tool!(
            with,
            Meta { effect: Some(Effect::Idempotent), ..reading() }.labelled(),
            memory_recall,
            "Recall what is known of a topic: facts and rules, the best first. What is recalled is noted as used.",
            json!({"topic": text("What is to be recalled, in a few words"), "scope": scope, "limit": limit,
                   "filters": filters(), "explain": explain}),
            &["topic"]
        ),
        tool!(
            with,
            reading(),
            memory_catalog_search,
            "Look for what any butler of the household has published.",
            json!({"query": text("What is looked for, in a few words"),
                   "memory_type": {"type": "string", "enum": ["fact"], "description": "Facts are what is published"},
                   "limit": limit, "mode": mode,
                   "max_sensitivity": {"type": "string", "enum": ["normal"], "description": "Nothing more sensitive is published"}}),
            &["query"]
        ),
        tool!(
            with,
            reading(),
            memory_context,
            "The few memories that matter to a task, as text for a prompt: what is known of the owner, facts, rules.",
            json!({"trigger_prompt": text("The task"), "butler": text("This butler's own name"),
                   "token_budget": {"type": "integer", "minimum": 100, "maximum": 100_000, "description": "At most so many tokens"},
                   "include_recent_episodes": {"type": "boolean", "description": "Also what happened lately"},
                   "include_fleet_knowledge": {"type": "boolean", "description": "Also what other butlers have published"}}),
            &["trigger_prompt"]
        ),
    ])
}
