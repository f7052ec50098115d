//! What strangers have sent lately, and what of it was refused: the statements on `message_inbox` and
//! `refused_senders`.

use jiff::Timestamp;
use serde_json::Value;

use store::{AsRows, Lease, StoreError};
use tools::{ToolCall, ToolError};

store::row! {
    /// What one stranger has sent.
    #[derive(Default)]
    pub struct Recent {
        pub channel: String,
        pub sender: String,
        pub of_hour: i64,
        pub of_day: i64,
        pub first_of_hour: Option<Timestamp>,
        pub first_of_day: Option<Timestamp>,
    }
}

/// What these strangers, each a channel and a plain identity, have sent since the two moments: of each the newest, at
/// most so many.
pub async fn recent(
    lease: &mut Lease,
    senders: &[(String, String)],
    (hour, day): (Timestamp, Timestamp),
    most: i64,
) -> Result<Vec<Recent>, StoreError> {
    let (channels, names): (Vec<&str>, Vec<&str>) =
        senders.iter().map(|(channel, sender)| (channel.as_str(), sender.as_str())).unzip();
    let sql = "SELECT asked.channel, asked.sender, count(*) FILTER (WHERE m.received_at > $3) AS of_hour,
                      count(*) AS of_day, min(m.received_at) FILTER (WHERE m.received_at > $3) AS first_of_hour,
                      min(m.received_at) AS first_of_day
               FROM unnest($1::text[], $2::text[]) AS asked(channel, sender), LATERAL (
                   SELECT received_at FROM message_inbox
                   WHERE channel = asked.channel AND sender_key = asked.sender AND trust = 'stranger' AND received_at > $4
                   ORDER BY received_at DESC LIMIT $5) m
               GROUP BY 1, 2";
    let rows = lease.read(sql, &[&channels, &names, &hour, &day, &most]).await;
    rows.typed().map_err(StoreError::query("counting what strangers have sent"))
}

/// When the `nth` newest message came since a moment from this end of a channel; `None`: fewer came.
pub async fn newest_of_end(
    lease: &mut Lease,
    (channel, endpoint): (&str, &str),
    since: Timestamp,
    nth: u32,
) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT received_at FROM message_inbox WHERE channel = $1 AND endpoint = $2 AND received_at > $3
               ORDER BY received_at DESC OFFSET $4 LIMIT 1";
    let before = i64::from(nth.saturating_sub(1));
    let rows = lease.read(sql, &[&channel, &endpoint, &since, &before]).await;
    rows.cell("received_at").map_err(StoreError::query("counting what a connector has handed in"))
}

/// A message that a limit refused.
pub struct Refused {
    pub channel: String,
    /// A plain identity.
    pub sender: String,
    pub by_limit: &'static str,
}

/// Notes that messages of strangers were refused.
pub async fn refused(lease: &mut Lease, refused: &[Refused], now: Timestamp) -> Result<(), StoreError> {
    let channels: Vec<&str> = refused.iter().map(|r| r.channel.as_str()).collect();
    let senders: Vec<&str> = refused.iter().map(|r| r.sender.as_str()).collect();
    let limits: Vec<&str> = refused.iter().map(|r| r.by_limit).collect();
    let sql = "INSERT INTO refused_senders AS r (channel, sender, day, refused, by_limit, first_at, last_at, trust)
               SELECT channel, sender, shared.today(), count(*), min(by_limit), $4, $4, 'stranger'
               FROM unnest($1::text[], $2::text[], $3::text[]) AS t(channel, sender, by_limit) GROUP BY 1, 2
               ON CONFLICT (tenant_id, channel, sender, day) DO UPDATE
               SET refused = r.refused + excluded.refused, by_limit = excluded.by_limit, last_at = excluded.last_at";
    let noted = lease.execute(sql, &[&channels, &senders, &limits, &now]).await;
    noted.map(drop).map_err(StoreError::query("noting refused messages"))
}

/// Who was refused, the newest first, as objects.
pub async fn list_refused(call: &ToolCall, limit: i64) -> Result<Vec<Value>, ToolError> {
    let sql = "SELECT channel, sender, day::text AS day, refused, by_limit, first_at, last_at FROM refused_senders
               ORDER BY last_at DESC, channel, sender LIMIT $1";
    call.objects(sql, &[&limit]).await
}
