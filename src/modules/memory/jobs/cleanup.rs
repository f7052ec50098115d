//! Episodes are kept for a while, and not without number.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use uuid::Uuid;

use super::every_tenant;
use crate::{Job, JobCall, JobFailure};
use base::TenantId;
use memory::Memory;
use memory::sql::upkeep::{self, Cleaned as Taken, Held};
use store::{Database, StoreError};

/// So many go in one transaction, for which writers wait.
const AT_ONCE: i32 = 1000;

pub(super) struct Cleanup {
    pub memory: Arc<Memory>,
    /// So many episodes are kept.
    pub capacity: u32,
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
            None => self.capacity,
            Some(Some(n)) if n > 0 => n,
            Some(_) => {
                return Err(JobFailure::Failed("job_args.max_entries: a number from 1 on is expected".to_owned()));
            }
        };
        let mut all = Cleaned::default();
        for tenant in every_tenant(call.db, self.memory.store.schema(), call.tenant, Held::Episodes).await? {
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
        loop {
            let mut lease = db.shared(tenant).await?;
            let cleaned = upkeep::clean(&mut lease, self.memory.store.schema(), capacity, AT_ONCE).await?;
            drop(lease);
            let Some(Taken { expired, beyond, unlearned }) = cleaned else { return Ok(()) };
            let (few, many) = (expired.len() as u64, beyond.len() as u64);
            sum.expired += few;
            sum.beyond_capacity += many;
            sum.unlearned += u64::try_from(unlearned).unwrap_or(0);
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
