//! Jobs that every butler has without a model: the house's own tidying.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio_postgres::types::ToSql;

use base::TenantId;
use store::{Database, StoreError};

/// A schedule that a butler has without anybody having declared it. Each butler has it at a time of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltInSchedule {
    pub name: String,
    /// In the owner's zone.
    pub cron: String,
    /// Under what names `butler.toml` may have the job, which then takes its place; the first is scheduled.
    pub job: &'static [&'static str],
    /// 1 goes before all else, 3 after it.
    pub priority: u8,
}

/// What every butler does by itself.
pub(super) fn of_every_butler() -> BuiltInSchedule {
    BuiltInSchedule { name: "house-tidy".to_owned(), cron: "0 4 * * *".to_owned(), job: &[TIDY], priority: 3 }
}

/// Takes away what is only kept for looking back: transcripts, the runs of schedules, and the rows before for `undo`.
const TIDY: &str = "tidy";

/// How long they are kept, if the job's arguments don't say otherwise.
const TRANSCRIPT_DAYS: i64 = 90;
const RUN_DAYS: i64 = 400;
const UNDO_DAYS: i64 = 90;
/// So many rows go in one statement, so that nobody waits for it.
const AT_ONCE: i64 = 5000;

/// What a built-in job works with.
pub struct JobContext<'a> {
    pub db: &'a Database,
    pub schema: &'a str,
    /// Whose rows; those of every tenant, if it is the owner's.
    pub tenant: &'a TenantId,
    pub args: Option<&'a Value>,
    pub now: Timestamp,
}

/// Whether there is a built-in job of this name.
pub fn is_built_in(name: &str) -> bool {
    name == TIDY
}

/// Runs a built-in job and says what it did. `Err(Ok(_))` is a sentence about its arguments.
pub async fn run_built_in(name: &str, cx: JobContext<'_>) -> Result<String, Result<String, StoreError>> {
    match name {
        TIDY => tidy(cx).await,
        other => Err(Ok(format!("there is no built-in job `{other}`"))),
    }
}

async fn tidy(cx: JobContext<'_>) -> Result<String, Result<String, StoreError>> {
    let days = |key: &str, default: i64| match cx.args.and_then(|a| a.get(key)) {
        None => Ok(default),
        Some(value) => value
            .as_i64()
            .filter(|d| (1..=36_500).contains(d))
            .ok_or_else(|| Ok(format!("job_args.{key}: a number of days from 1 to 36500 is expected, not {value}"))),
    };
    let before = |days: i64| cx.now.checked_sub(SignedDuration::from_hours(days * 24)).unwrap_or(Timestamp::MIN);
    let events = before(days("transcript_days", TRANSCRIPT_DAYS)?);
    let runs = before(days("run_days", RUN_DAYS)?);
    let schema = cx.schema;
    let old_events = format!(
        "DELETE FROM \"{schema}\".session_events WHERE ctid = ANY(ARRAY(
             SELECT ctid FROM \"{schema}\".session_events WHERE at < $1 AND ($2 = 'owner' OR tenant_id = $2) LIMIT $3))"
    );
    let old_runs = format!(
        "DELETE FROM \"{schema}\".schedule_runs WHERE ctid = ANY(ARRAY(
             SELECT ctid FROM \"{schema}\".schedule_runs
             WHERE finished_at < $1 AND ($2 = 'owner' OR tenant_id = $2) LIMIT $3))"
    );
    // They are stamped by the database, so they are counted by its clock. A call's rows go together.
    let undo = days("undo_days", UNDO_DAYS)?;
    let old_rows = format!(
        "DELETE FROM shared.row_changes c USING (
             SELECT tx_at, txid FROM shared.row_changes
             WHERE tx_at < transaction_timestamp() - make_interval(days => $1::bigint::int)
               AND schema = '{schema}' AND ($2 = 'owner' OR tenant_id = $2)
             GROUP BY tx_at, txid LIMIT $3) old
         WHERE c.tx_at = old.tx_at AND c.txid = old.txid AND c.schema = '{schema}'"
    );
    let gone = sweep(&cx, &old_events, &events).await.map_err(Err)?;
    let also = sweep(&cx, &old_runs, &runs).await.map_err(Err)?;
    let rows = sweep(&cx, &old_rows, &undo).await.map_err(Err)?;
    Ok(format!(
        "took away {gone} lines of old transcripts, {also} old runs of schedules and {rows} old rows kept for undo"
    ))
}

/// Takes away what `sql` says of `since`, a part at a time.
async fn sweep(cx: &JobContext<'_>, sql: &str, since: &(dyn ToSql + Sync)) -> Result<u64, StoreError> {
    let mut all = 0;
    loop {
        let mut lease = cx.db.every_tenant().await?;
        let n =
            lease.execute(sql, &[since, &cx.tenant.as_str(), &AT_ONCE]).await.map_err(StoreError::query("tidying"))?;
        all += n;
        if n < u64::try_from(AT_ONCE).unwrap_or(0) {
            return Ok(all);
        }
    }
}
