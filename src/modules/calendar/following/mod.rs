//! Calendars that follow a provider: a loop that looks at rows, and syncs what is due.
//!
//! The household's own changes are rows before anybody else hears of them: a trigger marks each in the transaction that
//! makes it. Of all butlers and daemons that name a calendar one syncs it, under a claim; after a kill at any instant the
//! next claim begins with what the rows say.

mod rows;
pub(super) mod sql;
mod trust;

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::book::Book;
use super::provider::{CalendarProvider, ProviderError, choose};
use crate::background::{Background, TaskError};
use crate::contract::ModuleContext;
use crate::notice::tell_owner;
use base::{ButlerName, TenantId, crash};
use dav::sync::{Options, Report};
pub(super) use rows::Rows;
use sql::{Claimed, Claimer, Settled};
use store::{Lease, StoreError, lease_seconds, renew_every};
use trust::Writers;

/// Rows are looked at this often, for what other daemons' butlers changed.
const LOOK: Duration = Duration::from_secs(10);
/// After a fault that passes; doubled up to the longest.
const FIRST_PAUSE: f64 = 5.0;
const LONGEST_PAUSE: f64 = 900.0;
/// A fault that only the owner can mend is looked at this often.
const LOOK_AGAIN: f64 = 300.0;

/// This process among those that ever claimed under the daemon's name.
fn run() -> Uuid {
    static RUN: OnceLock<Uuid> = OnceLock::new();
    *RUN.get_or_init(Uuid::now_v7)
}

/// The background task of one butler's calendars.
pub(super) struct CalendarSync {
    book: Arc<Book>,
    provider: Arc<dyn CalendarProvider>,
    cx: ModuleContext,
    own_addresses: Vec<String>,
    /// Seconds from one sync to the next.
    every: f64,
    /// Rings when the butler changed something.
    nudge: Arc<Notify>,
}

/// What a sync came to, for its row.
struct Outcome {
    synced: bool,
    error: Option<String>,
    failures: i32,
    seconds: f64,
    /// Nobody but the owner can mend it.
    owners: bool,
}

impl CalendarSync {
    pub fn new(
        book: &Arc<Book>,
        provider: Arc<dyn CalendarProvider>,
        cx: &ModuleContext,
        (own_addresses, every): (Vec<String>, Duration),
    ) -> Self {
        let nudge = book.nudge.clone();
        Self { book: book.clone(), provider, cx: cx.clone(), own_addresses, every: every.as_secs_f64(), nudge }
    }

    async fn lease(&self) -> Result<Lease, StoreError> {
        self.book.house().shared(&TenantId::owner()).await
    }

    /// Syncs all that is due.
    async fn round(&self, stop: &CancellationToken) -> Result<(), StoreError> {
        let sources = self.book.own_sources().await?;
        let who = Claimer { node: &self.cx.node, run: run(), seconds: lease_seconds() };
        while !stop.is_cancelled() {
            let claimed = sql::claim(&mut self.lease().await?, &sources, &who).await?;
            let Some(claimed) = claimed else { break };
            crash::point("calendar.claimed");
            let Some(outcome) = self.hold(&claimed, stop).await? else { continue };
            crash::point("calendar.synced");
            let end = Settled {
                claim: claimed.claim,
                synced: outcome.synced,
                error: outcome.error.as_deref(),
                failures: outcome.failures,
                seconds: outcome.seconds,
            };
            sql::settle(&mut self.lease().await?, &end).await?;
            if let Some(why) = outcome.error.as_deref().filter(|_| outcome.owners) {
                let text =
                    format!("The calendar `{}` does not follow {}: {why}", claimed.name, self.provider.account());
                tell_owner(&self.cx, &format!("calendar:{}", claimed.name), &text).await;
            }
        }
        self.show(&sources).await
    }

    /// Syncs a calendar while its claim is renewed. `None`: it is somebody else's by now, or this daemon stops. A sync that
    /// is dropped is one that was killed, and the rows carry on from there.
    async fn hold(&self, claimed: &Claimed, stop: &CancellationToken) -> Result<Option<Outcome>, StoreError> {
        let work = self.sync(claimed);
        tokio::pin!(work);
        let mut renew = interval(renew_every());
        renew.set_missed_tick_behavior(MissedTickBehavior::Delay);
        renew.tick().await;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => {
                    sql::give_back(&mut self.lease().await?, claimed.claim).await?;
                    return Ok(None);
                }
                done = &mut work => return Ok(Some(done)),
                _ = renew.tick() => {
                    if !sql::renew(&mut self.lease().await?, claimed.claim, lease_seconds()).await? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    async fn sync(&self, claimed: &Claimed) -> Outcome {
        match self.attempt(claimed).await {
            Ok(report) => {
                let error = trouble(&report, &self.cx.butler);
                let synced = report.held.is_none();
                tracing::debug!(
                    calendar = claimed.name,
                    pulled = report.pulled,
                    removed = report.removed,
                    pushed = report.pushed,
                    conflicts = report.conflicts,
                    listed = report.listed,
                    "a calendar was synced"
                );
                Outcome { synced, owners: error.is_some(), error, failures: 0, seconds: self.every }
            }
            Err(e) => {
                let failures = claimed.failures.saturating_add(1);
                let doubled = FIRST_PAUSE * 2f64.powi(claimed.failures.clamp(0, 16));
                let (seconds, owners) = match &e {
                    ProviderError::Later { after, .. } => {
                        let asked = after.map_or(0.0, |after| after.as_secs_f64());
                        (doubled.min(LONGEST_PAUSE).max(asked), false)
                    }
                    ProviderError::Owner(_) => (LOOK_AGAIN.min(self.every), true),
                };
                tracing::warn!(calendar = claimed.name, why = %e, "a calendar was not synced");
                Outcome { synced: false, owners, error: Some(e.to_string()), failures, seconds }
            }
        }
    }

    async fn attempt(&self, claimed: &Claimed) -> Result<Report, ProviderError> {
        let found = match &claimed.place {
            Some(_) if !claimed.read_only => None,
            // It may have been given to the account since.
            Some(place) => self.provider.calendars().await?.into_iter().find(|found| found.place == *place),
            None => Some(choose(&claimed.name, &self.provider.calendars().await?)?),
        };
        let (place, read_only) = match found {
            None => (claimed.place.clone().unwrap_or_default(), claimed.read_only),
            Some(found) => {
                let noted = async {
                    sql::found(&mut self.lease().await?, claimed.source, (&found.place, found.read_only)).await
                };
                let later = |e: StoreError| ProviderError::Later { why: e.to_string(), after: None };
                if let Some(other) = noted.await.map_err(later)? {
                    let why = format!("it is followed under the name `{other}` already; use that one in `calendars`");
                    return Err(ProviderError::Owner(why));
                }
                (found.place, found.read_only)
            }
        };
        let private = self.book.is_private(&claimed.name);
        let rows = Rows {
            book: self.book.clone(),
            source: claimed.source,
            claim: claimed.claim,
            first: AtomicBool::new(claimed.first),
            writers: Writers { own: self.own_addresses.clone(), private, vouched: self.provider.vouches() },
        };
        let options = Options { read_only, believe_mass_deletion: claimed.accept_deletions };
        self.provider.sync(&place, &rows, options).await
    }

    /// Shows with the module what is wrong, whoever synced.
    async fn show(&self, sources: &[Uuid]) -> Result<(), StoreError> {
        let states = sql::states(&mut self.lease().await?, sources).await?;
        let wrong = states.iter().filter_map(|state| {
            let why = state.error.as_deref()?;
            Some(format!("the calendar `{}` does not follow {}: {why}", state.name, self.provider.account()))
        });
        let wrong: Vec<String> = wrong.collect();
        self.cx.live.note((!wrong.is_empty()).then(|| wrong.join("; ")));
        Ok(())
    }
}

/// What a sync left undone that somebody has to look at.
fn trouble(report: &Report, butler: &ButlerName) -> Option<String> {
    if let Some(held) = report.held {
        return Some(format!(
            "{} of its {} events are not at the server any more, so nothing was removed or sent. If they were deleted on \
             purpose, run: butlerd calendar sync --butler {butler} --accept-deletions",
            held.missing, held.known
        ));
    }
    let mut said = Vec::new();
    if let Some((_, why)) = report.refused.first() {
        said.push(format!("{} of the household's changes wait here, because {why}", report.refused.len()));
    }
    if let Some((href, why)) = report.unreadable.first() {
        said.push(format!("{} of its items can't be read, such as {href}: {why}", report.unreadable.len()));
    }
    (!said.is_empty()).then(|| said.join("; "))
}

#[async_trait]
impl Background for CalendarSync {
    async fn run(&self, stop: CancellationToken) -> Result<(), TaskError> {
        let failed = |e: StoreError| TaskError(e.to_string());
        // Nobody looked for a while.
        let sources = self.book.own_sources().await.map_err(failed)?;
        sql::ask(&mut self.lease().await.map_err(failed)?, &sources, (false, false)).await.map_err(failed)?;
        let mut laid_out = None;
        while !stop.is_cancelled() {
            self.round(&stop).await.map_err(failed)?;
            self.book.keep_laid_out(&mut laid_out).await.map_err(failed)?;
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.nudge.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
        Ok(())
    }
}
