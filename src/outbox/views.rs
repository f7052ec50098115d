//! Deliveries for people: looking, sending again, calling off, and saying what became of one that nobody knows of. And
//! what the chat shows.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_postgres::Row;
use uuid::Uuid;

use super::handle::{DeliveryStatus, Outbox};
use super::household::CHAT;
use base::text::links::for_owner;
use base::{IdBeginning, TenantId, Trust};
use store::StoreError;

/// One delivery as people see it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeliveryView {
    pub id: Uuid,
    pub origin: String,
    pub kind: String,
    pub intent: String,
    pub channel: String,
    pub target: String,
    pub subject: Option<String>,
    pub message: Option<String>,
    pub emoji: Option<String>,
    pub priority: String,
    pub state: String,
    pub reason: Option<String>,
    pub last_error: Option<String>,
    pub request_id: Uuid,
    pub session_id: Option<Uuid>,
    pub created_at: Timestamp,
    pub due_at: Timestamp,
    pub settled_at: Option<Timestamp>,
    pub attempts: i32,
    pub receipt: Option<Value>,
    /// Somebody put it aside: `{at, by, reason}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discarded: Option<Value>,
    /// Its tries, where one delivery is looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tries: Vec<Attempt>,
}

/// One try.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attempt {
    pub n: i32,
    pub begun_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub outcome: Option<String>,
    pub detail: Option<String>,
}

/// What a person's command made of one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Changed {
    pub id: Uuid,
    pub before: String,
    pub state: String,
}

/// Something that the chat shows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Note {
    pub id: Uuid,
    pub from: String,
    pub kind: String,
    pub subject: Option<String>,
    pub message: String,
    pub at: Timestamp,
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

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("reading deliveries")
}

const COLUMNS: &str = "id, origin, kind, intent, channel, target, subject, message, emoji, priority, state, reason, \
    last_error, request_id, session_id, created_at, due_at, settled_at, attempts, receipt, discarded";

fn delivery(row: &Row) -> DeliveryView {
    DeliveryView {
        id: row.get(0),
        origin: row.get(1),
        kind: row.get(2),
        intent: row.get(3),
        channel: row.get(4),
        target: row.get(5),
        subject: row.get(6),
        message: row.get(7),
        emoji: row.get(8),
        priority: row.get(9),
        state: row.get(10),
        reason: row.get(11),
        last_error: row.get(12),
        request_id: row.get(13),
        session_id: row.get(14),
        created_at: row.get(15),
        due_at: row.get(16),
        settled_at: row.get(17),
        attempts: row.get(18),
        receipt: row.get(19),
        discarded: row.get(20),
        tries: Vec::new(),
    }
}

impl Outbox {
    /// The newest deliveries: of one butler, in one of these states, or all.
    pub async fn list(
        &self,
        tenant: &TenantId,
        origin: Option<&str>,
        states: &[&str],
        limit: i64,
    ) -> Result<Vec<DeliveryView>, StoreError> {
        let mut lease = self.db().shared(tenant).await?;
        let sql = format!(
            "SELECT {COLUMNS} FROM shared.outbox
             WHERE tenant_id = $1 AND ($2::text IS NULL OR origin = $2) AND ($3::text[] = '{{}}' OR state = ANY($3))
             ORDER BY seq DESC LIMIT $4"
        );
        let rows = lease.read(&sql, &[&tenant.as_str(), &origin, &states, &limit]).await.map_err(failed())?;
        Ok(rows.iter().map(delivery).collect())
    }

    /// The ids of deliveries that begin so, each with its butler.
    pub async fn ids(
        &self,
        tenant: &TenantId,
        beginning: &IdBeginning,
        most: i64,
    ) -> Result<Vec<(Uuid, String)>, StoreError> {
        let (first, last) = beginning.range();
        let sql = "SELECT id, origin FROM shared.outbox WHERE tenant_id = $1 AND id BETWEEN $2 AND $3
                   ORDER BY id LIMIT $4";
        let mut lease = self.db().shared(tenant).await?;
        let rows = lease.read(sql, &[&tenant.as_str(), &first, &last, &most]).await.map_err(failed())?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    /// One delivery with its tries.
    pub async fn show(&self, tenant: &TenantId, id: Uuid) -> Result<DeliveryView, DeliveryError> {
        let mut lease = self.db().shared(tenant).await?;
        let sql = format!("SELECT {COLUMNS} FROM shared.outbox WHERE tenant_id = $1 AND id = $2");
        let rows = lease.read(&sql, &[&tenant.as_str(), &id]).await.map_err(failed())?;
        let Some(mut found) = rows.first().map(delivery) else { return Err(DeliveryError::Unknown(id)) };
        let sql = "SELECT n, begun_at, ended_at, outcome, detail FROM shared.outbox_attempts
                   WHERE tenant_id = $1 AND outbox_id = $2 ORDER BY n";
        let rows = lease.read(sql, &[&tenant.as_str(), &id]).await.map_err(failed())?;
        let attempt = |row: &Row| Attempt {
            n: row.get(0),
            begun_at: row.get(1),
            ended_at: row.get(2),
            outcome: row.get(3),
            detail: row.get(4),
        };
        found.tries = rows.iter().map(attempt).collect();
        Ok(found)
    }

    /// Sends it once more: one that failed, or of which nobody knows. Of the latter the other side may get two.
    pub async fn retry(&self, tenant: &TenantId, id: Uuid) -> Result<Changed, DeliveryError> {
        let set = "state = 'pending', reason = NULL, failures = 0, due_at = $4, available_at = clock_timestamp(),
                   settled_at = NULL, followed_at = NULL, receipt = NULL, discarded = NULL";
        let never = "only one that failed, is dead or unknown can be sent again";
        self.change(tenant, id, &["failed", "dead", "unknown"], (set, &json!(null)), never, "pending").await
    }

    /// Calls off what has not left.
    pub async fn cancel(&self, tenant: &TenantId, id: Uuid, by: &str) -> Result<Changed, DeliveryError> {
        let set =
            "state = 'failed', reason = 'cancelled', last_error = 'called off by ' || ($3 ->> 'by'), settled_at = $4,
                   followed_at = $4";
        let never = "only one that has not left yet can be called off";
        self.change(tenant, id, &["pending", "deferred", "waiting"], (set, &json!({"by": by})), never, "failed").await
    }

    /// Says that nothing more is to be done about one that came to a bad end. Its row stays as it is.
    pub async fn discard(&self, tenant: &TenantId, id: Uuid, by: &str, reason: &str) -> Result<Changed, DeliveryError> {
        let with = json!({"at": self.clock().now().to_string(), "by": by, "reason": reason});
        let never = "only one that failed, is dead or unknown can be discarded";
        let bad = ["failed", "dead", "unknown"];
        let done = self.change(tenant, id, &bad, ("discarded = $3", &with), never, "").await?;
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
            let set = "state = 'pending', reason = NULL, failures = 0, due_at = $4, available_at = clock_timestamp(),
                       settled_at = NULL, followed_at = NULL, discarded = NULL";
            return self.change(tenant, id, &["unknown"], (set, &json!(null)), never, "pending").await;
        }
        let set = "state = 'sent', reason = 'resolved', last_error = NULL, receipt = $3, settled_at = $4,
                   discarded = NULL";
        self.change(tenant, id, &["unknown"], (set, &json!({"resolved_by": by})), never, "sent").await
    }

    async fn change(
        &self,
        tenant: &TenantId,
        id: Uuid,
        from: &[&str],
        (set, with): (&str, &Value),
        never: &str,
        to: &str,
    ) -> Result<Changed, DeliveryError> {
        let mut lease = self.db().shared(tenant).await?;
        let sql = format!(
            "UPDATE shared.outbox o SET {set}
             FROM (SELECT state AS before FROM shared.outbox WHERE tenant_id = $1 AND id = $2 FOR UPDATE) b
             WHERE o.tenant_id = $1 AND o.id = $2 AND o.claim_id IS NULL AND b.before = ANY($5)
               AND ($3::jsonb IS NOT NULL OR $4::timestamptz IS NOT NULL)
             RETURNING b.before"
        );
        let now = self.clock().now();
        let row = lease.query_opt(&sql, &[&tenant.as_str(), &id, with, &now, &from]).await.map_err(failed())?;
        let Some(row) = row else {
            let sql = "SELECT state, claim_id IS NOT NULL FROM shared.outbox WHERE tenant_id = $1 AND id = $2";
            let rows = lease.read(sql, &[&tenant.as_str(), &id]).await.map_err(failed())?;
            return Err(match rows.first() {
                None => DeliveryError::Unknown(id),
                Some(row) if row.get(1) => DeliveryError::NotNow("it is on its way at this moment".to_owned()),
                Some(row) => DeliveryError::NotNow(format!("it is {}; {never}", row.get::<_, &str>(0))),
            });
        };
        self.wake();
        Ok(Changed { id, before: row.get(0), state: to.to_owned() })
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
        let mut lease = self.db().shared(tenant).await?;
        let sql = "SELECT state, last_error, receipt, due_at FROM shared.outbox WHERE tenant_id = $1 AND id = $2";
        let rows = lease.read(sql, &[&tenant.as_str(), &id]).await.map_err(failed())?;
        let Some(row) = rows.first() else { return Err(StoreError::Unexpected("a delivery is gone".to_owned())) };
        Ok(DeliveryStatus {
            delivery: id,
            state: row.get(0),
            error: row.get(1),
            receipt: row.get(2),
            due_at: row.get(3),
        })
    }

    /// Its butler was told of the bad end by the answer to its own call.
    pub(super) async fn heard(&self, tenant: &TenantId, id: Uuid) -> Result<(), StoreError> {
        let mut lease = self.db().shared(tenant).await?;
        let sql = "UPDATE shared.outbox SET told_at = $3 WHERE tenant_id = $1 AND id = $2 AND told_at IS NULL
                   AND state IN ('unknown', 'failed', 'dead')";
        lease.execute(sql, &[&tenant.as_str(), &id, &self.clock().now()]).await.map_err(failed())?;
        Ok(())
    }

    /// What is there for the chat and was not shown, the oldest first; waits so long for the first.
    pub async fn unshown(&self, tenant: &TenantId, within: Duration) -> Result<Vec<Note>, StoreError> {
        let mut live = self.live();
        let deadline = Instant::now() + within;
        loop {
            let notes = self.notes(tenant).await?;
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

    async fn notes(&self, tenant: &TenantId) -> Result<Vec<Note>, StoreError> {
        let mut lease = self.db().shared(tenant).await?;
        let sql = "SELECT id, origin, kind, subject, message, created_at, trust FROM shared.outbox
                   WHERE tenant_id = $1 AND channel = 'chat' AND intent = 'send' AND state = 'sent' AND shown_at IS NULL
                   ORDER BY seq LIMIT 50";
        let rows = lease.read(sql, &[&tenant.as_str()]).await.map_err(failed())?;
        let note = |row: &Row| {
            let trust = Trust::from_name(row.get(6));
            let told = |text: Option<String>| text.map(|text| for_owner(&text, trust).into_owned());
            Note {
                id: row.get(0),
                from: row.get(1),
                kind: row.get(2),
                subject: told(row.get(3)),
                message: told(row.get(4)).unwrap_or_default(),
                at: row.get(5),
            }
        };
        Ok(rows.iter().map(note).collect())
    }

    /// Somebody has seen these.
    pub async fn shown(&self, tenant: &TenantId, ids: &[Uuid]) -> Result<u64, StoreError> {
        let mut lease = self.db().shared(tenant).await?;
        let sql = "UPDATE shared.outbox SET shown_at = $3 WHERE tenant_id = $1 AND id = ANY($2) AND shown_at IS NULL
                   AND channel = 'chat'";
        lease.execute(sql, &[&tenant.as_str(), &ids, &self.clock().now()]).await.map_err(failed())
    }
}
