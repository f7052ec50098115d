//! What tools and people are shown of schedules and their runs.

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::Row;
use uuid::Uuid;

use super::task::TaskRow;
use crate::due::STANDS_FOR_IT;
use store::{AsRows, Lease, StoreError};
use tools::{ToolCall, ToolError};

/// Most rows that one answer holds.
const MOST: i64 = 500;

store::row! {
    /// A run as people see it. A schedule's last run has none of it where there was no run.
    #[derive(Serialize)]
    pub(crate) struct RunShown {
        pub run: Uuid,
        pub fire_at: Timestamp = |row| row.get("run_fire_at"),
        pub until: Option<Timestamp> = |row| row.get("run_until"),
        pub times: i32,
        pub more: bool,
        pub cause: String,
        pub state: String,
        pub reason: Option<String>,
        pub attempts: i32,
        pub session_id: Option<Uuid>,
        pub created_at: Timestamp = |row| row.get("run_created_at"),
        pub started_at: Option<Timestamp>,
        pub finished_at: Option<Timestamp>,
        pub cost_usd: Option<String>,
    }
}

/// How statements here look at what sessions cost, whose table belongs to a crate beside this one. Each makes a piece
/// of SQL of its owner's.
#[derive(Clone, Copy)]
pub struct SessionPieces {
    /// What the sessions of a run, which is SQL, cost together.
    pub cost_of_run: fn(&str) -> String,
    /// The sums of the sessions between two times, which are SQL, by what started them: rows of `source`, `sessions`,
    /// `unknown_cost`, `tokens` and `cost_usd`.
    pub sums_by_source: fn(&str, &str) -> String,
}

/// The columns of [`RunShown`], of `schedule_runs r`, told apart from those of its schedule.
fn run(pieces: &SessionPieces) -> String {
    format!(
        "r.id AS run, r.fire_at AS run_fire_at, r.until_at AS run_until, r.times, r.more, r.cause, r.state,
         coalesce(r.reason, r.waited) AS reason, r.attempts, r.session_id, r.created_at AS run_created_at, r.started_at, r.finished_at,
         {} AS cost_usd",
        (pieces.cost_of_run)("r.id")
    )
}

store::row! {
    /// What a schedule cost in a time.
    #[derive(Serialize)]
    pub(crate) struct TaskCosts {
        pub id: Uuid,
        pub name: String,
        pub enabled: bool,
        pub runs: i64,
        pub sessions: i64,
        pub sessions_of_unknown_cost: i64,
        pub tokens: i64 = |row| row.get::<_, Option<i64>>("tokens").unwrap_or(0),
        pub cost_usd: Option<String>,
    }
}

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("looking at schedules")
}

/// A tenant's schedules with their last runs; those named by an id, its beginning, or a name, if one is given.
pub(crate) async fn with_last_runs(
    lease: &mut Lease,
    pieces: &SessionPieces,
    key: Option<&str>,
) -> Result<Vec<(TaskRow, Option<RunShown>)>, StoreError> {
    let sql = format!(
        "SELECT t.*, {run} FROM scheduled_tasks t
         LEFT JOIN LATERAL (SELECT * FROM schedule_runs o WHERE o.task_id = t.id AND o.state <> 'due'
                            ORDER BY o.created_at DESC, o.fire_at DESC LIMIT 1) r ON true
         WHERE $1::text IS NULL OR t.name = $1 OR (length($1) >= 4 AND starts_with(t.id::text, lower($1)))
         ORDER BY t.name LIMIT $2",
        run = run(pieces)
    );
    let rows = lease.query(&sql, &[&key, &MOST]).await.map_err(failed())?;
    let last = |row: &Row| row.get::<_, Option<Uuid>>("run").map(|_| RunShown::from(row));
    Ok(rows.iter().map(|row| (TaskRow::from(row), last(row))).collect())
}

/// A tenant's runs at work, and those that wait, with the names and ids of their schedules.
pub(crate) async fn open_runs(
    lease: &mut Lease,
    pieces: &SessionPieces,
) -> Result<Vec<(String, Uuid, RunShown)>, StoreError> {
    let sql = format!(
        "SELECT t.name AS schedule, t.id AS task_id, {} FROM schedule_runs r JOIN scheduled_tasks t ON t.id = r.task_id
         WHERE r.state IN ('due', 'running') ORDER BY r.started_at, t.priority, r.fire_at LIMIT $1",
        run(pieces)
    );
    let rows = lease.query(&sql, &[&MOST]).await.map_err(failed())?;
    Ok(rows.iter().map(|row| (row.get("schedule"), row.get("task_id"), RunShown::from(row))).collect())
}

/// The newest runs of a schedule, the newest first; those that came before the run `before`, if it is named.
pub(crate) async fn runs_of(
    lease: &mut Lease,
    pieces: &SessionPieces,
    task: Uuid,
    before: Option<Uuid>,
    limit: u32,
) -> Result<Vec<RunShown>, StoreError> {
    let sql = format!(
        "SELECT {} FROM schedule_runs r WHERE r.task_id = $1
           AND ($3::uuid IS NULL OR (r.created_at, r.fire_at) < (SELECT b.created_at, b.fire_at FROM schedule_runs b
                                                                 WHERE b.task_id = $1 AND b.id = $3))
         ORDER BY r.created_at DESC, r.fire_at DESC LIMIT $2",
        run(pieces)
    );
    lease.query(&sql, &[&task, &i64::from(limit).min(MOST), &before]).await.typed().map_err(failed())
}

store::row! {
    /// A run as a calendar marks it.
    #[derive(Serialize)]
    pub(crate) struct RunMark {
        #[serde(skip)]
        pub task_id: Uuid,
        pub fire_at: Timestamp,
        pub until: Option<Timestamp> = |row| row.get("until_at"),
        pub times: i32,
        pub more: bool,
        pub cause: String,
        pub state: String,
        pub reason: Option<String>,
        pub session_id: Option<Uuid>,
    }
}

/// The runs of all of a tenant's schedules whose times are from one moment to another: of each the newest, at most `most`.
pub(crate) async fn marks(
    lease: &mut Lease,
    (from, to): (Timestamp, Timestamp),
    most: i64,
) -> Result<Vec<RunMark>, StoreError> {
    let sql = "SELECT t.id AS task_id, r.* FROM scheduled_tasks t CROSS JOIN LATERAL (
                   SELECT fire_at, until_at, times, more, cause, state, coalesce(reason, waited) AS reason, session_id
                   FROM schedule_runs o WHERE o.task_id = t.id AND o.fire_at >= $1 AND o.fire_at < $2
                   ORDER BY o.fire_at DESC LIMIT $3) r";
    lease.read(sql, &[&from, &to, &most]).await.typed().map_err(failed())
}

/// The ids of a tenant's schedules.
pub(crate) const IDS: &str = "SELECT id FROM scheduled_tasks WHERE tenant_id = $1";

/// What starts the sessions of a schedule, as their rows have it.
pub(crate) async fn source_of_sessions(lease: &mut Lease, task: Uuid) -> Result<Option<String>, StoreError> {
    let sql = "SELECT 'schedule:' || name AS source FROM scheduled_tasks WHERE id = $1";
    lease.read(sql, &[&task]).await.cell("source").map_err(failed())
}

store::row! {
    /// A run of a schedule, in the order of what happened.
    #[derive(Serialize)]
    pub(crate) struct TracedRun {
        pub schedule: String = |row| row.get("name"),
        pub task_id: Uuid,
        pub fire_at: Timestamp,
        pub state: String,
        pub reason: Option<String>,
        pub session_id: Option<Uuid>,
        pub begun_at: Timestamp = |row| row.get("created_at"),
        pub finished_at: Option<Timestamp>,
    }
}

/// The runs of a schedule, and those of these sessions, the newest first.
pub(crate) async fn traced(
    lease: &mut Lease,
    task: Uuid,
    sessions: &[Uuid],
    most: i64,
) -> Result<Vec<TracedRun>, StoreError> {
    let sql = "SELECT t.name, r.task_id, r.fire_at, r.state, coalesce(r.reason, r.waited) AS reason, r.session_id, r.created_at, r.finished_at
               FROM schedule_runs r JOIN scheduled_tasks t ON t.id = r.task_id
               WHERE r.task_id = $1 OR r.session_id = ANY($2) ORDER BY r.fire_at DESC LIMIT $3";
    lease.read(sql, &[&task, &sessions, &most]).await.typed().map_err(failed())
}

/// The schedules that a tool lists: not the house's own.
pub(crate) async fn listed(call: &ToolCall) -> Result<Vec<TaskRow>, ToolError> {
    call.query("SELECT * FROM scheduled_tasks WHERE source <> 'house' ORDER BY name", &[]).await.typed()
}

/// What the tenant's schedules cost from one time to another, the dearest first.
pub(crate) async fn costs(
    call: &ToolCall,
    pieces: &SessionPieces,
    (from, to): (Timestamp, Timestamp),
) -> Result<Vec<TaskCosts>, ToolError> {
    let sql = format!(
        "SELECT t.id, t.name, t.enabled AND t.paused_at IS NULL AS enabled,
                      (SELECT count(*) FROM schedule_runs r
                       WHERE r.task_id = t.id AND r.fire_at >= $1 AND r.fire_at < $2 AND r.state <> 'skipped') AS runs,
                      coalesce(s.sessions, 0) AS sessions, coalesce(s.unknown_cost, 0) AS sessions_of_unknown_cost,
                      s.tokens, s.cost_usd::text AS cost_usd
               FROM scheduled_tasks t LEFT JOIN {} s ON s.source = 'schedule:' || t.name
               ORDER BY s.cost_usd DESC NULLS LAST, t.name",
        (pieces.sums_by_source)("$1", "$2")
    );
    Ok(call.query(&sql, &[&from, &to]).await?.iter().map(TaskCosts::from).collect())
}

/// What owners are to be told of runs that failed or were left out, as rows of `tenant_id`, `kind`, `subject`,
/// `happened_at` and `told`. `since` is SQL.
pub fn notices(schema: &str, butler: &str, since: &str) -> String {
    format!(
        "SELECT r.tenant_id, CASE r.state WHEN 'failed' THEN 'schedule_failed' ELSE 'schedule_missed' END AS kind,
                r.task_id::text AS subject, r.fire_at AS happened_at, '{butler}: the schedule ' || t.name ||
                CASE r.state WHEN 'failed' THEN ' failed: ' ELSE ' was left out: ' END
                || coalesce(r.reason, 'no reason is on record') AS told
         FROM \"{schema}\".schedule_runs r JOIN \"{schema}\".scheduled_tasks t ON t.id = r.task_id
         WHERE r.finished_at > {since} AND CASE r.state
               -- Whoever runs one by hand is told at once; a pause, a run in the way of the next, or a time that another
               -- run makes up for, is as it should be.
               WHEN 'failed' THEN r.cause <> 'manual'
               WHEN 'skipped' THEN r.cause = 'missed' AND r.reason NOT LIKE '%{STANDS_FOR_IT}'
               ELSE false END"
    )
}
