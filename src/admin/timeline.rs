//! What is on record of one session, or of all that one id led to, over all butlers.

use std::sync::Arc;

use rust_decimal::Decimal;
use serde_json::{Value, json};
use uuid::Uuid;

use super::api::{Timeline, Unavailable};
use super::failure::Failure;
use super::rpc::Rpc;
use super::sessions::{named, not_found, reached};
use access::Grant;
use sessions::EventPage;

/// A part of a session's transcript, whichever butler has it.
pub(super) async fn events(rpc: &Rpc, grant: &Arc<Grant>, id: Uuid, after: i32) -> Result<EventPage, Failure> {
    let (butlers, mut unavailable) = reached(rpc, grant).await;
    let caller = rpc.caller(grant);
    for butler in butlers {
        match butler.spawner().events(&caller.context, id, after).await {
            Ok(Some(page)) => return Ok(page),
            Ok(None) => {}
            Err(e) => unavailable.push(Unavailable { butler: butler.name().to_string(), reason: e.to_string() }),
        }
    }
    Err(not_found(&format!("There is no session {id}. See: butlerd sessions list"), &unavailable))
}

/// All that the id led to: sessions of all butlers with the same trace, in order.
pub(super) async fn timeline(rpc: &Rpc, grant: &Arc<Grant>, id: Uuid) -> Result<Timeline, Failure> {
    let (butlers, mut unavailable) = reached(rpc, grant).await;
    let caller = rpc.caller(grant);
    let mut traces: Vec<String> = Vec::new();
    let mut asked = Vec::new();
    for butler in butlers {
        match butler.spawner().traces_of(&caller.context, id).await {
            Ok(found) => {
                traces.extend(found);
                asked.push(butler);
            }
            Err(e) => unavailable.push(Unavailable { butler: butler.name().to_string(), reason: e.to_string() }),
        }
    }
    traces.sort();
    traces.dedup();
    let mut whole = Timeline { id, traces, ..Timeline::default() };
    for butler in asked {
        let name = butler.name().as_str();
        match butler.spawner().trace_part(&caller.context, id, &whole.traces).await {
            Ok(part) => {
                whole.sessions.extend(part.sessions.into_iter().map(|row| named(row, name)));
                whole.events.extend(part.events);
                whole.calls.extend(part.calls.into_iter().map(|row| named(row, name)));
                whole.runs.extend(part.runs.into_iter().map(|row| named(row, name)));
                whole.cut |= part.cut;
            }
            Err(e) => unavailable.push(Unavailable { butler: name.to_owned(), reason: e.to_string() }),
        }
    }
    if whole.sessions.is_empty() && whole.calls.is_empty() && whole.runs.is_empty() {
        let message = format!(
            "Nothing is on record of {id}. It may be the id of a session, a request, a trace or a schedule. \
             See: butlerd sessions list"
        );
        return Err(not_found(&message, &unavailable));
    }
    in_order(&mut whole);
    whole.unavailable = unavailable;
    Ok(whole)
}

fn in_order(whole: &mut Timeline) {
    let at = |row: &Value, key: &str| row[key].as_str().and_then(|t| t.parse::<jiff::Timestamp>().ok());
    whole.sessions.sort_by_key(|row| at(row, "queued_at"));
    // A stable sort: events of one session keep their order.
    whole.events.sort_by_key(|event| event.at);
    whole.calls.sort_by_key(|row| at(row, "called_at"));
    whole.runs.sort_by_key(|row| at(row, "fire_at"));
    let costs: Vec<Option<Decimal>> =
        whole.sessions.iter().map(|row| row["cost_usd"].as_str().and_then(|c| c.parse().ok())).collect();
    whole.sessions_of_unknown_cost = costs.iter().filter(|c| c.is_none()).count();
    let known: Vec<Decimal> = costs.into_iter().flatten().collect();
    whole.cost_usd = (!known.is_empty()).then(|| known.iter().sum::<Decimal>().normalize().to_string());
    for row in &mut whole.sessions {
        row["depth"] = json!(row["request"]["lineage"]["depth"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_not_added_up() {
        let mut whole = Timeline {
            sessions: vec![
                json!({"id": "b", "queued_at": "2026-01-01T10:00:01Z", "cost_usd": "0.10"}),
                json!({"id": "c", "queued_at": "2026-01-01T10:00:02Z", "cost_usd": null}),
                json!({"id": "a", "queued_at": "2026-01-01T10:00:00Z", "cost_usd": "0.205",
                       "request": {"lineage": {"depth": 0}}}),
            ],
            ..Timeline::default()
        };
        in_order(&mut whole);
        assert_eq!((whole.cost_usd.as_deref(), whole.sessions_of_unknown_cost), (Some("0.305"), 1));
        let order: Vec<&str> = whole.sessions.iter().filter_map(|row| row["id"].as_str()).collect();
        assert_eq!((order, &whole.sessions[0]["depth"]), (vec!["a", "b", "c"], &json!(0)));
        whole.sessions.remove(0);
        whole.sessions.remove(0);
        in_order(&mut whole);
        assert_eq!(whole.cost_usd, None);
    }
}
