//! Which daemons work on this database. Claims have leases of their own; this is for what only its daemon can end: a
//! session's row, whose child lives with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::database::Database;
use super::error::StoreError;
use super::queue::lease_seconds;
use super::sql;
use base::TenantId;

/// So long a daemon counts as there without saying so again: twice as long as its claims hold.
fn lease() -> Duration {
    Duration::from_secs_f64(2.0 * lease_seconds())
}

/// This daemon, as the others on its database see it.
pub struct Presence {
    db: Arc<Database>,
    node: String,
    /// Since when it has said so without a break: whoever was cut off itself can't tell who else is gone.
    since: Option<(Instant, Instant)>,
}

impl Presence {
    /// Of the daemon that claims under this name; nothing is said yet.
    pub fn new(db: Arc<Database>, node: &str) -> Self {
        Self { db, node: node.to_owned(), since: None }
    }

    /// Says that this daemon is there. To be called as often as claims are renewed.
    pub async fn renew(&mut self) -> Result<(), StoreError> {
        let begun = Instant::now();
        let (first, last) = self.since.take().unwrap_or((begun, begun));
        let mut owner = self.db.every_tenant().await?;
        owner
            .execute(sql::RENEW_NODE, &[&self.node, &lease().as_secs_f64(), &TenantId::owner().as_str()])
            .await
            .map_err(StoreError::query("saying that this daemon is there"))?;
        let unbroken = begun.duration_since(last) < lease();
        self.since = Some((if unbroken { first } else { begun }, begun));
        Ok(())
    }

    /// Strikes out those that have not said for long that they are there. Returns them.
    pub async fn strike_out_gone(&self) -> Result<Vec<String>, StoreError> {
        if self.since.is_none_or(|(first, _)| first.elapsed() < lease()) {
            return Ok(Vec::new());
        }
        let mut owner = self.db.every_tenant().await?;
        let rows = owner
            .query(sql::STRIKE_OUT_NODES, &[&self.node])
            .await
            .map_err(StoreError::query("looking who is gone"))?;
        Ok(rows.iter().map(|row| row.get("name")).collect())
    }

    /// Says that this daemon ends. What it left open is nobody's from then.
    pub async fn leave(&self) -> Result<(), StoreError> {
        let mut owner = self.db.every_tenant().await?;
        owner
            .execute(sql::LEAVE_NODE, &[&self.node])
            .await
            .map(drop)
            .map_err(StoreError::query("saying that this daemon ends"))
    }
}
