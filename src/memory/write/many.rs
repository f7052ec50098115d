//! What is done to many facts at once, as one event: it is taken back as a whole.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Kind, Origin, WriteError};
use crate::sql::facts::wordings;
use crate::sql::{Rows, event, link, lock, now, patch, row};

/// Facts that say the same: the one that stays, and those that become wordings of it.
#[derive(Clone, Debug)]
pub struct SameFacts {
    pub stays: Uuid,
    pub wordings: Vec<Uuid>,
}

/// Forgets these facts. Returns the event; none where none of them was there.
///
/// `what` names the event, such as `cleaned`.
pub async fn forget_facts(
    tx: &mut dyn Rows,
    origin: &Origin,
    what: &str,
    ids: &[Uuid],
    payload: Value,
) -> Result<Option<(Uuid, usize)>, WriteError> {
    lock(tx).await?;
    let mut there = Vec::new();
    for id in ids {
        match row(tx, Kind::Fact, *id).await {
            Ok(_) => there.push(*id),
            Err(WriteError::Refused { .. }) => {}
            Err(e) => return Err(e),
        }
    }
    let Some(first) = there.first().copied() else { return Ok(None) };
    let done = event(tx, origin, what, "fact", first, None, payload).await?;
    let at = now(tx).await?;
    for id in &there {
        let also = wordings(tx, *id, false).await?;
        for id in std::iter::once(*id).chain(also) {
            patch(tx, Kind::Fact, id, json!({"forgotten_at": at})).await?;
        }
    }
    Ok(Some((done, there.len())))
}

/// Makes each group one fact: what stays keeps its id and its time and gets the tags and the importance of all. Returns
/// the event; none where there is no group.
pub async fn unite_facts(
    tx: &mut dyn Rows,
    origin: &Origin,
    groups: &[SameFacts],
    payload: Value,
) -> Result<Option<Uuid>, WriteError> {
    lock(tx).await?;
    let Some(first) = groups.first() else { return Ok(None) };
    let done = event(tx, origin, "merged", "fact", first.stays, Some("they say the same"), payload).await?;
    for group in groups {
        let fact = row(tx, Kind::Fact, group.stays).await?;
        let mut tags = texts(&fact["tags"]);
        let mut importance = fact["importance"].as_f64().unwrap_or_default();
        for id in &group.wordings {
            let wording = row(tx, Kind::Fact, *id).await?;
            let more: Vec<String> = texts(&wording["tags"]).into_iter().filter(|t| !tags.contains(t)).collect();
            tags.extend(more);
            importance = importance.max(wording["importance"].as_f64().unwrap_or_default());
            for other in wordings(tx, *id, false).await? {
                patch(tx, Kind::Fact, other, json!({"merged_into": group.stays})).await?;
            }
            patch(tx, Kind::Fact, *id, json!({"validity": "merged", "merged_into": group.stays})).await?;
            link(tx, (Kind::Fact, *id), (Kind::Fact, group.stays), "same_as").await?;
        }
        patch(tx, Kind::Fact, group.stays, json!({"tags": tags, "importance": importance})).await?;
    }
    Ok(Some(done))
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|t| t.as_str().map(str::to_owned)).collect()
}
