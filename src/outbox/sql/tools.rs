//! What the messenger's own tools tell of deliveries, their tries, and channels: as objects, with the names that the
//! tools give to columns.

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use store::AsRows;
use tools::{ToolCall, ToolError};

/// What is told of a delivery.
const COLUMNS: &str = "d.id AS delivery_id, d.origin AS origin_butler, d.request_id, d.kind, d.intent,
    d.channel, d.target AS recipient, d.subject, left(d.message, 500) AS message, d.emoji, d.priority, d.state,
    d.reason, d.last_error AS error, d.due_at, d.attempts, d.created_at, d.settled_at";

/// Called off by a person is no bad end.
const BAD: &str = "d.state IN ('failed', 'dead', 'unknown') AND d.reason <> 'cancelled'";

/// The channels over which anything was ever to go.
pub(crate) async fn used_channels(call: &ToolCall) -> Result<Vec<String>, ToolError> {
    call.query("SELECT DISTINCT channel FROM shared.deliveries() ORDER BY channel", &[]).await.column("channel")
}

/// What has not left yet, by channel.
pub(crate) async fn queues(call: &ToolCall, channels: &[String]) -> Result<Vec<Value>, ToolError> {
    let sql = "SELECT c.channel, count(*) FILTER (WHERE d.state = 'pending') AS pending,
                      count(*) FILTER (WHERE d.state = 'deferred') AS deferred,
                      count(*) FILTER (WHERE d.state = 'waiting') AS waiting,
                      count(*) FILTER (WHERE d.state = 'sending') AS sending, min(d.created_at) AS oldest_since,
                      min(d.due_at) AS next_due
               FROM unnest($1::text[]) c(channel)
               LEFT JOIN shared.deliveries() d ON d.channel = c.channel AND d.state IN ('pending', 'deferred', 'waiting', 'sending')
               GROUP BY c.channel ORDER BY c.channel";
    call.objects(sql, &[&channels]).await
}

/// Whether anything was ever to go to this end.
pub(crate) async fn ever_to(call: &ToolCall, target: &str, channels: &[String]) -> Result<bool, ToolError> {
    let sql = "SELECT 1 FROM shared.deliveries() d WHERE d.target = $1 AND d.channel = ANY($2) LIMIT 1";
    Ok(!call.query(sql, &[&target, &channels]).await?.is_empty())
}

/// What waits and what was tried within the last minute, by channel and recipient; of one recipient, if one is named.
pub(crate) async fn rates(call: &ToolCall, channels: &[String], target: Option<&str>) -> Result<Vec<Value>, ToolError> {
    let sql = "WITH d AS (SELECT * FROM shared.deliveries()),
                    a AS (SELECT delivery_id FROM shared.delivery_attempts()
                          WHERE begun_at > clock_timestamp() - interval '1 minute')
               SELECT d.channel, d.target AS recipient,
                      sum((SELECT count(*) FROM a WHERE a.delivery_id = d.id)) AS tries_last_minute,
                      count(*) FILTER (WHERE d.state IN ('pending', 'deferred', 'waiting', 'sending')) AS waiting,
                      max(d.available_at) FILTER (WHERE d.state = 'pending' AND d.available_at > clock_timestamp())
                          AS put_off_until,
                      (array_agg(d.last_error ORDER BY d.seq DESC)
                          FILTER (WHERE d.state = 'pending' AND d.available_at > clock_timestamp()))[1] AS why
               FROM d
               WHERE d.channel = ANY($1) AND ($2::text IS NULL OR d.target = $2)
                 AND (d.state IN ('pending', 'deferred', 'waiting', 'sending') OR EXISTS (SELECT 1 FROM a WHERE a.delivery_id = d.id))
               GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 500";
    call.objects(sql, &[&channels, &target]).await
}

/// How the last tries of each channel ended, and what waits there.
pub(crate) async fn states(call: &ToolCall, channels: &[String]) -> Result<Vec<Value>, ToolError> {
    let sql = "WITH d AS (SELECT * FROM shared.deliveries()),
                    a AS (SELECT d.channel, a.ended_at, a.outcome, a.detail
                          FROM shared.delivery_attempts() a JOIN d ON d.id = a.delivery_id WHERE a.outcome IS NOT NULL)
               SELECT c.channel, s.at AS last_sent_at,
                      CASE WHEN f.outcome IS NOT NULL THEN
                          jsonb_build_object('at', f.ended_at, 'outcome', f.outcome, 'detail', f.detail) END AS last_failure,
                      (SELECT count(*) FROM a WHERE a.channel = c.channel AND a.outcome <> 'sent'
                          AND a.ended_at > coalesce(s.at, '-infinity')) AS failed_in_a_row,
                      count(d.id) FILTER (WHERE d.state IN ('pending', 'deferred', 'waiting', 'sending')) AS waiting,
                      max(d.available_at) FILTER (WHERE d.state = 'pending' AND d.available_at > clock_timestamp())
                          AS put_off_until
               FROM unnest($1::text[]) c(channel)
               LEFT JOIN LATERAL (SELECT max(ended_at) AS at FROM a WHERE a.channel = c.channel AND a.outcome = 'sent') s
                   ON true
               LEFT JOIN LATERAL (SELECT * FROM a WHERE a.channel = c.channel AND a.outcome <> 'sent'
                                  ORDER BY a.ended_at DESC LIMIT 1) f ON true
               LEFT JOIN d ON d.channel = c.channel
               GROUP BY c.channel, s.at, f.ended_at, f.outcome, f.detail ORDER BY c.channel";
    call.objects(sql, &[&channels]).await
}

/// Which deliveries are looked for.
pub(crate) struct Wanted<'a> {
    pub origin: Option<&'a str>,
    pub channel: Option<&'a str>,
    pub since: Option<Timestamp>,
    pub limit: i64,
    pub offset: i64,
}

/// Bad ends, the newest first: of one class, if one is named; those that were put aside, too, if they are asked for.
pub(crate) async fn dead(
    call: &ToolCall,
    wanted: &Wanted<'_>,
    (class, discarded): (Option<&str>, bool),
) -> Result<Vec<Value>, ToolError> {
    let sql = format!(
        "SELECT d.id AS dead_letter_id, d.reason AS error_class, {COLUMNS}, d.discarded FROM shared.deliveries() d
         WHERE {BAD} AND ($1::text IS NULL OR d.channel = $1) AND ($2::text IS NULL OR d.origin = $2)
           AND ($3::text IS NULL OR d.reason = $3) AND ($4::timestamptz IS NULL OR d.settled_at >= $4)
           AND ($5 OR d.discarded IS NULL)
         ORDER BY d.seq DESC LIMIT $6 OFFSET $7"
    );
    let Wanted { origin, channel, since, limit, offset } = wanted;
    call.objects(&sql, &[channel, origin, &class, since, &discarded, limit, offset]).await
}

/// One bad end.
pub(crate) async fn dead_one(call: &ToolCall, id: Uuid) -> Result<Option<Value>, ToolError> {
    let sql = format!(
        "SELECT d.id AS dead_letter_id, d.reason AS error_class, {COLUMNS}, d.message AS whole_message, d.failures,
                d.discarded
         FROM shared.deliveries() d WHERE {BAD} AND d.id = $1"
    );
    Ok(call.objects(&sql, &[&id]).await?.pop())
}

/// One delivery.
pub(crate) async fn one(call: &ToolCall, id: Uuid) -> Result<Option<Value>, ToolError> {
    let sql = format!(
        "SELECT {COLUMNS}, d.receipt, d.failures, d.discarded,
                CASE WHEN d.state = 'pending' AND d.available_at > clock_timestamp() THEN d.available_at END AS not_before
         FROM shared.deliveries() d WHERE d.id = $1"
    );
    Ok(call.objects(&sql, &[&id]).await?.pop())
}

/// The tries of a delivery, in their order.
pub(crate) async fn tries_of(call: &ToolCall, delivery: Uuid) -> Result<Vec<Value>, ToolError> {
    let sql = "SELECT n, begun_at, ended_at, outcome, detail FROM shared.delivery_attempts()
               WHERE delivery_id = $1 ORDER BY n";
    call.objects(sql, &[&delivery]).await
}

/// Deliveries, the newest first; with this intent and state, and before a time, if they are named.
pub(crate) async fn search(
    call: &ToolCall,
    wanted: &Wanted<'_>,
    (intent, state): (Option<&str>, Option<&str>),
    until: Option<Timestamp>,
) -> Result<Vec<Value>, ToolError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM shared.deliveries() d
         WHERE ($1::text IS NULL OR d.origin = $1) AND ($2::text IS NULL OR d.channel = $2)
           AND ($3::text IS NULL OR d.intent = $3) AND ($4::text IS NULL OR d.state = $4)
           AND ($5::timestamptz IS NULL OR d.created_at >= $5) AND ($6::timestamptz IS NULL OR d.created_at < $6)
         ORDER BY d.seq DESC LIMIT $7 OFFSET $8"
    );
    let Wanted { origin, channel, since, limit, offset } = wanted;
    call.objects(&sql, &[origin, channel, &intent, &state, since, &until, limit, offset]).await
}

/// All that was to leave for a request, in its order.
pub(crate) async fn of_request(call: &ToolCall, request: Uuid) -> Result<Vec<Value>, ToolError> {
    let sql = format!("SELECT {COLUMNS}, d.receipt FROM shared.deliveries() d WHERE d.request_id = $1 ORDER BY d.seq");
    call.objects(&sql, &[&request]).await
}

/// The tries of all that was to leave for a request, in their order.
pub(crate) async fn tries_of_request(call: &ToolCall, request: Uuid) -> Result<Vec<Value>, ToolError> {
    let sql = "SELECT a.delivery_id, a.n, a.begun_at, a.ended_at, a.outcome, a.detail
               FROM shared.delivery_attempts() a JOIN shared.deliveries() d ON d.id = a.delivery_id
               WHERE d.request_id = $1 ORDER BY a.begun_at, a.n";
    call.objects(sql, &[&request]).await
}

/// How many deliveries came to which state, by what `by` names: a group of the tool `messenger_delivery_stats`.
pub(crate) async fn counts(
    call: &ToolCall,
    by: &str,
    (since, until): (Option<Timestamp>, Option<Timestamp>),
) -> Result<Vec<Value>, ToolError> {
    let by = match by {
        "origin_butler" => "d.origin",
        "intent" => "d.intent",
        "status" => "d.state",
        "day" => "d.created_at::date::text",
        _ => "d.channel",
    };
    let sql = format!(
        "SELECT {by} AS \"group\", count(*) AS deliveries, count(*) FILTER (WHERE d.state = 'sent') AS sent,
                count(*) FILTER (WHERE d.state IN ('pending', 'deferred', 'waiting', 'sending')) AS waiting,
                count(*) FILTER (WHERE d.state IN ('failed', 'dead')) AS failed,
                count(*) FILTER (WHERE d.state = 'unknown') AS unknown, sum(d.attempts) AS attempts,
                round(percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM d.settled_at - d.created_at))
                      FILTER (WHERE d.state = 'sent')::numeric, 3) AS median_s_to_sent
         FROM shared.deliveries() d
         WHERE ($1::timestamptz IS NULL OR d.created_at >= $1) AND ($2::timestamptz IS NULL OR d.created_at < $2)
         GROUP BY 1 ORDER BY 1"
    );
    call.objects(&sql, &[&since, &until]).await
}
