//! A run of a sync: cards with people, cards with the address book, and cards with people again.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::error::BookError;
use super::source::{Outcome, Source};
use super::{sql, work};
use crate::background::{Background, TaskError};
use crate::notice::tell_owner;
use base::Backoff;
use dav::sync::{Options, Report, SyncError, sync};
use store::StoreError;

/// After a run that failed for the moment the next one comes at the latest after the interval, and not sooner than this.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// Of a report, so many sentences.
const MOST_SAID: usize = 20;

/// How a run is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// What changed.
    Incremental,
    /// Everything is listed anew.
    Full,
    /// As `Full`; a person said that most cards were deleted on purpose.
    BelieveDeletions,
}

/// One run of the sync, and what came of it in the row of the address book.
///
/// # Errors
/// If the rows can't be read or written.
pub(super) async fn run(source: &Source, mode: Mode) -> Result<Outcome, StoreError> {
    let _one = source.one.lock().await;
    let mut guard = source.lease().await?;
    let mut held = guard.begin().await.map_err(StoreError::query("beginning"))?;
    if !sql::try_hold(&mut held, source.id).await? {
        held.rollback().await.map_err(StoreError::query("rolling back"))?;
        return Ok(Outcome::Elsewhere);
    }
    let ran = synced(source, mode).await;
    // At once, so that whoever comes next finds it free.
    held.rollback().await.map_err(StoreError::query("rolling back"))?;
    let ran = match ran {
        Ok(ran) => ran,
        Err(SyncError::Remote(e)) => source.of_book(&e),
        Err(SyncError::Store(e)) => return Err(e),
        Err(e @ SyncError::Endless) => Outcome::Owner(e.to_string()),
    };
    let (state, error, report) = match &ran {
        Outcome::Done(report) => ("ok", None, Some(report)),
        Outcome::Later(why) => ("later", Some(why.as_str()), None),
        Outcome::Owner(why) => ("owner", Some(why.as_str()), None),
        Outcome::Elsewhere => return Ok(ran),
    };
    source.cx.live.note(error.map(|why| format!("{}: {why}", source.account)));
    if let Some(why) = error {
        tracing::warn!(account = source.account, why, "an address book can't be synced");
    }
    sql::ran(&mut source.lease().await?, source.id, (state, error), report).await?;
    Ok(ran)
}

async fn synced(source: &Source, mode: Mode) -> Result<Outcome, SyncError<BookError, StoreError>> {
    let book = source.open().await.map_err(SyncError::Remote)?;
    let writes = source.settings.writes() && !book.read_only();
    if mode != Mode::Incremental {
        let mut lease = source.lease().await.map_err(SyncError::Store)?;
        sql::set_cursor(&mut lease, source.id, None).await.map_err(SyncError::Store)?;
    }
    let options = Options { read_only: !writes, believe_mass_deletion: mode == Mode::BelieveDeletions };
    work::compare(source, writes).await.map_err(SyncError::Store)?;
    let mut all = sync(&book, source, options).await?;
    let mut more = work::compare(source, writes).await.map_err(SyncError::Store)?;
    // Who is in the address book is known only now.
    if writes && source.settings.add_people && all.held.is_none() {
        more += work::add_people(source).await.map_err(SyncError::Store)?;
    }
    if more > 0 && all.held.is_none() {
        join(&mut all, sync(&book, source, options).await?);
        work::compare(source, writes).await.map_err(SyncError::Store)?;
    }
    Ok(match all.held {
        Some(held) => Outcome::Owner(format!(
            "{} of {} cards are missing from the address book, and nothing was changed here. If they were deleted on purpose, \
             run: butlerd contacts sync --butler {} --believe-deletions",
            held.missing, held.known, source.butler
        )),
        None => Outcome::Done(shown(&all)),
    })
}

fn join(all: &mut Report, more: Report) {
    all.pulled += more.pulled;
    all.removed += more.removed;
    all.pushed += more.pushed;
    all.conflicts += more.conflicts;
    all.unreadable.extend(more.unreadable);
    // What is refused is told with each run.
    all.refused = more.refused;
    all.held = more.held;
}

fn shown(report: &Report) -> Value {
    let unreadable: Vec<String> =
        report.unreadable.iter().take(MOST_SAID).map(|(href, why)| format!("{href}: {why}")).collect();
    let refused: Vec<&String> = report.refused.iter().take(MOST_SAID).map(|(_, why)| why).collect();
    json!({"pulled": report.pulled, "removed": report.removed, "pushed": report.pushed, "conflicts": report.conflicts,
           "listed": report.listed, "unreadable": unreadable, "refused": refused})
}

#[async_trait]
impl Background for Source {
    async fn run(&self, stop: CancellationToken) -> Result<(), TaskError> {
        let interval = Duration::from_secs(u64::from(self.settings.sync.interval_minutes) * 60);
        let mut backoff = Backoff::new(FIRST_PAUSE.min(interval), interval);
        while !stop.is_cancelled() {
            // A run that is dropped halfway is what a kill leaves: the next one goes on.
            let ran = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                ran = run(self, Mode::Incremental) => ran.map_err(|e| TaskError(e.to_string()))?,
            };
            if let Outcome::Owner(why) = &ran {
                let text = format!("The address book of {} is not synced: {why}", self.account);
                tell_owner(&self.cx, &format!("contacts:{}", self.account), &text).await;
            }
            let pause = match ran {
                Outcome::Later(_) => backoff.next_delay(),
                _ => {
                    backoff = Backoff::new(FIRST_PAUSE.min(interval), interval);
                    interval
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
                () = self.wake.notified() => {}
            }
        }
        Ok(())
    }
}
