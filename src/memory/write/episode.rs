//! Episodes: what happened.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{FORGOTTEN, Kind, Origin, Outcome, Vector, WriteError, admitted};
use crate::gate::MAX_EPISODE;
use crate::sql::{self, EpisodeRival, Rows, event, lock, now, put};
use memory_index::text::content_hash;

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
    let key = episode.idempotency_key.as_deref();
    let found = sql::episode_rivals(tx, &hash, key, episode.session).await?;
    let keyed = |r: &&EpisodeRival| key.is_some() && r.idempotency_key.as_deref() == key;
    // Outside a session nothing says that the same words are the same occasion, but for their time.
    let same = found.iter().find(keyed).or_else(|| found.iter().find(|r| r.forgotten_at.is_some()));
    let same = same.or_else(|| found.first().filter(|_| episode.session.is_some() || episode.occurred_at.is_none()));
    if let Some(row) = same {
        if row.forgotten_at.is_some() {
            return Err(WriteError::refused("forgotten", FORGOTTEN));
        }
        return Ok(StoredEpisode { id: row.id, status: Outcome::Repeated, expires_at: row.expires_at });
    }
    let id = Uuid::now_v7();
    event(tx, origin, "stored", Kind::Episode.as_str(), id, None, json!({})).await?;
    let present = now(tx).await?;
    let expires_at = expiry(tx, episode, present).await?;
    let mut row = json!({
        "id": id, "butler": origin.butler, "session_id": episode.session, "request_id": origin.request,
        "speaker": episode.speaker, "content": content, "content_hash": hash,
        "importance": episode.importance.clamp(0.0, 10.0), "metadata": episode.metadata, "idempotency_key": key,
        "occurred_at": episode.occurred_at.unwrap_or(present), "expires_at": expires_at,
        "retention_class": episode.retention_class, "sensitivity": episode.sensitivity,
        "consolidation": episode.left_out.then_some("left_out"),
    });
    Vector::put(episode.vector.as_ref(), &mut row);
    put(tx, Kind::Episode, row).await?;
    Ok(StoredEpisode { id, status: Outcome::Stored, expires_at })
}

/// Until when it is kept; `None`: its class keeps it for good.
async fn expiry(tx: &mut dyn Rows, episode: &NewEpisode, present: Timestamp) -> Result<Option<Timestamp>, WriteError> {
    let usual = SignedDuration::try_from(episode.keep).ok().and_then(|keep| present.checked_add(keep).ok());
    let Some(class) = &episode.retention_class else { return Ok(usual) };
    let Some(days) = sql::ttl_days(tx, class).await? else { return Ok(usual) };
    Ok(days.and_then(|days| present.checked_add(SignedDuration::from_hours(24 * i64::from(days))).ok()))
}
