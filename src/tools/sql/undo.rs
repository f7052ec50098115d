//! What calls changed, and taking it back: the SQL on `tool_calls` and `shared.row_changes` that `butlerd undo` needs, with what
//! `call_undos` says of calls that another tool takes back.
//!
//! The connection is the owner's, which sees all schemas and tenants, so each statement names both.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::json;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use base::{RequestContext, TenantId};
use store::{AsRows, Database, Lease, StoreError, Tx, in_parts};

use super::call_undos::joined;
pub use super::call_undos::{CallUndo, UndoState, came_to, claim};

store::row! {
    /// A call with an effect.
    #[derive(Clone, Debug)]
    pub struct ChangingCall {
        /// Its number in its butler's record.
        pub id: i64,
        pub tool: String,
        pub called_at: Timestamp,
        /// `None`: a person called, not a session.
        pub session_id: Option<Uuid>,
        /// How many rows of it are kept.
        pub rows: i64,
        /// Another tool that takes it back.
        pub undo: Option<CallUndo> = CallUndo::of,
    }
}

impl ChangingCall {
    const COLUMNS: &str = "c.id, c.tool, c.called_at, c.session_id, u.id AS undo_id, u.tool AS undo_tool,
        u.arguments AS undo_arguments, u.state AS undo_state, u.why AS undo_why, u.at AS undo_at";
}

/// Which calls.
#[derive(Clone, Copy, Debug)]
pub enum Which {
    /// One, by its number in its butler's record.
    Call(i64),
    /// All of a session.
    Session(Uuid),
}

/// Why the rows of a call can't be put back.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    #[error("newer rows of {table} refer to what it made; take those back first")]
    ReferredTo { table: String },
    #[error("a newer row of {table} has taken the place of what it changed")]
    Replaced { table: String },
    /// `change` is the newer change's number in `shared.row_changes`, where it is known.
    #[error("{message}")]
    Newer { change: Option<i64>, message: String },
    #[error(transparent)]
    Store(StoreError),
}

impl From<tokio_postgres::Error> for UndoError {
    fn from(source: tokio_postgres::Error) -> Self {
        let Some(db) = source.as_db_error() else {
            return Self::Store(StoreError::Query { step: "taking a call back", source });
        };
        let table = db.table().unwrap_or("another table").to_owned();
        match *db.code() {
            SqlState::FOREIGN_KEY_VIOLATION => Self::ReferredTo { table },
            SqlState::UNIQUE_VIOLATION => Self::Replaced { table },
            SqlState::INVALID_PARAMETER_VALUE => {
                let detail = db.detail().and_then(|d| serde_json::from_str::<serde_json::Value>(d).ok());
                let change = detail.as_ref().and_then(|d| d["change"].as_i64());
                Self::Newer { change, message: db.message().trim_end_matches('.').to_owned() }
            }
            _ => Self::Store(StoreError::Query { step: "taking a call back", source }),
        }
    }
}

/// Where a call stands among all that can be taken back: when its transaction began, and the transaction's number, which no
/// other transaction of any butler has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    pub at: Timestamp,
    pub tx: u64,
}

impl Place {
    /// Behind all that there is.
    pub const END: Self = Self { at: Timestamp::MAX, tx: u64::MAX };
}

/// Some calls that can be taken back, and from where to look on.
#[derive(Clone, Debug, Default)]
pub struct UndoableCalls {
    /// Each with its place, the newest first.
    pub calls: Vec<(Place, ChangingCall)>,
    /// All of this place and newer were looked at. `None`: all that there are.
    pub seen_from: Option<Place>,
}

/// So long one page looks. Where jobs changed much and calls little, the next page goes on.
const PATIENCE: Duration = Duration::from_secs(2);

/// The newest calls before a place that can be taken back, about `most`. Each transaction is found by an index, so that a page
/// costs the same wherever it lies.
pub async fn undoable(
    lease: &mut Lease,
    schema: &str,
    tenant: &TenantId,
    before: Place,
    most: u32,
) -> Result<UndoableCalls, StoreError> {
    let sql = undoable_sql(schema);
    let mut found = UndoableCalls::default();
    let (mut upper, begun) = (before, Instant::now());
    loop {
        let (tx, many) = (upper.tx.to_string(), i64::from(most));
        let rows = lease.read(&sql, &[&schema, &tenant.as_str(), &upper.at, &tx, &many]).await;
        let rows = rows.map_err(StoreError::query("reading what can be taken back"))?;
        let mut places = 0;
        for row in &rows {
            let place = Place { at: row.get("place_at"), tx: row.get::<_, &str>("place_tx").parse().unwrap_or(0) };
            places += u32::from(place != upper);
            upper = place;
            // What a job changed has no call, and a call may be deleted earlier than what it changed.
            if row.get::<_, Option<i64>>("id").is_some() {
                found.calls.push((place, ChangingCall::from(row)));
            }
        }
        if places < most {
            return Ok(found);
        }
        if found.calls.len() >= most as usize || begun.elapsed() >= PATIENCE {
            found.seen_from = Some(upper);
            return Ok(found);
        }
    }
}

/// The next `$5` transactions before the place `$3`, `$4`, with the call of each. Those that changed rows are walked by their
/// index, from each to the next older: to group all rows by transaction would read them all.
fn undoable_sql(schema: &str) -> String {
    let next = |before: &str| {
        format!(
            "SELECT tx_at, txid FROM shared.row_changes
             WHERE schema = $1 AND tenant_id = $2 AND (tx_at, txid) < ({before}) ORDER BY tx_at DESC, txid DESC LIMIT 1"
        )
    };
    let (first, older) = (next("$3, $4::text::xid8"), next("k.tx_at, k.txid"));
    format!(
        "WITH RECURSIVE kept AS (
             SELECT f.tx_at, f.txid, 1::bigint AS nth FROM ({first}) f
             UNION ALL
             SELECT o.tx_at, o.txid, k.nth + 1 FROM kept k, LATERAL ({older}) o WHERE k.nth < $5),
         places AS (
             SELECT tx_at, txid FROM kept
             UNION
             (SELECT tx_at, txid FROM \"{schema}\".call_undos
              WHERE tenant_id = $2 AND state IN ('ready', 'undoing') AND (tx_at, txid) < ($3, $4::text::xid8)
              ORDER BY tx_at DESC, txid DESC LIMIT $5)
             ORDER BY tx_at DESC, txid DESC LIMIT $5)
         SELECT p.tx_at AS place_at, p.txid::text AS place_tx, {},
                (SELECT count(*) FROM shared.row_changes r WHERE r.tx_at = p.tx_at AND r.txid = p.txid
                    AND r.schema = $1 AND r.tenant_id = $2) AS rows
         FROM places p
         LEFT JOIN \"{schema}\".tool_calls c
             ON c.tx_at = p.tx_at AND c.txid = p.txid AND c.tenant_id = $2 AND c.effect <> 'none' {}
         ORDER BY p.tx_at DESC, p.txid DESC, c.id DESC",
        ChangingCall::COLUMNS,
        joined(schema)
    )
}

/// The calls that had an effect, the newest first.
pub async fn effects(
    tx: &mut Tx<'_>,
    schema: &str,
    tenant: &TenantId,
    which: Which,
) -> Result<Vec<ChangingCall>, StoreError> {
    let (call, session) = match which {
        Which::Call(id) => (Some(id), None),
        Which::Session(id) => (None, Some(id)),
    };
    let sql = format!(
        "SELECT {}, (SELECT count(*) FROM shared.row_changes r
                     WHERE r.tx_at = c.tx_at AND r.txid = c.txid AND r.tenant_id = c.tenant_id) AS rows
         FROM \"{schema}\".tool_calls c {}
         WHERE c.tenant_id = $1 AND c.effect <> 'none' AND c.outcome = 'ok'
           AND (c.id = $2 OR c.session_id = $3) ORDER BY c.id DESC",
        ChangingCall::COLUMNS,
        joined(schema)
    );
    tx.query(&sql, &[&tenant.as_str(), &call, &session]).await.typed().map_err(StoreError::query("reading the calls"))
}

/// Puts the rows of a call back as they were. Returns how many they are. After an error the transaction is void.
pub async fn put_back(tx: &mut Tx<'_>, schema: &str, tenant: &TenantId, call: i64) -> Result<i64, UndoError> {
    let sql = format!(
        "SELECT shared.undo(c.txid, c.tx_at)::bigint AS rows FROM \"{schema}\".tool_calls c
         WHERE c.id = $1 AND c.tenant_id = $2"
    );
    Ok(tx.query(&sql, &[&call, &tenant.as_str()]).await.cell("rows")?.unwrap_or(0))
}

/// Records that these calls were taken back: a call itself, which can be taken back. Returns its number.
pub async fn record(
    tx: &mut Tx<'_>,
    schema: &str,
    context: &RequestContext,
    caller: &str,
    calls: &[String],
) -> Result<i64, StoreError> {
    let sql = format!(
        "INSERT INTO \"{schema}\".tool_calls
             (request_id, caller, tool, arguments, outcome, effect, called_at, duration_us)
         VALUES ($1, $2, 'undo', $3, 'ok', 'once', shared.clock(), 0) RETURNING id"
    );
    let rows = tx.query(&sql, &[&context.request_id.0, &caller, &json!({ "calls": calls })]).await;
    Ok(rows.map_err(StoreError::query("recording what was taken back"))?.first().map_or(0, |row| row.get("id")))
}

/// The call that made a change.
pub async fn maker(
    lease: &mut Lease,
    schema: &str,
    tenant: &TenantId,
    change: i64,
) -> Result<Option<ChangingCall>, StoreError> {
    let sql = format!(
        "SELECT {}, 1::bigint AS rows FROM shared.row_changes r
         JOIN \"{schema}\".tool_calls c ON c.tx_at = r.tx_at AND c.txid = r.txid AND c.effect <> 'none' {}
         WHERE r.id = $1 AND r.tenant_id = $2 AND c.tenant_id = $2",
        ChangingCall::COLUMNS,
        joined(schema)
    );
    let rows = lease.read(&sql, &[&change, &tenant.as_str()]).await;
    Ok(rows.map_err(StoreError::query("looking for a call"))?.first().map(ChangingCall::from))
}

/// So many calls' rows go in one statement.
const CALLS_AT_ONCE: i64 = 5000;

/// Deletes what calls changed longer than so many days ago, of one tenant; of all, if it is the owner. The database stamps
/// the rows, so its clock counts the days. A call's rows go together. Returns how many rows.
pub async fn delete_changes_older_than(
    db: &Database,
    (schema, tenant): (&str, &TenantId),
    days: i64,
) -> Result<u64, StoreError> {
    let sql = "DELETE FROM shared.row_changes c USING (
                   SELECT tx_at, txid FROM shared.row_changes
                   WHERE tx_at < transaction_timestamp() - make_interval(days => $1::bigint::int)
                     AND schema = $4 AND ($2 = 'owner' OR tenant_id = $2)
                   GROUP BY tx_at, txid LIMIT $3) old
               WHERE c.tx_at = old.tx_at AND c.txid = old.txid AND c.schema = $4";
    in_parts(db, sql, &[&days, &tenant.as_str(), &CALLS_AT_ONCE, &schema], "deleting old rows kept for undo").await
}
