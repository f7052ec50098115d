//! Which channels carry answers.

use std::sync::Arc;

use crate::channel::Channel;
use crate::handle::Outbox;
use base::TenantId;
use store::StoreError;

impl Outbox {
    /// Notes which channels carry answers, for those who answer. A channel that failed to start keeps its answers
    /// waiting: `configured` names it.
    pub(crate) async fn enlist(&self, channels: &[Arc<dyn Channel>], configured: &[String]) -> Result<(), StoreError> {
        let failed = || StoreError::query("noting the channels");
        let names: Vec<&str> = channels.iter().map(|c| c.name()).collect();
        let answers: Vec<bool> = channels.iter().map(|c| c.answers()).collect();
        let mut lease = self.db().every_tenant().await?;
        let sql = "DELETE FROM shared.channels WHERE name <> ALL($1) AND name <> ALL($2)";
        lease.execute(sql, &[&names, &configured]).await.map_err(failed())?;
        let sql = "INSERT INTO shared.channels (name, answers, tenant_id)
                   SELECT name, answers, $3 FROM unnest($1::text[], $2::bool[]) c(name, answers)
                   ON CONFLICT (name) DO UPDATE SET answers = excluded.answers";
        lease.execute(sql, &[&names, &answers, &TenantId::owner().as_str()]).await.map_err(failed())?;
        Ok(())
    }
}
