//! What is done to memories that are there. Everything but a purge can be taken back.

use serde_json::{Value, json};
use uuid::Uuid;

use super::fact::{confirmation, standing};
use super::{
    Kind, Origin, Permanence, Rows, Vector, WriteError, admitted, event, link, lock, now, patch, predicate_name, row,
    wordings,
};
use crate::memory::gate::{MAX_EPISODE, MAX_FACT, content_hash, topic_hash};

/// Says that it is still so.
pub async fn confirm(tx: &mut dyn Rows, origin: &Origin, kind: Kind, id: Uuid) -> Result<Uuid, WriteError> {
    if kind == Kind::Episode {
        return Err(WriteError::refused(
            "invalid_arguments",
            "An episode has happened; only facts and rules are confirmed.",
        ));
    }
    lock(tx).await?;
    let row = row(tx, kind, id).await?;
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
    let (topic, hash, none) = (text("topic_hash"), text("content_hash"), None::<Uuid>);
    let rivals = tx.rows("SELECT * FROM memory_fact_rivals($1, $2, $3, NULL, '{}')", &[&topic, &hash, &none]).await?;
    Ok(rivals.iter().any(|r| {
        r.get::<_, String>("topic_hash") == topic
            && r.get::<_, String>("kind") == text("kind")
            && r.get::<_, Option<Uuid>>("object_entity_id").map(|id| id.to_string()).as_deref()
                == row["object_entity_id"].as_str()
            && (r.get::<_, String>("trust") == "stranger") == (row["trust"] == "stranger")
            && r.get::<_, Option<jiff::Timestamp>>("forgotten_at").is_none()
            && ["active", "fading"].contains(&r.get::<_, &str>("validity"))
    }))
}

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
    let also = if kind == Kind::Fact { wordings(tx, id).await? } else { Vec::new() };
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
    let mut given = serde_json::Map::new();
    let mut set = |name: &str, value: Option<Value>| value.map(|v| given.insert(name.to_owned(), v));
    set("importance", edit.importance.map(|n| json!(n.clamp(0.0, 10.0))));
    set("confidence", edit.confidence.map(|n| json!(n.clamp(0.0, 1.0))));
    set("permanence", edit.permanence.map(|p| json!(p.as_str())));
    set("decay_rate", edit.permanence.map(|p| json!(p.decay_rate())));
    set("valid_from", edit.valid_from.map(|t| json!(t)));
    set("valid_to", edit.valid_to.map(|t| json!(t)));
    set("tags", edit.tags.as_ref().map(|t| json!(t)));
    set("sensitivity", edit.sensitivity.as_ref().map(|s| json!(s)));
    set("retention_class", edit.retention_class.as_ref().map(|s| json!(s)));
    set("subject", edit.subject.as_ref().map(|s| json!(s.trim())));
    set("predicate", predicate.as_ref().map(|p| json!(p)));
    if edit.subject.is_some() || predicate.is_some() {
        let was = |name: &str| before[name].as_str().unwrap_or_default();
        let subject = edit.subject.as_deref().map_or_else(|| was("subject"), str::trim);
        let entity = before["entity_id"].as_str().and_then(|id| id.parse().ok());
        let topic = topic_hash(was("scope"), entity, subject, predicate.as_deref().unwrap_or_else(|| was("predicate")));
        set("topic_hash", Some(json!(topic)));
    }
    if let Some(content) = &content {
        set("content_hash", Some(json!(content_hash(content))));
        set("content", Some(json!(content)));
        set("last_confirmed_at", Some(json!(now(tx).await?)));
    }
    if given.is_empty() {
        return Err(WriteError::refused(
            "invalid_arguments",
            "Nothing was to be changed; say what is to be otherwise.",
        ));
    }
    // Which parts, and not what they say: the event holds no text.
    let parts: Vec<&String> = given.keys().collect();
    let parts = json!({"parts": parts});
    if content.is_some() || edit.subject.is_some() || predicate.is_some() {
        Vector::put(edit.vector.as_ref(), &mut given);
    }
    if let Some(fact) = before["merged_into"].as_str() {
        let why = format!("Not changed: it is another wording of the fact {fact}; change that one.");
        return Err(WriteError::refused("conflict", why));
    }
    let done = event(tx, origin, "edited", kind.as_str(), id, reason, parts).await?;
    if kind == Kind::Fact && (content.is_some() || edit.subject.is_some() || predicate.is_some()) {
        // They say what it said before.
        for wording in wordings(tx, id).await? {
            patch(tx, kind, wording, json!({"validity": "retracted", "merged_into": null})).await?;
        }
    }
    match patch(tx, kind, id, Value::Object(given)).await {
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
    let rows = tx.rows("SELECT memory_type, memory_id, why FROM memory_undo($1, $2)", &[&which, &by]).await?;
    if rows.is_empty() {
        return Ok(());
    }
    let told: Vec<String> = rows
        .iter()
        .map(|r| match (r.get::<_, Option<String>>(0), r.get::<_, Option<Uuid>>(1)) {
            (Some(kind), Some(id)) => format!("{kind} {id}: {}", r.get::<_, String>(2)),
            _ => r.get(2),
        })
        .collect();
    let code = if told[0].starts_with("there is no") { "not_found" } else { "not_undone" };
    Err(WriteError::refused(code, format!("Nothing was taken back: {}.", told.join("; "))))
}

/// Makes two entities one: facts of the first are from then on facts of the second.
pub async fn merge_entities(
    tx: &mut dyn Rows,
    origin: &Origin,
    source: Uuid,
    target: Uuid,
) -> Result<Value, WriteError> {
    lock(tx).await?;
    let target = standing(tx, "target_entity_id", Some(target)).await?.unwrap_or(target);
    let done = event(tx, origin, "merged", "entity", source, None, json!({"into": target})).await?;
    let rows = tx.rows("SELECT shared.entity_merge($1, $2)", &[&source, &target]).await?;
    let Some(names) = rows.first().and_then(|r| r.get::<_, Option<i32>>(0)) else {
        let why = format!("Not merged: {source} is no entity that stands for itself, or it is {target} already.");
        return Err(WriteError::refused("not_found", why));
    };
    let (mut moved, mut over, mut edges, mut edges_over) = (0, 0, 0, 0);
    let facts = tx.rows("SELECT * FROM memory_facts_about($1)", &[&source]).await?;
    for fact in &facts {
        let id: Uuid = fact.get("id");
        let at = |name: &str| fact.get::<_, Option<Uuid>>(name).map(|e| if e == source { target } else { e });
        let (entity, object) = (at("entity_id"), at("object_entity_id"));
        let (scope, subject, predicate): (String, String, String) =
            (fact.get("scope"), fact.get("subject"), fact.get("predicate"));
        let topic = topic_hash(&scope, entity, &subject, &predicate);
        let mut given = json!({"entity_id": entity, "object_entity_id": object, "topic_hash": topic});
        let kind: String = fact.get("kind");
        let forgotten: Option<jiff::Timestamp> = fact.get("forgotten_at");
        let holds = |validity: String| ["active", "fading"].contains(&&*validity);
        let mut superseded = None;
        if forgotten.is_none() && holds(fact.get("validity")) && ["property", "edge"].contains(&&*kind) {
            let stranger = fact.get::<_, String>("trust") == "stranger";
            let none: Option<Uuid> = None;
            let hash: String = fact.get("content_hash");
            let rivals =
                tx.rows("SELECT * FROM memory_fact_rivals($1, $2, $3, NULL, '{}')", &[&topic, &hash, &none]).await?;
            let rival = rivals.iter().find(|r| {
                r.get::<_, Uuid>("id") != id
                    && r.get::<_, String>("topic_hash") == topic
                    && r.get::<_, String>("kind") == kind
                    && (kind == "property" || r.get::<_, Option<Uuid>>("object_entity_id") == object)
                    && (r.get::<_, String>("trust") == "stranger") == stranger
                    && r.get::<_, Option<jiff::Timestamp>>("forgotten_at").is_none()
                    && holds(r.get("validity"))
            });
            if let Some(rival) = rival {
                // Ids grow with time: what was learned last holds.
                let other: Uuid = rival.get("id");
                superseded = Some(if other > id { (other, id) } else { (id, other) });
            } else if entity.is_some() && entity == object {
                given["validity"] = json!("retracted");
            }
        }
        let at = now(tx).await?;
        if let Some((winner, loser)) = superseded {
            let gone = json!({"validity": "superseded", "valid_to": at});
            if loser == id {
                given["validity"] = gone["validity"].clone();
                given["valid_to"] = gone["valid_to"].clone();
            } else {
                patch(tx, Kind::Fact, loser, gone).await?;
            }
            link(tx, (Kind::Fact, winner), (Kind::Fact, loser), "supersedes").await?;
        }
        patch(tx, Kind::Fact, id, given).await?;
        let count = match (kind == "edge", superseded.is_some()) {
            (false, false) => &mut moved,
            (false, true) => &mut over,
            (true, false) => &mut edges,
            (true, true) => &mut edges_over,
        };
        *count += 1;
    }
    Ok(json!({"event": done, "target_entity_id": target, "source_entity_id": source, "facts_repointed": moved,
        "facts_superseded": over, "edge_facts_repointed": edges, "edge_facts_superseded": edges_over,
        "aliases_added": names}))
}
