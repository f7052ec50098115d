//! What is done to memories that are there. Everything but a purge can be taken back.

use memory_index::text::{content_hash, topic_hash};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Kind, Origin, Permanence, Vector, WriteError, admitted, predicate_name};
use crate::gate::{MAX_EPISODE, MAX_FACT};
use crate::sql::facts::wordings;
use crate::sql::{self, Rows, event, lock, now, patch, row};

/// Takes it out of what is remembered, and keeps it from coming back by itself.
pub async fn forget(
    tx: &mut dyn Rows,
    origin: &Origin,
    kind: Kind,
    id: Uuid,
    reason: Option<&str>,
) -> Result<Uuid, WriteError> {
    lock(tx).await?;
    row(tx, kind, id).await?;
    let done = event(tx, origin, "forgotten", kind.as_str(), id, reason, json!({})).await?;
    let at = now(tx).await?;
    let also = if kind == Kind::Fact { wordings(tx, id, false).await? } else { Vec::new() };
    for id in std::iter::once(id).chain(also) {
        patch(tx, kind, id, json!({"forgotten_at": at})).await?;
    }
    Ok(done)
}

/// Says how long it is likely to stay so.
pub async fn reclassify(
    tx: &mut dyn Rows,
    origin: &Origin,
    kind: Kind,
    id: Uuid,
    permanence: Permanence,
) -> Result<Uuid, WriteError> {
    if kind == Kind::Episode {
        return Err(WriteError::refused("invalid_arguments", "Episodes have no permanence; only facts and rules do."));
    }
    lock(tx).await?;
    let before = row(tx, kind, id).await?;
    let payload = json!({"from": before["permanence"], "to": permanence.as_str()});
    let done = event(tx, origin, "reclassified", kind.as_str(), id, None, payload).await?;
    patch(tx, kind, id, json!({"permanence": permanence.as_str(), "decay_rate": permanence.decay_rate()})).await?;
    Ok(done)
}

/// How a memory is to be, where that is said. A part that the memory's kind does not have is refused.
#[derive(Clone, Debug, Default)]
pub struct Edit {
    pub content: Option<String>,
    pub subject: Option<String>,
    pub predicate: Option<String>,
    /// Of the words as they are then.
    pub vector: Option<Vector>,
    pub importance: Option<f64>,
    pub confidence: Option<f64>,
    pub permanence: Option<Permanence>,
    pub valid_from: Option<jiff::Timestamp>,
    pub valid_to: Option<jiff::Timestamp>,
    pub tags: Option<Vec<String>>,
    pub sensitivity: Option<String>,
    pub retention_class: Option<String>,
}

impl Edit {
    /// The columns that are said to be otherwise, but for the words themselves.
    fn columns(&self, predicate: Option<&str>) -> Map<String, Value> {
        let given = json!({
            "importance": self.importance.map(|n| n.clamp(0.0, 10.0)),
            "confidence": self.confidence.map(|n| n.clamp(0.0, 1.0)),
            "permanence": self.permanence, "decay_rate": self.permanence.map(Permanence::decay_rate),
            "valid_from": self.valid_from, "valid_to": self.valid_to, "tags": self.tags,
            "sensitivity": self.sensitivity, "retention_class": self.retention_class,
            "subject": self.subject.as_deref().map(str::trim), "predicate": predicate,
        });
        let given = given.as_object().cloned().unwrap_or_default();
        given.into_iter().filter(|(_, value)| !value.is_null()).collect()
    }

    /// The first part that a memory of this kind does not have.
    fn foreign_to(&self, kind: Kind) -> Option<&'static str> {
        let of_facts = [
            ("subject", self.subject.is_some()),
            ("predicate", self.predicate.is_some()),
            ("valid_from", self.valid_from.is_some()),
            ("valid_to", self.valid_to.is_some()),
        ];
        let of_beliefs = [
            ("confidence", self.confidence.is_some()),
            ("permanence", self.permanence.is_some()),
            ("tags", self.tags.is_some()),
        ];
        let mut wrong = of_facts.iter().filter(|_| kind != Kind::Fact);
        let mut more = of_beliefs.iter().filter(|_| kind == Kind::Episode);
        wrong.find(|(_, given)| *given).or_else(|| more.find(|(_, given)| *given)).map(|(name, _)| *name)
    }
}

/// Changes a memory in its place; how it was is kept with the event.
pub async fn edit(
    tx: &mut dyn Rows,
    origin: &Origin,
    kind: Kind,
    id: Uuid,
    edit: &Edit,
    reason: Option<&str>,
) -> Result<Uuid, WriteError> {
    if let Some(name) = edit.foreign_to(kind) {
        let why = format!("Not changed: an {name} is nothing that an {} has.", kind.as_str());
        return Err(WriteError::refused(
            "invalid_arguments",
            why.replace("an rule", "a rule").replace("an fact", "a fact"),
        ));
    }
    let most = if kind == Kind::Episode { MAX_EPISODE } else { MAX_FACT };
    let content = edit.content.as_deref().map(|text| admitted(text, most)).transpose()?;
    let predicate = edit.predicate.as_deref().map(predicate_name).transpose()?;
    lock(tx).await?;
    let before = row(tx, kind, id).await?;
    let mut given = edit.columns(predicate.as_deref());
    if edit.subject.is_some() || predicate.is_some() {
        let was = |name: &str| before[name].as_str().unwrap_or_default();
        let subject = edit.subject.as_deref().map_or_else(|| was("subject"), str::trim);
        let entity = before["entity_id"].as_str().and_then(|id| id.parse().ok());
        let predicate = predicate.as_deref().unwrap_or_else(|| was("predicate"));
        given.insert("topic_hash".to_owned(), json!(topic_hash(was("scope"), entity, subject, predicate)));
    }
    if let Some(content) = &content {
        given.insert("content_hash".to_owned(), json!(content_hash(content)));
        given.insert("content".to_owned(), json!(content));
        given.insert("last_confirmed_at".to_owned(), json!(now(tx).await?));
    }
    if given.is_empty() {
        return Err(WriteError::refused(
            "invalid_arguments",
            "Nothing was to be changed; say what is to be otherwise.",
        ));
    }
    // Which parts, and not what they say: the event holds no text.
    let parts = json!({"parts": given.keys().collect::<Vec<_>>()});
    let reworded = content.is_some() || edit.subject.is_some() || predicate.is_some();
    let mut given = Value::Object(given);
    if reworded {
        Vector::put(edit.vector.as_ref(), &mut given);
    }
    if let Some(fact) = before["merged_into"].as_str() {
        let why = format!("Not changed: it is another wording of the fact {fact}; change that one.");
        return Err(WriteError::refused("conflict", why));
    }
    let done = event(tx, origin, "edited", kind.as_str(), id, reason, parts).await?;
    if kind == Kind::Fact && reworded {
        // They say what it said before.
        for wording in wordings(tx, id, false).await? {
            patch(tx, kind, wording, json!({"validity": "retracted", "merged_into": null})).await?;
        }
    }
    match patch(tx, kind, id, given).await {
        Err(WriteError::Store(e)) if e.db().is_some_and(|db| db.code().code() == "23505") => Err(WriteError::refused(
            "conflict",
            "Not changed: of this subject and predicate another value holds already. Edit or forget that one.",
        )),
        other => other.map(|()| done),
    }
}

const DAY: i64 = 86_400;

/// A rule was followed and it helped. It ripens with that.
pub async fn mark_helpful(tx: &mut dyn Rows, origin: &Origin, id: Uuid) -> Result<Uuid, WriteError> {
    lock(tx).await?;
    let rule = row(tx, Kind::Rule, id).await?;
    let number = |name: &str| rule[name].as_i64().unwrap_or_default();
    let (applied, success) = (number("applied_count") + 1, number("success_count") + 1);
    let effectiveness = share(success, applied);
    let created: Option<jiff::Timestamp> = serde_json::from_value(rule["created_at"].clone()).ok();
    let present = now(tx).await?;
    let age = created.map_or(0, |c| present.duration_since(c).as_secs() / DAY);
    let maturity = match rule["maturity"].as_str().unwrap_or_default() {
        "candidate" if success >= 5 && effectiveness >= 0.6 => "established",
        "established" if success >= 15 && effectiveness >= 0.8 && age >= 30 => "proven",
        same => same,
    };
    let done = event(tx, origin, "helpful", "rule", id, None, json!({"maturity": maturity})).await?;
    let given = json!({"applied_count": applied, "success_count": success, "effectiveness": effectiveness,
        "maturity": maturity, "last_confirmed_at": present});
    patch(tx, Kind::Rule, id, given).await?;
    Ok(done)
}

/// A rule was followed and it did harm. It falls back, and in the end stands for its opposite.
pub async fn mark_harmful(
    tx: &mut dyn Rows,
    origin: &Origin,
    id: Uuid,
    reason: Option<&str>,
) -> Result<Uuid, WriteError> {
    lock(tx).await?;
    let rule = row(tx, Kind::Rule, id).await?;
    let number = |name: &str| rule[name].as_i64().unwrap_or_default();
    let (applied, success, harmful) =
        (number("applied_count") + 1, number("success_count"), number("harmful_count") + 1);
    #[allow(clippy::cast_precision_loss)] // counts of people's words
    let effectiveness = success as f64 / (success as f64 + 4.0 * harmful as f64 + 0.01);
    let before = rule["maturity"].as_str().unwrap_or_default();
    let turned = harmful >= 3 && effectiveness < 0.3 && before != "anti_pattern";
    let maturity = match before {
        _ if turned => "anti_pattern",
        "proven" if effectiveness < 0.6 => "candidate",
        "proven" if effectiveness < 0.8 => "established",
        "established" if effectiveness < 0.6 => "candidate",
        same => same,
    };
    let done = event(tx, origin, "harmful", "rule", id, reason, json!({"maturity": maturity})).await?;
    let mut given = json!({"applied_count": applied, "harmful_count": harmful, "effectiveness": effectiveness,
        "maturity": maturity});
    if turned {
        let content = rule["content"].as_str().unwrap_or_default();
        let mut metadata = rule["metadata"].clone();
        metadata["turned_from"] = json!(content);
        // Its hash stays that of what it was, so that the same rule is known when it comes again.
        given["content"] = json!(format!("Avoid this, it did harm: {content}"));
        given["metadata"] = metadata;
        given["retention_class"] = json!("anti_pattern");
        given["permanence"] = json!("permanent");
        given["decay_rate"] = json!(0.0);
    }
    patch(tx, Kind::Rule, id, given).await?;
    Ok(done)
}

#[allow(clippy::cast_precision_loss)] // counts of people's words
fn share(part: i64, all: i64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

/// Takes an event back.
pub async fn undo(tx: &mut dyn Rows, origin: &Origin, which: Uuid, reason: Option<&str>) -> Result<(), WriteError> {
    let by =
        json!({"actor": origin.actor, "session_id": origin.session, "request_id": origin.request, "reason": reason});
    let told: Vec<String> = sql::undo(tx, which, &by)
        .await?
        .into_iter()
        .map(|h| match (h.memory_type, h.memory_id) {
            (Some(kind), Some(id)) => format!("{kind} {id}: {}", h.why),
            _ => h.why,
        })
        .collect();
    let Some(first) = told.first() else { return Ok(()) };
    let code = if first.starts_with("there is no") { "not_found" } else { "not_undone" };
    Err(WriteError::refused(code, format!("Nothing was taken back: {}.", told.join("; "))))
}
