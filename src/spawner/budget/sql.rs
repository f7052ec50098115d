//! What session rows tell of money and tokens, over all butlers: those that are parked or gone as well.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rust_decimal::Decimal;

use super::sum::Sum;
use crate::base::{ButlerName, Money, TenantId};
use crate::store::{Database, Lease, StoreError};

/// All kinds of tokens of a row together.
const TOKENS: &str = "coalesce(input_tokens, 0) + coalesce(output_tokens, 0) + coalesce(cached_input_tokens, 0)
                      + coalesce(cache_creation_tokens, 0)";

/// The butlers that have session rows, each with its schema.
async fn schemas(lease: &mut Lease) -> Result<Vec<(ButlerName, String)>, StoreError> {
    let sql = "SELECT butler, schema FROM shared.butler_roles
               WHERE to_regclass(format('%I.sessions', schema)) IS NOT NULL ORDER BY butler";
    let rows = lease.read(sql, &[]).await.map_err(StoreError::query("listing the butlers' schemas"))?;
    Ok(rows.iter().filter_map(|r| Some((ButlerName::new(r.get::<_, &str>(0)).ok()?, r.get(1)))).collect())
}

/// What each butler's sessions used that got their slot between the two moments.
pub(super) async fn sums(
    db: &Database,
    tenant: &TenantId,
    from: Timestamp,
    until: Timestamp,
) -> Result<BTreeMap<ButlerName, Sum>, StoreError> {
    let mut lease = db.every_tenant().await?;
    let parts: Vec<String> = schemas(&mut lease)
        .await?
        .into_iter()
        .map(|(butler, schema)| {
            format!(
                "SELECT '{butler}', sum({TOKENS})::bigint, sum(cost_usd) FROM \"{schema}\".sessions
                 WHERE tenant_id = $1 AND started_at >= $2 AND started_at < $3"
            )
        })
        .collect();
    if parts.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows = lease
        .read(&parts.join(" UNION ALL "), &[&tenant.as_str(), &from, &until])
        .await
        .map_err(StoreError::query("adding up what sessions used"))?;
    let sum = |r: &tokio_postgres::Row| {
        let tokens = r.get::<_, Option<i64>>(1).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        let usd = r.get::<_, Option<Decimal>>(2).map(Money).unwrap_or_default();
        Some((ButlerName::new(r.get::<_, &str>(0)).ok()?, Sum { tokens, usd }))
    };
    Ok(rows.iter().filter_map(sum).collect())
}
