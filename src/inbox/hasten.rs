//! Somebody says more in a conversation in which an earlier message waits for its next try: they are there and may know
//! that it works again, so that try is made now. It stays the first in its lane.

use uuid::Uuid;

use super::handle::Inbox;
use super::queue::{RETRY, message_inbox};
use super::sql::segments;
use base::TenantId;
use store::{QueueTable, StoreError};

impl Inbox {
    /// Has what stands before this message in its lane, and waits for a later time, tried at once.
    pub async fn hasten(&self, tenant: &TenantId, request: Uuid) -> Result<(), StoreError> {
        let mut lease = self.db().shared(tenant).await?;
        let before = segments::before(&mut lease, self.schema(), request).await?;
        drop(lease);
        let messages: Vec<Uuid> = before.iter().map(|part| part.request_id).collect();
        if !messages.is_empty() && message_inbox(self.schema()).hasten(self.db(), &messages).await? > 0 {
            self.up().iter().for_each(|up| up.lanes.starved.notify_one());
        }
        for part in before {
            let (Some(id), Some(butler)) = (part.id, part.butler) else { continue };
            let Some(target) = self.butlers().target(&butler) else { continue };
            let table = QueueTable::accepted(format!("\"{}\".route_inbox", target.schema), "id", "n.seq", RETRY);
            if table.hasten(self.db(), &[id]).await? > 0 {
                target.wake.notify_one();
            }
        }
        Ok(())
    }
}
