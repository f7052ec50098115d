//! The job `tidy`: deletes what is only kept for looking back, as `[retention]` says.

use jiff::Timestamp;

use base::TenantId;
use config::{Config, Retention};
use inbox::SWITCHBOARD;
use modules::OLD_EPISODES;
use store::{Aged, Database, StoreError, note_sizes, places_with};
use tools::undo::delete_changes_older_than;

use super::sql::OLD_ROUTES;

/// Where rows stand that belong to no butler.
const SHARED: &str = "shared";

/// Whose old rows a run deletes.
pub(super) struct Of<'a> {
    pub butler: &'a str,
    pub schema: &'a str,
    /// The owner's run deletes those of every tenant.
    pub tenant: &'a TenantId,
}

/// Deletes old rows in a butler's schema, and says what it did. The switchboard's run takes those with it that the
/// household has as a whole.
pub(super) async fn tidy(db: &Database, of: Of<'_>, config: &Config, now: Timestamp) -> Result<String, StoreError> {
    let Of { butler, schema, tenant } = of;
    let kept = &config.retention;
    let (transcripts, sessions) = (kept.transcripts.limit(now), kept.sessions.limit(now));
    // No transcript stays longer than its session.
    let events = delete(db, (schema, tenant), &[sessions::OLD_EVENTS], transcripts.max(sessions)).await?;
    let mut ended = 0;
    if let Some(before) = sessions {
        ended = sessions::delete_before(db, (schema, tenant), before, config.owner.time_zone.time_zone()).await?;
        sessions::delete_unused_prompts(db, schema, before).await?;
    }
    let calls = delete(db, (schema, tenant), &[tools::sql::calls::OLD], sessions).await?;
    let runs = delete(db, (schema, tenant), &[schedule::OLD_RUNS], kept.runs.limit(now)).await?;
    let old = kept.messages.limit(now);
    let mut messages = delete(db, (schema, tenant), OLD_ROUTES, old).await?;
    // Only a butler with a council has these.
    if places_with(&mut db.every_tenant().await?, OLD_EPISODES.table).await?.iter().any(|place| place.schema == schema)
    {
        messages += delete(db, (schema, tenant), &[OLD_EPISODES], kept.sessions.limit(now)).await?;
    }
    let files = delete(db, (schema, tenant), &[tools::sql::blobs::OLD], kept.attachments.limit(now)).await?;
    if butler == SWITCHBOARD {
        note_sizes(db, now).await?;
        messages += delete(db, (schema, tenant), inbox::OLD, old).await?;
        for tables in [inbox::OLD_SHARED, conversation::OLD, outbox::OLD] {
            messages += delete(db, (SHARED, tenant), tables, old).await?;
        }
    }
    let mut undo = delete(db, (schema, tenant), &[tools::sql::call_undos::OLD], kept.undo.limit(now)).await?;
    if let Retention::Days(days) = kept.undo {
        undo += delete_changes_older_than(db, (schema, tenant), days.into()).await?;
        if butler == SWITCHBOARD {
            undo += delete_changes_older_than(db, (SHARED, tenant), days.into()).await?;
        }
    }
    Ok(format!(
        "took away {events} lines of old transcripts, {ended} old sessions, {calls} old calls of tools, {runs} old runs of \
         schedules, {messages} rows of old messages, {files} old attachments and {undo} old rows kept for undo"
    ))
}

/// Deletes from each of these tables what is from before a moment; without one, nothing.
async fn delete(
    db: &Database,
    of: (&str, &TenantId),
    tables: &[Aged],
    before: Option<Timestamp>,
) -> Result<u64, StoreError> {
    let Some(before) = before else { return Ok(0) };
    let mut rows = 0;
    for table in tables {
        rows += table.delete(db, of, before).await?;
    }
    Ok(rows)
}
