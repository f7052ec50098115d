//! What the journal does by itself: syncs, the turn of the day, the weekly check, and the look for too many
//! conversations.

use std::sync::Arc;
use std::time::Duration;

use ::journal::file::FileName;
use ::journal::rotate::rotate;
use ::journal::state::{check, files};
use ::journal::templates::fill;
use ::journal::wire::{Checked, EditId, Level};
use async_trait::async_trait;
use base::{TenantId, Trust};
use schedule::{BuiltInSchedule, BuiltInTimes, request_run_of_house};
use store::StoreError;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::edits::Accepts;
use super::files::OnDisk;
use super::journals::{JournalError, Journals, hash};
use super::sql::{self, Step};
use super::sync::SyncError;
use crate::background::{Background, TaskError};
use crate::job::{AskModelError, Job, JobCall, JobFailure, NamedJob};

const SYNC: &[&str] = &["journal_sync"];
const ROTATE: &[&str] = &["journal_rotate"];
const CHECK: &[&str] = &["journal_check"];

/// How often the number of unsummarized conversations is looked at.
const LOOK: Duration = Duration::from_secs(10);

/// When they run by themselves.
pub(super) fn schedules(auto_sync: bool) -> Vec<BuiltInSchedule> {
    let schedule = |name: &str, times, job, priority, require_idle| BuiltInSchedule {
        name: name.to_owned(),
        times,
        job,
        priority,
        require_idle,
        listed: true,
    };
    let sync = schedule("memory-sync", BuiltInTimes::Every(Duration::from_secs(4 * 3600)), SYNC, 1, false);
    let upkeep = [
        schedule("session-rotate", BuiltInTimes::Cron("5 0 * * *".to_owned()), ROTATE, 1, true),
        schedule("memory-integrity", BuiltInTimes::Cron("0 3 * * 0".to_owned()), CHECK, 2, true),
    ];
    auto_sync.then_some(sync).into_iter().chain(upkeep).collect()
}

/// What schedules may name.
pub(super) fn named(journals: &Arc<Journals>) -> Vec<NamedJob> {
    let job = |names, what| NamedJob { names, job: Arc::new(JournalJob { journals: journals.clone(), what }) };
    vec![job(SYNC, What::Sync), job(ROTATE, What::Rotate), job(CHECK, What::Check)]
}

#[derive(Clone, Copy)]
enum What {
    Sync,
    Rotate,
    Check,
}

struct JournalJob {
    journals: Arc<Journals>,
    what: What,
}

#[async_trait]
impl Job for JournalJob {
    async fn run(&self, call: JobCall<'_>) -> Result<String, JobFailure> {
        let tenants = match *call.tenant == TenantId::owner() {
            true => sql::tenants(&mut call.db.every_tenant().await?, self.journals.schema()).await?,
            false => vec![call.tenant.clone()],
        };
        let (mut said, mut left_to_do) = (Vec::new(), false);
        for tenant in &tenants {
            said.push(match self.what {
                What::Sync => self.journals.sync(&call, tenant).await.or_else(waits)?,
                What::Rotate => self.journals.rotate(tenant, "butlerd").await.map_err(failure)?.join("; "),
                What::Check => {
                    let checked = self.journals.check(tenant).await.map_err(failure)?;
                    left_to_do |= !checked.ok;
                    match checked.findings.is_empty() {
                        true => "All files are there and within their budgets".to_owned(),
                        false => checked.findings.join(" "),
                    }
                }
            });
        }
        said.dedup();
        match left_to_do {
            // A run that failed is told to the owner; what is left to do would else be seen by nobody.
            true => Err(JobFailure::Failed(said.join("; "))),
            false => Ok(said.join("; ")),
        }
    }
}

/// What is in the way of all sessions is no failure of this one: it waits.
fn waits(e: SyncError) -> Result<String, JobFailure> {
    match e {
        SyncError::Model(AskModelError::NotNow(why)) => Ok(format!("The conversations wait: {why}")),
        SyncError::Store(e) | SyncError::Model(AskModelError::Store(e)) => Err(e.into()),
        SyncError::Journal(e) => Err(failure(e)),
        other => Err(JobFailure::Failed(other.to_string())),
    }
}

fn failure(e: JournalError) -> JobFailure {
    match e {
        JournalError::Store(e) => e.into(),
        JournalError::Refused(refusal) => JobFailure::Failed(refusal.message),
    }
}

impl Journals {
    fn step(kind: &'static str, actor: &str) -> Step {
        Step::new(kind, actor, None, Trust::System)
    }

    /// Fills what is missing or empty from the templates. Returns what was made, and what was there.
    pub async fn init(&self, tenant: &TenantId, actor: &str) -> Result<(Vec<String>, Vec<String>), JournalError> {
        // A file that somebody emptied says that nothing of it is to stay.
        let on_disk = self.on_disk(tenant).await;
        let emptied = on_disk.iter().filter_map(|(file, found)| match found {
            OnDisk::Edited { text, .. } if text.trim().is_empty() => {
                Some(EditId { file: file.to_string(), sha256: hash(text) })
            }
            _ => None,
        });
        let by = Accepts { actor, looked: false, deletions: false };
        self.accept(tenant, &emptied.collect::<Vec<_>>(), by).await?;
        let (butler, today) = (self.butler.to_string(), self.now().date());
        let (mut made, there) =
            self.change(tenant, &Self::step("init", actor), |journal| Ok(fill(journal, &butler, today))).await?;
        // What the journal has and the disk hasn't is written again.
        let is_missing = |file: &FileName| {
            on_disk.iter().find(|(name, _)| name == file).is_none_or(|(_, found)| *found == OnDisk::Missing)
        };
        let (missing, there): (Vec<_>, Vec<_>) = there.into_iter().partition(is_missing);
        made.extend(missing);
        let names = |files: Vec<FileName>| files.iter().map(ToString::to_string).collect();
        Ok((names(made), names(there)))
    }

    /// The turn of the day.
    pub async fn rotate(&self, tenant: &TenantId, actor: &str) -> Result<Vec<String>, JournalError> {
        let today = self.now().date();
        let done = self.change(tenant, &Self::step("rotate", actor), |journal| Ok(rotate(journal, today))).await?;
        // Where nothing was to be rotated, somebody may have taken the file away.
        self.look(tenant).await?;
        Ok(done)
    }

    /// The weekly check.
    pub async fn check(&self, tenant: &TenantId) -> Result<Checked, JournalError> {
        let (mut findings, states) = self
            .change(tenant, &Self::step("check", "butlerd"), |journal| Ok((check(journal), files(journal))))
            .await?;
        self.look(tenant).await?;
        let (edited, strange) = self.edited(tenant).await;
        let closed = self.closed(tenant).await;
        let readable = strange.is_empty() && closed.is_none();
        findings.extend(strange.into_iter().chain(closed));
        findings.extend(
            edited.iter().map(|file| format!("{file} was edited: `butlerd journal accept` shows how and takes it in.")),
        );
        let fine = |level: Level| matches!(level, Level::Ok | Level::Warn);
        let ok = edited.is_empty() && readable && states.iter().all(|state| fine(state.level));
        Ok(Checked { files: states, findings, ok })
    }

    /// Lets the schedule of the sync run now.
    pub async fn request_sync(&self, tenant: &TenantId) -> Result<Option<bool>, StoreError> {
        let mut lease = self.lease(tenant).await?;
        let mut tx = lease.begin().await.map_err(StoreError::query("beginning"))?;
        let run = request_run_of_house(&mut tx, self.schema(), SYNC).await?;
        tx.commit().await.map_err(StoreError::query("asking for a run"))?;
        Ok(run.map(|run| !run.under_way))
    }

    /// Whether more is unsummarized than there should be, and nobody works on it or did a moment ago.
    async fn is_due(&self, tenant: &TenantId) -> Result<bool, StoreError> {
        let (status, _) = self.sync_status(tenant).await?;
        if status.unsummarized_count <= i64::from(self.settings.threshold) || self.under_way(tenant).await?.is_some() {
            return Ok(false);
        }
        let last = sql::last_sync(&mut self.lease(tenant).await?, (self.schema(), tenant)).await?;
        let rested =
            last.and_then(|sync| sync.ended_at).is_none_or(|at| at + self.settings.cooldown.0 <= self.clock.now());
        Ok(rested)
    }
}

/// Makes the journal of the owner, keeps its files as the rows are, and begins a sync where too much is unsummarized.
pub(super) struct Watch {
    pub journals: Arc<Journals>,
    /// Rung as a session starts.
    pub nudge: Arc<Notify>,
    /// The butler's schedules are looked at when it rings.
    pub due: Arc<Notify>,
}

#[async_trait]
impl Background for Watch {
    async fn run(&self, stop: CancellationToken) -> Result<(), TaskError> {
        let (journals, tenant) = (&self.journals, TenantId::owner());
        let failed = |e: JournalError| TaskError(e.to_string());
        // A test that wants to know what the start of a session does lets nothing else begin a sync.
        let look = if base::crash::fault("journal.looks_at_starts_alone") { Duration::MAX } else { LOOK };
        journals.init(&tenant, "butlerd").await.map_err(failed)?;
        journals.look(&tenant).await.map_err(failed)?;
        // A run that could not begin leaves no sync behind: without this one would be asked for at every look.
        let mut rests_until = None;
        loop {
            let rested = rests_until.is_none_or(|until| until <= journals.clock.now());
            if journals.settings.sync == super::Sync::Auto
                && rested
                && journals.is_due(&tenant).await.map_err(|e| TaskError(e.to_string()))?
                && journals.request_sync(&tenant).await.map_err(|e| TaskError(e.to_string()))? == Some(true)
            {
                rests_until = Some(journals.clock.now() + journals.settings.cooldown.0);
                self.due.notify_one();
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = self.nudge.notified() => {}
                () = tokio::time::sleep(look) => {
                    if journals.settings.edits == super::Edits::Trust {
                        journals.look(&tenant).await.map_err(failed)?;
                    }
                }
            }
        }
    }
}
