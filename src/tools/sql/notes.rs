//! The statements on `notes_to_self`.

use jiff::Timestamp;
use uuid::Uuid;

use crate::call::{EffectTx, ToolCall, ToolError};
use store::{AsRows, Lease, StoreError};

store::row! {
    /// A note with who is behind it.
    pub struct Note {
        pub id: i64,
        pub text: String,
        pub trust: String,
        pub session_id: Option<Uuid>,
        pub created_at: Timestamp,
        pub dropped_at: Option<Timestamp>,
    }
}

/// Sessions that note at once count one after the other, until the end of the transaction.
pub async fn lock(tx: &mut EffectTx<'_, '_>) -> Result<(), ToolError> {
    let sql = "SELECT pg_advisory_xact_lock(hashtextextended('notes ' || current_schema() || shared.tenant(), 0))";
    tx.query(sql, &[]).await.map(drop)
}

/// Takes out a note that stands. `false`: there is none.
pub async fn replace(tx: &mut EffectTx<'_, '_>, id: i64) -> Result<bool, ToolError> {
    let sql = "UPDATE notes_to_self SET dropped_at = shared.clock() WHERE id = $1 AND dropped_at IS NULL RETURNING id";
    Ok(!tx.query(sql, &[&id]).await?.is_empty())
}

/// How many notes sessions are told.
pub async fn count_told(tx: &mut EffectTx<'_, '_>) -> Result<i64, ToolError> {
    let sql = "SELECT count(*) FROM notes_to_self WHERE dropped_at IS NULL AND trust IN ('owner', 'system')";
    Ok(tx.query(sql, &[]).await?.first().map_or(0, |r| r.get(0)))
}

/// The number of a note with this text that stands, and is told or not as a new one would be.
pub async fn same(tx: &mut EffectTx<'_, '_>, text: &str) -> Result<Option<i64>, ToolError> {
    let sql = "SELECT id FROM notes_to_self WHERE dropped_at IS NULL AND text = $1
               AND (trust IN ('owner', 'system')) = (shared.trust() IN ('owner', 'system'))";
    Ok(tx.query(sql, &[&text]).await?.first().map(|r| r.get("id")))
}

/// Adds a note. Returns its number.
pub async fn add(tx: &mut EffectTx<'_, '_>, text: &str, session: Option<Uuid>) -> Result<i64, ToolError> {
    let sql = "INSERT INTO notes_to_self (text, session_id) VALUES ($1, $2) RETURNING id";
    Ok(tx.query(sql, &[&text, &session]).await?[0].get("id"))
}

/// Takes a note out as the call's effect. Returns its text.
pub async fn take_out(call: &ToolCall, id: i64) -> Result<Option<String>, ToolError> {
    let sql = "UPDATE notes_to_self SET dropped_at = coalesce(dropped_at, shared.clock()) WHERE id = $1 RETURNING text";
    Ok(call.effect(sql, &[&id]).await?.first().map(|row| row.get("text")))
}

/// The notes that stand, or those that were taken out.
pub async fn list(call: &ToolCall, dropped: bool) -> Result<Vec<Note>, ToolError> {
    let sql = "SELECT id, text, trust, session_id, created_at, dropped_at FROM notes_to_self
               WHERE (dropped_at IS NOT NULL) = $1 ORDER BY id LIMIT 500";
    Ok(call.query(sql, &[&dropped]).await?.iter().map(Note::from).collect())
}

store::row! {
    /// A note that sessions are told.
    pub struct ToldNote {
        pub id: i64,
        pub text: String,
        /// In the owner's time zone.
        pub day: String,
    }
}

/// The notes that sessions are told, the oldest first.
pub async fn told(lease: &mut Lease, most: i64) -> Result<Vec<ToldNote>, StoreError> {
    let sql = "SELECT id, text, (created_at AT TIME ZONE current_setting('TimeZone'))::date::text AS day
               FROM notes_to_self
               WHERE dropped_at IS NULL AND trust IN ('owner', 'system') ORDER BY id LIMIT $1";
    lease.read(sql, &[&most]).await.typed().map_err(StoreError::query("reading the notes"))
}
