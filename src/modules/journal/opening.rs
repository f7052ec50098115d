//! What sessions are told as they start: the household's own, and interactive ones by their hook.

use std::sync::Arc;

use ::journal::file::{FileName, Kind};
use ::journal::pack::Measure;
use ::journal::start::{Material, RECENT, action, assemble};
use ::journal::templates::is_untouched;
use ::journal::wire::{Start, Threshold};
use async_trait::async_trait;
use base::{TenantId, Trust};
use conversation::Placed;
use sessions::Trigger;
use store::StoreError;
use tokio::sync::Notify;

use super::journals::Journals;
use super::sql::Files;
use super::told;
use crate::opening::{Lines, SessionLines};

impl Journals {
    /// What a session of the owner is told. Words of others stay out; a conversation stands there without them.
    pub async fn start(&self, tenant: &TenantId, measure: Measure) -> Result<Start, StoreError> {
        let (journal, status, notes) =
            tokio::try_join!(self.load(tenant, Files::Shown), self.sync_status(tenant), self.notes(tenant))?;
        let (status, last) = status;
        let over = status.unsummarized_count > i64::from(self.settings.threshold);
        let most = if over { RECENT } else { self.settings.threshold as usize };
        let said = match status.end_id {
            None => Vec::new(),
            Some(end) => {
                let reached = last.as_ref().map_or(0, |last| last.end_id);
                let most = i64::try_from(most).unwrap_or(i64::MAX);
                self.conversation.between(tenant, (reached, end), most, true).await?
            }
        };
        let zone = self.store.time_zone();
        let line = |placed: &Placed| (placed.place, told::line(placed, Trust::System, zone, usize::MAX));
        let text = |file: &FileName| journal.get(file).map(|document| document.text_for(Trust::System).0);
        let mut references: Vec<(String, String)> = Vec::new();
        let ordered = ["decisions", "projects", "preferences", "ideas"].map(FileName::reference);
        let further = journal
            .iter()
            .map(|(file, _)| file.clone())
            .filter(|file| file.kind() == Kind::Reference && !ordered.contains(file));
        for file in ordered.iter().cloned().chain(further) {
            if let Some(text) = text(&file).filter(|text| !is_untouched(&file, text)) {
                references.push((file.to_string(), text));
            }
        }
        let material = Material {
            core: text(&FileName::core()).unwrap_or_default(),
            notes,
            references,
            checkpoint: status.last_checkpoint_summary,
            conversations: said.iter().map(line).collect(),
            action: self.wanted(tenant, (status.unsummarized_count, status.begin_id, status.end_id)).await?,
        };
        Ok(assemble(&material, measure))
    }

    /// The range that an interactive session is to summarize now, no longer than one may be: none where a sync is under way.
    async fn wanted(
        &self,
        tenant: &TenantId,
        (count, begin, end): (i64, Option<i64>, Option<i64>),
    ) -> Result<Option<(i64, i64)>, StoreError> {
        let range = begin.zip(end).filter(|_| count > i64::from(self.settings.threshold));
        match range {
            Some(range) if self.under_way(tenant).await?.is_none() => self.part_of(tenant, range).await,
            _ => Ok(None),
        }
    }

    /// What an interactive session is told at a prompt.
    pub async fn threshold(&self, tenant: &TenantId) -> Result<Threshold, StoreError> {
        let (status, _) = self.sync_status(tenant).await?;
        let range = self.wanted(tenant, (status.unsummarized_count, status.begin_id, status.end_id)).await?;
        Ok(Threshold { action: range.map(|(begin, end)| action(begin, end)) })
    }

    /// The butler's notes to itself, as prompts have them.
    async fn notes(&self, tenant: &TenantId) -> Result<Vec<String>, StoreError> {
        ::tools::notes_told(&mut self.store.tenant(tenant).await?).await
    }
}

/// Tells the household's own sessions.
pub(super) struct JournalLines {
    pub journals: Arc<Journals>,
    /// Rung where more is unsummarized than there should be.
    pub nudge: Arc<Notify>,
}

#[async_trait]
impl SessionLines for JournalLines {
    async fn lines(&self, trigger: &Trigger) -> Option<Lines> {
        let tenant = &trigger.request.tenant_id;
        match self.journals.start(tenant, Measure::Characters).await {
            Ok(Start { core, parts }) => {
                self.nudge.notify_one();
                (core.is_some() || !parts.is_empty()).then_some(Lines {
                    first: core,
                    notes: true,
                    parts,
                    // The house's own words lower nobody.
                    seen: Trust::Owner,
                })
            }
            Err(e) => {
                let butler = &self.journals.butler;
                tracing::warn!(%butler, error = %e, "a session starts without the journal");
                None
            }
        }
    }
}
