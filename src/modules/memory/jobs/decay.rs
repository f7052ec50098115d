//! What nobody confirms fades, and is told apart from what is believed, until it is not recalled at all.

use std::fmt;

use async_trait::async_trait;

use super::every_tenant;
use crate::{Job, JobCall, JobFailure};
use base::TenantId;
use store::{Database, StoreError};

/// So many rows are looked at in one transaction, for which writers wait.
const AT_ONCE: i32 = 2000;

pub(super) struct Decay {
    pub schema: String,
}

/// What one sweep saw and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faded {
    pub facts: Kind,
    pub rules: Kind,
}

/// Of one kind of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    pub checked: i64,
    /// So many are fading now.
    pub fading: i64,
    /// So many expired by this sweep.
    pub expired: i64,
    /// So many were fading and no longer are.
    pub back: i64,
}

impl fmt::Display for Faded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (facts, rules) = (self.facts, self.rules);
        write!(
            f,
            "facts_checked {}, rules_checked {}, facts_fading {}, rules_fading {}, facts_expired {}, rules_expired {}",
            facts.checked, rules.checked, facts.fading, rules.fading, facts.expired, rules.expired
        )?;
        match facts.back + rules.back {
            0 => Ok(()),
            n => write!(f, "; {n} no longer fading"),
        }
    }
}

#[async_trait]
impl Job for Decay {
    async fn run(&self, call: JobCall<'_>) -> Result<String, JobFailure> {
        let mut all = Faded::default();
        for tenant in every_tenant(call.db, &self.schema, call.tenant, &["memory_facts", "memory_rules"]).await? {
            for (kind, sum) in [("fact", &mut all.facts), ("rule", &mut all.rules)] {
                sweep(call.db, &self.schema, &tenant, kind, sum).await?;
            }
        }
        Ok(all.to_string())
    }
}

async fn sweep(db: &Database, schema: &str, tenant: &TenantId, kind: &str, sum: &mut Kind) -> Result<(), StoreError> {
    let sql = format!("SELECT last, checked, fading, expired, back FROM \"{schema}\".memory_fade($1, $2, $3)");
    let mut after = 0_i64;
    loop {
        // A lease for each page, so that nobody waits for the whole sweep.
        let mut lease = db.shared(tenant).await?;
        let row = lease
            .query_opt(&sql, &[&kind, &after, &AT_ONCE])
            .await
            .map_err(StoreError::query("letting memories fade"))?;
        let Some(row) = row else { return Ok(()) };
        sum.checked += row.get::<_, i64>(1);
        sum.fading += row.get::<_, i64>(2);
        sum.expired += row.get::<_, i64>(3);
        sum.back += row.get::<_, i64>(4);
        match row.get::<_, Option<i64>>(0) {
            Some(last) => after = last,
            None => return Ok(()),
        }
    }
}
