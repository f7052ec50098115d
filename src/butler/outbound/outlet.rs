//! Where the messages of a butler's jobs go.

use async_trait::async_trait;

use crate::base::{ButlerName, RequestContext};
use crate::butler::clockwork::{Note, Outlet};
use crate::messenger::{OwnerNote, Post, Priority};

/// To the owner, through the outbox.
pub struct ToOwner {
    pub post: Post,
    pub butler: ButlerName,
}

#[async_trait]
impl Outlet for ToOwner {
    async fn take(&self, request: &RequestContext, notes: &[Note]) -> Result<(), String> {
        let tenant = &request.tenant_id;
        let letters: Vec<OwnerNote<'_>> = notes
            .iter()
            .map(|note| OwnerNote {
                tenant,
                origin: self.butler.as_str(),
                key: &note.key,
                subject: None,
                text: &note.text,
                priority: Priority::from_name(note.priority.as_str()),
                trust: request.trust,
                notice: false,
                channel: None,
            })
            .collect();
        self.post.tell_owner_all(tenant, &letters).await.map_err(|e| e.to_string())
    }
}
