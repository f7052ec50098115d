//! Two facts that say the same become one. The older one stays; the newer is kept as one more wording of it, by which it is
//! known when it comes again.

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Kind, Origin, Rows, WriteError, confirmed, event, followers, link, lock, patch, row};

const HOLDS: [&str; 2] = ["active", "fading"];

/// Makes `newer` a wording of `older`, or of the one that `older` is a wording of by now. Where the newer one took the place
/// of the older, which it would not have done had it been known for the same, the older gets it back. False: one of them is
/// not as it was, and nothing is done.
pub async fn merge_facts(tx: &mut dyn Rows, origin: &Origin, newer: Uuid, older: Uuid) -> Result<bool, WriteError> {
    lock(tx).await?;
    let there = |found: Result<Value, WriteError>| match found {
        Err(WriteError::Refused { .. }) => Ok(None),
        Err(e) => Err(e),
        Ok(row) => Ok(Some(row)),
    };
    let Some(wording) = there(row(tx, Kind::Fact, newer).await)? else { return Ok(false) };
    let Some(mut fact) = there(row(tx, Kind::Fact, older).await)? else { return Ok(false) };
    if let Some(into) = id_in(&fact, "merged_into") {
        let Some(standing) = there(row(tx, Kind::Fact, into).await)? else { return Ok(false) };
        fact = standing;
    }
    let Some(id) = id_in(&fact, "id").filter(|id| *id != newer) else { return Ok(false) };
    let of_strangers = |row: &Value| row["trust"] == "stranger";
    let holds = |row: &Value| HOLDS.iter().any(|v| row["validity"] == *v);
    let alike = ["kind", "scope", "object_entity_id"].iter().all(|part| fact[part] == wording[part])
        && of_strangers(&fact) == of_strangers(&wording);
    let displaced = fact["validity"] == "superseded"
        && wording["validity"] != "merged"
        && id_in(&wording, "supersedes_id") == Some(id);
    let both_hold = holds(&fact) && holds(&wording);
    if !(alike && (displaced || both_hold)) {
        return Ok(false);
    }
    let reason = Some("it says the same in other words");
    event(tx, origin, "merged", "fact", newer, reason, json!({"into": id})).await?;
    patch(tx, Kind::Fact, newer, json!({"validity": "merged", "merged_into": id})).await?;
    for other in followers(tx, newer, true).await? {
        patch(tx, Kind::Fact, other, json!({"merged_into": id})).await?;
    }
    let mut given = both(&fact, &wording);
    if displaced {
        // Of the same event, because without it the place would be taken twice.
        given["validity"] = wording["validity"].clone();
        given["valid_to"] = wording["valid_to"].clone();
        for after in followers(tx, newer, false).await? {
            patch(tx, Kind::Fact, after, json!({"supersedes_id": id})).await?;
            link(tx, (Kind::Fact, after), (Kind::Fact, id), "supersedes").await?;
        }
    } else {
        event(tx, origin, "confirmed", "fact", id, None, json!({"by": newer})).await?;
    }
    patch(tx, Kind::Fact, id, given).await?;
    link(tx, (Kind::Fact, newer), (Kind::Fact, id), "same_as").await?;
    Ok(true)
}

fn id_in(row: &Value, name: &str) -> Option<Uuid> {
    row[name].as_str().and_then(|id| id.parse().ok())
}

/// What is so of the one fact that two were: one more word for it, and the more of each.
fn both(fact: &Value, wording: &Value) -> Value {
    let number = |row: &Value, name: &str| row[name].as_f64().unwrap_or_default();
    let most = |name: &str| number(fact, name).max(number(wording, name));
    let count = |row: &Value| row["confirmations"].as_i64().unwrap_or_default();
    let time = |row: &Value, name: &str| row[name].as_str().and_then(|at| at.parse::<Timestamp>().ok());
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
        "confirmations": count(fact) + count(wording) + 1,
        "last_confirmed_at": time(fact, "last_confirmed_at").max(time(wording, "last_confirmed_at")),
        "valid_from": from,
        "tags": tags,
        "validity": if fact["validity"] == "fading" { json!("active") } else { fact["validity"].clone() },
    })
}
