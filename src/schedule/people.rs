//! What people are shown of schedules, and how one is named on a command line.

use serde_json::{Value, json};
use uuid::Uuid;

use super::actor::Scheduler;
use super::show::{run, show};
use super::sql::{runs_of, with_last_runs};
use base::TenantId;
use store::StoreError;

impl Scheduler {
    /// The tenant's schedules with their last runs; those named by an id, its beginning, or a name, if one is given.
    pub async fn listed(&self, tenant: &TenantId, key: Option<&str>) -> Result<Vec<Value>, StoreError> {
        let mut lease = self.worker().store.tenant(tenant).await?;
        let butler = self.worker().butler.as_str();
        let shown = with_last_runs(&mut lease, key).await?.into_iter().map(|(task, last)| {
            let mut shown = show(&task);
            shown["butler"] = json!(butler);
            shown["last"] = json!(last.as_ref().map(run));
            shown
        });
        Ok(shown.collect())
    }

    /// The newest runs of a schedule, the newest first.
    pub async fn history(&self, tenant: &TenantId, id: Uuid, limit: u32) -> Result<Vec<Value>, StoreError> {
        let mut lease = self.worker().store.tenant(tenant).await?;
        Ok(runs_of(&mut lease, id, limit).await?.iter().map(run).collect())
    }
}
