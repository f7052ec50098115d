//! How deliveries get into the outbox.

use serde_json::Value;
use uuid::Uuid;

use crate::files::OutFile;
use base::{Label, TenantId};
use store::{StoreError, Tx};
use tools::{ToolCall, ToolError};

store::row! {
    /// What posting came to.
    pub(crate) struct PostedDelivery {
        pub delivery: Uuid,
        /// Whether it is new.
        pub fresh: bool,
        /// Whether its files go along.
        pub attached: bool,
    }
}

/// Posts a delivery as the call's effect. `holds`: the label of what it holds and the call was not shown.
pub(crate) async fn queue(
    call: &ToolCall,
    delivery: &Value,
    holds: Option<&Label>,
    files: &[OutFile],
) -> Result<Option<PostedDelivery>, ToolError> {
    let seal = call.store.seal();
    let files: Value = files.iter().map(OutFile::written).collect();
    let with_files = files.as_array().is_some_and(|files| !files.is_empty());
    let (sql, params): (_, store::Params<'_>) = match with_files {
        false => {
            ("SELECT delivery, fresh, true AS attached FROM shared.queue_delivery($1, $2)", &[delivery, seal.expose()])
        }
        true => (
            "SELECT q.delivery, q.fresh, shared.attach_files(q.delivery, NULL, $3, $2) AS attached
             FROM shared.queue_delivery($1, $2) q",
            &[delivery, seal.expose(), &files],
        ),
    };
    let rows = match holds {
        Some(label) => call.effect_holding(label, sql, params).await?,
        None => call.effect(sql, params).await?,
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
