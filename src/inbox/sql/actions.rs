//! The statements on `request_actions`: what people did with messages.

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use base::TenantId;
use store::{StoreError, Tx};

/// What somebody did.
pub struct NewAction<'a> {
    pub action: &'a str,
    /// Whose token it was, who they said they are, and why.
    pub by: &'a str,
    pub said_by: Option<&'a str>,
    pub reason: Option<&'a str>,
    pub detail: Value,
}

/// Writes down what was done.
pub async fn add(
    tx: &mut Tx<'_>,
    schema: &str,
    (tenant, request): (&TenantId, Uuid),
    new: NewAction<'_>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = format!(
        "INSERT INTO \"{schema}\".request_actions (tenant_id, request_id, action, by_label, said_by, reason, detail, at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
    );
    let NewAction { action, by, said_by, reason, detail } = new;
    let params: store::Params<'_> = &[&tenant.as_str(), &request, &action, &by, &said_by, &reason, &detail, &now];
    let noted = tx.execute(&sql, params).await;
    noted.map(drop).map_err(StoreError::query("noting what a person did with a message"))
}
