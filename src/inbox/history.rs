//! What was said before in a conversation, for whoever must understand what is said now.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::handle::Inbox;
use super::types::Lane;
use base::{TenantId, Trust, text};
use store::StoreError;

/// Messages of either side that are shown.
const MESSAGES: i64 = 30;
/// Of a conversation that goes on as it is spoken, nothing older is shown.
const AGE: SignedDuration = SignedDuration::from_hours(12);
/// Of a thread of letters nothing is too old, but there is a limit of bytes.
const THREAD_BYTES: usize = 128 * 1024;
const MESSAGE_BYTES: usize = 16 * 1024;
const LETTERS: i64 = 100;

impl Inbox {
    /// The conversation of this lane before the message numbered `before` (all of it where that is `None`), oldest
    /// first.
    pub async fn history(
        &self,
        tenant: &TenantId,
        lane: &Lane,
        channel: &str,
        before: Option<i64>,
    ) -> Result<Vec<Value>, StoreError> {
        let letters = channel == "email";
        let since = if letters { Timestamp::UNIX_EPOCH } else { self.clock().now() - AGE };
        let most = if letters { LETTERS } else { MESSAGES };
        let schema = self.schema();
        let sql = format!(
            "SELECT at, who, said, emoji, butler, trust FROM (
                 SELECT received_at AS at, coalesce(envelope #>> '{{sender,display_name}}', sender) AS who, body AS said,
                        NULL AS emoji, NULL AS butler, trust
                 FROM \"{schema}\".message_inbox
                 WHERE tenant_id = $1 AND lane = $2 AND ($3::bigint IS NULL OR seq < $3) AND received_at > $4
                 UNION ALL
                 SELECT at, butler, message, emoji, butler, trust FROM shared.replies
                 WHERE tenant_id = $1 AND lane = $2 AND at > $4
                 UNION ALL
                 SELECT settled_at, origin, message, NULL, origin, trust FROM shared.outbox
                 WHERE tenant_id = $1 AND conversation = $2 AND settled_at > $4 AND kind <> 'notice'
             ) said ORDER BY at DESC LIMIT $5"
        );
        let mut lease = self.db().shared(tenant).await?;
        let rows = lease.read(&sql, &[&tenant.as_str(), &lane.0, &before, &since, &most]).await;
        let rows = rows.map_err(StoreError::query("reading a conversation"))?;
        let mut left = THREAD_BYTES;
        let mut said = Vec::with_capacity(rows.len());
        for row in rows {
            let (who, butler): (String, Option<String>) = (row.get(1), row.get(4));
            let words: Option<String> = row.get(2);
            let words = words.map(|w| text::truncate(&w, MESSAGE_BYTES));
            let Some(rest) = left.checked_sub(words.as_ref().map_or(8, String::len)) else { break };
            left = rest;
            let mut one = json!({"at": row.get::<_, Timestamp>(0).to_string(), "from": who, "text": words});
            // Whoever is shown it is believed no more than this.
            let trust = Trust::from_name(row.get(5));
            if trust < Trust::System {
                one["trust"] = json!(trust);
            }
            if butler.is_some() {
                one["by_butler"] = json!(true);
            }
            if let Some(emoji) = row.get::<_, Option<String>>(3) {
                one["emoji"] = json!(emoji);
            }
            said.push(one);
        }
        said.reverse();
        Ok(said)
    }
}
