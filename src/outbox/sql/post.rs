//! How deliveries get into the outbox.

use serde_json::Value;
use uuid::Uuid;

use base::{Label, TenantId};
use store::{StoreError, Tx};
use tools::{ToolCall, ToolError};

store::row! {
    /// What posting came to.
    pub(crate) struct PostedDelivery {
        pub delivery: Uuid,
        /// Whether it is new.
        pub fresh: bool,
    }
}

/// Posts a delivery as the call's effect. `holds`: the label of what it holds and the call was not shown.
pub(crate) async fn queue(
    call: &ToolCall,
    delivery: &Value,
    holds: Option<&Label>,
) -> Result<Option<PostedDelivery>, ToolError> {
    let sql = "SELECT delivery, fresh FROM shared.queue_delivery($1, $2)";
    let seal = call.store.seal();
    let rows = match holds {
        Some(label) => call.effect_holding(label, sql, &[delivery, seal.expose()]).await?,
        None => call.effect(sql, &[delivery, seal.expose()]).await?,
    };
    Ok(rows.first().map(PostedDelivery::from))
}

/// Posts a delivery that a butler has no call for.
pub(crate) async fn queue_as(
    tx: &mut Tx<'_>,
    origin: &str,
    tenant: &TenantId,
    delivery: &Value,
) -> Result<Option<Uuid>, StoreError> {
    let sql = "SELECT delivery FROM shared.queue_delivery_as($1, $2, $3)";
    let row = tx.query_opt(sql, &[&origin, &tenant.as_str(), delivery]).await;
    Ok(row.map_err(StoreError::query("posting a message to the owner"))?.map(|row| row.get("delivery")))
}
