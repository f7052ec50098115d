//! Two facts that say the same become one. The older one stays; the newer is kept as one more wording of it, by which
//! it is known when it comes again.

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use base::Trust;

use super::{Kind, Origin, WriteError, confirmed};
use crate::sql::facts::{successors, wordings};
use crate::sql::{Rows, event, link, lock, patch, row};

/// A fact as it was when it was judged.
#[derive(Clone, Debug)]
pub struct Judged {
    pub id: Uuid,
    pub content_hash: String,
    pub topic_hash: String,
}

impl Judged {
    fn is(&self, row: &Value) -> bool {
        row["content_hash"] == *self.content_hash && row["topic_hash"] == *self.topic_hash
    }
}

/// Makes `newer` a wording of `older`, or of the one that `older` is a wording of by now. Where the newer one took the
/// place of the older, which it would not have done had it been known for the same, the older gets it back. False: one
/// of them is not as it was judged, or they are not to be one, and nothing is done.
pub async fn merge_facts(
    tx: &mut dyn Rows,
    origin: &Origin,
    newer: &Judged,
    older: &Judged,
) -> Result<bool, WriteError> {
    lock(tx).await?;
    let there = |found: Result<Value, WriteError>| match found {
        Err(WriteError::Refused { .. }) => Ok(None),
        Err(e) => Err(e),
        Ok(row) => Ok(Some(row)),
    };
    let Some(wording) = there(row(tx, Kind::Fact, newer.id).await)?.filter(|r| newer.is(r)) else { return Ok(false) };
    let Some(mut fact) = there(row(tx, Kind::Fact, older.id).await)?.filter(|r| older.is(r)) else { return Ok(false) };
    if let Some(into) = id_in(&fact, "merged_into") {
        let Some(standing) = there(row(tx, Kind::Fact, into).await)? else { return Ok(false) };
        fact = standing;
    }
    let Some(id) = id_in(&fact, "id").filter(|id| *id != newer.id) else { return Ok(false) };
    let after = successors(tx, id).await?;
    let displaced = fact["validity"] == "superseded"
        && wording["validity"] != "merged"
        && fact["topic_hash"] == wording["topic_hash"]
        // And nothing stood in between.
        && after == [newer.id];
    let both_hold = holds(&fact) && holds(&wording);
    if !(alike(&fact, &wording) && (displaced || both_hold)) {
        return Ok(false);
    }
    let reason = Some("it says the same in other words");
    event(tx, origin, "merged", "fact", newer.id, reason, json!({"into": id})).await?;
    patch(tx, Kind::Fact, newer.id, json!({"validity": "merged", "merged_into": id})).await?;
    for other in wordings(tx, newer.id, false).await? {
        patch(tx, Kind::Fact, other, json!({"merged_into": id})).await?;
    }
    let mut given = both(&fact, &wording);
    if displaced {
        // Of the same event, because without it the place would be taken twice.
        given["validity"] = wording["validity"].clone();
        given["valid_to"] = wording["valid_to"].clone();
        for after in successors(tx, newer.id).await? {
            patch(tx, Kind::Fact, after, json!({"supersedes_id": id})).await?;
            link(tx, (Kind::Fact, after), (Kind::Fact, id), "supersedes").await?;
        }
    } else {
        event(tx, origin, "confirmed", "fact", id, None, json!({"by": newer.id})).await?;
    }
    patch(tx, Kind::Fact, id, given).await?;
    link(tx, (Kind::Fact, newer.id), (Kind::Fact, id), "same_as").await?;
    Ok(true)
}

fn holds(fact: &Value) -> bool {
    ["active", "fading"].iter().any(|v| fact["validity"] == *v)
}

/// Whether they may be one: nothing is shown to more, kept for longer or believed otherwise for it.
fn alike(fact: &Value, wording: &Value) -> bool {
    let parts = ["kind", "scope", "object_entity_id", "sensitivity", "retention_class"];
    let believed = |row: &Value| Trust::from_name(row["trust"].as_str().unwrap_or_default()).min(Trust::System);
    let time = |row: &Value| time(row, "valid_from");
    parts.iter().all(|part| fact[part] == wording[part])
        && believed(fact) == believed(wording)
        && (fact["kind"] != "temporal" || time(fact) == time(wording))
}

fn id_in(row: &Value, name: &str) -> Option<Uuid> {
    row[name].as_str().and_then(|id| id.parse().ok())
}

fn time(row: &Value, name: &str) -> Option<Timestamp> {
    row[name].as_str().and_then(|at| at.parse().ok())
}

/// What is so of the one fact that two were: one more word for it, and the more of each.
fn both(fact: &Value, wording: &Value) -> Value {
    let number = |row: &Value, name: &str| row[name].as_f64().unwrap_or_default();
    let most = |name: &str| number(fact, name).max(number(wording, name));
    let count = |row: &Value| row["confirmations"].as_i64().unwrap_or_default();
    // The one that stays so for longer.
    let lasting = if number(wording, "decay_rate") < number(fact, "decay_rate") { wording } else { fact };
    let mut tags: Vec<&Value> = fact["tags"].as_array().into_iter().flatten().collect();
    tags.extend(wording["tags"].as_array().into_iter().flatten().filter(|t| !tags.contains(t)).collect::<Vec<_>>());
    let from = match (time(fact, "valid_from"), time(wording, "valid_from")) {
        (Some(a), Some(b)) => Some(a.min(b)),
        // Not said of one of them: it may have been so before.
        _ => time(fact, "valid_from"),
    };
    json!({
        "confidence": confirmed(number(fact, "confidence")).max(number(wording, "confidence")),
        "importance": most("importance"),
        "permanence": lasting["permanence"],
        "decay_rate": lasting["decay_rate"],
        "confirmations": count(fact) + count(wording) + 1,
        "last_confirmed_at": time(fact, "last_confirmed_at").max(time(wording, "last_confirmed_at")),
        "valid_from": from,
        "tags": tags,
        "validity": if fact["validity"] == "fading" { json!("active") } else { fact["validity"].clone() },
    })
}
