//! What became of messages, for the channel that they came through.

use uuid::Uuid;

use super::handle::Inbox;
use super::sql::fates as sql;
use super::types::{Fate, Origin};
use base::{RequestContext, TenantId};
use store::StoreError;

impl Inbox {
    /// The channel's messages that are not done: their requests.
    pub async fn open_of(&self, tenant: &TenantId, channel: &str) -> Result<Vec<Uuid>, StoreError> {
        sql::open(&mut self.db().shared(tenant).await?, self.schema(), tenant, channel).await
    }

    /// How far these messages have come.
    pub async fn fates(&self, tenant: &TenantId, requests: &[Uuid]) -> Result<Vec<Fate>, StoreError> {
        sql::of(&mut self.db().shared(tenant).await?, self.schema(), tenant, requests).await
    }

    /// Which message of its channel a request is; `None`: it is no message.
    pub async fn origin(&self, tenant: &TenantId, request: Uuid) -> Result<Option<Origin>, StoreError> {
        Ok(self.fates(tenant, &[request]).await?.pop().map(|fate| fate.origin))
    }

    /// The request that a stored message is; `None`: there is no message of this id.
    pub async fn context(&self, tenant: &TenantId, request: Uuid) -> Result<Option<RequestContext>, StoreError> {
        sql::context(&mut self.db().shared(tenant).await?, self.schema(), tenant, request).await
    }
}
