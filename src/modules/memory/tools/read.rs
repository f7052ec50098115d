//! Looking at one memory, at how it came to be, and at how much there is.

use memory::Kind;
use memory::sql::{story, upkeep};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{With, define, id, id_of, kind, memory_type, text};
use crate::ModuleError;
use crate::memory::job_names;
use tools::{Meta, Tool, ToolCall, ToolError, handler};

pub(super) const NAMES: &[&str] = &["memory_get", "memory_stats", "memory_why"];

pub(super) fn tools(with: &With) -> Result<Vec<Tool>, ModuleError> {
    // Whose words a row holds, its policy says.
    let meta = Meta::read;
    Ok(vec![
        tool!(
            with,
            meta(),
            memory_get,
            "One memory with all that is noted about it; null where there is none.",
            json!({"memory_type": memory_type(), "memory_id": id_of("memory")}),
            &["memory_type", "memory_id"]
        ),
        tool!(
            with,
            Meta { reads_private: false, ..meta() },
            memory_stats,
            "How much is remembered, in which states, and what the jobs that tidy it did last, have before them and cost.",
            json!({"scope": text(64, "Only of this scope and of `global`")}),
            &[]
        ),
        tool!(
            with,
            meta(),
            memory_why,
            "How a memory came to be: its source, its session, who said it, what it took the place of and what took its \
             place, and all that was done to it, each with the event that memory_undo takes back.",
            json!({"memory_id": id_of("memory")}),
            &["memory_id"]
        ),
    ])
}

async fn memory_get(call: ToolCall, _: With) -> Result<Value, ToolError> {
    Ok(story::shown(&mut &call, kind(&call), id(&call, "memory_id")?).await?.unwrap_or_default())
}

async fn memory_stats(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let mut stats = upkeep::stats(&mut &call, call.text("scope")).await?;
    stats["butler"] = json!(call.butler.as_str());
    // Null: it is not there, and is made when somebody asks.
    let index = with.memory.index_size(&call.context().tenant_id);
    stats["index"] = index.map_or(Value::Null, |(memories, bytes)| json!({"memories": memories, "bytes": bytes}));
    stats["jobs"] = upkeep::job_state(&mut &call, &job_names()).await?;
    Ok(stats)
}

async fn memory_why(call: ToolCall, _: With) -> Result<Value, ToolError> {
    let which = id(&call, "memory_id")?;
    let from = &mut &call;
    let mut story = Value::Null;
    for kind in [Kind::Fact, Kind::Rule, Kind::Episode] {
        if let Some(memory) = story::remains(from, kind, which).await? {
            story = json!({"memory_type": kind, "memory": memory});
            break;
        }
    }
    if story.is_null() {
        return Err(ToolError::refused("not_found", format!("There is no memory {which}.")));
    }
    let id_in = |name: &str| story["memory"][name].as_str().and_then(|id| id.parse::<Uuid>().ok());
    let (source, supersedes, mut session) = (id_in("source_episode_id"), id_in("supersedes_id"), id_in("session_id"));
    story["events"] = json!(story::events_of(from, which).await?);
    story["links"] = json!(story::links_of(from, which).await?);
    if let Some(source) = source {
        let episode = story::source(from, source).await?;
        session = session.or_else(|| episode["session_id"].as_str().and_then(|id| id.parse().ok()));
        story["source"] = episode;
    }
    if let Some(session) = session {
        story["session"] = sessions::sql::source(&call, session).await?.unwrap_or_default();
    }
    if let Some(before) = supersedes {
        story["supersedes"] = story::said(from, before).await?;
    }
    if let Some(after) = story::successor(from, which).await? {
        story["superseded_by"] = story::said(from, after).await?;
    }
    let wordings = story::other_wordings(from, which).await?;
    if !wordings.is_empty() {
        story["also_put"] = json!(wordings);
    }
    Ok(story)
}
