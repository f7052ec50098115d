//! A connector's account on record: who serves it just now, up to where its messages are taken in, and how it is.
//!
//! The rule that every connector keeps by it: a message is committed before the checkpoint moves past it, and the
//! checkpoint is moved by nobody but the holder. After a kill at any instant the next holder begins at the checkpoint,
//! and what was taken in behind it is known again by the channel's own ids.

use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use super::handle::Inbox;
use super::sql::connectors::{self as sql, LeaseWanted};
use super::types::{AccountHealth, Taken};
use base::{TenantId, text};
use store::{Lease, StoreError, lease_seconds};

/// For how long an account is taken, as any claim is; its holder renews that several times in between.
pub fn account_lease() -> Duration {
    Duration::from_secs_f64(lease_seconds())
}

/// An account of a channel, such as a bot or a mailbox, for one run of a connector.
#[derive(Clone)]
pub struct Account {
    inbox: Inbox,
    tenant: TenantId,
    /// `telegram_bot`, `imap`, …
    kind: String,
    endpoint: String,
    lease: Uuid,
}

impl Inbox {
    /// An account of a connector in this process. `kind` is the connector's, not the channel's.
    pub fn account(&self, tenant: &TenantId, kind: &str, endpoint: &str) -> Account {
        Account {
            inbox: self.clone(),
            tenant: tenant.clone(),
            kind: kind.to_owned(),
            endpoint: endpoint.to_owned(),
            lease: Uuid::now_v7(),
        }
    }
}

impl Account {
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    async fn store(&self) -> Result<Lease, StoreError> {
        let up = self.inbox.up().ok_or_else(|| StoreError::Unexpected("the switchboard is not up".to_owned()))?;
        up.store.tenant(&self.tenant).await
    }

    /// Takes the account, or renews that it is taken. What an earlier run of this daemon held is free: it is gone.
    pub async fn take(&self) -> Result<Taken, StoreError> {
        let wanted = LeaseWanted {
            connector_type: &self.kind,
            endpoint_identity: &self.endpoint,
            instance_id: self.inbox.node(),
            lease: self.lease,
            seconds: lease_seconds(),
        };
        sql::take(&mut self.store().await?, &wanted, self.inbox.clock().now()).await
    }

    /// Moves the checkpoint. `false`: the account is somebody else's by now, and nothing was moved.
    pub async fn checkpoint(&self, cursor: &Value) -> Result<bool, StoreError> {
        sql::checkpoint(&mut self.store().await?, self.lease, cursor, self.inbox.clock().now()).await
    }

    /// Notes that a message is not taken in, and why: for good, once the checkpoint is behind it.
    pub async fn refuse(&self, message: &str, why: &str) -> Result<(), StoreError> {
        // The database must be able to keep them, whatever somebody wrote.
        let (message, why) = (text::plain(message, 300), text::plain(why, 300));
        let (of, now) = ((self.kind.as_str(), self.endpoint.as_str()), self.inbox.clock().now());
        sql::refuse(&mut self.store().await?, of, (&message, &why), now).await
    }

    /// Notes how the connector is, as its sign of life.
    pub async fn report(&self, health: &AccountHealth<'_>) -> Result<(), StoreError> {
        sql::report(&mut self.store().await?, self.lease, health, self.inbox.clock().now()).await
    }

    /// Gives the account back, so that another daemon need not wait for it.
    pub async fn give_back(&self) -> Result<(), StoreError> {
        sql::give_back(&mut self.store().await?, self.lease).await
    }
}
