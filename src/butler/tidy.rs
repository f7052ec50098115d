//! The job `tidy`: deletes what is only kept for looking back.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use base::TenantId;
use store::{Database, StoreError};
use tools::undo::delete_changes_older_than;

/// How long transcripts, the runs of schedules, and the rows before for `undo` are kept, if the job's arguments don't say
/// otherwise.
const TRANSCRIPT_DAYS: i64 = 90;
const RUN_DAYS: i64 = 400;
const UNDO_DAYS: i64 = 90;
/// So many rows go in one statement, so that nobody waits for it.
const AT_ONCE: i64 = 5000;

/// Why nothing, or not everything, was deleted.
#[derive(Debug, thiserror::Error)]
pub enum TidyError {
    #[error("job_args.{key}: a number of days from 1 to 36500 is expected, not {found}")]
    Days { key: &'static str, found: Value },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Deletes the tenant's old rows, those of every tenant if it is the owner's, and says what it did.
pub(super) async fn tidy(
    db: &Database,
    of: (&str, &TenantId),
    args: Option<&Value>,
    now: Timestamp,
) -> Result<String, TidyError> {
    let days = |key: &'static str, default: i64| match args.and_then(|args| args.get(key)) {
        None => Ok(default),
        Some(found) => found
            .as_i64()
            .filter(|days| (1..=36_500).contains(days))
            .ok_or_else(|| TidyError::Days { key, found: found.clone() }),
    };
    let before = |days: i64| now.checked_sub(SignedDuration::from_hours(days * 24)).unwrap_or(Timestamp::MIN);
    let events = before(days("transcript_days", TRANSCRIPT_DAYS)?);
    let runs = before(days("run_days", RUN_DAYS)?);
    let undo = days("undo_days", UNDO_DAYS)?;
    let events = in_parts(|| sessions::delete_events_before(db, of, events, AT_ONCE)).await?;
    let runs = in_parts(|| schedule::delete_runs_before(db, of, runs, AT_ONCE)).await?;
    let rows = in_parts(|| delete_changes_older_than(db, of, undo, AT_ONCE)).await?;
    Ok(format!(
        "took away {events} lines of old transcripts, {runs} old runs of schedules and {rows} old rows kept for undo"
    ))
}

/// Deletes a part at a time, until a part is not full. Returns how many rows.
async fn in_parts<F>(mut delete: impl FnMut() -> F) -> Result<u64, StoreError>
where
    F: Future<Output = Result<u64, StoreError>>,
{
    let mut all = 0;
    loop {
        let n = delete().await?;
        all += n;
        if n < u64::try_from(AT_ONCE).unwrap_or(0) {
            return Ok(all);
        }
    }
}
