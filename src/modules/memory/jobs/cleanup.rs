//! Episodes are kept for a while, and not without number.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use uuid::Uuid;

use super::super::Memory;
use super::every_tenant;
use crate::{Job, JobCall, JobFailure};
use base::TenantId;
use store::{Database, StoreError};

/// So many go in one transaction, for which writers wait.
const AT_ONCE: i32 = 1000;

pub(super) struct Cleanup {
    pub memory: Arc<Memory>,
}

/// What one cleaning took away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    pub expired: u64,
    pub beyond_capacity: u64,
    /// So many of them were never made into facts.
    pub unlearned: u64,
}

impl fmt::Display for Cleaned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "took away {} expired episodes and {} beyond what is kept", self.expired, self.beyond_capacity)?;
        match self.unlearned {
            0 => Ok(()),
            n => write!(f, "; {n} of them were never made into facts"),
        }
    }
}

#[async_trait]
impl Job for Cleanup {
    async fn run(&self, call: JobCall<'_>) -> Result<String, JobFailure> {
        let asked = call.args.and_then(|args| args.get("max_entries"));
        let capacity = match asked.map(|n| n.as_u64().and_then(|n| u32::try_from(n).ok())) {
            None => self.memory.settings.episodes.capacity,
            Some(Some(n)) if n > 0 => n,
            Some(_) => return Err(JobFailure::Told("job_args.max_entries: a number from 1 on is expected".to_owned())),
        };
        let mut all = Cleaned::default();
        for tenant in every_tenant(call.db, self.memory.store.schema(), call.tenant, &["memory_episodes"]).await? {
            self.clean(call.db, &tenant, capacity, &mut all).await?;
        }
        Ok(all.to_string())
    }
}

impl Cleanup {
    async fn clean(
        &self,
        db: &Database,
        tenant: &TenantId,
        capacity: u32,
        sum: &mut Cleaned,
    ) -> Result<(), StoreError> {
        let sql =
            format!("SELECT expired, beyond, unlearned FROM \"{}\".memory_clean($1, $2)", self.memory.store.schema());
        loop {
            let mut lease = db.shared(tenant).await?;
            let row = lease
                .query_opt(&sql, &[&i64::from(capacity), &AT_ONCE])
                .await
                .map_err(StoreError::query("taking old episodes away"))?;
            drop(lease);
            let Some(row) = row else { return Ok(()) };
            let (expired, beyond): (Vec<Uuid>, Vec<Uuid>) = (row.get(0), row.get(1));
            let (few, many) = (expired.len() as u64, beyond.len() as u64);
            sum.expired += few;
            sum.beyond_capacity += many;
            sum.unlearned += u64::try_from(row.get::<_, i64>(2)).unwrap_or(0);
            let ids: Vec<Uuid> = expired.into_iter().chain(beyond).collect();
            if !ids.is_empty() {
                self.memory.gone(tenant, &ids);
            }
            if few + many < u64::from(AT_ONCE.unsigned_abs()) {
                return Ok(());
            }
        }
    }
}
