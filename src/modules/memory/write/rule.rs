//! Rules: what to do.

use serde::Serialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::fact::confirmation;
use super::{
    FORGOTTEN, Kind, Origin, Outcome, Permanence, Rows, Vector, WriteError, admitted, event, link, lock, patch, put,
};
use crate::memory::gate::{MAX_FACT, content_hash};
use crate::memory::same::{About, Said};

/// A rule that is to be stored.
#[derive(Clone, Debug)]
pub struct NewRule {
    pub content: String,
    pub scope: String,
    pub tags: Vec<String>,
    pub importance: f64,
    pub confidence: f64,
    pub permanence: Option<Permanence>,
    pub source_episode: Option<Uuid>,
    pub idempotency_key: Option<String>,
    pub retention_class: Option<String>,
    pub sensitivity: Option<String>,
    pub metadata: Value,
    pub vector: Option<Vector>,
}

impl NewRule {
    /// A rule with all that is usual.
    pub fn new(content: &str) -> Self {
        Self {
            content: content.to_owned(),
            scope: "global".to_owned(),
            tags: Vec::new(),
            importance: 5.0,
            confidence: 0.5,
            permanence: None,
            source_episode: None,
            idempotency_key: None,
            retention_class: None,
            sensitivity: None,
            metadata: json!({}),
            vector: None,
        }
    }
}

/// What became of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct StoredRule {
    pub id: Uuid,
    pub status: Outcome,
}

/// Takes a rule in, or confirms the one that says the same. A stranger's words are no rule to go by.
pub async fn store_rule(tx: &mut dyn Rows, origin: &Origin, rule: &NewRule) -> Result<StoredRule, WriteError> {
    let content = admitted(&rule.content, MAX_FACT)?;
    let hash = content_hash(&content);
    if lock(tx).await? == "stranger" {
        return Err(WriteError::refused(
            "untrusted",
            "Not remembered: what a stranger wrote makes no rule. If it is so, keep it as a fact.",
        ));
    }
    let rivals = tx.rows("SELECT * FROM memory_rule_rivals($1, $2)", &[&hash, &rule.idempotency_key]).await?;
    let (mut same, said) = (None, Said::new(&content));
    for row in &rivals {
        let key: Option<String> = row.get("idempotency_key");
        let keyed = key.is_some() && key == rule.idempotency_key;
        let scope: String = row.get("scope");
        let likeness = Vector::likeness(rule.vector.as_ref(), row.get("embedding"), row.get("embedding_model"));
        let says = scope == rule.scope
            && (row.get::<_, String>("content_hash") == hash
                || said.means(&About::default(), row.get("content"), likeness));
        if !keyed && !says {
            continue;
        }
        if row.get::<_, Option<jiff::Timestamp>>("forgotten_at").is_some() {
            return Err(WriteError::refused("forgotten", FORGOTTEN));
        }
        let validity: String = row.get("validity");
        if keyed || ["active", "fading"].contains(&&*validity) {
            same = Some((row.get::<_, Uuid>("id"), keyed));
            break;
        }
    }
    if let Some((id, keyed)) = same {
        if keyed {
            return Ok(StoredRule { id, status: Outcome::Repeated });
        }
        if origin.told.contains(&id) {
            return Ok(StoredRule { id, status: Outcome::Known });
        }
        let row = super::row(tx, Kind::Rule, id).await?;
        if row["maturity"] == "anti_pattern" {
            return Err(WriteError::refused(
                "anti_pattern",
                "Not remembered: this rule was tried before and did harm. If that has changed, say so to the owner.",
            ));
        }
        event(tx, origin, "confirmed", "rule", id, None, json!({})).await?;
        let given = confirmation(tx, &row).await?;
        patch(tx, Kind::Rule, id, given).await?;
        return Ok(StoredRule { id, status: Outcome::Confirmed });
    }
    let id = Uuid::now_v7();
    event(tx, origin, "stored", "rule", id, None, json!({})).await?;
    let mut row = Map::new();
    let mut set = |name: &str, value: Value| drop(row.insert(name.to_owned(), value));
    set("id", json!(id));
    set("content", json!(content));
    set("content_hash", json!(hash));
    set("scope", json!(rule.scope));
    set("tags", json!(rule.tags));
    set("importance", json!(rule.importance.clamp(0.0, 10.0)));
    set("confidence", json!(rule.confidence.clamp(0.0, 1.0)));
    set("metadata", rule.metadata.clone());
    set("source_butler", json!(origin.butler));
    set("source_episode_id", json!(rule.source_episode));
    set("session_id", json!(origin.session));
    set("request_id", json!(origin.request));
    set("idempotency_key", json!(rule.idempotency_key));
    if let Some(permanence) = rule.permanence {
        set("permanence", json!(permanence.as_str()));
        set("decay_rate", json!(permanence.decay_rate()));
    }
    if let Some(class) = &rule.retention_class {
        set("retention_class", json!(class));
    }
    if let Some(sensitivity) = &rule.sensitivity {
        set("sensitivity", json!(sensitivity));
    }
    Vector::put(rule.vector.as_ref(), &mut row);
    put(tx, Kind::Rule, row).await?;
    if let Some(episode) = rule.source_episode {
        link(tx, (Kind::Rule, id), (Kind::Episode, episode), "derived_from").await?;
    }
    Ok(StoredRule { id, status: Outcome::Stored })
}
