//! Takes in what somebody edited in the files.

use ::journal::file::{CORE_BUDGET, FileName};
use ::journal::merge::{diff, merge};
use ::journal::wire::{Accepted, Edit, EditId, Refusal, RefusedEdit};
use base::{TenantId, Trust};
use store::StoreError;

use super::files::OnDisk;
use super::journals::{JournalError, Journals, blocking, hash};
use super::sql::{self, Files, Step};

/// Who takes an edit in, and what of it was looked at.
#[derive(Clone, Copy)]
pub(super) struct Accepts<'a> {
    pub actor: &'a str,
    /// A person was shown each of them.
    pub looked: bool,
    /// Lines of a log may go or change, too.
    pub deletions: bool,
}

impl Journals {
    /// What somebody edited, with what changed.
    pub async fn edits(&self, tenant: &TenantId) -> Result<Vec<Edit>, JournalError> {
        let journal = self.load(tenant, Files::All).await?;
        let edited = self.on_disk(tenant).await.into_iter().filter_map(|(file, found)| match found {
            OnDisk::Edited { written, text } => Some((file, written, text)),
            _ => None,
        });
        let edit = |(file, written, text): (FileName, String, String)| {
            let now = journal.get(&file).cloned().unwrap_or_default();
            let conflicts =
                if now.text() == text { Vec::new() } else { merge(&written, &text, &now, Trust::Owner).conflicts };
            (now.text() != text).then(|| Edit { conflicts, ..edit_of(&file, &written, &text) })
        };
        Ok(edited.filter_map(edit).collect())
    }

    /// How far an edit is believed: as the owner, unless a sync by hand was shown words of others since a person `looked` at
    /// what is edited. Whoever edits may have read them.
    async fn trust_of_edits(&self, tenant: &TenantId, looked: bool) -> Result<Trust, StoreError> {
        if looked {
            return Ok(Trust::Owner);
        }
        let least = sql::least_shown(&mut self.lease(tenant).await?, (self.schema(), tenant)).await?;
        Ok(least.unwrap_or(Trust::Owner))
    }

    /// Takes all in that may be taken in without a person. Why another one waits is kept for whoever asks.
    pub(super) async fn accept_by_itself(&self, tenant: &TenantId) -> Result<(), JournalError> {
        let ids: Vec<EditId> = self.edits(tenant).await?.into_iter().map(|edit| edit.id).collect();
        let by = Accepts { actor: "edits = \"trust\"", looked: false, deletions: false };
        let accepted = self.accept(tenant, &ids, by).await?;
        self.files(tenant).wait(accepted.refused);
        Ok(())
    }

    /// Takes edits in as far as the files are as they were shown, each for itself.
    pub async fn accept(&self, tenant: &TenantId, edits: &[EditId], by: Accepts<'_>) -> Result<Accepted, JournalError> {
        let trust = self.trust_of_edits(tenant, by.looked).await?;
        let mut accepted = Accepted::default();
        for edit in edits {
            match self.accept_one(tenant, edit, (by, trust), &mut accepted).await {
                Err(JournalError::Refused(Refusal { message, .. })) => {
                    accepted.refused.push(RefusedEdit { file: edit.file.clone(), why: message });
                }
                done => done?,
            }
        }
        // What is edited still was not shown, or not taken in.
        if by.looked && self.edits(tenant).await?.is_empty() {
            sql::looked(&mut self.lease(tenant).await?, (self.schema(), tenant), self.clock.now()).await?;
        }
        Ok(accepted)
    }

    /// Takes one in, and notes what became of it. `trust`: how far whoever edited is believed.
    async fn accept_one(
        &self,
        tenant: &TenantId,
        edit: &EditId,
        (by, trust): (Accepts<'_>, Trust),
        accepted: &mut Accepted,
    ) -> Result<(), JournalError> {
        let Some(file) = FileName::read(&edit.file) else {
            return Err(JournalError::refused("no_such_file", format!("There is no file `{}`.", edit.file)));
        };
        let (on_disk, name) = (self.files(tenant), file.clone());
        let found = blocking(move || on_disk.look(&name)).await;
        let OnDisk::Edited { written, text } = found else {
            accepted.changed.push(file.to_string());
            return Ok(());
        };
        if hash(&text) != edit.sha256 {
            accepted.changed.push(file.to_string());
            return Ok(());
        }
        if file == FileName::core() && trust < Trust::System {
            let why = "A sync was shown words of others, and core.md, which every session is told, takes none of them. If the \
                       edit is yours, look at it and take it in at a terminal: butlerd journal accept (without --yes).";
            return Err(JournalError::refused("untrusted", why));
        }
        let gone = edit_of(&file, &written, &text).gone_from_log();
        if gone > 0 && !by.looked && !by.deletions {
            let why = format!(
                "{gone} of its lines went or changed, and a log only grows. Put them back, or look and say yes at a terminal: \
                 butlerd journal accept (without --yes). If it is meant: butlerd journal accept --yes --also-deletions"
            );
            return Err(JournalError::refused("deletions", why));
        }
        let step = Step::new("person", by.actor, None, trust);
        let (name, shown) = (file.clone(), text.clone());
        let conflicts = self.change(tenant, &step, move |journal| {
            let now = journal.get(&name).cloned().unwrap_or_default();
            if now.text() == shown {
                return Ok(Vec::new());
            }
            let merged = merge(&written, &shown, &now, trust);
            let bytes = merged.document.text().len();
            if name == FileName::core() && bytes > CORE_BUDGET {
                let message = format!(
                    "It would have {bytes} bytes, and may have {CORE_BUDGET}, because every session is told it. The journal stays \
                     as it was, and so does your file: make it shorter, or put the details into a reference file."
                );
                return Err(Refusal { code: "over_budget".to_owned(), message });
            }
            journal.set(name, merged.document);
            Ok(merged.conflicts)
        });
        let conflicts = conflicts.await?;
        // From here on the file's text is the journal's own, and the merged one can take its place.
        let (on_disk, name) = (self.files(tenant), file.clone());
        if let Err(e) = blocking(move || on_disk.accept(&name, &text)).await {
            tracing::warn!(butler = %self.butler, error = %e, "an accepted edit can't be noted beside its file");
        }
        self.render(tenant, [file.clone()].into()).await;
        accepted.conflicts.extend(conflicts.into_iter().map(|what| format!("{file}: {what}")));
        accepted.taken.push(file.to_string());
        Ok(())
    }
}

/// What was made of what was written.
fn edit_of(file: &FileName, written: &str, text: &str) -> Edit {
    let id = EditId { file: file.to_string(), sha256: hash(text) };
    Edit { id, diff: diff(written, text), conflicts: Vec::new() }
}
