//! Reads and changes the journal: each change one transaction, then the files that it touched.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use ::journal::documents::{Change, Document, Documents};
use ::journal::file::FileName;
use ::journal::undo::{differences, take_back};
use ::journal::wire::{FileDiff, Refusal, Undone};
use base::{ButlerName, Clock, TenantId, crash};
use conversation::ConversationReader;
use jiff::civil::DateTime;
use nix::unistd::Gid;
use sha2::{Digest, Sha256};
use store::{Database, Lease, Store, StoreError};

use super::Settings;
use super::files::{JournalFiles, OnDisk};
use super::sql::{self, Files, Step, StepRow, Undoes};
use crate::own_sessions::ModuleSessions;

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub(super) enum JournalError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl JournalError {
    pub fn refused(code: &str, message: impl Into<String>) -> Self {
        Self::Refused(Refusal { code: code.to_owned(), message: message.into() })
    }
}

/// A butler's journals, one for each tenant.
pub(super) struct Journals {
    pub butler: ButlerName,
    pub settings: Settings,
    pub house: Arc<Database>,
    pub store: Store,
    pub clock: Clock,
    pub conversation: ConversationReader,
    pub sessions: ModuleSessions,
    /// `<dir>` of the files of all tenants.
    root: PathBuf,
    /// They lie in the data directory, which only the daemon's user may enter.
    in_data_dir: bool,
    group: Option<Gid>,
    /// A session of this process divides a file just now.
    pub dividing: AtomicBool,
    files: Mutex<BTreeMap<String, Arc<JournalFiles>>>,
}

impl Journals {
    pub fn new(cx: &crate::ModuleContext, settings: &Settings, root: PathBuf, group: Option<Gid>) -> Self {
        Self {
            butler: cx.butler.clone(),
            settings: settings.clone(),
            house: cx.house.clone(),
            store: cx.store.clone(),
            clock: cx.clock.clone(),
            conversation: cx.conversation.clone(),
            sessions: cx.sessions.clone(),
            in_data_dir: root.starts_with(&cx.data_dir),
            root,
            group,
            dividing: AtomicBool::new(false),
            files: Mutex::default(),
        }
    }

    pub fn schema(&self) -> &str {
        self.store.schema()
    }

    /// Now, in the owner's zone.
    pub fn now(&self) -> DateTime {
        self.clock.now().to_zoned(self.store.time_zone().clone()).datetime()
    }

    /// A connection that reads every label.
    pub async fn lease(&self, tenant: &TenantId) -> Result<Lease, StoreError> {
        self.house.shared(tenant).await
    }

    pub async fn load(&self, tenant: &TenantId, files: Files) -> Result<Documents, StoreError> {
        sql::load(&mut self.lease(tenant).await?, (self.schema(), tenant), files).await
    }

    /// Where the tenant's files are.
    pub fn files(&self, tenant: &TenantId) -> Arc<JournalFiles> {
        let mut files = self.files.lock().unwrap_or_else(|e| e.into_inner());
        let name = tenant.as_str().to_owned();
        let made = files.entry(name).or_insert_with_key(|name| {
            let below = self.root.join(name);
            // Nobody is let into the data directory.
            let above = if self.in_data_dir { Vec::new() } else { vec![self.root.clone(), below.clone()] };
            Arc::new(JournalFiles::new(below.join(self.butler.as_str()), self.group, above))
        });
        made.clone()
    }

    /// Why members of the group of the settings can't come to the files, and what to do about it.
    pub async fn closed(&self, tenant: &TenantId) -> Option<String> {
        let group = self.settings.group.as_deref()?;
        let on_disk = self.files(tenant);
        let closed = blocking(move || on_disk.closed()).await?;
        let closed = closed.display();
        Some(match self.in_data_dir {
            true => format!(
                "Members of the group {group} can't come to the files: they lie in the data directory, which is the daemon's \
                 user's alone ({closed} is closed). Set `dir` in [modules.journal] to a directory outside of it that the daemon's \
                 user owns, such as /srv/butlerd-journal, and reload."
            ),
            false => format!(
                "Members of the group {group} can't come to the files, because {closed} lets them not through. Let them: chgrp \
                 {group} {closed} && chmod g+x {closed}. Or set `dir` in [modules.journal] to another directory."
            ),
        })
    }

    /// Changes the journal as the daemon: `change` makes the next state out of the one that is committed, which nobody
    /// changes meanwhile. A refusal changes nothing.
    pub async fn change<T>(
        &self,
        tenant: &TenantId,
        step: &Step,
        change: impl FnOnce(&mut Documents) -> Result<T, Refusal>,
    ) -> Result<T, JournalError> {
        let mut lease = self.lease(tenant).await?;
        let mut tx = lease.begin().await.map_err(StoreError::query("beginning"))?;
        sql::lock(&mut tx, self.schema()).await?;
        let before = sql::load_to_change(&mut tx, (self.schema(), tenant)).await?;
        let mut after = before.clone();
        let done = match change(&mut after) {
            Ok(done) => done,
            Err(refusal) => {
                drop(tx.rollback().await);
                return Err(refusal.into());
            }
        };
        let changes = after.since(&before);
        if !changes.is_empty() {
            sql::apply(&mut tx, self.schema(), step, &changes).await?;
            crash::point("journal.applied");
        }
        tx.commit().await.map_err(StoreError::query("writing the journal"))?;
        drop(lease);
        crash::point("journal.committed");
        self.render(tenant, touched(&before, &changes)).await;
        Ok(done)
    }

    /// Writes these files as the journal has them. What can't be written is in the log, and tried again by the next look.
    pub async fn render(&self, tenant: &TenantId, files: BTreeSet<FileName>) {
        if files.is_empty() {
            return;
        }
        if let Err(e) = self.render_rows(tenant, Some(files)).await {
            tracing::warn!(butler = %self.butler, error = %e, "the journal can't be read, so its files are as they were before the change");
        }
    }

    /// Writes these files, or all, as the committed rows have them, as far as nobody edited them. Returns whether there is
    /// a journal.
    async fn render_rows(&self, tenant: &TenantId, only: Option<BTreeSet<FileName>>) -> Result<bool, JournalError> {
        let on_disk = self.files(tenant);
        let rendering = on_disk.rendering.clone().lock_owned().await;
        let journal = self.load(tenant, Files::All).await?;
        if journal.iter().next().is_none() && only.is_none() {
            return Ok(false);
        }
        let written = blocking(move || {
            // It goes on where its caller is gone, and so does the hold.
            let _rendering = rendering;
            let all = || journal.iter().map(|(file, _)| file.clone()).chain(on_disk.names()).collect();
            // One that can't be written holds up no other.
            let prepared = on_disk.prepare();
            let files: BTreeSet<FileName> = only.unwrap_or_else(all);
            let text = |file: &FileName| journal.get(file).map(Document::text);
            let written: Vec<_> = files.iter().map(|file| on_disk.write(file, text(file).as_deref())).collect();
            written.into_iter().try_fold((), |(), written| written.map(drop)).and(prepared)
        });
        if let Err(e) = written.await {
            tracing::warn!(butler = %self.butler, error = %e, "the journal's files can't be written; its rows are as they are to be");
        }
        Ok(true)
    }

    /// Writes all files as the journal has them, and takes edits in where the settings say so.
    pub async fn look(&self, tenant: &TenantId) -> Result<(), JournalError> {
        if self.render_rows(tenant, None).await? && self.settings.edits == super::Edits::Trust {
            self.accept_by_itself(tenant).await?;
        }
        Ok(())
    }

    /// How each file is that may be the journal's, and what is wrong with those that can't be read.
    pub async fn on_disk(&self, tenant: &TenantId) -> Vec<(FileName, OnDisk)> {
        let on_disk = self.files(tenant);
        blocking(move || on_disk.names().into_iter().map(|file| (file.clone(), on_disk.look(&file))).collect()).await
    }

    /// What somebody edited, and sentences on what can't be read.
    pub async fn edited(&self, tenant: &TenantId) -> (Vec<String>, Vec<String>) {
        let (mut edited, mut strange) = (Vec::new(), Vec::new());
        for (file, found) in self.on_disk(tenant).await {
            match found {
                OnDisk::Edited { .. } => edited.push(file.to_string()),
                OnDisk::Strange(why) => {
                    strange.push(format!("{why}. The journal goes on without it; its rows are unchanged."))
                }
                OnDisk::Missing | OnDisk::Written => {}
            }
        }
        let on_disk = self.files(tenant);
        let (foreign, directories, unwritten) =
            blocking(move || (on_disk.foreign(), on_disk.strange_directories(), on_disk.unwritten())).await;
        strange.extend(directories.into_iter().map(|why| format!("{why}.")));
        strange.extend(
            unwritten.into_iter().map(|why| {
                format!("{why}. The journal's rows are as they are to be, and it is written once that goes.")
            }),
        );
        strange.extend(self.files(tenant).waiting());
        strange.extend(foreign.into_iter().map(|file| {
            format!(
                "{file} is no file of a journal, so nothing is taken from it. Those are core.md and, in reference/ and users/, names \
                 of lower case letters, digits, - and _."
            )
        }));
        (edited, strange)
    }

    /// Takes a step back as a new step `by`, or, in a `dry_run`, only says what that changes. What later steps built on
    /// stays and is named; if `whole`, that is a refusal instead.
    pub async fn take_back(
        &self,
        tenant: &TenantId,
        step: i64,
        by: Step,
        (whole, dry_run): (bool, bool),
    ) -> Result<(Vec<FileDiff>, Vec<String>), JournalError> {
        let (taken, restores) = sql::step(&mut self.lease(tenant).await?, self.schema(), (tenant, step)).await?;
        let by = Step { undoes: Some(Undoes { step, restores }), ..by };
        let change = |journal: &mut Documents| {
            let before = journal.clone();
            let stays = take_back(journal, &taken);
            match whole && !stays.is_empty() {
                true => Err(Refusal { code: "built_on".to_owned(), message: stays.join(" ") }),
                false => Ok((differences(&before, journal), stays)),
            }
        };
        match dry_run {
            true => Ok(change(&mut self.load(tenant, Files::All).await?)?),
            false => self.change(tenant, &by, change).await,
        }
    }

    /// Takes the last sync's or person's change back.
    pub async fn undo(&self, tenant: &TenantId, peer: &str, dry_run: bool) -> Result<Undone, JournalError> {
        let Some(last) = sql::last_undoable(&mut self.lease(tenant).await?, (self.schema(), tenant)).await? else {
            return Err(JournalError::refused("not_found", "There is no sync and no accepted edit to take back."));
        };
        let back = self.take_back(tenant, last.id, Step::by_person("undo", peer), (true, dry_run)).await;
        let (files, _) = back.map_err(|e| match e {
            JournalError::Refused(Refusal { code, message }) if code == "built_on" => JournalError::refused(
                "built_on",
                format!(
                    "The last change (step {}, {} of {}) can't be taken back: {message} Nothing was changed. Edit the files \
                     instead, and take that in: butlerd journal accept",
                    last.id, last.kind, last.actor
                ),
            ),
            other => other,
        })?;
        let mut notes = Vec::new();
        if last.kind == "sync" {
            notes.push("The checkpoint stays: what was said is not worked in once more.".to_owned());
        }
        let edited = self.edited(tenant).await.0;
        notes.extend(files.iter().filter(|change| edited.contains(&change.file)).map(|FileDiff { file, .. }| {
            format!("{file} has an edit that waits, so the file stays as it is until that is accepted: butlerd journal accept")
        }));
        let StepRow { id, kind, actor, at } = last;
        Ok(Undone { step: id, kind, actor, at, files, notes })
    }
}

/// The files that changes touch.
pub(super) fn touched(before: &Documents, changes: &[Change]) -> BTreeSet<FileName> {
    let mut was = BTreeMap::new();
    for (file, document) in before.iter() {
        was.extend(document.sections.iter().map(|section| (section.id, file)));
    }
    let mut files = BTreeSet::new();
    for change in changes {
        let (id, to) = match change {
            Change::Put { section, file, .. } => (section.id, Some(file)),
            Change::Move { id, file, .. } => (*id, Some(file)),
            Change::End { id } => (*id, None),
        };
        files.extend(was.get(&id).map(|file| (*file).clone()));
        files.extend(to.cloned());
    }
    files
}

pub(super) fn hash(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Work with files, apart from the threads that serve requests.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(e) => std::panic::resume_unwind(e.into_panic()),
    }
}
