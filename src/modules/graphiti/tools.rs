//! The tools, named as those of Graphiti's MCP server.

use std::sync::Arc;

use serde_json::{Value, json};

use super::arguments::{Failed, answer};
use super::{Graph, episodes, facts, nodes, schemas};
use crate::contract::ModuleError;
use tools::{Definition, Effect, Meta, Tool, ToolCall, ToolError, handler};

const NAMES: [&str; 8] = [
    "add_memory",
    "search_nodes",
    "search_memory_facts",
    "get_episodes",
    "get_entity_edge",
    "delete_episode",
    "delete_entity_edge",
    "get_status",
];

/// The names of all of them.
pub(super) fn names() -> Vec<String> {
    NAMES.map(str::to_owned).into()
}

pub(super) fn tools(graph: &Arc<Graph>) -> Result<Vec<Tool>, ModuleError> {
    NAMES.iter().map(|name| tool(name, graph)).collect()
}

fn tool(name: &'static str, graph: &Arc<Graph>) -> Result<Tool, ModuleError> {
    let (description, schema, meta) = about(name);
    let meta = Meta { structured: true, ..meta };
    let definition = Definition::new(name, description, schema, meta).map(Arc::new).map_err(ModuleError::new)?;
    let graph = graph.clone();
    Ok(Tool::new(
        &definition,
        handler(move |call| {
            let graph = graph.clone();
            async move { run(name, call, &graph).await }
        }),
    ))
}

fn about(name: &str) -> (&'static str, Value, Meta) {
    let words = ["name", "episode_body", "source_description"].map(str::to_owned).into();
    match name {
        "add_memory" => (
            "Remember an episode: a text, a message or JSON, for the programs of its group. Facts are made from it later.",
            schemas::add_memory(),
            // What has no uuid is stored again when it is said again.
            Meta { sensitive: words, ..Meta::write(Effect::Once).labelled() },
        ),
        "search_nodes" => ("Search whom and what a group's facts are about.", schemas::search_nodes(), Meta::read()),
        "search_memory_facts" => (
            "Search a group's facts, each with the time from when to when it was so.",
            schemas::search_memory_facts(),
            Meta::read(),
        ),
        "get_episodes" => ("A group's episodes, the newest first.", schemas::get_episodes(), Meta::read()),
        "get_entity_edge" => ("One fact of a group.", schemas::one("fact"), Meta::read()),
        "delete_episode" => (
            "Forget an episode, and the facts that nothing else says. memory_undo takes it back.",
            schemas::one("episode"),
            Meta::write(Effect::Idempotent),
        ),
        "delete_entity_edge" => (
            "Forget a fact of a group. memory_undo takes it back.",
            schemas::one("fact"),
            Meta::write(Effect::Idempotent),
        ),
        _ => (
            "Whether episodes can be remembered and facts be found.",
            schemas::nothing(),
            Meta { reads_private: false, ..Meta::read() },
        ),
    }
}

async fn run(name: &str, call: ToolCall, graph: &Graph) -> Result<Value, ToolError> {
    answer(match name {
        "add_memory" => episodes::add(&call, graph).await,
        "search_nodes" => nodes::search(&call, graph).await,
        "search_memory_facts" => facts::search(&call, graph).await,
        "get_episodes" => episodes::list(&call, graph).await,
        "get_entity_edge" => facts::get(&call).await,
        "delete_episode" => episodes::delete(&call, graph).await,
        "delete_entity_edge" => facts::delete(&call, graph).await,
        _ => status(&call).await,
    })
}

/// The database is asked, and answers or fails.
async fn status(call: &ToolCall) -> Result<Value, Failed> {
    call.query("SELECT 1", &[]).await?;
    let message = format!("The memory of {} is running and its database answers", call.butler);
    Ok(json!({"status": "ok", "message": message}))
}
