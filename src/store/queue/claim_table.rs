//! Claims on tables that no [`Queue`](super::Queue) works on.

use std::borrow::Cow;

use super::lease::{lease_seconds, renew_every};
use super::sql::Claim;
use crate::database::Database;
use crate::error::StoreError;

/// A table whose rows are claimed: it has the columns `claim_id`, `claimed_by` and `lease_until`.
#[derive(Clone, Debug)]
pub struct ClaimTable {
    /// As it stands in SQL, with its schema.
    table: Cow<'static, str>,
    /// Its key, an uuid.
    key: &'static str,
}

impl ClaimTable {
    /// A table of the schema `shared`, written with it.
    pub const fn shared(table: &'static str) -> Self {
        Self { table: Cow::Borrowed(table), key: "id" }
    }

    /// A table of a butler's schema.
    pub fn of(schema: &str, table: &str, key: &'static str) -> Self {
        Self { table: Cow::Owned(format!("\"{schema}\".{table}")), key }
    }

    /// Renews a claim for as long as it holds; returns once it does not.
    pub async fn hold(&self, db: &Database, claim: Claim) {
        let sql = format!(
            "UPDATE {} SET lease_until = clock_timestamp() + make_interval(secs => $3) WHERE {} = $1 AND claim_id = $2",
            self.table, self.key
        );
        loop {
            tokio::time::sleep(renew_every()).await;
            let renewed = async {
                let mut lease = db.every_tenant().await?;
                let done = lease.execute(&sql, &[&claim.row, &claim.id, &lease_seconds()]).await;
                done.map_err(StoreError::query("renewing a claim"))
            };
            match renewed.await {
                Ok(0) => return,
                Ok(_) => {}
                // While the database is away nobody else can take it either.
                Err(e) => tracing::debug!(error = %e, "a claim is not renewed yet"),
            }
        }
    }
}
