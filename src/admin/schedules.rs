//! Schedules over all butlers: found by name or by the beginning of their ids, shown, run, paused.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::api::{SchedulePage, Unavailable};
use super::failure::Failure;
use super::rpc::Rpc;
use super::sessions::{not_found, reached};
use access::Grant;
use butler::Butler;

const MOST: u32 = 500;
const USUAL: u32 = 20;

/// The schedules of one butler or of all; those that `key` names, if there is one.
pub(super) async fn list(
    rpc: &Rpc,
    grant: &Arc<Grant>,
    butler: Option<&str>,
    key: Option<&str>,
) -> Result<SchedulePage, Failure> {
    let (butlers, mut unavailable) = match butler {
        Some(name) => (vec![rpc.butler(grant, name).await?], Vec::new()),
        None => reached(rpc, grant).await,
    };
    let mut schedules = Vec::new();
    for butler in butlers {
        match butler.schedules().listed(&grant.tenant, key).await {
            Ok(found) => schedules.extend(found),
            Err(e) => unavailable.push(Unavailable { butler: butler.name().to_string(), reason: e.to_string() }),
        }
    }
    Ok(SchedulePage { schedules, unavailable })
}

/// The one schedule that `key` names, and its butler.
pub(super) async fn one(
    rpc: &Rpc,
    grant: &Arc<Grant>,
    butler: Option<&str>,
    key: &str,
) -> Result<(Butler, Uuid, Value), Failure> {
    let page = list(rpc, grant, butler, Some(key)).await?;
    let named: Vec<&Value> = page.schedules.iter().filter(|s| s["name"] == key || s["id"] == key).collect();
    let found: Vec<&Value> = if named.is_empty() { page.schedules.iter().collect() } else { named };
    let text = |s: &Value, k: &str| s[k].as_str().unwrap_or_default().to_owned();
    match found.as_slice() {
        [] => {
            let message = format!("There is no schedule `{key}`. See: butlerd schedule list");
            Err(not_found(&message, &page.unavailable))
        }
        [one] => {
            let id = text(one, "id").parse().map_err(|e| Failure::internal("The schedule", &e))?;
            Ok((rpc.butler(grant, &text(one, "butler")).await?, id, (*one).clone()))
        }
        several => {
            let names: Vec<String> = several
                .iter()
                .map(|s| format!("{} of {} ({})", text(s, "name"), text(s, "butler"), text(s, "id")))
                .collect();
            Err(Failure::invalid(format!(
                "`{key}` names several: {}. Add --butler NAME, or take more of the id.",
                names.join(", ")
            )))
        }
    }
}

/// A schedule with its newest runs under `history`.
pub(super) async fn show(
    rpc: &Rpc,
    grant: &Arc<Grant>,
    butler: Option<&str>,
    key: &str,
    limit: Option<u32>,
) -> Result<Value, Failure> {
    let limit = limit.unwrap_or(USUAL);
    if !(1..=MOST).contains(&limit) {
        return Err(Failure::invalid(format!("The limit must be from 1 to {MOST}.")));
    }
    let (butler, id, mut schedule) = one(rpc, grant, butler, key).await?;
    schedule["history"] = json!(butler.schedules().history(&grant.tenant, id, limit).await?);
    Ok(schedule)
}

/// What a tool is called with for one schedule.
pub(super) fn arguments(id: Uuid, enabled: Option<bool>) -> Map<String, Value> {
    let mut args = Map::from_iter([("id".to_owned(), json!(id))]);
    args.extend(enabled.map(|on| ("enabled".to_owned(), json!(on))));
    args
}
