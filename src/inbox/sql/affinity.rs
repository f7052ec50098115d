//! The statements on `thread_affinity`: which butler a conversation is with.

use jiff::Timestamp;

use store::{Lease, StoreError, Tx};

store::row! {
    /// The butler of a conversation, and how it came to be that.
    pub struct Affinity {
        pub butler: String,
        /// `thread` or `notification`
        pub source: String,
    }
}

/// The butler that a conversation is with.
pub async fn of(lease: &mut Lease, lane: &str) -> Result<Option<Affinity>, StoreError> {
    let sql = "SELECT butler, source FROM thread_affinity WHERE lane = $1 AND expires_at > shared.clock()";
    let row = lease.query_opt(sql, &[&lane]).await.map_err(StoreError::query("looking for the butler of a thread"))?;
    Ok(row.as_ref().map(Affinity::from))
}

const REMEMBER: &str = "INSERT INTO thread_affinity (lane, butler, source, expires_at) VALUES ($1, $2, $3, $4)
    ON CONFLICT (tenant_id, lane) DO UPDATE SET butler = $2, source = $3, expires_at = $4";

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("remembering the butler of a thread")
}

/// A thread goes on with the butler of its last message.
pub async fn thread(tx: &mut Tx<'_>, lane: &str, butler: &str, until: Timestamp) -> Result<(), StoreError> {
    tx.execute(REMEMBER, &[&lane, &butler, &"thread", &until]).await.map(drop).map_err(failed())
}

/// A butler wrote to this conversation first.
pub async fn notification(lease: &mut Lease, lane: &str, butler: &str, until: Timestamp) -> Result<(), StoreError> {
    lease.execute(REMEMBER, &[&lane, &butler, &"notification", &until]).await.map(drop).map_err(failed())
}
