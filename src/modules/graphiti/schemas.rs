//! The arguments of the tools, as Graphiti's MCP server lists them, and no others.

use council::episode::STORED_ONCE;
use serde_json::{Map, Value, json};

/// An argument that may be left out, of this type.
fn maybe(schema: Value, description: &str) -> Value {
    json!({"anyOf": [schema, {"type": "null"}], "default": null, "description": description})
}

fn text(description: &str) -> Value {
    maybe(json!({"type": "string"}), description)
}

fn texts(description: &str) -> Value {
    maybe(json!({"type": "array", "items": {"type": "string"}}), description)
}

fn groups() -> Value {
    json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": "null"}], "default": null,
           "description": "One group or several; the usual one without it"})
}

fn needed(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn number(description: &str) -> Value {
    json!({"type": "integer", "default": 10, "description": description})
}

/// The schema of these arguments, some of which are needed.
fn object(properties: Value, required: &[&str]) -> Value {
    let mut schema = Map::new();
    schema.insert("type".into(), json!("object"));
    schema.insert("additionalProperties".into(), json!(false));
    schema.insert("properties".into(), properties);
    if !required.is_empty() {
        schema.insert("required".into(), json!(required));
    }
    Value::Object(schema)
}

pub(super) fn add_memory() -> Value {
    let mut id = text("Its id: with the same id the same is stored once");
    id[STORED_ONCE] = json!(true);
    object(
        json!({
            "name": needed("What the episode is called"),
            "episode_body": needed("What was said or happened, without secrets"),
            "group_id": text("The group that it belongs to; the usual one without it"),
            "source": {"type": "string", "default": "text", "description": "text, message or json"},
            "source_description": {"type": "string", "default": "", "description": "Who or what said it"},
            "uuid": id,
            "reference_time": text("When it happened, as 2026-03-01T18:30:00Z; now without it"),
            "excluded_entity_types": texts("Not supported"),
            "custom_extraction_instructions": text("Not supported"),
            "previous_episode_uuids": texts("Not supported"),
            "update_communities": {"type": "boolean", "default": false, "description": "Not supported"},
            "saga": text("Not supported"),
            "saga_previous_episode_uuid": text("Not supported"),
        }),
        &["name", "episode_body"],
    )
}

/// Arguments of `add_memory` that would change what comes of an episode in a way that a butler's memory has not.
pub(super) const UNSUPPORTED: [&str; 6] = [
    "excluded_entity_types",
    "custom_extraction_instructions",
    "previous_episode_uuids",
    "update_communities",
    "saga",
    "saga_previous_episode_uuid",
];

pub(super) fn search_nodes() -> Value {
    object(
        json!({
            "query": needed("What is looked for"),
            "group_ids": groups(),
            "max_nodes": number("How many at most"),
            "entity_types": texts("Only nodes with one of these labels; all have `Entity`"),
            "center_node_uuid": text("Nodes that are tied to this one come first"),
        }),
        &["query"],
    )
}

pub(super) fn search_memory_facts() -> Value {
    object(
        json!({
            "query": needed("What is looked for"),
            "group_ids": groups(),
            "max_facts": number("How many at most"),
            "center_node_uuid": text("Facts about this node come first"),
            "edge_types": texts("Only facts with one of these names, such as LIVES_IN"),
            "valid_at_after": text("Only what became so then or later"),
            "valid_at_before": text("Only what became so then or earlier"),
            "invalid_at_after": text("Only what ended then or later"),
            "invalid_at_before": text("Only what ended then or earlier"),
        }),
        &["query"],
    )
}

pub(super) fn get_episodes() -> Value {
    object(json!({"group_ids": groups(), "max_episodes": number("How many at most")}), &[])
}

/// Of the tools that are about one thing.
pub(super) fn one(what: &str) -> Value {
    object(json!({"uuid": needed(&format!("Which {what}"))}), &["uuid"])
}

pub(super) fn nothing() -> Value {
    object(json!({}), &[])
}
