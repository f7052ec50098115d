//! Planning: what has become due gets its rows, and its schedule moves on, in one transaction.

use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::runs::RunRows;
use super::task::TaskRow;
use crate::due::{Cause, Decision, due};
use crate::idle::MOST_WAIT;
use base::crash;
use config::Overlap;
use store::{Lease, StoreError, Tx};

/// So many runs of a schedule wait at most where runs queue.
const MOST_QUEUED: i64 = 10;

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("writing what is due")
}

impl RunRows {
    /// Decides on what has become due, schedule by schedule, and returns how many runs are due because of it.
    pub async fn plan(&self, now: Timestamp) -> Result<usize, StoreError> {
        let mut runs = 0;
        let mut lease = self.db.every_tenant().await?;
        while let Some(n) = self.plan_one(&mut lease, now).await? {
            runs += n;
        }
        Ok(runs)
    }

    async fn plan_one(&self, lease: &mut Lease, now: Timestamp) -> Result<Option<usize>, StoreError> {
        let first = format!(
            "SELECT * FROM \"{}\".scheduled_tasks
             WHERE enabled AND paused_at IS NULL
               AND (next_run_at <= $1 OR decided_at > $1::timestamptz + interval '1 day')
             ORDER BY priority, next_run_at, id LIMIT 1",
            self.schema
        );
        // Most looks find nothing, and need no transaction for that.
        if lease.query_opt(&first, &[&now]).await.map_err(failed())?.is_none() {
            return Ok(None);
        }
        let mut tx = lease.begin().await.map_err(failed())?;
        self.alone(&mut tx).await.map_err(failed())?;
        let Some(row) = tx.query_opt(&format!("{first} FOR UPDATE"), &[&now]).await.map_err(failed())? else {
            tx.rollback().await.map_err(failed())?;
            return Ok(None);
        };
        let runs = self.decide(&mut tx, &TaskRow::from(&row), now).await.map_err(failed())?;
        crash::point("schedule.due");
        tx.commit().await.map_err(failed())?;
        Ok(Some(runs))
    }

    /// Decides on one schedule. Returns how many runs are due.
    async fn decide(&self, tx: &mut Tx<'_>, task: &TaskRow, now: Timestamp) -> Result<usize, tokio_postgres::Error> {
        let schema = &self.schema;
        let plan = match task.plan(self.spacing) {
            Ok(plan) => plan,
            Err(e) => {
                // One that can't be read must not keep the others from being due.
                tracing::error!(schedule = %task.name, error = %e, "schedule switched off");
                let why = json!({"ok": false, "error": format!("its time can't be read any more: {e}")});
                let sql =
                    format!("UPDATE \"{schema}\".scheduled_tasks SET enabled = false, last_result = $2 WHERE id = $1");
                tx.execute(&sql, &[&task.id, &why]).await?;
                return Ok(0);
            }
        };
        let due = due(now, &plan);
        let runs = self.write(tx, task, due.decisions, now).await?;
        let sql = format!(
            "UPDATE \"{schema}\".scheduled_tasks SET next_run_at = $2, decided_at = $3,
                    enabled = $2::timestamptz IS NOT NULL WHERE id = $1"
        );
        tx.execute(&sql, &[&task.id, &due.next, &now]).await?;
        Ok(runs)
    }

    /// Writes the decisions, as far as earlier runs let new ones be. Returns how many runs are due.
    async fn write(
        &self,
        tx: &mut Tx<'_>,
        task: &TaskRow,
        decisions: Vec<Decision>,
        now: Timestamp,
    ) -> Result<usize, tokio_postgres::Error> {
        let schema = &self.schema;
        let new: Vec<Timestamp> = decisions.iter().filter_map(Decision::runs_at).collect();
        // One that has waited its longest begins as soon as it can, and this time is left out for it. A time that is decided
        // once more, because the clock was set, is not left out for itself.
        if task.require_idle && !new.is_empty() {
            let sql = format!(
                "UPDATE \"{schema}\".schedule_runs SET state = 'skipped', finished_at = $2,
                        reason = 'its butler was not idle before the next time came'
                 WHERE task_id = $1 AND state = 'due' AND created_at > $2::timestamptz - make_interval(secs => $3)
                   AND fire_at <> ALL($4)"
            );
            tx.execute(&sql, &[&task.id, &now, &MOST_WAIT.as_secs_f64(), &new]).await?;
        }
        let sql = format!(
            "SELECT count(*) FILTER (WHERE state = 'running') AS running, count(*) FILTER (WHERE state = 'due') AS due
             FROM \"{schema}\".schedule_runs WHERE task_id = $1 AND state IN ('due', 'running')"
        );
        let open = tx.query_opt(&sql, &[&task.id]).await?;
        let (running, mut waiting): (i64, i64) = open.map_or((0, 0), |row| (row.get("running"), row.get("due")));
        let overlap = task.overlap();
        let overlapped = match overlap {
            Overlap::Skip if running > 0 => Some("an earlier run was still at work"),
            Overlap::Skip if waiting > 0 => Some("an earlier run had not begun yet"),
            _ => None,
        };
        let insert = RunRow::insert_into(&format!("\"{schema}\"."));
        let mut runs = 0;
        for decision in decisions {
            let full = overlap == Overlap::Queue && waiting >= MOST_QUEUED;
            let decision = match (decision, overlapped) {
                (Decision::Run { fire_at, cause }, Some(why)) => Decision::single(fire_at, cause, why),
                (Decision::Run { fire_at, cause }, None) if full => {
                    Decision::single(fire_at, cause, &format!("{MOST_QUEUED} runs wait already"))
                }
                (decision, _) => decision,
            };
            let n = tx.execute(&insert, &RunRow::of(task, &decision, now).params()).await?;
            if matches!(decision, Decision::Run { .. }) && n > 0 {
                runs += 1;
                waiting += 1;
            }
        }
        Ok(runs)
    }
}

impl Decision {
    /// The time that gets a run.
    fn runs_at(&self) -> Option<Timestamp> {
        match self {
            Self::Run { fire_at, .. } => Some(*fire_at),
            Self::Skip { .. } => None,
        }
    }

    /// One time that gets no run.
    fn single(fire_at: Timestamp, cause: Cause, reason: &str) -> Self {
        Decision::Skip { fire_at, until: None, count: 1, more: false, reason: reason.to_owned(), cause }
    }
}

/// A decision as a row of `schedule_runs`.
pub(super) struct RunRow<'a> {
    id: Uuid,
    task: &'a TaskRow,
    fire_at: Timestamp,
    until: Option<Timestamp>,
    times: i32,
    more: bool,
    cause: &'static str,
    state: &'static str,
    reason: Option<&'a str>,
    now: Timestamp,
    finished: Option<Timestamp>,
}

impl<'a> RunRow<'a> {
    pub fn of(task: &'a TaskRow, decision: &'a Decision, now: Timestamp) -> Self {
        let (fire_at, until, times, more, cause, reason) = match decision {
            Decision::Run { fire_at, cause } => (*fire_at, None, 1, false, cause, None),
            Decision::Skip { fire_at, until, count, more, reason, cause } => {
                (*fire_at, *until, i32::try_from(*count).unwrap_or(i32::MAX), *more, cause, Some(reason.as_str()))
            }
        };
        let (state, finished) = if reason.is_some() { ("skipped", Some(now)) } else { ("due", None) };
        let (id, cause) = (Uuid::now_v7(), cause.as_str());
        Self { id, task, fire_at, until, times, more, cause, state, reason, now, finished }
    }

    /// Writes one; none where its time has a row already. `schema`: empty, or with its dot.
    pub fn insert_into(schema: &str) -> String {
        format!(
            "INSERT INTO {schema}schedule_runs
                 (id, task_id, tenant_id, trust, fire_at, until_at, times, more, cause, state, reason, created_at,
                  finished_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
             ON CONFLICT (task_id, fire_at) DO NOTHING"
        )
    }

    pub fn params(&self) -> [&(dyn tokio_postgres::types::ToSql + Sync); 13] {
        [
            &self.id,
            &self.task.id,
            &self.task.tenant_id,
            &self.task.trust,
            &self.fire_at,
            &self.until,
            &self.times,
            &self.more,
            &self.cause,
            &self.state,
            &self.reason,
            &self.now,
            &self.finished,
        ]
    }
}
