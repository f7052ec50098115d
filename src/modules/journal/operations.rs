//! What a person's programs ask at the journal socket.

use std::sync::Arc;

use ::journal::file::{DIRECTORIES, FileName};
use ::journal::pack::Measure;
use ::journal::state::files;
use ::journal::wire::{Answer, FileText, Initialized, Op, Range, Rotated, Said, Status, SyncBegun};
use async_trait::async_trait;
use base::{TenantId, Trust};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Notify;

use super::edits::Accepts;
use super::journals::{JournalError, Journals};
use super::sql::{self, Files, Step, SyncRow};
use super::sync::{Begun, ByHand, NOTHING};
use super::told;
use crate::local_socket::{Answers, Reply};

/// Answers for a butler's journal: that of the owner.
pub(super) struct JournalAnswers {
    pub journals: Arc<Journals>,
    /// The butler's schedules are looked at when it rings.
    pub due: Arc<Notify>,
}

#[async_trait]
impl Answers for JournalAnswers {
    async fn answer(&self, line: &[u8], peer: &str) -> Reply {
        let op = match serde_json::from_slice::<Op>(line) {
            Ok(op) => op,
            Err(e) => return Reply::refused("invalid_request", format!("The request can't be read: {e}.")),
        };
        match self.run(op, peer, &TenantId::owner()).await {
            Ok(result) => Reply::new(&Answer::Done(result)),
            Err(JournalError::Refused(refusal)) => Reply::new(&Answer::Refused(refusal)),
            Err(JournalError::Store(e)) => {
                tracing::warn!(error = %e, "the journal was asked in vain");
                let why = "The journal can't be reached right now. `butlerd status` says why.";
                Reply::refused("unavailable", why)
            }
        }
    }
}

fn value(result: impl Serialize) -> Result<Value, JournalError> {
    serde_json::to_value(result)
        .map_err(|e| JournalError::refused("internal", format!("The answer can't be written: {e}.")))
}

impl JournalAnswers {
    async fn run(&self, op: Op, peer: &str, tenant: &TenantId) -> Result<Value, JournalError> {
        let journals = &self.journals;
        match op {
            Op::Start { bytes } => {
                let measure = if bytes { Measure::Bytes } else { Measure::Characters };
                value(journals.start(tenant, measure).await?)
            }
            Op::Threshold => value(journals.threshold(tenant).await?),
            Op::Init => value(self.init(tenant, peer).await?),
            Op::Status => value(self.status(tenant).await?),
            Op::SyncStatus => value(journals.sync_status(tenant).await?.0),
            Op::Range { begin, end, all } => value(self.range(tenant, ByHand { begin, end, others: all }).await?),
            Op::Sync => value(self.sync(tenant).await?),
            Op::Checkpoint { end, summary } => value(journals.checkpoint(tenant, end, &summary).await?),
            Op::Checkpoints { most, before } => value(journals.checkpoints(tenant, before, most.min(1000)).await?),
            Op::Log { most } => value(self.log(tenant, most).await?),
            Op::Show { file } => value(self.show(tenant, &file).await?),
            Op::Edits => value(journals.edits(tenant).await?),
            Op::Accept { edits, looked, deletions } => {
                value(journals.accept(tenant, &edits, Accepts { actor: peer, looked, deletions }).await?)
            }
            Op::Undo { dry_run } => value(journals.undo(tenant, peer, dry_run).await?),
            Op::Rotate => value(Rotated { lines: journals.rotate(tenant, peer).await? }),
            Op::Check => value(journals.check(tenant).await?),
            Op::Migrate { files, dry_run } => value(journals.migrate(tenant, peer, &files, dry_run).await?),
            Op::MigrateBack => value(journals.migrate_back(tenant, peer).await?),
        }
    }

    async fn init(&self, tenant: &TenantId, peer: &str) -> Result<Initialized, JournalError> {
        let (created, skipped) = self.journals.init(tenant, peer).await?;
        self.journals.look(tenant).await?;
        let dir = self.journals.files(tenant).root().display().to_string();
        let mut notes = Vec::new();
        let own = format!("uid:{}", nix::unistd::geteuid());
        if peer != own && peer != "uid:0" && self.journals.settings.group.is_none() {
            notes.push(
                "The files belong to the daemon's user. To read and edit them as yourself: sudo butlerd journal init"
                    .to_owned(),
            );
        }
        notes.extend(self.journals.closed(tenant).await);
        Ok(Initialized { dir, directories: DIRECTORIES.map(str::to_owned).into(), created, skipped, notes })
    }

    async fn status(&self, tenant: &TenantId) -> Result<Status, JournalError> {
        let journals = &self.journals;
        let journal = journals.load(tenant, Files::All).await?;
        let sync = journals.sync_status(tenant).await;
        let (edited, mut troubles) = journals.edited(tenant).await;
        if let Err(e) = &sync {
            troubles.push(format!("The conversation log can't be read: {e}"));
        }
        let (sync, last_checkpoint) = sync.map_or((None, None), |(status, last)| (Some(status), last));
        let last = sql::last_sync(&mut journals.lease(tenant).await?, (journals.schema(), tenant)).await?;
        if let Some(reason) = last.filter(|last| last.state == "given_up").and_then(|last| last.reason) {
            troubles.push(format!("The last sync came to nothing: {reason}."));
        }
        troubles.extend(journals.migration_trouble(tenant).await?);
        Ok(Status {
            butler: journals.butler.to_string(),
            dir: journals.files(tenant).root().display().to_string(),
            files: files(&journal),
            sessions: journal.count(::journal::file::Kind::Day) as u64,
            archive: journal.count(::journal::file::Kind::Archive) as u64,
            sync,
            last_checkpoint,
            threshold: journals.settings.threshold,
            edited,
            troubles,
        })
    }

    async fn range(&self, tenant: &TenantId, by_hand: ByHand) -> Result<Range, JournalError> {
        let journals = &self.journals;
        let (sync, said) = match journals.begin_sync(tenant, Some(by_hand), i64::MAX).await? {
            Begun::Sync(sync, said) => (sync, said),
            Begun::Nothing => return Err(JournalError::refused("nothing", NOTHING)),
            Begun::UnderWay(sync) => {
                let why = format!(
                    "The household is summarizing {} to {} by itself just now. Nothing is to be done.",
                    sync.begin_id, sync.end_id
                );
                return Err(JournalError::refused("under_way", why));
            }
        };
        let least = if sync.pass == "others" { Trust::Stranger } else { Trust::System };
        let mut notes = Vec::new();
        if sync.has_others && sync.pass == "own" {
            notes.push(
                "Words of others are left out. With --all they are shown, and from then on core.md takes no edit in that you did \
                 not look at yourself."
                    .to_owned(),
            );
        }
        let journal = journals.load(tenant, Files::All).await?;
        let (conversations, state) = (journals.conversations(&said, least), journals.state(&journal, least));
        Ok(Range { begin: sync.begin_id, end: sync.end_id, conversations, state, notes })
    }

    async fn sync(&self, tenant: &TenantId) -> Result<SyncBegun, JournalError> {
        let journals = &self.journals;
        let begun = |status: &str, note: &str| SyncBegun { status: status.to_owned(), note: note.to_owned() };
        if journals.sync_status(tenant).await?.0.unsummarized_count == 0 {
            return Ok(begun("nothing", NOTHING));
        }
        if let Some(sync) = journals.under_way(tenant).await? {
            return Ok(begun("under_way", &self.holder(&sync)));
        }
        match journals.request_sync(tenant).await? {
            Some(true) => {
                self.due.notify_one();
                Ok(begun("started", "It goes on by itself; `butlerd journal status` says how it ended."))
            }
            Some(false) => Ok(begun("under_way", "A sync is under way.")),
            None => Err(JournalError::refused(
                "by_hand",
                "The schedule memory-sync is off ([modules.journal] sync = \"by_hand\", or paused). Sync by hand: butlerd journal sync \
                 --status, then --begin and --end.",
            )),
        }
    }

    /// Who works on a range, and how that ends.
    fn holder(&self, sync: &SyncRow) -> String {
        let (begin, end) = (sync.begin_id, sync.end_id);
        if !sync.by_hand {
            return format!("A sync of {begin} to {end} is under way.");
        }
        let until = sync.lease_until.to_zoned(self.journals.store.time_zone().clone()).strftime("%H:%M");
        format!(
            "{begin} to {end} were asked for by hand, and are left to that until {until}. To end it: butlerd journal checkpoint \
             {end} --summary TEXT"
        )
    }

    async fn log(&self, tenant: &TenantId, most: u32) -> Result<Vec<Said>, JournalError> {
        // A stretch first: what was committed a moment ago has no place before.
        let Some(all) = self.journals.conversation.stretch(tenant, 0).await? else { return Ok(Vec::new()) };
        let most = i64::from(most.clamp(1, 1000));
        let said = self.journals.conversation.between(tenant, (0, all.last), most, true).await?;
        let said = said.iter().map(|placed| Said {
            id: placed.place,
            at: placed.entry.said_at,
            direction: told::direction(placed.entry.direction).to_owned(),
            channel: placed.entry.channel.clone(),
            person: placed.entry.person.clone(),
            trust: placed.entry.trust.as_str().to_owned(),
            text: told::said(placed, usize::MAX),
        });
        Ok(said.collect())
    }

    async fn show(&self, tenant: &TenantId, file: &str) -> Result<FileText, JournalError> {
        let journal = self.journals.load(tenant, Files::All).await?;
        let name = FileName::read(file);
        match name.as_ref().and_then(|name| journal.get(name)) {
            Some(document) => {
                Ok(FileText { file: name.map(|name| name.to_string()).unwrap_or_default(), text: document.text() })
            }
            None => {
                let there: Vec<&str> = journal.iter().map(|(file, _)| file.as_str()).collect();
                Err(JournalError::refused(
                    "not_found",
                    format!("There is no file `{file}`. There are: {}.", there.join(", ")),
                ))
            }
        }
    }
}

impl Step {
    /// A step that a user of the machine makes.
    pub fn by_person(kind: &'static str, peer: &str) -> Self {
        Self::new(kind, peer, None, Trust::Owner)
    }
}
