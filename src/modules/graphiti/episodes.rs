//! Episodes: taken in, listed, forgotten.

use memory::gate::MAX_EPISODE;
use memory::sql::graph::{self, GraphEpisode};
use memory::sql::take_lock;
use memory::write::{self, Kind, NewEpisode, Origin, Outcome, WriteError, forget_facts, store_episode};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::Graph;
use super::arguments::{Failed, WITHIN, group_id, group_of, moment, most, said, scope, scopes};
use super::schemas::UNSUPPORTED;
use crate::memory_calls::{in_tx, origin, settled, stepped, vector};
use base::redact::secret_in;
use base::text::hex;
use base::{crash, text};
use sha2::{Digest, Sha256};
use tools::{EffectTx, ToolCall};

/// The longest text of an episode, in bytes.
const MOST: usize = 256 << 10;
/// So many are listed at once.
const LISTED: usize = 1000;
/// What the gate leaves of an episode is a little shorter than what it takes at most: a note says how much was cut.
const READ: usize = MAX_EPISODE - 64;

/// What an episode is called, within a butler, by whoever brings it.
fn key(uuid: &str) -> String {
    format!("{WITHIN}{uuid}")
}

/// Takes one in. It is committed before this returns.
pub(super) async fn add(call: &ToolCall, graph: &Graph) -> Result<Value, Failed> {
    let given = |name: &str| call.text(name).unwrap_or_default();
    let (name, body, description) = (given("name"), given("episode_body"), given("source_description"));
    let group = group_id(call, &graph.group)?;
    let unsupported = |name: &&&str| call.args.get(**name).is_some_and(|v| !matches!(v, Value::Bool(false)));
    if let Some(argument) = UNSUPPORTED.iter().find(unsupported) {
        return Err(said(format!("`{argument}` is not supported by the memory of {}; leave it out.", call.butler)));
    }
    if body.len() > MOST {
        return Err(said(format!("The episode has {} KiB, and at most {} are taken.", body.len() >> 10, MOST >> 10)));
    }
    if let Some(what) = [name, description, body].into_iter().find_map(secret_in) {
        return Err(said(format!("Not remembered: it holds what looks like {what}.")));
    }
    let at = moment(call, "reference_time")?.unwrap_or_else(|| call.store.clock().now());
    let source = match given("source").to_ascii_lowercase().as_str() {
        "json" => "json",
        "message" => "message",
        // As Graphiti has it: what it does not know is a text.
        _ => "text",
    };
    let content = readable(source, body);
    let mut metadata = json!({"scope": scope(group), "name": name, "source": source, "source_description": description,
        "body_hash": hex(&Sha256::digest(body.as_bytes()))});
    if content != body {
        metadata["body"] = json!(body);
    }
    let uuid = call.text("uuid").filter(|uuid| !uuid.is_empty());
    if let Some(uuid) = uuid {
        metadata["uuid"] = json!(uuid);
    }
    let speaker = Some(description.trim()).filter(|who| !who.is_empty()).map(|who| text::truncate(who, 200));
    let episode = NewEpisode {
        importance: 5.0,
        occurred_at: Some(at),
        speaker: speaker.clone(),
        session: None,
        idempotency_key: uuid.map(key),
        // Kept as long as what is learned from it.
        retention_class: Some("operational".to_owned()),
        sensitivity: None,
        metadata,
        keep: std::time::Duration::ZERO,
        left_out: false,
        vector: vector(&graph.memory, speaker.as_deref(), &content).await,
        content,
    };
    let origin = origin(call, &graph.memory).await?;
    match stored(call, &origin, &episode).await? {
        Stored::There => {}
        Stored::Other => {
            return Err(said(format!(
                "There is another episode with the uuid {}: nothing was changed.",
                uuid.unwrap_or_default()
            )));
        }
        Stored::Empty(why) => {
            return Ok(json!({"message": format!("Episode '{name}' was not kept in group '{group}': {why}")}));
        }
    }
    crash::point("graphiti.stored");
    stepped(call, &graph.memory).await;
    Ok(json!({"message": format!("Episode '{name}' queued for processing in group '{group}'")}))
}

/// What became of an episode.
enum Stored {
    /// It is there, now or since before.
    There,
    /// Its uuid is another one's.
    Other,
    /// There is nothing in it, for this reason.
    Empty(String),
}

async fn stored(call: &ToolCall, origin: &Origin, episode: &NewEpisode) -> Result<Stored, Failed> {
    let mut lease = call.lease().await?;
    let mut tx = call.begin(&mut lease).await?;
    let done = store(&mut tx, origin, episode).await;
    match done {
        // No secret is in it, so it is greetings or the like.
        Err(WriteError::Refused { code: "not_remembered", message }) => {
            let _ = tx.rollback().await;
            Ok(Stored::Empty(message))
        }
        done => Ok(settled(tx, done).await?),
    }
}

async fn store(tx: &mut EffectTx<'_, '_>, origin: &Origin, episode: &NewEpisode) -> Result<Stored, WriteError> {
    let stored = store_episode(tx, origin, episode).await?;
    if stored.status != Outcome::Repeated {
        return Ok(Stored::There);
    }
    // Behind the writing: what is read here makes nothing that is written less believed.
    let key = episode.idempotency_key.as_deref().unwrap_or_default();
    let there = graph::episode(tx, WITHIN, Some(stored.id), key).await.map_err(WriteError::Store)?;
    let alike = |part: &str| there.as_ref().is_some_and(|there| there.metadata[part] == episode.metadata[part]);
    let same = ["scope", "name", "source", "body_hash"].iter().all(|part| alike(part));
    Ok(if same { Stored::There } else { Stored::Other })
}

/// What a session reads of a body: JSON as lines of its parts, and no more than an episode may have.
fn readable(source: &str, body: &str) -> String {
    let lines = match serde_json::from_str::<Value>(body) {
        Ok(value) if source == "json" => {
            let mut lines = Vec::new();
            flatten("", &value, &mut lines);
            Some(lines.join("\n"))
        }
        _ => None,
    };
    text::truncate(lines.as_deref().unwrap_or(body).trim(), READ)
}

/// Each value with the way to it.
fn flatten(at: &str, value: &Value, lines: &mut Vec<String>) {
    let below = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at} {key}") };
    match value {
        Value::Object(parts) => parts.iter().for_each(|(key, inner)| flatten(&below(key), inner, lines)),
        Value::Array(items) => items.iter().for_each(|inner| flatten(at, inner, lines)),
        Value::Null => {}
        Value::String(text) if at.is_empty() => lines.push(text.clone()),
        Value::String(text) => lines.push(format!("{at}: {text}")),
        other => lines.push(format!("{at}: {other}")),
    }
}

fn shown(episode: &GraphEpisode) -> Value {
    let none = Map::new();
    let said = episode.metadata.as_object().unwrap_or(&none);
    let of = |name: &str| said.get(name).and_then(Value::as_str);
    json!({
        "uuid": of("uuid").map_or_else(|| episode.id.to_string(), str::to_owned),
        "name": of("name").unwrap_or_default(),
        "content": of("body").unwrap_or(&episode.content),
        "created_at": episode.created_at,
        "source": of("source").unwrap_or("text"),
        "source_description": of("source_description").unwrap_or_default(),
        "group_id": group_of(&episode.scope),
    })
}

/// Those of groups, the newest first.
pub(super) async fn list(call: &ToolCall, graph: &Graph) -> Result<Value, Failed> {
    let limit = most(call, "max_episodes", 10, LISTED);
    let scopes = scopes(call, &graph.group)?;
    let found = graph::episodes(&mut &*call, &scopes, i64::try_from(limit).unwrap_or(i64::MAX)).await?;
    let message = if found.is_empty() { "No episodes found" } else { "Episodes retrieved successfully" };
    Ok(json!({"message": message, "episodes": found.iter().map(shown).collect::<Vec<_>>()}))
}

/// Forgets one, with what it alone says.
pub(super) async fn delete(call: &ToolCall, graph: &Graph) -> Result<Value, Failed> {
    let uuid = call.text("uuid").unwrap_or_default();
    let origin = origin(call, &graph.memory).await?;
    let events = in_tx!(call, graph, |tx| forget(&mut tx, &origin, uuid));
    let events: Vec<String> = events.iter().map(Uuid::to_string).collect();
    let back = format!("memory_undo takes it back by {}", events.join(", then "));
    Ok(json!({"message": format!("Episode with UUID {uuid} deleted successfully; {back}")}))
}

/// The events, in the order in which they are taken back.
async fn forget(tx: &mut EffectTx<'_, '_>, origin: &Origin, uuid: &str) -> Result<Vec<Uuid>, WriteError> {
    take_lock(tx).await?;
    let found = graph::episode(tx, WITHIN, uuid.parse().ok(), &key(uuid)).await?;
    let Some(episode) = found else {
        return Err(WriteError::refused("not_found", format!("Error deleting episode: node {uuid} not found")));
    };
    let alone = graph::only_of(tx, episode.id).await?;
    let payload = json!({"episode": episode.id});
    let facts = forget_facts(tx, origin, "forgotten", &alone, payload).await?;
    let itself = write::forget(tx, origin, Kind::Episode, episode.id, None).await?;
    Ok([Some(itself), facts.map(|(event, _)| event)].into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_read_by_its_parts_and_long_texts_up_to_a_point() {
        let body = r#"{"company": {"name": "Acme"}, "products": [{"id": 1}, {"id": 2}], "none": null}"#;
        assert_eq!(readable("json", body), "company name: Acme\nproducts id: 1\nproducts id: 2");
        assert_eq!(readable("text", body), body);
        assert_eq!(readable("json", "no JSON"), "no JSON");
        assert!(readable("text", &"word ".repeat(10_000)).len() <= MAX_EPISODE);
    }
}
