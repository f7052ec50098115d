//! The rules of all tenants, read when first needed and again when they change.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use super::rules::{Kind, Rule, Rules};
use crate::sql::rules::{self as sql, RuleRow};
use crate::types::Action;
use base::TenantId;
use store::{Lease, StoreError};

/// Rules that another process changed are seen after this long.
const FRESH: Duration = Duration::from_secs(30);

/// A tenant's rules, and when they were read.
type Read = (Instant, Arc<Rules>);

/// Cheap to clone.
#[derive(Clone, Default)]
pub struct RuleBook {
    read: Arc<RwLock<HashMap<TenantId, Read>>>,
}

impl RuleBook {
    /// The rules of a tenant, over a connection that speaks for it.
    pub async fn of(&self, lease: &mut Lease, tenant: &TenantId) -> Result<Arc<Rules>, StoreError> {
        if let Some((at, rules)) = self.read.read().unwrap_or_else(|e| e.into_inner()).get(tenant)
            && at.elapsed() < FRESH
        {
            return Ok(rules.clone());
        }
        let rules = Arc::new(Rules { list: list(lease).await? });
        let mut read = self.read.write().unwrap_or_else(|e| e.into_inner());
        read.insert(tenant.clone(), (Instant::now(), rules.clone()));
        Ok(rules)
    }

    /// The rules of this tenant have changed.
    pub fn forget(&self, tenant: &TenantId) {
        self.read.write().unwrap_or_else(|e| e.into_inner()).remove(tenant);
    }
}

/// The rules on record, in their order; those that this version can't read are left out.
pub(super) async fn list(lease: &mut Lease) -> Result<Vec<Rule>, StoreError> {
    Ok(sql::list(lease).await?.into_iter().filter_map(rule).collect())
}

fn rule(row: RuleRow) -> Option<Rule> {
    let RuleRow { id, position, kind, pattern, action, butler, enabled, note } = row;
    let (kind, action) = (Kind::from_name(&kind)?, serde_json::from_value::<Action>(action.into()).ok()?);
    Some(Rule { id, position, kind, pattern, action, butler, enabled, note })
}
