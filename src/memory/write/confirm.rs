//! What is said again of what is known: it is believed the more for it.

use serde_json::{Value, json};
use uuid::Uuid;

use super::candidate::NewFact;
use super::{Kind, Origin, WriteError, confirmed};
use crate::sql::{self, Rows, event, facts, link, lock, now, patch};

/// Says that it is still so.
pub async fn confirm(tx: &mut dyn Rows, origin: &Origin, kind: Kind, id: Uuid) -> Result<Uuid, WriteError> {
    if kind == Kind::Episode {
        return Err(WriteError::refused(
            "invalid_arguments",
            "An episode has happened; only facts and rules are confirmed.",
        ));
    }
    lock(tx).await?;
    let row = sql::row(tx, kind, id).await?;
    if !["active", "fading", "expired"].contains(&row["validity"].as_str().unwrap_or_default()) {
        let validity = row["validity"].as_str().unwrap_or("gone");
        let why = format!("Not confirmed: it is {validity}. Store what is so now, or take back what made it so.");
        return Err(WriteError::refused("not_active", why));
    }
    if row["validity"] == "expired" && replaced(tx, &row).await? {
        let why = "Not confirmed: it has expired, and another value holds now. Store what is so now.";
        return Err(WriteError::refused("not_active", why));
    }
    let done = event(tx, origin, "confirmed", kind.as_str(), id, None, json!({})).await?;
    let given = confirmation(tx, &row).await?;
    patch(tx, kind, id, given).await?;
    Ok(done)
}

/// Whether another value stands where this fact stood.
async fn replaced(tx: &mut dyn Rows, row: &Value) -> Result<bool, WriteError> {
    let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
    if !["property", "edge"].contains(&&*text("kind")) {
        return Ok(false);
    }
    let object = row["object_entity_id"].as_str().and_then(|id| id.parse().ok());
    let topic = text("topic_hash");
    let rivals = facts::rivals(tx, &topic, &text("content_hash"), None, None, &[]).await?;
    Ok(rivals.iter().any(|r| {
        r.holds()
            && r.topic_hash == topic
            && r.kind == text("kind")
            && r.object_entity_id == object
            && r.is_of_stranger() == (row["trust"] == "stranger")
    }))
}

/// One more word for what is known.
pub(super) async fn confirm_fact(
    tx: &mut dyn Rows,
    origin: &Origin,
    id: Uuid,
    fact: &NewFact,
) -> Result<(), WriteError> {
    let row = sql::row(tx, Kind::Fact, id).await?;
    event(tx, origin, "confirmed", "fact", id, None, json!({})).await?;
    let mut tags: Vec<String> = serde_json::from_value(row["tags"].clone()).unwrap_or_default();
    tags.extend(
        fact.tags.iter().filter(|t| !row["tags"].as_array().is_some_and(|a| a.iter().any(|x| x == *t))).cloned(),
    );
    let importance = row["importance"].as_f64().unwrap_or_default().max(fact.importance.clamp(0.0, 10.0));
    let mut given = confirmation(tx, &row).await?;
    given["tags"] = json!(tags);
    given["importance"] = json!(importance);
    patch(tx, Kind::Fact, id, given).await?;
    if let Some(episode) = fact.source_episode {
        link(tx, (Kind::Episode, episode), (Kind::Fact, id), "supports").await?;
    }
    Ok(())
}

/// The columns of a fact or a rule that was just confirmed.
pub(super) async fn confirmation(tx: &mut dyn Rows, row: &Value) -> Result<Value, WriteError> {
    let confidence = row["confidence"].as_f64().unwrap_or(1.0);
    let confirmations = row["confirmations"].as_i64().unwrap_or_default();
    let mut given = json!({"last_confirmed_at": now(tx).await?, "confidence": confirmed(confidence),
        "confirmations": confirmations + 1});
    if ["fading", "expired"].iter().any(|v| row["validity"] == *v) {
        given["validity"] = json!("active");
    }
    Ok(given)
}
