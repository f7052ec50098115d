//! Who works on a butler's sessions in the place of its model, and what it gets of one.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::adapters::Failure;
use super::log::SessionLog;
use super::transcript::Transcript;
use super::types::{EventKind, Trigger};
use access::Taint;
use base::{Label, RequestContext, SessionId};
use store::StoreError;

/// Who works on a butler's sessions in the place of its model.
#[async_trait]
pub trait Conductor: Send + Sync {
    /// Works on a session and returns its answer. Soon after [`Conducted::stop`] is cancelled it returns.
    async fn conduct(&self, session: Conducted) -> Result<String, Failure>;
}

/// A session, as its conductor has it. Cheap to clone.
#[derive(Clone)]
pub struct Conducted {
    pub id: SessionId,
    /// What asked for it.
    pub trigger: Arc<Trigger>,
    /// What memory told it.
    pub told: Option<String>,
    /// The memories in it.
    pub told_ids: Vec<Uuid>,
    /// Cancelled when it must end.
    pub stop: CancellationToken,
    pub(super) log: SessionLog,
    pub(super) transcript: Transcript,
    pub(super) taint: Arc<Taint>,
}

impl Conducted {
    /// The context of what is done for it: one deeper, with the label of all that it was shown by now.
    pub fn under(&self, clock: &base::Clock) -> RequestContext {
        self.trigger.request.caused_by(self.id, clock).joined(&self.label())
    }

    /// The same for a part of its work, which can be stopped alone.
    #[must_use]
    pub fn part(&self) -> Self {
        Self { stop: self.stop.child_token(), ..self.clone() }
    }

    /// Its own context, with the label of all that it was shown by now.
    pub fn context(&self) -> RequestContext {
        RequestContext::clone(&self.trigger.request).joined(&self.label())
    }

    /// The label of all that it was shown by now.
    pub fn label(&self) -> Label {
        self.taint.label()
    }

    /// Puts on record that it was shown something of this label, before it is used.
    pub async fn shows(&self, label: &Label) -> Result<(), StoreError> {
        let joined = self.label().join(label);
        if joined != self.label() {
            self.log.note_label(&self.trigger.request, self.id, &joined).await?;
            self.taint.observe(&joined);
        }
        Ok(())
    }

    /// Puts on record, and tells whoever watches, how far it is.
    pub fn tell(&self, stage: &str, by: Option<&str>, text: impl Into<String>) {
        let (stage, by) = (stage.to_owned(), by.map(str::to_owned));
        self.transcript.tell(self.id, EventKind::Stage { stage, by, text: text.into() });
    }
}
