//! Messages that came to nothing.

use jiff::Timestamp;
use serde_json::Value;

use conversation::MESSAGE_TEXT;
use tools::{ToolCall, ToolError};

/// Why a dead message came to nothing.
const CATEGORY: &str = "CASE
    WHEN EXISTS (SELECT 1 FROM request_actions a WHERE a.request_id = m.request_id AND a.action IN ('cancel', 'abort')
                 AND a.at >= m.settled_at) THEN 'called_off'
    WHEN m.classified_at IS NOT NULL AND EXISTS (SELECT 1 FROM route_segments s
                 WHERE s.request_id = m.request_id AND s.state = 'dead') THEN 'butler_failed'
    ELSE 'not_routed' END";

/// The newest of them, as objects; of one category, if that is named.
pub async fn list(call: &ToolCall, category: Option<&str>, limit: i64) -> Result<Vec<Value>, ToolError> {
    let sql = format!(
        "SELECT * FROM (SELECT m.request_id AS dead_letter_id, m.request_id, {CATEGORY} AS failure_category, m.channel,
                               m.sender, left({MESSAGE_TEXT}, 200) AS preview, m.last_error AS error, m.attempts, m.received_at,
                               m.settled_at,
                               (SELECT coalesce(jsonb_agg(DISTINCT s.butler), '[]') FROM route_segments s
                                WHERE s.request_id = m.request_id AND s.state = 'dead') AS butlers
                        FROM message_inbox m WHERE m.state = 'dead' ORDER BY m.seq DESC) dead
         WHERE $1::text IS NULL OR failure_category = $1 LIMIT $2"
    );
    call.objects(&sql, &[&category, &limit]).await
}

/// How many there are, by category, channel and butler.
pub async fn stats(call: &ToolCall, since: Option<Timestamp>) -> Result<Value, ToolError> {
    let sql = format!(
        "WITH dead AS (SELECT m.request_id, m.channel, m.settled_at, {CATEGORY} AS category FROM message_inbox m
                       WHERE m.state = 'dead' AND ($1::timestamptz IS NULL OR m.settled_at >= $1)),
              by_category AS (SELECT category AS k, count(*) AS n FROM dead GROUP BY 1),
              by_channel AS (SELECT channel AS k, count(*) AS n FROM dead GROUP BY 1),
              by_butler AS (SELECT s.butler AS k, count(DISTINCT s.request_id) AS n FROM route_segments s
                            JOIN dead d ON d.request_id = s.request_id WHERE s.state = 'dead' GROUP BY 1)
         SELECT (SELECT count(*) FROM dead) AS total, (SELECT min(settled_at) FROM dead) AS oldest,
                (SELECT coalesce(jsonb_object_agg(k, n), '{{}}') FROM by_category) AS by_category,
                (SELECT coalesce(jsonb_object_agg(k, n), '{{}}') FROM by_channel) AS by_channel,
                (SELECT coalesce(jsonb_object_agg(k, n), '{{}}') FROM by_butler) AS by_butler"
    );
    Ok(call.objects(&sql, &[&since]).await?.pop().unwrap_or_default())
}

/// What owners are to be told of messages that came to nothing, as rows of `tenant_id`, `kind`, `subject`,
/// `happened_at` and `told`. `since` is SQL.
pub fn notices(schema: &str, since: &str) -> String {
    format!(
        "SELECT tenant_id, 'message_dead' AS kind, request_id::text AS subject, settled_at AS happened_at,
                'A message over ' || channel || ' came to nothing: '
                || coalesce(last_error, 'no reason is on record') AS told
         FROM \"{schema}\".message_inbox m WHERE state = 'dead' AND settled_at > {since}
           AND NOT EXISTS (SELECT 1 FROM \"{schema}\".request_actions a
                           WHERE a.request_id = m.request_id AND a.action IN ('cancel', 'abort')
                             AND a.at >= m.settled_at)"
    )
}
