//! The episodes that wait for consolidation: claimed under a lease, settled or given back by the claim that holds them.

use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::JobCall;
use base::{TenantId, Trust};
use memory::Memory;
use store::{Also, Database, QueueTable, StoreError, Tx};

/// The queue, as metrics name it.
const QUEUE: &str = "consolidation";
/// After so many failed tries a person has to look.
pub(super) const TRIES: i32 = 5;
/// Between the first failure and the next try, in seconds; doubled each time.
const AGAIN_SECONDS: f64 = 60.0;

/// Which episodes nobody holds and whose time has come.
const DUE: &str = "available_at <= clock_timestamp() AND (lease_until IS NULL OR lease_until < clock_timestamp())";
/// How often episodes that are locked for a moment are looked for again, and how long after the last time.
const LOOKS: u32 = 40;
const NEXT_LOOK: Duration = Duration::from_millis(50);

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
    /// What is learned from it belongs there.
    pub scope: String,
}

/// What a claim came to.
#[derive(Default)]
pub(super) struct Claimed {
    pub episodes: Vec<Episode>,
    /// So many more there was room for, and another transaction had them locked at every look.
    pub passed_over: i64,
}

/// The episodes of one butler, of one tenant or of all, for one run.
pub(super) struct Episodes<'a> {
    db: &'a Database,
    butler: &'a str,
    tenant: &'a TenantId,
    node: &'a str,
    table: QueueTable,
    /// This run's claim, on all that it takes.
    pub claim: Uuid,
}

impl<'a> Episodes<'a> {
    pub fn of(call: &JobCall<'a>, memory: &'a Memory) -> Self {
        let table = QueueTable {
            table: format!("\"{}\".memory_episodes", memory.store.schema()),
            key: "id",
            open: "consolidation IN ('pending', 'failed')".to_owned(),
            take: None,
            give: None,
            order: "n.seq".to_owned(),
            // Of a claim many fail together, and none of those that no session was asked about.
            retry: None,
            // A session takes its time: 300 s.
            leases: 10.0,
        };
        let JobCall { db, tenant, node, .. } = *call;
        Self { db, butler: memory.butler.as_str(), tenant, node, table, claim: Uuid::now_v7() }
    }

    /// Counts episodes by what became of them.
    pub fn count(&self, outcome: &str, n: usize) {
        self.db.queue_metrics().of(self.butler, QUEUE).count_all(outcome, u64::try_from(n).unwrap_or(u64::MAX));
    }

    /// Gives back what a run on this node held when it broke off: one works at a time here.
    pub async fn recover(&self) -> Result<u64, StoreError> {
        self.table.give_back(self.db, self.node, &[], true).await
    }

    /// How many wait, those of a later time included.
    pub async fn waiting(&self) -> Result<i64, StoreError> {
        self.count_where("true").await
    }

    async fn count_where(&self, due: &str) -> Result<i64, StoreError> {
        let QueueTable { table, open, .. } = &self.table;
        let sql = format!(
            "SELECT count(*) AS waiting FROM {table}
             WHERE {open} AND forgotten_at IS NULL AND ($1 = 'owner' OR tenant_id = $1) AND {due}"
        );
        let mut lease = self.db.every_tenant().await?;
        let rows = lease.read(&sql, &[&self.tenant.as_str()]).await.map_err(StoreError::query("counting episodes"))?;
        Ok(rows.first().map_or(0, |row| row.get("waiting")))
    }

    /// Claims at most `most`, the oldest of each group before the second oldest of any.
    pub async fn claim(&self, most: u32) -> Result<Claimed, StoreError> {
        // A claim passes over what another transaction has locked, such as one that writes embeddings. The next run may
        // be a day away, so this one looks again.
        let mut claimed = Claimed::default();
        for look in 1..=LOOKS {
            let room = most.saturating_sub(u32::try_from(claimed.episodes.len()).unwrap_or(most));
            claimed.episodes.extend(self.claim_unlocked(room).await?);
            claimed.passed_over = match claimed.episodes.len() < most as usize {
                true => self.count_where(DUE).await?,
                false => 0,
            };
            if claimed.passed_over == 0 || look == LOOKS {
                break;
            }
            tokio::time::sleep(NEXT_LOOK).await;
        }
        Ok(claimed)
    }

    async fn claim_unlocked(&self, most: u32) -> Result<Vec<Episode>, StoreError> {
        let QueueTable { table, open, .. } = &self.table;
        let in_turn = format!(
            "AND n.forgotten_at IS NULL
             AND n.id IN (SELECT t.id FROM (
                     SELECT id, row_number() OVER (PARTITION BY tenant_id, trust = 'stranger', scope ORDER BY seq) AS turn
                     FROM {table}
                     WHERE {open} AND forgotten_at IS NULL AND ($6 = 'owner' OR tenant_id = $6) AND {DUE}) t
                 ORDER BY t.turn, t.id LIMIT $5)"
        );
        let in_turn = Also { sql: &in_turn, params: &[&self.tenant.as_str()] };
        let columns = "q.id, q.tenant_id, q.trust, q.attempts > 0 AS tried, q.speaker, q.content, q.occurred_at, q.seq,
                       q.session_id, q.scope";
        let (by, asked): (_, (i64, &[Uuid])) = ((self.claim, self.node), (i64::from(most), &[]));
        let mut lease = self.db.every_tenant().await?;
        let rows = self.table.claim(&mut lease, by, asked, in_turn, columns).await;
        let mut rows = rows.map_err(StoreError::query("claiming episodes"))?;
        rows.sort_by_key(|row| row.get::<_, i64>("seq"));
        self.count("claimed", rows.len());
        let episode = |row: &Row| {
            Some(Episode {
                id: row.get("id"),
                tenant: TenantId::new(row.get("tenant_id")).ok()?,
                trust: Trust::from_name(row.get("trust")),
                tried: row.get("tried"),
                session: row.get("session_id"),
                speaker: row.get("speaker"),
                content: row.get("content"),
                occurred_at: row.get("occurred_at"),
                scope: row.get("scope"),
            })
        };
        Ok(rows.iter().filter_map(episode).collect())
    }

    /// Renews the claim for as long as it holds one of these.
    pub async fn hold(&self, ids: &[Uuid]) {
        self.table.hold(self.db, self.claim, ids).await;
    }

    /// Gives back as they were those of these that the claim still holds; no try is counted. Returns how many wait
    /// again.
    pub async fn release(&self, ids: &[Uuid]) -> Result<i64, StoreError> {
        let sql = format!("{} RETURNING forgotten_at IS NULL AS waits", self.table.settling_all(""));
        let mut lease = self.db.every_tenant().await?;
        let rows = lease.query(&sql, &[&ids, &self.claim]).await.map_err(StoreError::query("giving episodes back"))?;
        self.count("put_back", rows.len());
        Ok(counted(&rows, "waits"))
    }

    /// A try with these has failed: they wait longer each time, and at last for a person. Returns how many are given
    /// up.
    pub async fn fail(&self, ids: &[Uuid], why: &str, now: Timestamp) -> Result<i64, StoreError> {
        let set = self.table.settling_all(
            "attempts = attempts + 1, last_error = left($3, 500),
             settled_at = CASE WHEN attempts + 1 >= $4 THEN $5::timestamptz END,
             consolidation = CASE WHEN attempts + 1 >= $4 THEN 'dead_letter' ELSE 'failed' END,
             available_at = clock_timestamp() + make_interval(secs => $6 * 2 ^ (attempts + 1))",
        );
        let sql = format!("{set} RETURNING consolidation = 'dead_letter' AS dead");
        let mut lease = self.db.every_tenant().await?;
        let params: store::Params<'_> = &[&ids, &self.claim, &why, &TRIES, &now, &AGAIN_SECONDS];
        let rows = lease.query(&sql, params).await.map_err(StoreError::query("noting that episodes failed"))?;
        let dead = counted(&rows, "dead");
        let given_up = usize::try_from(dead).unwrap_or(0);
        self.count("dead", given_up);
        self.count("retried", rows.len() - given_up);
        Ok(dead)
    }
}

/// Which of these episodes this claim still holds and nobody has forgotten. They stay so until the transaction ends.
pub(super) async fn claimed(tx: &mut Tx<'_>, claim: Uuid, ids: &[Uuid]) -> Result<HashSet<Uuid>, StoreError> {
    let rows = tx.query("SELECT memory_claimed($1, $2) AS id", &[&claim, &ids]).await;
    Ok(rows.map_err(StoreError::query("writing what was learned"))?.iter().map(|row| row.get("id")).collect())
}

/// Notes that these episodes, which the claim holds, were made into facts and rules.
pub(super) async fn consolidated(tx: &mut Tx<'_>, claim: Uuid, ids: &[Uuid]) -> Result<(), StoreError> {
    let done = tx.execute("SELECT memory_consolidated($1, $2)", &[&claim, &ids]).await;
    done.map(drop).map_err(StoreError::query("writing what was learned"))
}

/// In how many rows this column is true.
fn counted(rows: &[Row], column: &str) -> i64 {
    i64::try_from(rows.iter().filter(|row| row.get(column)).count()).unwrap_or(i64::MAX)
}
