//! The statements on `mcp_servers`: what the tools of others' servers were when the owner agreed to them.

use serde_json::Value;

use super::pins::Listing;
use store::{Lease, StoreError};
use tools::{ToolCall, ToolError};

store::row! {
    struct PinRow {
        pinned: Value,
        held: Option<Value>,
    }
}

/// What is on record of a server: what was agreed to, and what it shows since, where that is something else.
pub(super) type Pinned = (Listing, Option<Listing>);

fn listing(value: Value) -> Result<Listing, StoreError> {
    serde_json::from_value(value).map_err(|e| StoreError::Unexpected(format!("the tools of an MCP server: {e}")))
}

fn json(listing: &Listing) -> Value {
    serde_json::to_value(listing).unwrap_or_default()
}

pub(super) async fn pinned(lease: &mut Lease, server: &str) -> Result<Option<Pinned>, StoreError> {
    let sql = "SELECT pinned, held FROM mcp_servers WHERE server = $1";
    let row = lease.query_opt(sql, &[&server]).await.map_err(StoreError::query("reading an MCP server's tools"))?;
    let Some(PinRow { pinned, held }) = row.as_ref().map(PinRow::from) else { return Ok(None) };
    Ok(Some((listing(pinned)?, held.map(listing).transpose()?)))
}

/// Pins what a server showed first, unless something was pinned meanwhile.
pub(super) async fn pin(lease: &mut Lease, server: &str, shown: &Listing) -> Result<(), StoreError> {
    let sql = "INSERT INTO mcp_servers (server, pinned, pinned_sha256) VALUES ($1, $2, $3)
               ON CONFLICT (tenant_id, server) DO NOTHING";
    let done = lease.execute(sql, &[&server, &json(shown), &shown.sha256()]).await;
    done.map(drop).map_err(StoreError::query("pinning an MCP server's tools"))
}

/// Notes what a server shows now, where that is not what was agreed to; `None`: it is.
pub(super) async fn hold(lease: &mut Lease, server: &str, shown: Option<&Listing>) -> Result<(), StoreError> {
    let sql = "UPDATE mcp_servers SET held = $2, held_sha256 = $3,
                   held_at = CASE WHEN $3::text IS NULL THEN NULL ELSE shared.clock() END
               WHERE server = $1";
    let done = lease.execute(sql, &[&server, &shown.map(json), &shown.map(Listing::sha256)]).await;
    done.map(drop).map_err(StoreError::query("holding an MCP server's tools"))
}

/// The owner agrees to what is held, if that is what they saw. Whether it was.
pub(super) async fn accept(call: &ToolCall, server: &str, seen: &str) -> Result<bool, ToolError> {
    let sql = "UPDATE mcp_servers SET pinned = held, pinned_sha256 = held_sha256, pinned_at = shared.clock(),
                   held = NULL, held_sha256 = NULL, held_at = NULL
               WHERE server = $1 AND held_sha256 = $2 RETURNING server";
    Ok(!call.effect(sql, &[&server, &seen]).await?.is_empty())
}
