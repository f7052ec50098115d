//! Rules: what to do.

use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use memory_index::same::{About, Said};
use memory_index::text::content_hash;

use super::confirm::confirmation;
use super::{FORGOTTEN, Kind, Origin, Outcome, Permanence, Vector, WriteError, admitted};
use crate::gate::MAX_FACT;
use crate::sql::{self, Rows, event, link, lock, patch, put, rule_rivals};

/// A rule that is to be stored.
#[derive(Clone, Debug, Default)]
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
            importance: 5.0,
            confidence: 0.5,
            metadata: json!({}),
            ..Self::default()
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
#[allow(clippy::too_many_lines, reason = "one decision, whose cases share what was read")]
pub async fn store_rule(tx: &mut dyn Rows, origin: &Origin, rule: &NewRule) -> Result<StoredRule, WriteError> {
    let content = admitted(&rule.content, MAX_FACT)?;
    let hash = content_hash(&content);
    if lock(tx).await? == "stranger" {
        return Err(WriteError::refused(
            "untrusted",
            "Not remembered: what a stranger wrote makes no rule. If it is so, keep it as a fact.",
        ));
    }
    let key = rule.idempotency_key.as_deref();
    let (mut same, said) = (None, Said::new(&content));
    for rival in rule_rivals(tx, &hash, key).await? {
        let keyed = key.is_some() && rival.idempotency_key.as_deref() == key;
        let says =
            rival.scope == rule.scope && (rival.content_hash == hash || said.means(&About::default(), &rival.content));
        if !keyed && !says {
            continue;
        }
        if rival.forgotten_at.is_some() {
            return Err(WriteError::refused("forgotten", FORGOTTEN));
        }
        if keyed || ["active", "fading"].contains(&&*rival.validity) {
            same = Some((rival.id, keyed));
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
        let row = sql::row(tx, Kind::Rule, id).await?;
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
    let mut row = json!({
        "id": id, "content": content, "content_hash": hash, "scope": rule.scope, "tags": rule.tags,
        "importance": rule.importance.clamp(0.0, 10.0), "confidence": rule.confidence.clamp(0.0, 1.0),
        "metadata": rule.metadata, "source_butler": origin.butler, "source_episode_id": rule.source_episode,
        "session_id": origin.session, "request_id": origin.request, "idempotency_key": key,
        "permanence": rule.permanence, "decay_rate": rule.permanence.map(Permanence::decay_rate),
        "retention_class": rule.retention_class, "sensitivity": rule.sensitivity,
    });
    Vector::put(rule.vector.as_ref(), &mut row);
    put(tx, Kind::Rule, row).await?;
    if let Some(episode) = rule.source_episode {
        link(tx, (Kind::Rule, id), (Kind::Episode, episode), "derived_from").await?;
    }
    Ok(StoredRule { id, status: Outcome::Stored })
}
