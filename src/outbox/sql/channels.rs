//! Which channels carry answers, and what waits for channels that are not there.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::channel::Channel;
use crate::handle::Outbox;
use base::TenantId;
use store::StoreError;

impl Outbox {
    /// Notes which channels carry answers, for those who answer, and lets go out what has waited for one of them. A
    /// channel that failed to start keeps its answers waiting: `configured` names it.
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
        let sql = "UPDATE shared.outbox o SET state = 'pending', reason = NULL, last_error = NULL,
                          available_at = clock_timestamp()
                   FROM unnest($1::text[], $2::bool[]) c(name, answers)
                   WHERE o.state = 'waiting' AND o.channel = c.name AND (c.answers OR o.intent = 'send')";
        let waited = lease.execute(sql, &[&names, &answers]).await.map_err(failed())?;
        if waited > 0 {
            tracing::info!(deliveries = waited, "what waited for a channel goes out");
        }
        let sql = "DELETE FROM shared.notices n WHERE n.kind = 'channel_missing' AND n.subject = ANY($1)
                   AND NOT EXISTS (SELECT FROM shared.outbox o WHERE o.state = 'waiting' AND o.channel = n.subject)";
        lease.execute(sql, &[&names]).await.map(drop).map_err(failed())
    }

    /// Looks how many deliveries wait for each channel that is not there.
    pub(crate) async fn count_waiting(&self) -> Result<(), StoreError> {
        let mut lease = self.db().every_tenant().await?;
        let sql = "SELECT channel, count(*) FROM shared.outbox WHERE state = 'waiting' GROUP BY channel";
        let rows = lease.read(sql, &[]).await.map_err(StoreError::query("counting what waits for a channel"))?;
        let count = |row: &Row| (row.get("channel"), u64::try_from(row.get::<_, i64>("count")).unwrap_or(0));
        self.set_waiting(rows.iter().map(count).collect::<BTreeMap<_, _>>());
        Ok(())
    }

    /// The other side took a delivery and gave it back later: nobody has it. Its butler and the owner hear of that as of
    /// any bad end. `false`: it is none that was sent there over this channel, or that is known.
    pub async fn returned(
        &self,
        tenant: &TenantId,
        (delivery, channel, target): (Uuid, &str, &str),
        why: &str,
    ) -> Result<bool, StoreError> {
        let sql = "UPDATE shared.outbox SET state = 'failed', reason = 'returned', last_error = $5, settled_at = $6,
                          followed_at = NULL, told_at = NULL
                   WHERE tenant_id = $1 AND id = $2 AND channel = $3 AND lower(target) = lower($4)
                     AND state IN ('sent', 'unknown')";
        let why = base::text::truncate(why, 1000);
        let now = self.clock().now();
        let mut lease = self.db().shared(tenant).await?;
        let params: store::Params<'_> = &[&tenant.as_str(), &delivery, &channel, &target, &why, &now];
        let returned = lease.execute(sql, params).await.map_err(StoreError::query("noting what came back"))?;
        if returned > 0 {
            self.wake();
            self.alarm();
        }
        Ok(returned > 0)
    }

    /// The program `by` that speaks for these endpoints of these channels (none: for each) has read the answers to a
    /// request, as far as `last`: so they arrived.
    pub async fn answers_were_read(
        &self,
        (tenant, request, last): (&TenantId, Uuid, i64),
        (channels, endpoints): (&[&str], &[&str]),
        by: &str,
    ) -> Result<(), StoreError> {
        let receipt = json!({"read_by": by});
        let sql =
            "UPDATE shared.outbox SET state = 'sent', reason = NULL, last_error = NULL, receipt = $6, settled_at = $7,
                          followed_at = $7
                   WHERE tenant_id = $1 AND request_id = $2 AND reply_seq <= $3 AND state = 'waiting'
                     AND channel = ANY($4) AND ($5::text[] = '{}' OR endpoint = ANY($5))";
        let now = self.clock().now();
        let mut lease = self.db().shared(tenant).await?;
        let params: store::Params<'_> = &[&tenant.as_str(), &request, &last, &channels, &endpoints, &receipt, &now];
        let read = lease.execute(sql, params).await.map_err(StoreError::query("noting that answers were read"))?;
        if read > 0 {
            self.conversation().wake();
            self.alarm();
        }
        Ok(())
    }
}
