//! The statements on `butler_registry` and the log of what its rows were worth.

use jiff::Timestamp;

use crate::registry::ButlerRegistration;
use store::{Lease, StoreError, Tx};

/// What the log says of a butler whose registration was struck out.
pub const REMOVED: &str = "removed";

pub fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("keeping the butler registry")
}

/// Writes a butler's registration as of now.
pub async fn register(
    tx: &mut Tx<'_>,
    schema: &str,
    name: &str,
    a: &ButlerRegistration,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = format!(
        "INSERT INTO \"{schema}\".butler_registry (name, endpoint_url, description, modules, route_contract_min,
             route_contract_max, liveness_ttl_s, last_seen_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
         ON CONFLICT (name) DO UPDATE SET endpoint_url = $2, description = $3, modules = $4, route_contract_min = $5,
             route_contract_max = $6, liveness_ttl_s = $7, last_seen_at = $8"
    );
    let (min, max) = (a.route_contract_min, a.route_contract_max);
    let params: store::Params<'_> =
        &[&name, &a.endpoint_url, &a.description, &a.modules, &min, &max, &a.liveness_ttl_s, &now];
    tx.execute(&sql, params).await.map(drop).map_err(failed())
}

store::row! {
    /// A registration.
    pub struct RegistryRow {
        pub name: String,
        pub description: String,
        pub route_contract_min: i32,
        pub route_contract_max: i32,
        pub liveness_ttl_s: i32,
        pub last_seen_at: Timestamp,
        pub state: String,
        /// What the log says of it last.
        pub logged: Option<String>,
    }
}

/// All registrations, held until the end of the transaction.
pub async fn all(tx: &mut Tx<'_>, schema: &str) -> Result<Vec<RegistryRow>, StoreError> {
    let sql = format!(
        "SELECT name, description, route_contract_min, route_contract_max, liveness_ttl_s, last_seen_at, state,
                (SELECT l.to_state FROM \"{schema}\".butler_registry_eligibility_log l WHERE l.name = r.name
                 ORDER BY l.id DESC LIMIT 1) AS logged
         FROM \"{schema}\".butler_registry r FOR UPDATE"
    );
    Ok(tx.query(&sql, &[]).await.map_err(failed())?.iter().map(RegistryRow::from).collect())
}

/// A registration is worth something else from now on, which is logged.
pub async fn change(
    tx: &mut Tx<'_>,
    schema: &str,
    name: &str,
    (from, to): (Option<&str>, &str),
    reason: &str,
) -> Result<(), StoreError> {
    let sql = format!("UPDATE \"{schema}\".butler_registry SET state = $2 WHERE name = $1");
    tx.execute(&sql, &[&name, &to]).await.map_err(failed())?;
    let sql = format!(
        "INSERT INTO \"{schema}\".butler_registry_eligibility_log (name, from_state, to_state, reason)
         VALUES ($1, $2, $3, $4)"
    );
    tx.execute(&sql, &[&name, &from, &to, &reason]).await.map(drop).map_err(failed())
}

/// Strikes out a registration, which is logged.
pub async fn strike_out(lease: &mut Lease, schema: &str, name: &str) -> Result<(), StoreError> {
    let sql = format!(
        "WITH struck AS (DELETE FROM \"{schema}\".butler_registry WHERE name = $1 RETURNING name, state)
         INSERT INTO \"{schema}\".butler_registry_eligibility_log (name, from_state, to_state, reason)
         SELECT name, state, $2, 'removed from the roster' FROM struck"
    );
    lease.execute(&sql, &[&name, &REMOVED]).await.map(drop).map_err(failed())
}
