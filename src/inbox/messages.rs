//! The inbox for people: what came in, what became of it, and trying again.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use super::handle::Inbox;
use base::TenantId;
use store::StoreError;

/// One message with its parts and answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    pub request_id: Uuid,
    /// `accepted`, `processing`, `done`, `dead`
    pub state: String,
    pub tier: String,
    pub channel: String,
    pub sender: String,
    pub thread: Option<String>,
    pub trust: String,
    pub received_at: Timestamp,
    pub settled_at: Option<Timestamp>,
    pub body: String,
    pub triage: Option<Value>,
    pub attempts: i32,
    pub last_error: Option<String>,
    pub segments: Vec<Value>,
    pub replies: Vec<Value>,
}

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("reading the inbox")
}

impl Inbox {
    /// A message; `None`: this tenant has none of that id.
    pub async fn entry(&self, tenant: &TenantId, request: Uuid) -> Result<Option<Entry>, StoreError> {
        let mut lease = self.db().shared(tenant).await?;
        let schema = self.schema();
        let sql = format!(
            "SELECT request_id, state, tier, channel, sender, thread, trust, received_at, settled_at, body, triage,
                    attempts, last_error
             FROM \"{schema}\".message_inbox WHERE tenant_id = $1 AND request_id = $2"
        );
        let rows = lease.read(&sql, &[&tenant.as_str(), &request]).await.map_err(failed())?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mut entry = entry(row);
        let sql = format!(
            "SELECT id, n, butler, prompt, chosen_by, state, last_error, settled_at
             FROM \"{schema}\".route_segments WHERE tenant_id = $1 AND request_id = $2 AND state <> 'draft' ORDER BY n"
        );
        let rows = lease.read(&sql, &[&tenant.as_str(), &request]).await.map_err(failed())?;
        entry.segments = rows
            .iter()
            .map(|r| {
                json!({"segment_id": r.get::<_, Uuid>(0), "n": r.get::<_, i32>(1), "butler": r.get::<_, String>(2),
                       "prompt": r.get::<_, String>(3), "chosen_by": r.get::<_, String>(4),
                       "state": r.get::<_, String>(5), "error": r.get::<_, Option<String>>(6),
                       "settled_at": r.get::<_, Option<Timestamp>>(7).map(|t| t.to_string())})
            })
            .collect();
        let rows = lease
            .read(
                "SELECT seq, butler, kind, message, emoji, auto, at, session_id, segment_id FROM shared.replies
                 WHERE tenant_id = $1 AND request_id = $2 ORDER BY seq",
                &[&tenant.as_str(), &request],
            )
            .await
            .map_err(failed())?;
        entry.replies = rows.iter().map(reply).collect();
        Ok(Some(entry))
    }

    /// The newest messages, at most `limit`, without their parts; of one state, if that is named.
    pub async fn entries(&self, tenant: &TenantId, state: Option<&str>, limit: i64) -> Result<Vec<Entry>, StoreError> {
        let mut lease = self.db().shared(tenant).await?;
        let sql = format!(
            "SELECT request_id, state, tier, channel, sender, thread, trust, received_at, settled_at, body, triage,
                    attempts, last_error
             FROM \"{}\".message_inbox WHERE tenant_id = $1 AND ($2::text IS NULL OR state = $2)
             ORDER BY seq DESC LIMIT $3",
            self.schema()
        );
        let rows = lease.read(&sql, &[&tenant.as_str(), &state, &limit]).await.map_err(failed())?;
        Ok(rows.iter().map(entry).collect())
    }
}

fn entry(r: &Row) -> Entry {
    let tier = super::Tier::from_number(r.get(2));
    Entry {
        request_id: r.get(0),
        state: r.get(1),
        tier: serde_json::to_value(tier).ok().and_then(|t| t.as_str().map(str::to_owned)).unwrap_or_default(),
        channel: r.get(3),
        sender: r.get(4),
        thread: r.get(5),
        trust: r.get(6),
        received_at: r.get(7),
        settled_at: r.get(8),
        body: r.get(9),
        triage: r.get(10),
        attempts: r.get(11),
        last_error: r.get(12),
        segments: Vec::new(),
        replies: Vec::new(),
    }
}

fn reply(r: &Row) -> Value {
    json!({"seq": r.get::<_, i64>(0), "butler": r.get::<_, String>(1), "kind": r.get::<_, String>(2),
           "message": r.get::<_, Option<String>>(3), "emoji": r.get::<_, Option<String>>(4),
           "auto": r.get::<_, bool>(5), "at": r.get::<_, Timestamp>(6).to_string(),
           "session_id": r.get::<_, Option<Uuid>>(7), "segment_id": r.get::<_, Option<Uuid>>(8)})
}
