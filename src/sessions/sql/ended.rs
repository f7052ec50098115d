//! Sessions that are over and wait to be remembered.

use serde_json::Value;
use uuid::Uuid;

use store::{AsRows, Lease, StoreError};
use tools::sql::calls;

store::row! {
    /// A session that is to be remembered.
    pub struct EndedRow {
        pub id: Uuid,
        /// Its request context, as it was stored.
        pub request: Value,
        pub trust: String,
        pub prompt: String,
        pub result: Option<String>,
        pub state: String,
        pub error: Option<String>,
        pub begun: bool,
        /// The household alone may learn what it was shown.
        pub private: bool,
        pub scheduled: bool,
        /// It changed something.
        pub effects: bool,
        /// Its first calls: tool, outcome and arguments of each.
        pub calls: Value,
    }
}

/// Calls that a session is remembered with.
const CALLS: u32 = 40;

/// The sessions of a schema that are over and not remembered, those first that ended first.
pub async fn ended(lease: &mut Lease, schema: &str, most: i64) -> Result<Vec<EndedRow>, StoreError> {
    let sql = format!(
        "SELECT s.id, s.context -> 'request' AS request, s.trust, s.prompt, s.result, s.state, s.error,
                s.started_at IS NOT NULL AS begun, s.audience = '{{}}' AS private,
                s.trigger_source LIKE 'schedule:%' AS scheduled, {effects} AS effects, {calls} AS calls
         FROM \"{schema}\".sessions s WHERE s.remember = 'pending' AND s.completed_at IS NOT NULL
         ORDER BY s.completed_at LIMIT $1",
        effects = calls::any_effect(schema, "s.id"),
        calls = calls::first(schema, "s.id", CALLS)
    );
    lease.query(&sql, &[&most]).await.typed().map_err(StoreError::query("looking for sessions to remember"))
}

/// Notes what became of remembering a session.
pub async fn remembered(lease: &mut Lease, schema: &str, session: Uuid, state: &str) -> Result<(), StoreError> {
    let sql = format!("UPDATE \"{schema}\".sessions SET remember = $2 WHERE id = $1 AND remember = 'pending'");
    let done = lease.execute(&sql, &[&session, &state]).await;
    done.map(drop).map_err(StoreError::query("noting that a session is remembered"))
}

/// What owners are to be told of budgets that are used up, once a day and tenant, as rows of `tenant_id`, `kind`,
/// `subject`, `happened_at` and `told`. `since` is SQL.
pub fn notices(schema: &str, butler: &str, since: &str) -> String {
    format!(
        "SELECT tenant_id, 'budget_spent' AS kind, '{butler}' AS subject, day AS happened_at,
                '{butler} has used up what it may spend: ' || min(error) AS told
         FROM (SELECT tenant_id, error, date_trunc('day', queued_at) AS day FROM \"{schema}\".sessions
               WHERE error_class = 'budget' AND state = 'failed' AND started_at IS NULL AND queued_at > {since}) spent
         GROUP BY tenant_id, day"
    )
}
