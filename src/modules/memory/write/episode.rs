//! Episodes: what happened.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{FORGOTTEN, Kind, Origin, Outcome, Rows, Vector, WriteError, admitted, event, lock, now, put};
use crate::memory::gate::{MAX_EPISODE, content_hash};

/// An episode that is to be stored.
#[derive(Clone, Debug)]
pub struct NewEpisode {
    pub content: String,
    pub importance: f64,
    pub occurred_at: Option<Timestamp>,
    pub speaker: Option<String>,
    /// Of the session or conversation that it belongs to.
    pub session: Option<Uuid>,
    pub idempotency_key: Option<String>,
    pub retention_class: Option<String>,
    pub sensitivity: Option<String>,
    pub metadata: Value,
    /// How long it is kept where its class doesn't say.
    pub keep: Duration,
    /// Whether it is not to be made into facts.
    pub left_out: bool,
    pub vector: Option<Vector>,
}

/// What became of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct StoredEpisode {
    pub id: Uuid,
    pub status: Outcome,
    pub expires_at: Option<Timestamp>,
}

/// Takes an episode in, unless it is there.
pub async fn store_episode(
    tx: &mut dyn Rows,
    origin: &Origin,
    episode: &NewEpisode,
) -> Result<StoredEpisode, WriteError> {
    let content = admitted(&episode.content, MAX_EPISODE)?;
    let hash = content_hash(&content);
    lock(tx).await?;
    let found = tx
        .rows(
            "SELECT id, expires_at, forgotten_at, idempotency_key FROM memory_episode_rivals($1, $2, $3)",
            &[&hash, &episode.idempotency_key, &episode.session],
        )
        .await?;
    let keyed = |r: &&tokio_postgres::Row| {
        episode.idempotency_key.is_some() && r.get::<_, Option<String>>(3) == episode.idempotency_key
    };
    // Outside a session nothing says that the same words are the same occasion, but for their time.
    let same = found.iter().find(keyed).or_else(|| found.iter().find(|r| r.get::<_, Option<Timestamp>>(2).is_some()));
    let same = same.or_else(|| found.first().filter(|_| episode.session.is_some() || episode.occurred_at.is_none()));
    if let Some(row) = same {
        if row.get::<_, Option<Timestamp>>(2).is_some() {
            return Err(WriteError::refused("forgotten", FORGOTTEN));
        }
        return Ok(StoredEpisode { id: row.get(0), status: Outcome::Repeated, expires_at: row.get(1) });
    }
    let id = Uuid::now_v7();
    event(tx, origin, "stored", Kind::Episode.as_str(), id, None, json!({})).await?;
    let present = now(tx).await?;
    let expires_at = expiry(tx, episode, present).await?;
    let mut row = Map::new();
    let mut set = |name: &str, value: Value| drop(row.insert(name.to_owned(), value));
    set("id", json!(id));
    set("butler", json!(origin.butler));
    set("session_id", json!(episode.session));
    set("request_id", json!(origin.request));
    set("speaker", json!(episode.speaker));
    set("content", json!(content));
    set("content_hash", json!(hash));
    set("importance", json!(episode.importance.clamp(0.0, 10.0)));
    set("metadata", episode.metadata.clone());
    set("idempotency_key", json!(episode.idempotency_key));
    set("occurred_at", json!(episode.occurred_at.unwrap_or(present)));
    set("expires_at", json!(expires_at));
    if let Some(class) = &episode.retention_class {
        set("retention_class", json!(class));
    }
    if let Some(sensitivity) = &episode.sensitivity {
        set("sensitivity", json!(sensitivity));
    }
    if episode.left_out {
        set("consolidation", json!("left_out"));
    }
    Vector::put(episode.vector.as_ref(), &mut row);
    put(tx, Kind::Episode, row).await?;
    Ok(StoredEpisode { id, status: Outcome::Stored, expires_at })
}

/// Until when it is kept; `None`: its class keeps it for good.
async fn expiry(tx: &mut dyn Rows, episode: &NewEpisode, present: Timestamp) -> Result<Option<Timestamp>, WriteError> {
    let usual = SignedDuration::try_from(episode.keep).ok().and_then(|keep| present.checked_add(keep).ok());
    let Some(class) = &episode.retention_class else { return Ok(usual) };
    let rows = tx.rows("SELECT ttl_days FROM memory_policy($1)", &[class]).await?;
    let Some(row) = rows.first() else { return Ok(usual) };
    let days: Option<i32> = row.get(0);
    Ok(days.and_then(|days| present.checked_add(SignedDuration::from_hours(24 * i64::from(days))).ok()))
}
