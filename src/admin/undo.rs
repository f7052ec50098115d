//! Taking calls back: the rows that a roster's tools changed are put back as they were.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use super::api::{TakenBack, UndoableCall, Undone};
use super::failure::Failure;
use super::rpc::Rpc;
use super::sessions::{not_found, reached};
use access::Grant;
use butler::Butler;
use store::{Lease, StoreError, Tx};

/// What shall be taken back.
pub(super) enum What {
    /// One call, by its number in its butler's record.
    Call(i64),
    /// All calls of a session.
    Session(Uuid),
}

const MOST: u32 = 200;
const USUAL: u32 = 20;

async fn lease(rpc: &Rpc, grant: &Grant) -> Result<Lease, Failure> {
    Ok(rpc.supervisor.services().db.shared(&grant.tenant).await?)
}

/// The newest calls that changed rows which can be put back.
pub(super) async fn list(
    rpc: &Rpc,
    grant: &Arc<Grant>,
    butler: Option<&str>,
    limit: Option<u32>,
) -> Result<Vec<UndoableCall>, Failure> {
    let limit = limit.unwrap_or(USUAL);
    if !(1..=MOST).contains(&limit) {
        return Err(Failure::invalid(format!("The limit must be from 1 to {MOST}.")));
    }
    let butlers = match butler {
        Some(name) => vec![rpc.butler(grant, name).await?],
        None => reached(rpc, grant).await.0,
    };
    let mut found = Vec::new();
    let mut lease = lease(rpc, grant).await?;
    for butler in butlers {
        let sql = format!(
            "SELECT c.id, c.tool, c.called_at, c.session_id, r.rows
             FROM (SELECT tx_at, txid, count(*) AS rows, max(id) AS last FROM shared.row_changes
                   WHERE schema = $1 AND tenant_id = $2 GROUP BY tx_at, txid ORDER BY last DESC LIMIT $3) r
             JOIN \"{}\".tool_calls c ON c.tx_at = r.tx_at AND c.txid = r.txid AND c.effect <> 'none'
             WHERE c.tenant_id = $2 ORDER BY c.id DESC",
            butler.schema()
        );
        let rows = lease.read(&sql, &[&butler.schema(), &grant.tenant.as_str(), &i64::from(limit)]).await;
        for row in rows.map_err(StoreError::query("reading what can be taken back"))? {
            found.push(UndoableCall {
                call: format!("{}/{}", butler.name(), row.get::<_, i64>(0)),
                butler: butler.name().to_string(),
                tool: row.get(1),
                called_at: row.get(2),
                session_id: row.get(3),
                rows: row.get(4),
            });
        }
    }
    found.sort_by_key(|call| std::cmp::Reverse(call.called_at));
    found.truncate(limit as usize);
    Ok(found)
}

/// The butler that a session belongs to.
pub(super) async fn butler_of(rpc: &Rpc, grant: &Arc<Grant>, session: Uuid) -> Result<Butler, Failure> {
    let (butlers, unavailable) = reached(rpc, grant).await;
    let mut lease = lease(rpc, grant).await?;
    for butler in butlers {
        let sql = format!("SELECT 1 FROM \"{}\".sessions WHERE id = $1 AND tenant_id = $2", butler.schema());
        let found = lease.read(&sql, &[&session, &grant.tenant.as_str()]).await;
        if !found.map_err(StoreError::query("looking for the session"))?.is_empty() {
            return Ok(butler);
        }
    }
    Err(not_found(&format!("There is no session {session}. See: butlerd sessions list"), &unavailable))
}

/// A call that is to be taken back.
struct Call {
    id: i64,
    tool: String,
    /// How many rows of it are kept.
    rows: i64,
}

/// Takes it back: all of it, or nothing.
pub(super) async fn undo(rpc: &Rpc, grant: &Arc<Grant>, butler: &Butler, what: What) -> Result<Undone, Failure> {
    let schema = butler.schema();
    let mut lease = lease(rpc, grant).await?;
    let step = || StoreError::query("taking calls back");
    let mut tx = lease.begin().await.map_err(step())?;
    let calls = calls(&mut tx, schema, grant, &what).await?;
    let name = butler.name().as_str();
    let (kept, left): (Vec<Call>, Vec<Call>) = calls.into_iter().partition(|call| call.rows > 0);
    if kept.is_empty() {
        let tools: Vec<&str> = left.iter().map(|call| call.tool.as_str()).collect();
        let why = match (&what, tools.as_slice()) {
            (What::Call(id), []) => {
                return Err(Failure::new("not_found", format!("There is no call {name}/{id}. See: butlerd undo")));
            }
            (What::Call(id), _) => format!("The call {name}/{id} of {} changed no row that is kept.", tools.join(", ")),
            (What::Session(_), []) => "No call of this session had an effect.".to_owned(),
            (What::Session(_), _) => {
                format!("No call of this session changed rows that are kept: {}.", tools.join(", "))
            }
        };
        let hint = "What a butler remembers is taken back by `butlerd memory undo`; what was sent stays sent.";
        return Err(Failure::new("nothing_to_undo", format!("{why} {hint}")));
    }
    let mut taken = Vec::new();
    let mut failed = None;
    for call in &kept {
        let sql = format!(
            "SELECT shared.undo(c.txid, c.tx_at) FROM \"{schema}\".tool_calls c WHERE c.id = $1 AND c.tenant_id = $2"
        );
        match tx.query(&sql, &[&call.id, &grant.tenant.as_str()]).await {
            Ok(rows) => taken.push(TakenBack {
                call: format!("{name}/{}", call.id),
                tool: call.tool.clone(),
                rows: rows.first().map_or(0, |row| i64::from(row.get::<_, i32>(0))),
            }),
            Err(e) => {
                failed = Some((call, e));
                break;
            }
        }
    }
    if let Some((call, e)) = failed {
        tx.rollback().await.map_err(step())?;
        return Err(refusal(rpc, grant, butler, call, e).await);
    }
    let record = json!({"calls": taken.iter().map(|t| &t.call).collect::<Vec<_>>()});
    let sql = format!(
        "INSERT INTO \"{schema}\".tool_calls
             (request_id, caller, tool, arguments, outcome, effect, called_at, duration_us)
         VALUES ($1, $2, 'undo', $3, 'ok', 'once', shared.clock(), 0) RETURNING id"
    );
    let caller = rpc.caller(grant);
    let request = caller.context.request_id.0;
    let rows = tx.query(&sql, &[&request, &caller.label(), &record]).await.map_err(step())?;
    let undo = format!("{name}/{}", rows.first().map_or(0, |row| row.get::<_, i64>(0)));
    tx.commit().await.map_err(step())?;
    let left = left.into_iter().map(|call| call.tool).collect();
    Ok(Undone { butler: name.to_owned(), undo, calls: taken, left })
}

/// The calls with an effect, the newest first.
async fn calls(tx: &mut Tx<'_>, schema: &str, grant: &Grant, what: &What) -> Result<Vec<Call>, Failure> {
    let (call, session) = match what {
        What::Call(id) => (Some(*id), None),
        What::Session(id) => (None, Some(*id)),
    };
    let sql = format!(
        "SELECT c.id, c.tool, (SELECT count(*) FROM shared.row_changes r
                               WHERE r.tx_at = c.tx_at AND r.txid = c.txid AND r.tenant_id = c.tenant_id)
         FROM \"{schema}\".tool_calls c
         WHERE c.tenant_id = $1 AND c.effect <> 'none' AND c.outcome = 'ok'
           AND (c.id = $2 OR c.session_id = $3) ORDER BY c.id DESC"
    );
    let rows = tx.query(&sql, &[&grant.tenant.as_str(), &call, &session]).await;
    let rows = rows.map_err(StoreError::query("reading the calls"))?;
    Ok(rows.iter().map(|row| Call { id: row.get(0), tool: row.get(1), rows: row.get(2) }).collect())
}

/// Why a call can't be taken back, for the person.
async fn refusal(rpc: &Rpc, grant: &Arc<Grant>, butler: &Butler, call: &Call, e: tokio_postgres::Error) -> Failure {
    let which = format!("{}/{} ({})", butler.name(), call.id, call.tool);
    let Some(db) = e.as_db_error() else {
        return StoreError::Query { step: "taking a call back", source: e }.into();
    };
    let table = db.table().unwrap_or("another table");
    let why = match *db.code() {
        SqlState::FOREIGN_KEY_VIOLATION => {
            format!("newer rows of {table} refer to what it made; take those back first")
        }
        SqlState::UNIQUE_VIOLATION => format!("a newer row of {table} has taken the place of what it changed"),
        SqlState::INVALID_PARAMETER_VALUE => {
            let detail =
                db.detail().and_then(|d| serde_json::from_str::<serde_json::Value>(d).ok()).unwrap_or_default();
            let newer = match detail["change"].as_i64() {
                Some(change) => newer(rpc, grant, butler, change).await,
                None => None,
            };
            match newer {
                Some(newer) => format!("what it changed was changed again by {newer}"),
                None => db.message().trim_end_matches('.').to_owned(),
            }
        }
        _ => return StoreError::Query { step: "taking a call back", source: e }.into(),
    };
    Failure::new("newer_change", format!("Nothing was taken back: {which} stays, because {why}."))
}

/// Which call made a change.
async fn newer(rpc: &Rpc, grant: &Arc<Grant>, butler: &Butler, change: i64) -> Option<String> {
    let mut lease = lease(rpc, grant).await.ok()?;
    let sql = format!(
        "SELECT c.id, c.tool, c.called_at, c.session_id FROM shared.row_changes r
         JOIN \"{}\".tool_calls c ON c.tx_at = r.tx_at AND c.txid = r.txid AND c.effect <> 'none'
         WHERE r.id = $1 AND r.tenant_id = $2 AND c.tenant_id = $2",
        butler.schema()
    );
    let rows = lease.read(&sql, &[&change, &grant.tenant.as_str()]).await.ok()?;
    let row = rows.first()?;
    let (id, tool, at): (i64, String, Timestamp) = (row.get(0), row.get(1), row.get(2));
    let of = row.get::<_, Option<Uuid>>(3).map(|session| format!(" of session {session}")).unwrap_or_default();
    Some(format!("{}/{id} ({tool}){of} at {at:.0}", butler.name()))
}
