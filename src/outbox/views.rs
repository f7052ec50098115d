//! Deliveries for people: looking, sending again, calling off, and saying what became of one that nobody knows of. And
//! what the chat shows.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use super::files::OutFile;
use super::handle::Outbox;
use super::household::CHAT;
use super::sql::views::{self as sql, Change, DeliveryStatus, DeliveryView, Note, Set};
use base::{IdBeginning, TenantId};
use store::StoreError;

/// What a person's command made of one.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "DeliveryChange")]
pub struct Changed {
    pub id: Uuid,
    pub before: String,
    pub state: String,
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("there is no delivery {0}")]
    Unknown(Uuid),
    #[error("{0}")]
    NotNow(String),
}

impl Outbox {
    /// The newest deliveries: of one butler, in one of these states, or all; those made before another, if that is named.
    pub async fn list(
        &self,
        tenant: &TenantId,
        origin: Option<&str>,
        states: &[&str],
        limit: i64,
        before: Option<Uuid>,
    ) -> Result<Vec<DeliveryView>, StoreError> {
        sql::newest(&mut self.db().shared(tenant).await?, tenant, (origin, states, before), limit).await
    }

    /// The deliveries that these requests led to, the oldest first: of one butler, or of all.
    pub async fn of_requests(
        &self,
        tenant: &TenantId,
        origin: Option<&str>,
        requests: &[Uuid],
        limit: i64,
    ) -> Result<Vec<DeliveryView>, StoreError> {
        sql::of_requests(&mut self.db().shared(tenant).await?, tenant, (origin, requests), limit).await
    }

    /// The ids of deliveries that begin so, each with its butler.
    pub async fn ids(
        &self,
        tenant: &TenantId,
        beginning: &IdBeginning,
        most: i64,
    ) -> Result<Vec<(Uuid, String)>, StoreError> {
        let rows = self.db().shared(tenant).await?.beginning(sql::IDS, tenant, beginning, most).await?;
        Ok(rows.iter().map(|row| (row.get("id"), row.get("origin"))).collect())
    }

    /// One delivery with its tries.
    pub async fn show(&self, tenant: &TenantId, id: Uuid) -> Result<DeliveryView, DeliveryError> {
        let mut lease = self.db().shared(tenant).await?;
        let found = sql::one(&mut lease, tenant, id).await?;
        let mut found = found.ok_or(DeliveryError::Unknown(id))?;
        found.tries = sql::tries_of(&mut lease, tenant, id).await?;
        found.files = sql::files_of(&mut lease, tenant, id).await?;
        Ok(found)
    }

    /// A kept file whose content's hash begins so, as the owner gets it; of one butler, or of all.
    pub async fn kept_file(
        &self,
        tenant: &TenantId,
        handle: &str,
        origin: Option<&str>,
    ) -> Result<Option<OutFile>, StoreError> {
        let found = sql::kept_file(&mut self.db().shared(tenant).await?, tenant, handle, origin).await?;
        Ok(found.map(|found| OutFile::new(&found.name, Some(&found.media_type), found.content).for_owner(found.trust)))
    }

    /// Sends it once more: one that failed, or of which nobody knows. Of the latter the other side may get two.
    pub async fn retry(&self, tenant: &TenantId, id: Uuid) -> Result<Changed, DeliveryError> {
        let never = "only one that failed, is dead or unknown can be sent again";
        self.change(tenant, id, &["failed", "dead", "unknown"], (Set::Again, &json!(null)), never, "pending").await
    }

    /// Calls off what has not left.
    pub async fn cancel(&self, tenant: &TenantId, id: Uuid, by: &str) -> Result<Changed, DeliveryError> {
        let never = "only one that has not left yet can be called off";
        self.change(
            tenant,
            id,
            &["pending", "deferred", "waiting"],
            (Set::CalledOff, &json!({"by": by})),
            never,
            "failed",
        )
        .await
    }

    /// Says that nothing more is to be done about one that came to a bad end. Its row stays as it is.
    pub async fn discard(&self, tenant: &TenantId, id: Uuid, by: &str, reason: &str) -> Result<Changed, DeliveryError> {
        let with = json!({"at": self.clock().now().to_string(), "by": by, "reason": reason});
        let never = "only one that failed, is dead or unknown can be discarded";
        let bad = ["failed", "dead", "unknown"];
        let done = self.change(tenant, id, &bad, (Set::Discarded, &with), never, "").await?;
        Ok(Changed { state: done.before.clone(), ..done })
    }

    /// Says what became of one that nobody knows of: it arrived, or it did not, and is sent again.
    pub async fn resolve(
        &self,
        tenant: &TenantId,
        id: Uuid,
        arrived: bool,
        by: &str,
    ) -> Result<Changed, DeliveryError> {
        let never = "only one of which it is not known whether it arrived can be resolved";
        if !arrived {
            return self.change(tenant, id, &["unknown"], (Set::NotArrived, &json!(null)), never, "pending").await;
        }
        self.change(tenant, id, &["unknown"], (Set::Arrived, &json!({"resolved_by": by})), never, "sent").await
    }

    async fn change(
        &self,
        tenant: &TenantId,
        id: Uuid,
        from: &[&str],
        (set, with): (Set, &Value),
        never: &str,
        to: &str,
    ) -> Result<Changed, DeliveryError> {
        let mut lease = self.db().shared(tenant).await?;
        let change = Change { from, set, with, now: self.clock().now() };
        let Some(before) = sql::change(&mut lease, tenant, id, &change).await? else {
            return Err(match sql::standing(&mut lease, tenant, id).await? {
                None => DeliveryError::Unknown(id),
                Some(row) if row.in_hand => DeliveryError::NotNow("it is on its way at this moment".to_owned()),
                Some(row) => DeliveryError::NotNow(format!("it is {}; {never}", row.state)),
            });
        };
        self.wake();
        Ok(Changed { id, before, state: to.to_owned() })
    }

    /// What became of one so far: its end, or how it stands after this long.
    pub(super) async fn outcome(
        &self,
        tenant: &TenantId,
        id: Uuid,
        within: Duration,
    ) -> Result<DeliveryStatus, StoreError> {
        let mut live = self.live();
        let deadline = Instant::now() + within;
        loop {
            let posted = self.posted(tenant, id).await?;
            if ["sent", "unknown", "failed", "dead", "deferred", "waiting"].contains(&posted.state.as_str()) {
                return Ok(posted);
            }
            loop {
                match tokio::time::timeout_at(deadline, live.recv()).await {
                    Err(_) => return self.posted(tenant, id).await,
                    Ok(Ok(told)) if told.delivery == id => break,
                    Ok(Ok(_)) => {}
                    // Something was missed.
                    Ok(Err(_)) => break,
                }
            }
        }
    }

    async fn posted(&self, tenant: &TenantId, id: Uuid) -> Result<DeliveryStatus, StoreError> {
        let row = sql::posted(&mut self.db().shared(tenant).await?, tenant, id).await?;
        row.ok_or_else(|| StoreError::Unexpected("a delivery is gone".to_owned()))
    }

    /// Its butler was told of the bad end by the answer to its own call.
    pub(super) async fn heard(&self, tenant: &TenantId, id: Uuid) -> Result<(), StoreError> {
        sql::heard(&mut self.db().shared(tenant).await?, tenant, id, self.clock().now()).await
    }

    /// What is there for the chat and was not shown, the oldest first; waits so long for the first.
    pub async fn unshown(&self, tenant: &TenantId, within: Duration) -> Result<Vec<Note>, StoreError> {
        let mut live = self.live();
        let deadline = Instant::now() + within;
        loop {
            let notes = sql::unshown(&mut self.db().shared(tenant).await?, tenant).await?;
            if !notes.is_empty() || Instant::now() >= deadline {
                return Ok(notes);
            }
            // Now and then rows are looked at, whatever is heard.
            let look = deadline.min(Instant::now() + Duration::from_secs(5));
            while let Ok(Ok(told)) = tokio::time::timeout_at(look, live.recv()).await {
                if told.channel == CHAT {
                    break;
                }
            }
        }
    }

    /// What the chat has for the owner, seen or not, the newest first; what came before another, if that is named.
    pub async fn told(&self, tenant: &TenantId, before: Option<Uuid>, limit: i64) -> Result<Vec<Note>, StoreError> {
        sql::told(&mut self.db().shared(tenant).await?, tenant, before, limit).await
    }

    /// Somebody has seen these.
    pub async fn shown(&self, tenant: &TenantId, ids: &[Uuid]) -> Result<u64, StoreError> {
        sql::shown(&mut self.db().shared(tenant).await?, tenant, ids, self.clock().now()).await
    }
}
