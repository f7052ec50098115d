//! The rows of runs, over all tenants: claiming and settling.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use uuid::Uuid;

use super::task::TaskRow;
use crate::dispatch::{Ended, How, NOT_NOW};
use crate::idle::{BEGAN_ANYWAY, MOST_WAIT, WAITED, WAITS};
use access::Caller;
use base::{TenantId, Trust};
use store::{
    Also, Claim, Claimed, Database, Outlook, Params, QueueTable, RetryPolicy, Statements, StoreError, Tx, lease_seconds,
};

/// So many tries of a run, where those before did nothing; then it has failed.
pub(crate) const TRIES: i32 = 3;
/// How often it is looked whether a run that waits may begin.
const WAITING: Duration = Duration::from_millis(500);

/// The runs of one butler, as the owner role sees them.
pub(crate) struct RunRows {
    pub db: Arc<Database>,
    pub schema: String,
    /// Who claims here.
    pub node: String,
    /// The least time between two runs of a schedule.
    pub spacing: Duration,
    pub table: QueueTable,
}

/// A run in these hands.
#[derive(Debug)]
pub(crate) struct Run {
    pub fire_at: Timestamp,
    /// Somebody wished for it at that moment, and hears how it ended.
    pub manual: bool,
    pub trust: Trust,
    /// Somebody said that it is done.
    pub marked: bool,
    pub task: TaskRow,
    /// Who has it run by hand.
    pub caller: Option<Caller>,
}

store::row! {
    /// The first run that may begin.
    struct First {
        id: Uuid,
        task_id: Uuid,
        /// What its row is to say of its wait, if it needs its butler idle.
        waited: Option<String>,
    }
}

fn failed(step: &'static str) -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query(step)
}
const CLAIMING: &str = "claiming a run of a schedule";

impl RunRows {
    pub fn new(db: Arc<Database>, schema: &str, node: String, spacing: Duration) -> Self {
        let table = QueueTable {
            table: format!("\"{schema}\".schedule_runs"),
            key: "id",
            // Nobody takes up a run by hand that broke off.
            open: "(state = 'due' OR state = 'running' AND cause <> 'manual')".to_owned(),
            take: Some("state = 'running', started_at = coalesce(q.started_at, $6), waited = $8"),
            give: Some("state = 'due'"),
            order: "n.fire_at, n.id".to_owned(),
            // How long it waits, whoever dispatches it says.
            retry: Some(RetryPolicy { tries: TRIES, pause: |_| WAITING, error: "reason" }),
            leases: 1.0,
        };
        Self { db, schema: schema.to_owned(), node, spacing, table }
    }

    /// One planner and one claimer at a time: what the one has written, the next one sees.
    pub(super) async fn alone(&self, tx: &mut Tx<'_>) -> Result<(), tokio_postgres::Error> {
        let name = format!("butlerd.schedules.{}", self.schema);
        tx.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", &[&name]).await.map(drop)
    }

    /// Ends runs by hand that nobody works on any more: whoever wished for one is told, and may wish again. `own`: also
    /// those of an earlier run of this node.
    pub async fn end_manual(&self, now: Timestamp, own: bool, in_hand: &[Uuid]) -> Result<u64, StoreError> {
        let sql = format!(
            "UPDATE \"{}\".schedule_runs SET claim_id = NULL, state = CASE WHEN marked_at IS NULL THEN 'failed' ELSE 'done' END, claimed_by = NULL, lease_until = NULL,
                    reason = 'butlerd stopped before this run was over', finished_at = $1
             WHERE state = 'running' AND cause = 'manual' AND id <> ALL($2)
               AND (lease_until < clock_timestamp() OR ($3 AND claimed_by = $4))",
            self.schema
        );
        let mut lease = self.db.every_tenant().await?;
        lease.execute(&sql, &[&now, &in_hand, &own, &self.node]).await.map_err(failed("ending runs by hand"))
    }

    /// Claims the first run that may begin: by its schedule's priority, then by its time. `idle`: whether the butler
    /// is idle now. `in_hand`: runs that are worked on here, whatever their leases say.
    pub async fn claim(
        &self,
        now: Timestamp,
        idle: bool,
        in_hand: &[Uuid],
    ) -> Result<Option<Claimed<Run>>, StoreError> {
        let mut lease = self.db.every_tenant().await?;
        // Most looks find nothing, and need no transaction for that.
        if self.first(&mut lease, now, idle, in_hand).await.map_err(failed(CLAIMING))?.is_none() {
            return Ok(None);
        }
        let mut tx = lease.begin().await.map_err(failed(CLAIMING))?;
        let claimed = self.claim_first(&mut tx, now, idle, in_hand).await.map_err(failed(CLAIMING))?;
        match claimed {
            Some(_) => tx.commit().await.map_err(failed(CLAIMING))?,
            None => tx.rollback().await.map_err(failed(CLAIMING))?,
        }
        Ok(claimed)
    }

    /// The first run that may begin. Where a run of a prompt has begun, its butler is about to have a session.
    async fn first(
        &self,
        on: &mut impl Statements,
        now: Timestamp,
        idle: bool,
        in_hand: &[Uuid],
    ) -> Result<Option<First>, tokio_postgres::Error> {
        let schema = &self.schema;
        let sql = format!(
            "SELECT r.id, r.task_id,
                    CASE WHEN NOT t.require_idle THEN NULL WHEN NOT b.idle THEN $5::text WHEN r.waited IS NOT NULL THEN $6 END
                    AS waited
             FROM \"{schema}\".schedule_runs r JOIN \"{schema}\".scheduled_tasks t ON t.id = r.task_id
             CROSS JOIN (SELECT $2 AND NOT EXISTS (
                             SELECT 1 FROM \"{schema}\".schedule_runs p JOIN \"{schema}\".scheduled_tasks s ON s.id = p.task_id
                             WHERE p.state = 'running' AND p.lease_until >= clock_timestamp() AND s.prompt IS NOT NULL)
                         AS idle) b
             WHERE ((r.state = 'due' AND r.available_at <= clock_timestamp())
                    OR (r.state = 'running' AND r.cause <> 'manual' AND r.lease_until < clock_timestamp()))
               AND r.id <> ALL($1)
               AND (b.idle OR NOT t.require_idle OR r.created_at <= $3::timestamptz - make_interval(secs => $4))
               AND NOT EXISTS (SELECT 1 FROM \"{schema}\".schedule_runs o
                               WHERE o.task_id = r.task_id AND o.state = 'running' AND o.id <> r.id
                                 AND o.lease_until >= clock_timestamp())
             ORDER BY t.priority, r.fire_at, r.id LIMIT 1"
        );
        let params: Params<'_> = &[&in_hand, &idle, &now, &MOST_WAIT.as_secs_f64(), &BEGAN_ANYWAY, &WAITED];
        Ok(on.rows(&sql, params).await?.first().map(First::from))
    }

    /// Locks the schedule before the run, as everybody does who has both.
    async fn claim_first(
        &self,
        tx: &mut Tx<'_>,
        now: Timestamp,
        idle: bool,
        in_hand: &[Uuid],
    ) -> Result<Option<Claimed<Run>>, tokio_postgres::Error> {
        self.alone(tx).await?;
        let Some(First { id: run, task_id: task, waited }) = self.first(tx, now, idle, in_hand).await? else {
            return Ok(None);
        };
        let sql = format!("UPDATE \"{}\".scheduled_tasks SET last_run_at = $2 WHERE id = $1 RETURNING *", self.schema);
        let Some(task) = tx.query_opt(&sql, &[&task, &now]).await?.as_ref().map(TaskRow::from) else {
            return Ok(None);
        };
        let id = Uuid::now_v7();
        let this = Also { sql: "AND n.id = $7", params: &[&now, &run, &waited] };
        let columns = "q.fire_at, q.cause, q.attempts, q.trust, q.marked_at IS NOT NULL AS marked";
        let rows = self.table.claim(tx, (id, &self.node), (1, in_hand), this, columns).await?;
        Ok(rows.first().map(|row| Claimed {
            claim: Claim { row: run, id },
            attempts: row.get("attempts"),
            row: Run {
                fire_at: row.get("fire_at"),
                manual: row.get::<_, &str>("cause") == "manual",
                trust: Trust::from_name(row.get("trust")).min(task.trust()),
                marked: row.get("marked"),
                task,
                caller: None,
            },
        }))
    }

    /// A run of this moment, claimed at once; `None`: there is no such schedule of this tenant.
    pub async fn claim_now(
        &self,
        now: Timestamp,
        (tenant, task): (&TenantId, Uuid),
        caller: Caller,
    ) -> Result<Option<Claimed<Run>>, StoreError> {
        let schema = &self.schema;
        let mut lease = self.db.every_tenant().await?;
        let mut tx = lease.begin().await.map_err(failed(CLAIMING))?;
        let sql = format!(
            "UPDATE \"{schema}\".scheduled_tasks SET last_run_at = $3 WHERE id = $1 AND tenant_id = $2 RETURNING *"
        );
        let row = tx.query_opt(&sql, &[&task, &tenant.as_str(), &now]).await.map_err(failed(CLAIMING))?;
        let Some(task) = row.as_ref().map(TaskRow::from) else {
            tx.rollback().await.map_err(failed(CLAIMING))?;
            return Ok(None);
        };
        let claim = Claim { row: Uuid::now_v7(), id: Uuid::now_v7() };
        let sql = format!(
            "INSERT INTO \"{schema}\".schedule_runs
                 (id, task_id, tenant_id, trust, fire_at, cause, state, attempts, claim_id, claimed_by, lease_until,
                  created_at, started_at)
             VALUES ($1, $2, $3, $4, $5, 'manual', 'running', 1, $6, $7, clock_timestamp() + make_interval(secs => $8),
                     $9, $9)
             ON CONFLICT (task_id, fire_at) DO NOTHING"
        );
        let (mut fire_at, lease_s) = (now, lease_seconds());
        // The moment is the run's name: two in one microsecond are told apart by one. The lock on the schedule keeps
        // others out meanwhile.
        loop {
            let own: Params<'_> = &[&claim.row, &task.id, &task.tenant_id, &task.trust];
            let claimed: Params<'_> = &[&fire_at, &claim.id, &self.node, &lease_s, &now];
            if tx.execute(&sql, &[own, claimed].concat()).await.map_err(failed(CLAIMING))? == 1 {
                break;
            }
            fire_at += SignedDuration::from_micros(1);
        }
        tx.commit().await.map_err(failed(CLAIMING))?;
        let run = Run { fire_at, manual: true, trust: task.trust(), marked: false, task, caller: Some(caller) };
        Ok(Some(Claimed { claim, attempts: 1, row: run }))
    }

    /// Notes which session works on the run.
    pub async fn began(&self, claim: Claim, session: Uuid) -> Result<(), StoreError> {
        let sql =
            format!("UPDATE \"{}\".schedule_runs SET session_id = $3 WHERE id = $1 AND claim_id = $2", self.schema);
        let mut lease = self.db.every_tenant().await?;
        lease.execute(&sql, &[&claim.row, &claim.id, &session]).await.map(drop).map_err(failed("noting a session"))
    }

    /// Ends the run; `false`: somebody else holds it, and nothing was changed.
    pub async fn settle(&self, claim: Claim, ended: &Ended, now: Timestamp) -> Result<bool, StoreError> {
        let session = ended.session.map(|s| s.0);
        let (state, reason) = match &ended.how {
            How::Done(note) => ("done", note.as_deref()),
            How::Failed(why) | How::Wait { why, .. } => ("failed", Some(why.as_str())),
            // Whoever asked for it is told that it was not begun.
            How::Later(_) => ("failed", Some(NOT_NOW)),
        };
        let ok = state == "done";
        let result = json!({"ok": ok, "session_id": session, "error": reason.filter(|_| !ok), "state": state});
        let marked = json!({"ok": true, "session_id": session, "error": null, "state": "done"});
        // The schedule is locked before the run here too.
        let schema = &self.schema;
        let sql = format!(
            "WITH s AS MATERIALIZED (
                 SELECT id FROM \"{schema}\".scheduled_tasks
                 WHERE id = (SELECT task_id FROM \"{schema}\".schedule_runs WHERE id = $1) FOR NO KEY UPDATE),
             r AS ({} AND EXISTS (SELECT FROM s) RETURNING task_id, marked_at)
             UPDATE \"{schema}\".scheduled_tasks t SET last_result = CASE WHEN r.marked_at IS NULL THEN $7::jsonb ELSE $8::jsonb END
             FROM r WHERE t.id = r.task_id",
            self.table.settling(
                "state = CASE WHEN marked_at IS NULL THEN $3 ELSE 'done' END,
                 reason = nullif(concat_ws('; ', CASE WHEN marked_at IS NOT NULL THEN 'marked as done' END, $4::text, waited), ''),
                 session_id = coalesce($5, session_id), finished_at = $6"
            )
        );
        let mut lease = self.db.every_tenant().await?;
        let params: Params<'_> = &[&claim.row, &claim.id, &state, &reason, &session, &now, &result, &marked];
        Ok(lease.execute(&sql, params).await.map_err(failed("settling a run of a schedule"))? > 0)
    }

    /// When the next schedule is due, a run that waits may be tried or the lease of one is over; and notes which runs
    /// wait for their butler.
    pub async fn outlook(&self, now: Timestamp, idle: bool) -> Result<Outlook, StoreError> {
        let schema = &self.schema;
        let sql = format!(
            "SELECT (SELECT min(next_run_at) FROM \"{schema}\".scheduled_tasks WHERE enabled AND paused_at IS NULL) AS next,
                    (SELECT extract(epoch FROM min(available_at) - clock_timestamp())::float8
                     FROM \"{schema}\".schedule_runs WHERE state = 'due') AS waits,
                    (SELECT extract(epoch FROM min(lease_until) - clock_timestamp())::float8 FROM \"{schema}\".schedule_runs
                     WHERE state = 'running' AND lease_until > clock_timestamp() - interval '1 s') AS lapses,
                    (SELECT count(*) FROM \"{schema}\".schedule_runs
                     WHERE state = 'due' AND available_at <= clock_timestamp()) AS waiting"
        );
        let mut lease = self.db.every_tenant().await?;
        let row = lease.query_opt(&sql, &[]).await.map_err(failed("looking for the next schedule"))?;
        let Some(row) = row else { return Ok(Outlook::default()) };
        let waits: Option<f64> = row.get("waits");
        if waits.is_some() && !idle {
            let sql = format!(
                "UPDATE \"{schema}\".schedule_runs r SET waited = $1 FROM \"{schema}\".scheduled_tasks t
                 WHERE t.id = r.task_id AND r.state = 'due' AND t.require_idle AND r.waited IS NULL"
            );
            lease.execute(&sql, &[&WAITS]).await.map_err(failed("noting what waits for an idle butler"))?;
        }
        let then = row.get::<_, Option<Timestamp>>("next");
        let due = then.map(|then| Duration::try_from(then.duration_since(now)).unwrap_or_default());
        let seconds = |s: f64| Duration::from_secs_f64(s.clamp(0.0, 86_400.0));
        let tried = waits.into_iter().chain(row.get::<_, Option<f64>>("lapses")).map(|s| seconds(s).max(WAITING));
        Ok(Outlook {
            next: due.into_iter().chain(tried).min(),
            oldest: waits.map(|s| seconds(-s)),
            waiting: u64::try_from(row.get::<_, i64>("waiting")).ok(),
        })
    }
}
