//! The episodes that wait for consolidation: claimed under a lease, settled or given back by the claim that holds them.

use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use base::{TenantId, Trust};
use store::{Database, StoreError, lease_seconds};

/// A lease of ten of the house's, because a session takes its time: 300 s.
fn hold_seconds() -> f64 {
    lease_seconds() * 10.0
}

/// After so many failed tries a person has to look.
pub(super) const TRIES: i32 = 5;
/// Between the first failure and the next try, in seconds; doubled each time.
const AGAIN_SECONDS: f64 = 60.0;

/// An episode that this run holds.
#[derive(Clone, Debug)]
pub(super) struct Episode {
    pub id: Uuid,
    pub tenant: TenantId,
    pub trust: Trust,
    /// Whether a try with it has failed before.
    pub tried: bool,
    /// Of the session or conversation that it is of.
    pub session: Option<Uuid>,
    pub speaker: Option<String>,
    pub content: String,
    pub occurred_at: Timestamp,
}

/// The rows of one butler, of one tenant or of all.
pub(super) struct Queue<'a> {
    pub db: &'a Database,
    pub schema: &'a str,
    pub tenant: &'a TenantId,
    pub node: &'a str,
    /// This run's claim.
    pub claim: Uuid,
}

/// Which rows wait, of the table `e`; `$1` is the tenant.
const WAITS: &str = "e.consolidation IN ('pending', 'failed') AND e.forgotten_at IS NULL
    AND ($1 = 'owner' OR e.tenant_id = $1)";

fn failed(step: &'static str) -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query(step)
}

impl Queue<'_> {
    fn table(&self) -> String {
        format!("\"{}\".memory_episodes", self.schema)
    }

    /// Gives back what a run on this node held when it broke off: one works at a time here.
    pub async fn recover(&self) -> Result<u64, StoreError> {
        let sql = format!(
            "UPDATE {} SET claim_id = NULL, claimed_by = NULL, lease_until = NULL
             WHERE claimed_by = $1 AND consolidation IN ('pending', 'failed')",
            self.table()
        );
        let mut lease = self.db.every_tenant().await?;
        lease.execute(&sql, &[&self.node]).await.map_err(failed("giving episodes back"))
    }

    /// How many wait, those of a later time included.
    pub async fn waiting(&self) -> Result<i64, StoreError> {
        let sql = format!("SELECT count(*) FROM {} e WHERE {WAITS}", self.table());
        let mut lease = self.db.every_tenant().await?;
        let rows = lease.read(&sql, &[&self.tenant.as_str()]).await.map_err(failed("counting episodes"))?;
        Ok(rows.first().map_or(0, |row| row.get(0)))
    }

    /// Claims at most `most`, the oldest of each group before the second oldest of any.
    pub async fn claim(&self, most: u32) -> Result<Vec<Episode>, StoreError> {
        let table = self.table();
        let sql = format!(
            "WITH turn AS (
                 SELECT e.id, row_number() OVER (PARTITION BY e.tenant_id, e.trust = 'stranger' ORDER BY e.seq) AS n
                 FROM {table} e
                 WHERE {WAITS} AND e.available_at <= clock_timestamp()
                   AND (e.lease_until IS NULL OR e.lease_until < clock_timestamp())),
             mine AS (
                 SELECT e.id FROM {table} e
                 WHERE e.id IN (SELECT t.id FROM turn t ORDER BY t.n, t.id LIMIT $2)
                   AND (e.lease_until IS NULL OR e.lease_until < clock_timestamp())
                   AND e.consolidation IN ('pending', 'failed') AND e.forgotten_at IS NULL
                 FOR UPDATE SKIP LOCKED)
             UPDATE {table} e SET claim_id = $3, claimed_by = $4,
                    lease_until = clock_timestamp() + make_interval(secs => $5)
             FROM mine WHERE e.id = mine.id
             RETURNING e.id, e.tenant_id, e.trust, e.attempts > 0, e.speaker, e.content, e.occurred_at, e.seq, e.session_id"
        );
        let mut lease = self.db.every_tenant().await?;
        let params: store::Params<'_> =
            &[&self.tenant.as_str(), &i64::from(most), &self.claim, &self.node, &hold_seconds()];
        let mut rows = lease.query(&sql, params).await.map_err(failed("claiming episodes"))?;
        rows.sort_by_key(|row| row.get::<_, i64>(7));
        let episode = |row: &Row| {
            Some(Episode {
                id: row.get(0),
                tenant: TenantId::new(row.get(1)).ok()?,
                trust: Trust::from_name(row.get(2)),
                tried: row.get(3),
                session: row.get(8),
                speaker: row.get(4),
                content: row.get(5),
                occurred_at: row.get(6),
            })
        };
        Ok(rows.iter().filter_map(episode).collect())
    }

    /// Renews the claim, for as long as it is waited for.
    pub async fn hold(&self) -> std::convert::Infallible {
        let sql = format!(
            "UPDATE {} SET lease_until = clock_timestamp() + make_interval(secs => $2) WHERE claim_id = $1",
            self.table()
        );
        loop {
            tokio::time::sleep(Duration::from_secs_f64(hold_seconds() / 3.0)).await;
            let renewed = async {
                let mut lease = self.db.every_tenant().await?;
                lease.execute(&sql, &[&self.claim, &hold_seconds()]).await.map_err(failed("renewing a claim"))
            };
            if let Err(e) = renewed.await {
                // While the database is away nobody else can take them either.
                tracing::debug!(error = %e, "a claim on episodes is not renewed yet");
            }
        }
    }

    /// Gives back as they were those of these that the claim still holds; no try is counted. Returns how many wait again.
    pub async fn release(&self, ids: &[Uuid]) -> Result<i64, StoreError> {
        let sql = format!(
            "WITH back AS (
                 UPDATE {} SET claim_id = NULL, claimed_by = NULL, lease_until = NULL
                 WHERE claim_id = $1 AND id = ANY($2) RETURNING forgotten_at)
             SELECT count(*) FROM back WHERE forgotten_at IS NULL",
            self.table()
        );
        let mut lease = self.db.every_tenant().await?;
        let rows = lease.query(&sql, &[&self.claim, &ids]).await.map_err(failed("giving episodes back"))?;
        Ok(rows.first().map_or(0, |row| row.get(0)))
    }

    /// A try with these has failed: they wait longer each time, and at last for a person. Returns how many are given up.
    pub async fn fail(&self, ids: &[Uuid], why: &str, now: Timestamp) -> Result<i64, StoreError> {
        let sql = format!(
            "WITH tried AS (
                 UPDATE {} SET claim_id = NULL, claimed_by = NULL, lease_until = NULL, attempts = attempts + 1,
                        last_error = left($3, 500), settled_at = CASE WHEN attempts + 1 >= $4 THEN $5::timestamptz END,
                        consolidation = CASE WHEN attempts + 1 >= $4 THEN 'dead_letter' ELSE 'failed' END,
                        available_at = clock_timestamp() + make_interval(secs => $6 * 2 ^ (attempts + 1))
                 WHERE claim_id = $1 AND id = ANY($2)
                 RETURNING consolidation)
             SELECT count(*) FROM tried WHERE consolidation = 'dead_letter'",
            self.table()
        );
        let mut lease = self.db.every_tenant().await?;
        let params: store::Params<'_> = &[&self.claim, &ids, &why, &TRIES, &now, &AGAIN_SECONDS];
        let rows = lease.query(&sql, params).await.map_err(failed("noting that episodes failed"))?;
        Ok(rows.first().map_or(0, |row| row.get(0)))
    }
}
