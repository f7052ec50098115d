//! Sessions over all butlers, read through each butler's own tools.

use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::api::{Cancelled, SessionPage, Unavailable};
use super::failure::Failure;
use super::rights;
use super::rpc::Rpc;
use access::Grant;
use base::SessionId;
use butler::Butler;

const MOST: u32 = 200;
const USUAL: u32 = 20;

/// Asks one of a butler's own tools.
async fn ask(rpc: &Rpc, grant: &Arc<Grant>, butler: &Butler, tool: &str, args: Value) -> Result<Value, String> {
    let args: Map<String, Value> = match args {
        Value::Object(args) => args,
        _ => Map::new(),
    };
    let reply = butler.tools().call(tool, args, rpc.caller(grant), CancellationToken::new()).await;
    let reply = reply.ok_or_else(|| format!("{} has no tool `{tool}`", butler.name()))?;
    match reply.is_error {
        true => Err(reply.json["error"].as_str().unwrap_or("the tool failed").to_owned()),
        false => Ok(reply.json),
    }
}

/// The butlers that the grant reaches: those that can be asked, and why the others can't.
pub(super) async fn reached(rpc: &Rpc, grant: &Grant) -> (Vec<Butler>, Vec<Unavailable>) {
    let butlers = rpc.supervisor.status().await.butlers.into_iter();
    let names = butlers.filter(|b| !b.removed).map(|b| b.name);
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for name in names.filter(|name| rights::reaches(grant, name)) {
        match rpc.supervisor.butler(&name) {
            Ok(butler) => up.push(butler),
            Err(reason) => down.push(Unavailable { butler: name, reason }),
        }
    }
    (up, down)
}

/// The newest sessions.
pub(super) async fn list(
    rpc: &Rpc,
    grant: &Arc<Grant>,
    butler: Option<&str>,
    limit: Option<u32>,
) -> Result<SessionPage, Failure> {
    let limit = limit.unwrap_or(USUAL);
    if !(1..=MOST).contains(&limit) {
        return Err(Failure::invalid(format!("The limit must be from 1 to {MOST}.")));
    }
    let (butlers, mut unavailable) = match butler {
        Some(name) => (vec![rpc.butler(grant, name).await?], Vec::new()),
        None => reached(rpc, grant).await,
    };
    let mut sessions = Vec::new();
    for butler in &butlers {
        let name = butler.name().as_str();
        match ask(rpc, grant, butler, "sessions_list", json!({"limit": limit})).await {
            Ok(Value::Array(rows)) => sessions.extend(rows.into_iter().map(|row| named(row, name))),
            Ok(_) => unavailable.push(Unavailable { butler: name.into(), reason: "it answered no list".into() }),
            Err(reason) => unavailable.push(Unavailable { butler: name.into(), reason }),
        }
    }
    newest_first(&mut sessions);
    sessions.truncate(limit as usize);
    Ok(SessionPage { sessions, unavailable })
}

pub(super) fn named(mut row: Value, butler: &str) -> Value {
    if let Value::Object(row) = &mut row {
        row.insert("butler".to_owned(), json!(butler));
    }
    row
}

/// By the time of entry; RFC 3339 texts of one zone sort like their moments but for fractions of a second.
fn newest_first(sessions: &mut [Value]) {
    let at = |row: &Value| row["queued_at"].as_str().and_then(|t| t.parse::<jiff::Timestamp>().ok());
    sessions.sort_by_key(|row| std::cmp::Reverse(at(row)));
}

/// One session, and whose it is.
pub(super) async fn get(rpc: &Rpc, grant: &Arc<Grant>, id: Uuid) -> Result<(Butler, Value), Failure> {
    let (butlers, mut unavailable) = reached(rpc, grant).await;
    for butler in butlers {
        match ask(rpc, grant, &butler, "sessions_get", json!({"session_id": id})).await {
            Ok(Value::Null) => {}
            Ok(row) => {
                let mut row = named(row, butler.name().as_str());
                if let (Value::Object(row), Ok(Value::Object(more))) =
                    (&mut row, butler.spawner().prompt_of(&rpc.caller(grant).context, id).await)
                {
                    row.extend(more);
                }
                return Ok((butler, row));
            }
            Err(reason) => unavailable.push(Unavailable { butler: butler.name().to_string(), reason }),
        }
    }
    Err(not_found(&format!("There is no session {id}. See: butlerd sessions list"), &unavailable))
}

/// Nothing was found; `unavailable` could not be asked.
pub(super) fn not_found(message: &str, unavailable: &[Unavailable]) -> Failure {
    let mut message = message.to_owned();
    if !unavailable.is_empty() {
        let names: Vec<&str> = unavailable.iter().map(|u| u.butler.as_str()).collect();
        message.push_str(&format!(" (but {} could not be asked)", names.join(", ")));
    }
    Failure::new("not_found", message)
}

/// Ends a session that waits or runs.
pub(super) async fn cancel(rpc: &Rpc, grant: &Arc<Grant>, id: Uuid) -> Result<Cancelled, Failure> {
    // The row says whose session it is, and keeps one tenant from another's.
    let (butler, row) = get(rpc, grant, id).await?;
    let name = butler.name().to_string();
    if butler.cancel(SessionId(id)) {
        return Ok(Cancelled { session_id: id, butler: name });
    }
    let state = row["state"].as_str().unwrap_or("over").replace('_', " ");
    let message = match state.as_str() {
        "queued" | "running" => format!("Session {id} of {name} was just ending; nothing is left to cancel."),
        _ => format!("Session {id} of {name} is over already: {state}."),
    };
    Err(Failure::new("not_running", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_comes_first_whatever_its_fraction() {
        let mut rows: Vec<Value> = ["2026-01-01T10:00:00Z", "2026-01-01T10:00:00.5Z", "2026-01-01T09:59:59.9Z"]
            .iter()
            .map(|t| json!({"queued_at": t}))
            .collect();
        newest_first(&mut rows);
        let order: Vec<&str> = rows.iter().filter_map(|r| r["queued_at"].as_str()).collect();
        assert_eq!(order, ["2026-01-01T10:00:00.5Z", "2026-01-01T10:00:00Z", "2026-01-01T09:59:59.9Z"]);
    }
}
