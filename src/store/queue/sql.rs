//! A queue's table: the statements that claim, renew and give back, made of what differs from table to table.

use std::time::Duration;

use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::lease::lease_seconds;
use crate::database::Database;
use crate::error::StoreError;
use crate::pool::{Lease, Params, Tx};

/// What a row without a claim has.
const UNCLAIMED: &str = "claim_id = NULL, claimed_by = NULL, lease_until = NULL";

/// A queue's table, in SQL. The row to be claimed is called `n`, the claimed one `q`.
#[derive(Clone, Debug)]
pub struct QueueTable {
    /// With its schema.
    pub table: String,
    /// Its key, an uuid.
    pub key: &'static str,
    /// Which rows are this queue's and not at their end, waiting or in hand, by columns without a prefix.
    pub open: String,
    /// What a claim sets beside itself, such as `state = 'processing'`.
    pub take: Option<&'static str>,
    /// What takes that back, such as `state = 'accepted'`.
    pub give: Option<&'static str>,
    /// Who goes first, of `n`.
    pub order: String,
    /// `None`: a row is never put off, and its tries are not counted.
    pub retry: Option<RetryPolicy>,
    /// How many of the house's leases long a claim holds.
    pub leases: f64,
}

/// How often something is tried, and how long it waits in between.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    pub tries: i32,
    /// How long to wait after so many tries.
    pub pause: fn(i32) -> Duration,
    /// The column of the last error.
    pub error: &'static str,
}

/// A claim on one row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    pub row: Uuid,
    pub id: Uuid,
}

/// What else a row must be to be claimed: SQL that begins with `AND`, of `n`, whose parameters begin at `$6`. `$5` is
/// the number of rows asked for.
#[derive(Clone, Copy, Default)]
pub struct Also<'a> {
    pub sql: &'a str,
    pub params: Params<'a>,
}

/// What waits.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Outlook {
    /// How soon something is due that is not yet.
    pub next: Option<Duration>,
    /// How long the first of those that are due waits.
    pub oldest: Option<Duration>,
    /// How many those are, where that is known.
    pub waiting: Option<u64>,
}

/// What runs statements: a connection, or a transaction on one.
pub trait Statements: Send {
    /// Runs a statement and returns its rows.
    fn rows(&mut self, sql: &str, params: Params<'_>) -> impl Future<Output = Result<Vec<Row>, Error>> + Send;
}

impl Statements for Lease {
    async fn rows(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Error> {
        self.query(sql, params).await
    }
}

impl Statements for Tx<'_> {
    async fn rows(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Error> {
        self.query(sql, params).await
    }
}

/// `take` or `give`, before further columns.
fn first(set: Option<&str>) -> String {
    set.map(|set| format!("{set}, ")).unwrap_or_default()
}

fn seconds(column: Option<f64>) -> Option<Duration> {
    column.map(|s| Duration::from_secs_f64(s.clamp(0.0, 86_400.0)))
}

impl QueueTable {
    /// A table of rows that wait as `accepted`, are in hand as `processing`, and are tried again.
    pub fn accepted(table: String, key: &'static str, order: &str, retry: RetryPolicy) -> Self {
        Self {
            table,
            key,
            open: "state IN ('accepted', 'processing')".to_owned(),
            take: Some("state = 'processing'"),
            give: Some("state = 'accepted'"),
            order: order.to_owned(),
            retry: Some(retry),
            leases: 1.0,
        }
    }

    fn lease(&self) -> f64 {
        lease_seconds() * self.leases
    }

    /// Claims at most `most` rows that wait or whose lease is over, without those of `skip`, for `node` under the claim
    /// `id`. Returns the columns `returning` of `q`, in no order.
    pub async fn claim(
        &self,
        on: &mut impl Statements,
        (id, node): (Uuid, &str),
        (most, skip): (i64, &[Uuid]),
        also: Also<'_>,
        returning: &str,
    ) -> Result<Vec<Row>, Error> {
        let Self { table, key, open, order, .. } = self;
        let due = if self.retry.is_some() { " AND n.available_at <= clock_timestamp()" } else { "" };
        let take = first(self.take);
        let count = if self.retry.is_some() { "attempts = q.attempts + 1, " } else { "" };
        // An array is made once. A plan that made a subquery once for each row would lock more rows than were asked
        // for.
        let sql = format!(
            "UPDATE {table} q SET {take}{count}claim_id = $1, claimed_by = $2,
                    lease_until = clock_timestamp() + make_interval(secs => $3)
             WHERE q.{key} = ANY(ARRAY(SELECT n.{key} FROM {table} n
                                       WHERE ({open}) AND (n.claim_id IS NULL OR n.lease_until < clock_timestamp()){due}
                                         AND n.{key} <> ALL($4) {also}
                                       ORDER BY {order} LIMIT $5 FOR UPDATE OF n SKIP LOCKED))
             RETURNING {returning}",
            also = also.sql
        );
        let lease = self.lease();
        let own: Params<'_> = &[&id, &node, &lease, &skip, &most];
        on.rows(&sql, &[own, also.params].concat()).await
    }

    /// Renews a claim on these rows for as long as it holds one of them; returns once it does not.
    pub async fn hold(&self, db: &Database, claim: Uuid, rows: &[Uuid]) {
        let sql = format!(
            "UPDATE {} SET lease_until = clock_timestamp() + make_interval(secs => $3)
             WHERE {} = ANY($1) AND claim_id = $2",
            self.table, self.key
        );
        loop {
            tokio::time::sleep(Duration::from_secs_f64(self.lease() / 3.0)).await;
            match execute(db, "renewing a claim", &sql, &[&rows, &claim, &self.lease()]).await {
                Ok(0) => return,
                Ok(_) => {}
                // While the database is away nobody else can take it either.
                Err(e) => tracing::debug!(error = %e, "a claim could not be renewed; trying again"),
            }
        }
    }

    /// The statement that settles a row: `$1` is its key, `$2` the claim that must hold it, and `set` says how it ends,
    /// with parameters from `$3`. It touches no row once the claim is lost.
    pub fn settling(&self, set: &str) -> String {
        self.ending(set, "$1")
    }

    /// As [`QueueTable::settling`], for all the rows that the array `$1` names.
    pub fn settling_all(&self, set: &str) -> String {
        self.ending(set, "ANY($1)")
    }

    fn ending(&self, set: &str, rows: &str) -> String {
        let set = first(Some(set).filter(|set| !set.is_empty()));
        format!("UPDATE {} SET {set}{UNCLAIMED} WHERE {} = {rows} AND claim_id = $2", self.table, self.key)
    }

    /// Puts a row back for a later try, with the reason if there is one; this one is a try only if it `counts`.
    /// `false`: the claim does not hold it any more.
    pub async fn put_back(
        &self,
        db: &Database,
        claim: Claim,
        (after, counts): (Duration, bool),
        why: Option<&str>,
    ) -> Result<bool, StoreError> {
        const STEP: &str = "putting a row back";
        let give = self.give.unwrap_or_default();
        let Some(RetryPolicy { error, .. }) = self.retry else {
            return Ok(execute(db, STEP, &self.settling(give), &[&claim.row, &claim.id]).await? > 0);
        };
        let sql = self.settling(&format!(
            "{}available_at = clock_timestamp() + make_interval(secs => $3), attempts = attempts - $4,
             {error} = coalesce($5, {error})",
            first(self.give)
        ));
        let uncounted = i32::from(!counts);
        let params: Params<'_> = &[&claim.row, &claim.id, &after.as_secs_f64(), &uncounted, &why];
        Ok(execute(db, STEP, &sql, params).await? > 0)
    }

    /// Has those of these rows that wait for a later try come up at once. Returns how many.
    pub async fn hasten(&self, db: &Database, rows: &[Uuid]) -> Result<u64, StoreError> {
        if self.retry.is_none() {
            return Ok(0);
        }
        let sql = format!(
            "UPDATE {} SET available_at = clock_timestamp()
             WHERE {} = ANY($1) AND claim_id IS NULL AND available_at > clock_timestamp() AND ({})",
            self.table, self.key, self.open
        );
        execute(db, "having rows come up at once", &sql, &[&rows]).await
    }

    /// Gives back what this node holds and does not work on. `counts`: those tries may have been the node's own end,
    /// and stay counted. Returns how many.
    pub async fn give_back(&self, db: &Database, node: &str, skip: &[Uuid], counts: bool) -> Result<u64, StoreError> {
        let spent = if self.retry.is_some() && !counts { "attempts = attempts - 1, " } else { "" };
        let sql = format!(
            "UPDATE {} SET {}{spent}{UNCLAIMED} WHERE claimed_by = $1 AND {} <> ALL($2) AND ({})",
            self.table,
            first(self.give),
            self.key,
            self.open
        );
        execute(db, "giving back what was held", &sql, &[&node, &skip]).await
    }

    /// Gives back what nobody has renewed for so long after its lease was over, without those of `skip`.
    pub async fn give_back_lapsed(&self, db: &Database, grace: Duration, skip: &[Uuid]) -> Result<u64, StoreError> {
        let sql = format!(
            "UPDATE {} SET {}{UNCLAIMED}
             WHERE lease_until < clock_timestamp() - make_interval(secs => $1) AND {} <> ALL($2) AND ({})",
            self.table,
            first(self.give),
            self.key,
            self.open
        );
        execute(db, "giving back what nobody holds", &sql, &[&grace.as_secs_f64(), &skip]).await
    }

    /// What waits for its time, or for so long after its lease is over, and since when something waits whose time has
    /// come.
    pub async fn outlook(&self, db: &Database, grace: Duration) -> Result<Outlook, StoreError> {
        // Where rows are never put off, those without a claim were looked for when their writer rang.
        let time = if self.retry.is_some() { "available_at" } else { "NULL" };
        // What came due since the last claim, or was locked by another transaction then, is looked for again during its
        // first second: else it would wait for the longest sleep.
        let sql = format!(
            "SELECT extract(epoch FROM min(due) FILTER (WHERE due > clock_timestamp() - interval '1 s')
                                       - clock_timestamp())::float8,
                    extract(epoch FROM clock_timestamp() - min(due) FILTER (WHERE due <= clock_timestamp()))::float8,
                    count(*) FILTER (WHERE due <= clock_timestamp())
             FROM (SELECT coalesce(lease_until + make_interval(secs => $1), {time}) AS due
                   FROM {} WHERE ({})) open",
            self.table, self.open
        );
        let mut lease = db.every_tenant().await?;
        let rows = lease.query(&sql, &[&grace.as_secs_f64()]).await;
        let rows = rows.map_err(StoreError::query("looking for what is due next"))?;
        let Some(row) = rows.first() else { return Ok(Outlook::default()) };
        Ok(Outlook {
            next: seconds(row.get(0)).map(|next| next.max(JUST_DUE)),
            oldest: seconds(row.get(1)),
            waiting: self.retry.and_then(|_| u64::try_from(row.get::<_, i64>(2)).ok()),
        })
    }
}

/// The pause before another look at what came due a moment ago.
const JUST_DUE: Duration = Duration::from_millis(20);

async fn execute(db: &Database, step: &'static str, sql: &str, params: Params<'_>) -> Result<u64, StoreError> {
    let mut lease = db.every_tenant().await?;
    lease.execute(sql, params).await.map_err(StoreError::query(step))
}
