//! How long a claim holds, and how its end is written while the database is away.

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::OnceLock;
use std::time::Duration;

use super::table::Claim;
use crate::database::Database;
use crate::error::StoreError;
use base::Backoff;

/// How long a claim holds without being renewed, in seconds. `BUTLERD_LEASE_SECONDS` says otherwise to builds with debug
/// assertions, for tests.
pub fn lease_seconds() -> f64 {
    static SHORTENED: OnceLock<Option<f64>> = OnceLock::new();
    let wanted = || std::env::var("BUTLERD_LEASE_SECONDS").ok()?.parse().ok().filter(|_| cfg!(debug_assertions));
    SHORTENED.get_or_init(wanted).unwrap_or(30.0)
}

/// How often a claim is renewed.
pub fn renew_every() -> Duration {
    Duration::from_secs_f64(lease_seconds() / 3.0)
}

/// Writes how a claimed row ended, again and again while the database is away, about two minutes long. Not for ever: the
/// lease runs out, and whoever takes the row up then goes by what is on record. `None`: it was not written.
pub async fn settle<T, F>(what: &'static str, row: impl Display, mut write: impl FnMut() -> F) -> Option<T>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut wait = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
    for _ in 0..60 {
        match write().await {
            Ok(done) => return Some(done),
            Err(e) => tracing::warn!(%row, error = %e, "{what} is not settled yet"),
        }
        tokio::time::sleep(wait.next_delay()).await;
    }
    None
}

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
