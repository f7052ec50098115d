//! The statements on `shared.pairings`: codes by which people bind an account of theirs to their name.

use jiff::Timestamp;

use store::{Lease, StoreError};

/// Notes a code by its hash.
pub async fn make(
    lease: &mut Lease,
    sha256: &[u8],
    (channel, person): (&str, &str),
    until: Timestamp,
) -> Result<(), StoreError> {
    let sql = "SELECT shared.pairing_make($1, $2, $3, $4)";
    let made = lease.execute(sql, &[&sha256, &channel, &person, &until]).await;
    made.map(drop).map_err(StoreError::query("noting a pairing code"))
}

/// Where codes of a channel are shown, by the connector that was heard of last: the address without the code.
pub async fn shown_at(lease: &mut Lease, channel: &str, key: &str) -> Result<Option<String>, StoreError> {
    let sql = "SELECT capabilities ->> $2 AS at FROM connector_registry
               WHERE starts_with(connector_type, $1) AND capabilities ? $2 AND disconnected_at IS NULL
               ORDER BY last_seen_at DESC LIMIT 1";
    let row = lease.query_opt(sql, &[&channel, &key]).await;
    Ok(row.map_err(StoreError::query("looking where codes are shown"))?.and_then(|row| row.get("at")))
}

store::row! {
    /// What became of a code that somebody showed.
    pub struct Used {
        pub ended: String,
        pub name: Option<String>,
    }
}

/// An account shows a code.
pub async fn show(lease: &mut Lease, sha256: &[u8], channel: &str, identity: &str) -> Result<Used, StoreError> {
    let sql = "SELECT ended, name FROM shared.pairing_use($1, $2, $3)";
    let row = lease.query_opt(sql, &[&sha256, &channel, &identity]).await;
    let row = row.map_err(StoreError::query("looking up a pairing code"))?;
    row.as_ref().map(Used::from).ok_or_else(|| StoreError::Unexpected("no end of a pairing".to_owned()))
}
