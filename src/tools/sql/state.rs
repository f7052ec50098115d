//! The statements on `state`, a butler's key-value store.

use serde_json::Value;

use crate::call::{ToolCall, ToolError};
use store::{AsRows, Lease, StoreError};

store::row! {
    /// An entry of the store.
    pub(crate) struct StateEntry {
        pub key: String,
        pub value: Value,
    }
}

/// Keys that butlerd itself keeps in a butler's state begin with this.
pub const RESERVED_PREFIX: &str = "module:";

const GET: &str = "SELECT value FROM state WHERE key = $1";

/// The value of a key, over a lease; `None`: there is no such key.
pub async fn value(lease: &mut Lease, key: &str) -> Result<Option<Value>, StoreError> {
    lease.query_opt(GET, &[&key]).await.cell("value").map_err(StoreError::query("reading a butler's state"))
}

/// The value of a key, for a call.
pub(crate) async fn get(call: &ToolCall, key: &str) -> Result<Option<Value>, ToolError> {
    Ok(call.query(GET, &[&key]).await?.first().map(|row| row.get("value")))
}

/// Stores a value as the call's effect, replacing what was there.
pub async fn set(call: &ToolCall, key: &str, value: &Value) -> Result<(), ToolError> {
    let sql = "INSERT INTO state (key, value) VALUES ($1, $2)
               ON CONFLICT (tenant_id, key) DO UPDATE
               SET value = excluded.value, version = state.version + 1, updated_at = shared.clock()";
    call.effect(sql, &[&key, value]).await.map(drop)
}

/// Removes a key as the call's effect.
pub(crate) async fn delete(call: &ToolCall, key: &str) -> Result<(), ToolError> {
    call.effect("DELETE FROM state WHERE key = $1", &[&key]).await.map(drop)
}

/// The butler's own keys with this prefix, in order.
pub(crate) async fn keys(call: &ToolCall, prefix: &str) -> Result<Vec<String>, ToolError> {
    let sql = "SELECT key FROM state WHERE starts_with(key, $1) AND NOT starts_with(key, $2) ORDER BY key";
    Ok(call.query(sql, &[&prefix, &RESERVED_PREFIX]).await?.iter().map(|row| row.get("key")).collect())
}

/// The butler's own entries with this prefix, in order.
pub(crate) async fn entries(call: &ToolCall, prefix: &str) -> Result<Vec<StateEntry>, ToolError> {
    let sql = "SELECT key, value FROM state WHERE starts_with(key, $1) AND NOT starts_with(key, $2) ORDER BY key";
    Ok(call.query(sql, &[&prefix, &RESERVED_PREFIX]).await?.iter().map(StateEntry::from).collect())
}
