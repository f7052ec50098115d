//! Where the messages of a butler's jobs go.

use async_trait::async_trait;

use crate::base::ButlerName;
use crate::butler::clockwork::{Note, Outlet};
use crate::messenger::{OwnerNote, Post, Priority};

/// To the owner, through the outbox.
pub struct ToOwner {
    pub post: Post,
    pub butler: ButlerName,
}

#[async_trait]
impl Outlet for ToOwner {
    async fn take(&self, notes: Vec<Note>) -> Result<(), String> {
        // They are of one run, and so of one tenant.
        let Some(first) = notes.first() else { return Ok(()) };
        let letters: Vec<OwnerNote<'_>> = notes
            .iter()
            .map(|note| OwnerNote {
                tenant: &first.tenant,
                origin: self.butler.as_str(),
                key: &note.key,
                subject: None,
                text: &note.text,
                priority: Priority::from_name(note.priority),
                trust: note.trust,
            })
            .collect();
        self.post.tell_owner_all(&first.tenant, &letters).await.map_err(|e| e.to_string())
    }
}
