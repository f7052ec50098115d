//! What nobody confirms fades, and is told apart from what is believed, until it is not recalled at all.

use std::fmt;

use async_trait::async_trait;

use memory::sql::upkeep::{self, Held};

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
    pub facts: upkeep::Faded,
    pub rules: upkeep::Faded,
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
        for tenant in every_tenant(call.db, &self.schema, call.tenant, Held::Believed).await? {
            for (kind, sum) in [(memory::Kind::Fact, &mut all.facts), (memory::Kind::Rule, &mut all.rules)] {
                sweep(call.db, &self.schema, &tenant, kind, sum).await?;
            }
        }
        Ok(all.to_string())
    }
}

async fn sweep(
    db: &Database,
    schema: &str,
    tenant: &TenantId,
    kind: memory::Kind,
    sum: &mut upkeep::Faded,
) -> Result<(), StoreError> {
    let mut after = 0_i64;
    loop {
        // A lease for each page, so that nobody waits for the whole sweep.
        let mut lease = db.shared(tenant).await?;
        let Some(page) = upkeep::fade(&mut lease, schema, kind, after, AT_ONCE).await? else { return Ok(()) };
        sum.checked += page.checked;
        sum.fading += page.fading;
        sum.expired += page.expired;
        sum.back += page.back;
        match page.last {
            Some(last) => after = last,
            None => return Ok(()),
        }
    }
}
