//! The inbox for people: what came in, what became of it, and trying again.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::handle::Inbox;
use super::lanes::sender_name;
use super::sql::messages::{self, SentBy};
use super::sql::replies;
use super::sql::segments::{self, PartRow};
use super::sql::shown;
pub use super::sql::shown::Entry;
use super::types::Tier;
use base::{IdBeginning, TenantId};
use store::{AsRows, Lease, StoreError};

/// A part of a message, as its entry has it.
#[derive(Clone, Debug, Deserialize)]
pub struct Part {
    pub n: i32,
    pub butler: String,
    pub chosen_by: String,
    pub state: String,
    pub prompt: String,
    pub error: Option<String>,
}

/// An answer to a message, the same.
#[derive(Clone, Debug, Deserialize)]
pub struct Said {
    pub butler: String,
    pub message: Option<String>,
    pub emoji: Option<String>,
    pub auto: bool,
    pub at: Option<Timestamp>,
    pub session_id: Option<Uuid>,
}

impl Inbox {
    /// A message; `None`: this tenant has none of that id.
    pub async fn entry(&self, tenant: &TenantId, request: Uuid) -> Result<Option<Entry>, StoreError> {
        let mut lease = self.db().shared(tenant).await?;
        let found = shown::one(&mut lease, self.schema(), tenant, request).await?;
        let Some(mut entry) = found else { return Ok(None) };
        let parts = segments::shown(&mut lease, self.schema(), tenant, request).await?;
        entry.segments = parts.into_iter().map(part).collect();
        let replies = replies::of(&mut lease, tenant, request).await?;
        entry.replies = replies.into_iter().map(|reply| json!(reply)).collect();
        drop(lease);
        self.fill_in(tenant, std::slice::from_mut(&mut entry)).await?;
        Ok(Some(entry))
    }

    /// The ids of messages that begin so.
    pub async fn ids(&self, tenant: &TenantId, beginning: &IdBeginning, most: i64) -> Result<Vec<Uuid>, StoreError> {
        let sql = shown::ids(self.schema());
        self.db().shared(tenant).await?.beginning(&sql, tenant, beginning, most).await.column("id")
    }

    /// The newest messages, at most `limit`, without their parts; of one state, if that is named; those that came before
    /// the message `before`, if that is.
    pub async fn entries(
        &self,
        tenant: &TenantId,
        state: Option<&str>,
        limit: i64,
        before: Option<Uuid>,
    ) -> Result<Vec<Entry>, StoreError> {
        let mut lease = self.db().shared(tenant).await?;
        let mut entries = shown::newest(&mut lease, self.schema(), tenant, (state, before), limit).await?;
        drop(lease);
        self.fill_in(tenant, &mut entries).await?;
        Ok(entries)
    }

    /// Who sent those of these requests that are messages, one name for each sender, and how urgent they are.
    pub async fn sent_by(
        &self,
        lease: &mut Lease,
        requests: &[Uuid],
    ) -> Result<HashMap<Uuid, (String, Tier)>, StoreError> {
        let rows = messages::sent_by(lease, self.schema(), requests).await?;
        let of = |row: SentBy| (row.request_id, (sender_name(&row.channel, &row.sender), Tier::from_number(row.tier)));
        Ok(rows.into_iter().map(of).collect())
    }

    /// What the messages say, from the conversation log.
    async fn fill_in(&self, tenant: &TenantId, entries: &mut [Entry]) -> Result<(), StoreError> {
        let requests: Vec<Uuid> = entries.iter().map(|entry| entry.request_id).collect();
        let mut texts = self.conversation().texts(tenant, &requests).await?;
        for entry in entries {
            entry.body = texts.remove(&entry.request_id).unwrap_or_default();
        }
        Ok(())
    }
}

fn part(p: PartRow) -> Value {
    json!({"segment_id": p.id, "n": p.n, "butler": p.butler, "prompt": p.prompt, "chosen_by": p.chosen_by,
           "state": p.state, "error": p.last_error, "settled_at": p.settled_at.map(|t| t.to_string())})
}
