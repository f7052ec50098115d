//! What would take a call of somebody else's tool back: the statements on `call_undos`.
//!
//! The butler's role can't touch the table: the call's side goes through functions that want the daemon's seal, and taking back
//! is done as the owner role.

use base::{Label, TenantId};
use jiff::Timestamp;
use serde_json::Value;
use store::{Aged, AsRows, Lease, StoreError, Tx};
use strum::{EnumString, IntoStaticStr};

use crate::call::{ToolCall, ToolError};

/// Rows that are kept for taking back.
pub const OLD: Aged = Aged { table: "call_undos", old: "tx_at < $1" };

/// Puts the call on record, before it is made, with the tool that would take it back. Returns the number of what was written.
pub async fn begin(call: &ToolCall, by_tool: &str) -> Result<i64, ToolError> {
    let sql = "SELECT call_undo_begun($1, $2) AS id";
    Ok(call.effect(sql, &[&by_tool, call.store.seal().expose()]).await.cell("id")?.unwrap_or(0))
}

/// The call has its answer, whose words have this label. `known`: the arguments that take it back, or why there are none.
pub async fn settle(call: &ToolCall, begun: i64, known: Result<&Value, &str>, label: &Label) -> Result<(), ToolError> {
    let (arguments, why) = (known.ok(), known.err());
    let sql = "SELECT call_undo_known($1, $2, $3, $4, $5)";
    let seal = call.store.seal();
    let mut lease = call.store.lease(call.context()).await?;
    let done = lease.query(sql, &[&begun, &arguments, &why, &label.trust.as_str(), seal.expose()]).await;
    done.map_err(StoreError::query("noting what takes a call back"))?;
    Ok(())
}

/// How far taking a call back has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum UndoState {
    /// The call's answer is not on record: it is under way, or the daemon ended in its middle.
    Called,
    Ready,
    /// No way back is known.
    Lacking,
    /// The other tool was called, and its answer is not on record.
    Undoing,
    Undone,
}

/// What would take a call back.
#[derive(Clone, Debug)]
pub struct CallUndo {
    id: i64,
    /// The butler's tool that does it.
    pub tool: String,
    /// `None`: they are not known.
    pub arguments: Option<Value>,
    pub state: UndoState,
    /// Why there is no way back, or what came of the last try.
    pub why: Option<String>,
    /// Since when it is in this state.
    pub at: Timestamp,
}

/// To be found by the row `c` of `tool_calls`.
pub(super) fn joined(schema: &str) -> String {
    format!(
        "LEFT JOIN \"{schema}\".call_undos u ON u.tx_at = c.tx_at AND u.txid = c.txid AND u.tenant_id = c.tenant_id"
    )
}

impl CallUndo {
    pub(super) fn of(row: &tokio_postgres::Row) -> Option<Self> {
        let state: &str = row.get::<_, Option<&str>>("undo_state")?;
        Some(Self {
            id: row.get("undo_id"),
            tool: row.get("undo_tool"),
            arguments: row.get("undo_arguments"),
            state: state.parse().ok()?,
            why: row.get("undo_why"),
            at: row.get("undo_at"),
        })
    }
}

/// Claims the right to take it back, before the other tool is called. `None`: somebody else is at it, or it is done. A claim
/// that nobody settled is another's after two minutes, longer than any call takes; one that ended unknown is so at once. Returns
/// when it was claimed, by which it is settled.
pub async fn claim(
    lease: &mut Lease,
    schema: &str,
    tenant: &TenantId,
    undo: &CallUndo,
) -> Result<Option<Timestamp>, StoreError> {
    let sql = format!(
        "UPDATE \"{schema}\".call_undos SET state = 'undoing', why = NULL, at = shared.clock()
         WHERE id = $1 AND tenant_id = $2 AND (state = 'ready' OR state = 'undoing'
               AND (why IS NOT NULL OR at < shared.clock() - interval '2 minutes')) RETURNING at"
    );
    let rows = lease.query(&sql, &[&undo.id, &tenant.as_str()]).await;
    let rows = rows.map_err(StoreError::query("claiming what takes a call back"))?;
    Ok(rows.first().map(|row| row.get("at")))
}

/// What came of a try. A claim that another one has followed settles nothing.
pub async fn came_to(
    tx: &mut Tx<'_>,
    schema: &str,
    tenant: &TenantId,
    (undo, claimed_at): (&CallUndo, Timestamp),
    (state, why): (UndoState, Option<&str>),
) -> Result<(), StoreError> {
    let sql = format!(
        "UPDATE \"{schema}\".call_undos SET state = $4, why = $5, at = shared.clock()
         WHERE id = $1 AND tenant_id = $2 AND state = 'undoing' AND at = $3"
    );
    let state: &str = state.into();
    let done = tx.execute(&sql, &[&undo.id, &tenant.as_str(), &claimed_at, &state, &why]).await;
    done.map(drop).map_err(StoreError::query("noting what became of taking a call back"))
}
