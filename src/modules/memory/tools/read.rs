//! Looking at one memory, at how it came to be, and at how much there is.

use serde_json::{Value, json};

use super::{With, define, id, id_of, kind, memory_type, shown, text};
use crate::memory::job_names;
use tools::{Meta, Tool, ToolCall, ToolError, handler};

pub(super) const NAMES: &[&str] = &["memory_get", "memory_stats", "memory_why"];

pub(super) fn tools(with: &With) -> Result<Vec<Tool>, String> {
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
    Ok(shown(&call, kind(&call), id(&call, "memory_id")?).await?.unwrap_or_default())
}

async fn memory_stats(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let rows = call.query("SELECT memory_stats($1)", &[&call.text("scope")]).await?;
    let mut stats: Value = rows.first().map(|r| r.get(0)).unwrap_or_default();
    stats["butler"] = json!(call.butler.as_str());
    // Null: it is not there, and is made when somebody asks.
    let index = with.memory.index_size(&call.context().tenant_id);
    stats["index"] = index.map_or(Value::Null, |(memories, bytes)| json!({"memories": memories, "bytes": bytes}));
    let rows = call.query("SELECT memory_job_state($1)", &[&job_names()]).await?;
    stats["jobs"] = rows.first().map(|r| r.get(0)).unwrap_or_default();
    Ok(stats)
}

const EVENTS: &str = "
    SELECT jsonb_build_object('event', e.id, 'what', e.event_type, 'by', e.actor, 'at', e.at, 'reason', e.reason,
               'session_id', e.session_id, 'request_id', e.request_id, 'trust', e.trust, 'details', e.payload,
               'undoes', e.undoes, 'undone', EXISTS (SELECT 1 FROM memory_events u WHERE u.undoes = e.id))
    FROM memory_events e
    WHERE e.id IN (SELECT h.event_id FROM memory_history h WHERE h.memory_id = $1
                   UNION SELECT m.id FROM memory_events m WHERE m.memory_id = $1)
    ORDER BY e.seq";

const LINKS: &str = "
    SELECT jsonb_build_object('relation', l.relation, 'from', l.source_type, 'from_id', l.source_id,
                              'to', l.target_type, 'to_id', l.target_id)
    FROM memory_links l WHERE l.source_id = $1 OR l.target_id = $1 ORDER BY l.created_at, l.source_id LIMIT 100";

const SESSION: &str = "
    SELECT jsonb_build_object('session_id', s.id, 'state', s.state, 'trigger_source', s.trigger_source, 'trust', s.trust,
                              'prompt', left(s.prompt, 500), 'started_at', s.started_at,
                              'channel', s.context #>> '{request,source_channel}',
                              'sender', s.context #>> '{request,source_sender_identity}')
    FROM sessions s WHERE s.id = $1";

const SOURCE: &str = "
    SELECT jsonb_build_object('episode_id', e.id, 'occurred_at', e.occurred_at, 'speaker', e.speaker, 'trust', e.trust,
                              'session_id', e.session_id,
                              'content', CASE WHEN e.forgotten_at IS NULL THEN left(e.content, 2000) END)
    FROM memory_episodes e WHERE e.id = $1";

const WORDINGS: &str = "
    SELECT jsonb_build_object('id', f.id, 'content', CASE WHEN f.forgotten_at IS NULL THEN f.content END,
                              'learned_at', f.learned_at, 'source_episode_id', f.source_episode_id)
    FROM memory_facts f WHERE f.merged_into = $1 ORDER BY f.learned_at, f.id";

async fn memory_why(call: ToolCall, _: With) -> Result<Value, ToolError> {
    let which = id(&call, "memory_id")?;
    let mut story = Value::Null;
    for kind in ["fact", "rule", "episode"] {
        // Of what was forgotten only that there was something is told.
        let sql = format!(
            "SELECT to_jsonb(m) - '{{search,of_owner,embedding,change,seq,content_hash,topic_hash,claim_id,claimed_by,lease_until,compared,compare_attempts}}'::text[]
                    - CASE WHEN m.forgotten_at IS NULL THEN '{{}}' ELSE '{{content,subject,predicate,tags,metadata}}' END::text[]
             FROM memory_{kind}s m WHERE m.id = $1"
        );
        if let Some(row) = call.query(&sql, &[&which]).await?.first() {
            story = json!({"memory_type": kind, "memory": row.get::<_, Value>(0)});
            break;
        }
    }
    if story.is_null() {
        return Err(ToolError::refused("not_found", format!("There is no memory {which}.")));
    }
    let id_in = |name: &str| story["memory"][name].as_str().and_then(|id| id.parse::<uuid::Uuid>().ok());
    let (source, mut session) = (id_in("source_episode_id"), id_in("session_id"));
    let supersedes = id_in("supersedes_id");
    let all = async |sql: &str, id: &uuid::Uuid| -> Result<Vec<Value>, ToolError> {
        Ok(call.query(sql, &[id]).await?.iter().map(|r| r.get(0)).collect())
    };
    let mut add = vec![("events", json!(all(EVENTS, &which).await?)), ("links", json!(all(LINKS, &which).await?))];
    if let Some(source) = source {
        let episode = all(SOURCE, &source).await?.pop().unwrap_or_default();
        session = session.or_else(|| episode["session_id"].as_str().and_then(|id| id.parse().ok()));
        add.push(("source", episode));
    }
    if let Some(session) = session {
        add.push(("session", all(SESSION, &session).await?.pop().unwrap_or_default()));
    }
    let said = "SELECT jsonb_build_object('id', f.id, 'content', CASE WHEN f.forgotten_at IS NULL THEN f.content END,
                       'learned_at', f.learned_at, 'valid_to', f.valid_to)
                FROM memory_facts f WHERE f.id = $1";
    if let Some(before) = supersedes {
        add.push(("supersedes", all(said, &before).await?.pop().unwrap_or_default()));
    }
    let after = call
        .query(
            "SELECT f.id FROM memory_facts f JOIN memory_links l ON l.source_id = f.id
                WHERE l.target_id = $1 AND l.relation = 'supersedes' AND f.merged_into IS NULL
                ORDER BY f.supersedes_id IS NOT DISTINCT FROM $1 DESC, l.created_at DESC, f.id",
            &[&which],
        )
        .await?;
    if let Some(after) = after.first().map(|r| r.get::<_, uuid::Uuid>(0)) {
        add.push(("superseded_by", all(said, &after).await?.pop().unwrap_or_default()));
    }
    let wordings = all(WORDINGS, &which).await?;
    if !wordings.is_empty() {
        add.push(("also_put", json!(wordings)));
    }
    for (name, value) in add {
        story[name] = value;
    }
    Ok(story)
}
