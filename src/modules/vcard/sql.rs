//! What the register of contacts offers, in functions of the roster's migrations.

use serde_json::Value;
use uuid::Uuid;

use store::{AsRows, Lease, StoreError};
use tools::{EffectTx, ToolError};

/// Whether this butler keeps a register of contacts.
pub(super) async fn is_kept(lease: &mut Lease) -> Result<bool, StoreError> {
    let sql = "SELECT to_regprocedure('contact_cards(uuid)') IS NOT NULL
                      AND to_regprocedure('contact_from_card(jsonb)') IS NOT NULL AS kept";
    let rows = lease.read(sql, &[]).await.map_err(StoreError::query("looking for the register of contacts"))?;
    Ok(rows.first().is_some_and(|row| row.get("kept")))
}

/// The card of one contact, or those of all that are listed.
pub(super) async fn cards(lease: &mut Lease, which: Option<Uuid>) -> Result<Vec<Value>, tokio_postgres::Error> {
    lease.query_read_only("SELECT c.card FROM contact_cards($1) AS c(card)", &[&which]).await.column("card")
}

/// Takes a card in. Returns the contact that came of it.
pub(super) async fn take_in(tx: &mut EffectTx<'_, '_>, card: &Value) -> Result<Option<Value>, ToolError> {
    tx.query("SELECT contact_from_card($1) AS contact", &[card]).await.cell("contact")
}
