//! The rows of schedules and of their runs, over all tenants: planning, claiming, settling.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use super::due::{Cause, Decision, Plan, due};
use super::timing::{Timing, TimingError};
use base::{TenantId, Trust, crash};
use config::{Missed, Overlap};
use store::{Claim, ClaimTable, Database, Lease, StoreError, Tx, lease_seconds};

/// So many runs of a schedule wait at most where runs queue.
const MOST_QUEUED: i64 = 10;
/// A run that no later time ends waits no longer than this for its butler to be idle.
const MOST_WAIT_SECONDS: f64 = 86_400.0;

/// The rows of one butler, as the owner role sees them.
#[derive(Clone)]
pub(super) struct Rows {
    pub db: std::sync::Arc<Database>,
    pub schema: String,
    /// Who claims here.
    pub node: String,
}

/// A schedule's row, as far as its times and its dispatch go.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub id: Uuid,
    pub tenant: String,
    pub name: String,
    pub prompt: Option<String>,
    pub job_name: Option<String>,
    pub job_args: Option<Value>,
    pub trust: Trust,
    pub priority: u8,
    pub require_idle: bool,
    pub overlap: Overlap,
    pub missed: Missed,
    pub window_s: i64,
    pub timing: Timing,
    pub next: Option<Timestamp>,
    pub decided_at: Option<Timestamp>,
}

/// The columns that [`Task::of`] reads, of a table named `t`.
pub(super) const TASK: &str = "t.id, t.tenant_id, t.name, t.prompt, t.job_name, t.job_args, t.trust, t.priority,
    t.require_idle, t.overlap, t.missed, t.missed_window_s, t.cron, t.every_ms, t.anchor_at, t.run_at, t.timezone,
    t.start_at, t.until_at, t.stagger_s, t.next_run_at, t.decided_at";
/// How many those are.
pub(super) const TASK_COLUMNS: usize = 22;

impl Task {
    pub fn of(row: &Row) -> Self {
        let name = |i: usize| row.get::<_, String>(i);
        Self {
            id: row.get(0),
            tenant: row.get(1),
            name: row.get(2),
            prompt: row.get(3),
            job_name: row.get(4),
            job_args: row.get(5),
            trust: Trust::from_name(row.get(6)),
            priority: u8::try_from(row.get::<_, i16>(7)).unwrap_or(3),
            require_idle: row.get(8),
            // The table allows no other names than these.
            overlap: name(9).parse().unwrap_or(Overlap::Skip),
            missed: name(10).parse().unwrap_or(Missed::RunOnce),
            window_s: row.get(11),
            timing: Timing {
                cron: row.get(12),
                every_ms: row.get(13),
                anchor_at: row.get(14),
                run_at: row.get(15),
                timezone: row.get(16),
                start_at: row.get(17),
                until_at: row.get(18),
                stagger_s: row.get(19),
            },
            next: row.get(20),
            decided_at: row.get(21),
        }
    }

    pub fn plan(&self) -> Result<Plan, TimingError> {
        Ok(Plan {
            times: self.timing.times()?,
            next: self.next,
            decided_at: self.decided_at,
            missed: self.missed,
            window: Duration::from_secs(u64::try_from(self.window_s).unwrap_or(0)),
        })
    }
}

/// A run that this claim holds.
#[derive(Debug)]
pub(super) struct Claimed {
    pub run: Uuid,
    pub claim: Uuid,
    pub fire_at: Timestamp,
    pub cause: String,
    pub attempts: i32,
    pub tenant: TenantId,
    pub trust: Trust,
    pub task: Task,
}

/// How a run ends.
#[derive(Debug, Clone)]
pub(super) struct Settlement<'a> {
    pub state: &'static str,
    pub reason: Option<&'a str>,
    pub session: Option<Uuid>,
}

fn failed(step: &'static str) -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query(step)
}
const PLANNING: &str = "writing what is due";
const CLAIMING: &str = "claiming a run of a schedule";

impl Rows {
    async fn lease(&self) -> Result<Lease, StoreError> {
        self.db.every_tenant().await
    }

    /// One planner and one claimer at a time: what the one has written, the next one sees.
    async fn alone(&self, tx: &mut Tx<'_>) -> Result<(), tokio_postgres::Error> {
        let name = format!("butlerd.schedules.{}", self.schema);
        tx.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", &[&name]).await?;
        Ok(())
    }

    /// Gives back what this node held when it ended, and ends what can't be begun again.
    pub async fn recover(&self, now: Timestamp) -> Result<u64, StoreError> {
        let mut lease = self.lease().await?;
        self.end_manual(&mut lease, now, "claimed_by = $2", &self.node).await?;
        let sql = format!(
            "UPDATE \"{}\".schedule_runs SET state = 'due', claim_id = NULL, claimed_by = NULL, lease_until = NULL
             WHERE state = 'running' AND claimed_by = $1",
            self.schema
        );
        lease.execute(&sql, &[&self.node]).await.map_err(failed("taking up runs of schedules"))
    }

    /// A run by hand was somebody's wish of that moment, who is told and may wish again.
    async fn end_manual(&self, lease: &mut Lease, now: Timestamp, which: &str, node: &str) -> Result<u64, StoreError> {
        let sql = format!(
            "UPDATE \"{}\".schedule_runs SET state = 'failed', claim_id = NULL, claimed_by = NULL, lease_until = NULL,
                    reason = 'butlerd stopped before this run was over', finished_at = $1
             WHERE state = 'running' AND cause = 'manual' AND {which} AND $2::text IS NOT NULL",
            self.schema
        );
        lease.execute(&sql, &[&now, &node]).await.map_err(failed("ending runs by hand"))
    }

    /// Decides on what has become due, schedule by schedule, and returns how many runs are due because of it.
    pub async fn plan(&self, now: Timestamp) -> Result<usize, StoreError> {
        let mut runs = 0;
        let mut lease = self.lease().await?;
        while let Some(n) = self.plan_one(&mut lease, now).await? {
            runs += n;
        }
        Ok(runs)
    }

    async fn plan_one(&self, lease: &mut Lease, now: Timestamp) -> Result<Option<usize>, StoreError> {
        let schema = &self.schema;
        let sql = format!(
            "SELECT {TASK} FROM \"{schema}\".scheduled_tasks t
             WHERE enabled AND paused_at IS NULL
               AND (next_run_at <= $1 OR decided_at > $1::timestamptz + interval '1 day')
             ORDER BY priority, next_run_at, id LIMIT 1 FOR UPDATE"
        );
        // Most looks find nothing, and need no transaction for that.
        let look = sql.replace(" FOR UPDATE", "");
        if lease.query_opt(&look, &[&now]).await.map_err(failed(PLANNING))?.is_none() {
            return Ok(None);
        }
        let mut tx = lease.begin().await.map_err(failed(PLANNING))?;
        self.alone(&mut tx).await.map_err(failed(PLANNING))?;
        let Some(row) = tx.query_opt(&sql, &[&now]).await.map_err(failed(PLANNING))? else {
            tx.rollback().await.map_err(failed(PLANNING))?;
            return Ok(None);
        };
        let task = Task::of(&row);
        let plan = match task.plan() {
            Ok(plan) => plan,
            Err(e) => {
                // One that can't be read must not keep the others from being due.
                tracing::error!(schedule = %task.name, error = %e, "schedule switched off");
                let why = json!({"ok": false, "error": format!("its time can't be read any more: {e}")});
                let sql =
                    format!("UPDATE \"{schema}\".scheduled_tasks SET enabled = false, last_result = $2 WHERE id = $1");
                tx.execute(&sql, &[&task.id, &why]).await.map_err(failed(PLANNING))?;
                tx.commit().await.map_err(failed(PLANNING))?;
                return Ok(Some(0));
            }
        };
        let due = due(now, &plan);
        let runs = self.write(&mut tx, &task, due.decisions, now).await.map_err(failed(PLANNING))?;
        let sql = format!(
            "UPDATE \"{schema}\".scheduled_tasks SET next_run_at = $2, decided_at = $3,
                    enabled = $2::timestamptz IS NOT NULL WHERE id = $1"
        );
        tx.execute(&sql, &[&task.id, &due.next, &now]).await.map_err(failed(PLANNING))?;
        crash::point("schedule.due");
        tx.commit().await.map_err(failed(PLANNING))?;
        Ok(Some(runs))
    }

    /// Writes the decisions, as far as earlier runs let new ones be. Returns how many runs are due.
    async fn write(
        &self,
        tx: &mut Tx<'_>,
        task: &Task,
        decisions: Vec<Decision>,
        now: Timestamp,
    ) -> Result<usize, tokio_postgres::Error> {
        let schema = &self.schema;
        let new = decisions.iter().any(|d| matches!(d, Decision::Run { .. }));
        if task.require_idle && new {
            let sql = format!(
                "UPDATE \"{schema}\".schedule_runs SET state = 'skipped', finished_at = $2,
                        reason = 'its butler was not idle before the next time came'
                 WHERE task_id = $1 AND state = 'due'"
            );
            tx.execute(&sql, &[&task.id, &now]).await?;
        }
        let sql = format!(
            "SELECT count(*) FILTER (WHERE state = 'running'), count(*) FILTER (WHERE state = 'due')
             FROM \"{schema}\".schedule_runs WHERE task_id = $1 AND state IN ('due', 'running')"
        );
        let open = tx.query(&sql, &[&task.id]).await?;
        let (running, mut waiting): (i64, i64) = open.first().map_or((0, 0), |r| (r.get(0), r.get(1)));
        let overlapped = match task.overlap {
            Overlap::Skip if running > 0 => Some("an earlier run was still at work"),
            Overlap::Skip if waiting > 0 => Some("an earlier run had not begun yet"),
            _ => None,
        };
        let mut runs = 0;
        for decision in decisions {
            let full = task.overlap == Overlap::Queue && waiting >= MOST_QUEUED;
            let decision = match (decision, overlapped) {
                (Decision::Run { fire_at, cause }, Some(why)) => Decision::single(fire_at, cause, why),
                (Decision::Run { fire_at, cause }, None) if full => {
                    Decision::single(fire_at, cause, &format!("{MOST_QUEUED} runs wait already"))
                }
                (decision, _) => decision,
            };
            let n = insert(tx, schema, task, &decision, now).await?;
            if matches!(decision, Decision::Run { .. }) && n > 0 {
                runs += 1;
                waiting += 1;
            }
        }
        Ok(runs)
    }

    /// Claims the first run that may begin: by its schedule's priority, then by its time. `idle`: whether the butler has
    /// no session now. `under_way`: runs that are worked on here, whatever their leases say.
    pub async fn claim(&self, now: Timestamp, idle: bool, under_way: &[Uuid]) -> Result<Option<Claimed>, StoreError> {
        let schema = &self.schema;
        let mut lease = self.lease().await?;
        let may = format!(
            "FROM \"{schema}\".schedule_runs r JOIN \"{schema}\".scheduled_tasks t ON t.id = r.task_id
             WHERE ((r.state = 'due' AND r.available_at <= clock_timestamp())
                    OR (r.state = 'running' AND r.lease_until < clock_timestamp()))
               AND r.id <> ALL($1) AND ($2 OR NOT t.require_idle)
               AND NOT EXISTS (SELECT 1 FROM \"{schema}\".schedule_runs o
                               WHERE o.task_id = r.task_id AND o.state = 'running' AND o.id <> r.id
                                 AND o.lease_until >= clock_timestamp())
             ORDER BY t.priority, r.fire_at, r.id LIMIT 1"
        );
        let look = format!("SELECT 1 {may}");
        if lease.query_opt(&look, &[&under_way, &idle]).await.map_err(failed(CLAIMING))?.is_none() {
            return Ok(None);
        }
        self.end_manual(&mut lease, now, "lease_until < clock_timestamp()", "").await?;
        let mut tx = lease.begin().await.map_err(failed(CLAIMING))?;
        self.alone(&mut tx).await.map_err(failed(CLAIMING))?;
        let sql = format!("SELECT {TASK}, r.id, r.fire_at, r.cause, r.attempts, r.trust {may} FOR UPDATE OF r, t");
        let Some(row) = tx.query_opt(&sql, &[&under_way, &idle]).await.map_err(failed(CLAIMING))? else {
            tx.rollback().await.map_err(failed(CLAIMING))?;
            return Ok(None);
        };
        let (task, claim) = (Task::of(&row), Uuid::now_v7());
        let run: Uuid = row.get(TASK_COLUMNS);
        let sql = format!(
            "UPDATE \"{schema}\".schedule_runs SET state = 'running', claim_id = $2, claimed_by = $3,
                    attempts = attempts + 1, started_at = coalesce(started_at, $5),
                    lease_until = clock_timestamp() + make_interval(secs => $4) WHERE id = $1"
        );
        tx.execute(&sql, &[&run, &claim, &self.node, &lease_seconds(), &now]).await.map_err(failed(CLAIMING))?;
        let sql = format!("UPDATE \"{schema}\".scheduled_tasks SET last_run_at = $2 WHERE id = $1");
        tx.execute(&sql, &[&task.id, &now]).await.map_err(failed(CLAIMING))?;
        tx.commit().await.map_err(failed(CLAIMING))?;
        Ok(Some(Claimed {
            run,
            claim,
            fire_at: row.get(TASK_COLUMNS + 1),
            cause: row.get(TASK_COLUMNS + 2),
            attempts: row.get::<_, i32>(TASK_COLUMNS + 3) + 1,
            tenant: TenantId::new(&task.tenant).unwrap_or_else(|_| TenantId::owner()),
            trust: Trust::from_name(row.get(TASK_COLUMNS + 4)).min(task.trust),
            task,
        }))
    }

    /// A run of this moment, claimed at once; `None`: there is no such schedule of this tenant.
    pub async fn claim_now(&self, now: Timestamp, tenant: &TenantId, id: Uuid) -> Result<Option<Claimed>, StoreError> {
        let schema = &self.schema;
        let mut lease = self.lease().await?;
        let sql = format!("SELECT {TASK} FROM \"{schema}\".scheduled_tasks t WHERE id = $1 AND tenant_id = $2");
        let row = lease.query_opt(&sql, &[&id, &tenant.as_str()]).await.map_err(failed(CLAIMING))?;
        let Some(task) = row.as_ref().map(Task::of) else { return Ok(None) };
        let (run, claim) = (Uuid::now_v7(), Uuid::now_v7());
        let sql = format!(
            "INSERT INTO \"{schema}\".schedule_runs
                 (id, task_id, tenant_id, fire_at, cause, state, trust, attempts, claim_id, claimed_by, lease_until,
                  created_at, started_at)
             VALUES ($1, $2, $3, $4, 'manual', 'running', $5, 1, $6, $7, clock_timestamp() + make_interval(secs => $8),
                     $9, $9)
             ON CONFLICT (task_id, fire_at) DO NOTHING"
        );
        // The moment is the run's name: two in one microsecond are told apart by one.
        for step in 0..100 {
            let fire_at = now.checked_add(jiff::SignedDuration::from_micros(step)).unwrap_or(now);
            let params: store::Params<'_> = &[
                &run,
                &id,
                &tenant.as_str(),
                &fire_at,
                &task.trust.as_str(),
                &claim,
                &self.node,
                &lease_seconds(),
                &now,
            ];
            if lease.execute(&sql, params).await.map_err(failed(CLAIMING))? == 1 {
                let sql = format!("UPDATE \"{schema}\".scheduled_tasks SET last_run_at = $2 WHERE id = $1");
                lease.execute(&sql, &[&id, &now]).await.map_err(failed(CLAIMING))?;
                let (trust, tenant, cause) = (task.trust, tenant.clone(), "manual".to_owned());
                return Ok(Some(Claimed { run, claim, fire_at, cause, attempts: 1, tenant, trust, task }));
            }
        }
        Ok(None)
    }

    /// Renews a claim for as long as it holds.
    pub async fn hold(&self, claimed: &Claimed) {
        let claim = Claim { row: claimed.run, id: claimed.claim };
        ClaimTable::of(&self.schema, "schedule_runs", "id").hold(&self.db, claim).await;
    }

    /// Notes which session works on the run.
    pub async fn began(&self, claimed: &Claimed, session: Uuid) -> Result<(), StoreError> {
        let sql =
            format!("UPDATE \"{}\".schedule_runs SET session_id = $3 WHERE id = $1 AND claim_id = $2", self.schema);
        let mut lease = self.lease().await?;
        lease.execute(&sql, &[&claimed.run, &claimed.claim, &session]).await.map_err(failed("noting a session"))?;
        Ok(())
    }

    /// Ends the run; `false`: somebody else holds it, and nothing was changed.
    pub async fn settle(&self, claimed: &Claimed, end: &Settlement<'_>, now: Timestamp) -> Result<bool, StoreError> {
        let schema = &self.schema;
        let step = "settling a run of a schedule";
        let result = json!({"ok": end.state == "done", "session_id": end.session, "error": end.reason.filter(|_| end.state != "done"),
                            "state": end.state});
        let mut lease = self.lease().await?;
        let mut tx = lease.begin().await.map_err(failed(step))?;
        let sql = format!(
            "UPDATE \"{schema}\".schedule_runs SET state = $3, reason = $4, session_id = coalesce($5, session_id),
                    finished_at = $6, claim_id = NULL, claimed_by = NULL, lease_until = NULL
             WHERE id = $1 AND claim_id = $2"
        );
        let params: store::Params<'_> = &[&claimed.run, &claimed.claim, &end.state, &end.reason, &end.session, &now];
        let n = tx.execute(&sql, params).await.map_err(failed(step))?;
        if n == 0 {
            tx.rollback().await.map_err(failed(step))?;
            return Ok(false);
        }
        let sql = format!("UPDATE \"{schema}\".scheduled_tasks SET last_result = $2 WHERE id = $1");
        tx.execute(&sql, &[&claimed.task.id, &result]).await.map_err(failed(step))?;
        tx.commit().await.map_err(failed(step))?;
        Ok(true)
    }

    /// Gives the run back, to be taken up after a while. `tried`: this try counts.
    pub async fn release(
        &self,
        claimed: &Claimed,
        after: Duration,
        tried: bool,
        why: Option<&str>,
    ) -> Result<(), StoreError> {
        let sql = format!(
            "UPDATE \"{}\".schedule_runs SET state = 'due', claim_id = NULL, claimed_by = NULL, lease_until = NULL,
                    available_at = clock_timestamp() + make_interval(secs => $3), attempts = attempts - $4,
                    reason = coalesce($5, reason)
             WHERE id = $1 AND claim_id = $2",
            self.schema
        );
        let mut lease = self.lease().await?;
        let params: store::Params<'_> = &[&claimed.run, &claimed.claim, &after.as_secs_f64(), &i32::from(!tried), &why];
        lease.execute(&sql, params).await.map_err(failed("giving a run back"))?;
        Ok(())
    }

    /// When the next schedule is due, and how soon a run that waits may be tried; and ends waits that nothing else ends.
    pub async fn outlook(&self, now: Timestamp) -> Result<(Option<Timestamp>, Option<Duration>), StoreError> {
        let schema = &self.schema;
        let sql = format!(
            "SELECT (SELECT min(next_run_at) FROM \"{schema}\".scheduled_tasks WHERE enabled AND paused_at IS NULL),
                    (SELECT extract(epoch FROM min(available_at) - clock_timestamp())::float8
                     FROM \"{schema}\".schedule_runs WHERE state = 'due')"
        );
        let mut lease = self.lease().await?;
        let rows = lease.query(&sql, &[]).await.map_err(failed("looking for the next schedule"))?;
        let Some(row) = rows.first() else { return Ok((None, None)) };
        let waiting = row.get::<_, Option<f64>>(1).map(|s| Duration::from_secs_f64(s.max(0.0)));
        if waiting.is_some() {
            let sql = format!(
                "UPDATE \"{schema}\".schedule_runs r SET state = 'skipped', finished_at = $1,
                        reason = 'its butler was not idle for a day'
                 FROM \"{schema}\".scheduled_tasks t
                 WHERE t.id = r.task_id AND r.state = 'due' AND t.require_idle AND t.next_run_at IS NULL
                   AND r.created_at < $1::timestamptz - make_interval(secs => $2)"
            );
            lease.execute(&sql, &[&now, &MOST_WAIT_SECONDS]).await.map_err(failed("ending long waits"))?;
        }
        Ok((row.get(0), waiting))
    }
}

impl Decision {
    /// One time that gets no run.
    fn single(fire_at: Timestamp, cause: Cause, reason: &str) -> Self {
        Decision::Skip { fire_at, until: None, count: 1, more: false, reason: reason.to_owned(), cause }
    }
}

/// Writes one decision; 0: its time has a row already.
async fn insert(
    tx: &mut Tx<'_>,
    schema: &str,
    task: &Task,
    decision: &Decision,
    now: Timestamp,
) -> Result<u64, tokio_postgres::Error> {
    let (fire_at, until, times, more, cause, reason) = match decision {
        Decision::Run { fire_at, cause } => (*fire_at, None, 1, false, cause.as_str(), None),
        Decision::Skip { fire_at, until, count, more, reason, cause } => {
            (*fire_at, *until, i32::try_from(*count).unwrap_or(i32::MAX), *more, cause.as_str(), Some(reason))
        }
    };
    let (state, finished) = if reason.is_some() { ("skipped", Some(now)) } else { ("due", None) };
    let sql = format!(
        "INSERT INTO \"{schema}\".schedule_runs
             (id, task_id, tenant_id, fire_at, until_at, times, more, cause, state, reason, trust, created_at, finished_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
         ON CONFLICT (task_id, fire_at) DO NOTHING"
    );
    let params: store::Params<'_> = &[
        &Uuid::now_v7(),
        &task.id,
        &task.tenant,
        &fire_at,
        &until,
        &times,
        &more,
        &cause,
        &state,
        &reason,
        &task.trust.as_str(),
        &now,
        &finished,
    ];
    tx.execute(&sql, params).await
}
