//! The statements on `message_inbox` that take messages in and settle them.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use crate::queue::message_inbox;
use base::TenantId;
use store::{Also, AsRows, Lease, Params, QueueTable, StoreError, Tx};

const UNCLAIMED: &str = "claim_id = NULL, claimed_by = NULL, lease_until = NULL";

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("settling a message")
}

fn looking() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("looking for messages that wait")
}

store::row! {
    /// A message that is there already.
    pub struct OnRecord {
        pub dedupe_key: String,
        pub request_id: Uuid,
        pub received_at: Timestamp,
    }
}

/// The messages on record under these keys.
pub async fn on_record(lease: &mut Lease, keys: &[&str]) -> Result<Vec<OnRecord>, StoreError> {
    let sql = "SELECT dedupe_key, request_id, received_at FROM message_inbox WHERE dedupe_key = ANY($1)";
    lease.read(sql, &[&keys]).await.typed().map_err(StoreError::query("looking for the same message"))
}

const INSERT: &str = "INSERT INTO message_inbox
    (request_id, dedupe_key, dedupe_by, state, settled_at, tier, lane, channel, provider, endpoint, sender, thread,
     external_event_id, contact_id, entity_id, trust, observed_at, received_at, body, attachments, envelope, context,
     triage, audience)
    SELECT id, key, by, CASE WHEN ends THEN 'done' ELSE 'accepted' END, CASE WHEN ends THEN received END, tier, lane,
           channel, provider, endpoint, sender, thread, event, contact, entity, trust, observed, received, body,
           attachments, envelope, context, triage,
           ARRAY(SELECT jsonb_array_elements_text(coalesce(context -> 'audience', '[]')))
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bool[], $5::int2[], $6::text[], $7::text[], $8::text[],
                $9::text[], $10::text[], $11::text[], $12::text[], $13::uuid[], $14::uuid[], $15::text[],
                $16::timestamptz[], $17::timestamptz[], $18::text[], $19::jsonb[], $20::jsonb[], $21::jsonb[],
                $22::jsonb[])
         AS t(id, key, by, ends, tier, lane, channel, provider, endpoint, sender, thread, event, contact, entity, trust,
              observed, received, body, attachments, envelope, context, triage)
    ON CONFLICT (tenant_id, dedupe_key) DO NOTHING
    RETURNING request_id, seq";

/// Stores messages, a column of them for each parameter. Returns the number of each that is new.
pub async fn insert(lease: &mut Lease, columns: Params<'_>) -> Result<HashMap<Uuid, i64>, StoreError> {
    let rows = lease.query(INSERT, columns).await.map_err(StoreError::query("storing messages"))?;
    Ok(rows.iter().map(|row| (row.get("request_id"), row.get("seq"))).collect())
}

store::row! {
    /// A message in its lane.
    pub struct Waiting {
        pub request_id: Uuid,
        pub tenant_id: String,
        pub lane: String,
        pub tier: i16,
        pub trust: String,
        pub channel: String,
        pub sender: String,
        pub seq: i64,
    }
}

/// The next messages of a lane, after the one of this number.
pub async fn behind(
    lease: &mut Lease,
    schema: &str,
    (tenant, lane): (&TenantId, &str),
    seq: i64,
) -> Result<Vec<Waiting>, StoreError> {
    let sql = format!(
        "SELECT request_id, tenant_id, lane, tier, trust, channel, sender, seq FROM \"{schema}\".message_inbox
         WHERE tenant_id = $1 AND lane = $2 AND seq > $3 AND state = 'accepted' ORDER BY seq LIMIT 8"
    );
    lease.read(&sql, &[&tenant.as_str(), &lane, &seq]).await.typed().map_err(failed())
}

/// The first messages of their lanes that may be dealt with now and are none of the known ones, at most so many; the
/// household's own first, because there may be more than that of others. `own`: the household's own alone.
pub async fn first_of_lanes(
    lease: &mut Lease,
    schema: &str,
    (known, own): (&[Uuid], bool),
    most: i64,
) -> Result<Vec<Waiting>, StoreError> {
    let sql = format!(
        "SELECT m.request_id, m.tenant_id, m.lane, m.tier, m.trust, m.channel, m.sender, m.seq
         FROM \"{schema}\".message_inbox m
         WHERE m.state = 'accepted' AND m.available_at <= clock_timestamp() AND m.request_id <> ALL($2)
           AND (NOT $3 OR m.trust IN ('owner', 'system'))
           AND NOT EXISTS (SELECT 1 FROM \"{schema}\".message_inbox e
                           WHERE e.tenant_id = m.tenant_id AND e.lane = m.lane AND e.seq < m.seq
                             AND e.state IN ('accepted', 'processing'))
         ORDER BY array_position(ARRAY['owner', 'system', 'known', 'stranger'], m.trust), m.tier, m.seq LIMIT $1"
    );
    lease.query(&sql, &[&most, &known, &own]).await.typed().map_err(looking())
}

/// How many messages are not done.
pub async fn not_done(lease: &mut Lease, schema: &str) -> Result<u64, StoreError> {
    let sql = format!("SELECT count(*) AS n FROM \"{schema}\".message_inbox WHERE state IN ('accepted', 'processing')");
    let rows = lease.query(&sql, &[]).await.map_err(looking())?;
    Ok(rows.first().map_or(0, |r| u64::try_from(r.get::<_, i64>("n")).unwrap_or(0)))
}

store::row! {
    /// Who sent a message, and how urgent it is.
    pub struct SentBy {
        pub request_id: Uuid,
        pub tier: i16,
        pub channel: String,
        pub sender: String,
    }
}

/// Who sent those of these requests that are messages.
pub async fn sent_by(lease: &mut Lease, schema: &str, requests: &[Uuid]) -> Result<Vec<SentBy>, StoreError> {
    let sql =
        format!("SELECT request_id, tier, channel, sender FROM \"{schema}\".message_inbox WHERE request_id = ANY($1)");
    Ok(lease.query(&sql, &[&requests]).await.map_err(looking())?.iter().map(SentBy::from).collect())
}

store::row! {
    /// A message as it was claimed.
    pub struct ClaimedRow {
        pub attempts: i32,
        pub body: String,
        pub attachments: Value,
        pub envelope: Value,
        pub context: Value,
        pub triage: Option<Value>,
        pub classified: bool,
        pub last_error: Option<String>,
        pub channel: String,
        pub endpoint: String,
        pub sender: String,
        pub thread: Option<String>,
    }
}

/// Claims a message, if it is the next of its lane and no claim holds it. `claim` is the claim's id and the node.
pub async fn claim(
    lease: &mut Lease,
    table: &QueueTable,
    request: Uuid,
    claim: (Uuid, &str),
) -> Result<Option<ClaimedRow>, StoreError> {
    let sql = format!(
        "AND n.request_id = $6 AND n.state = 'accepted'
         AND NOT EXISTS (SELECT 1 FROM {} e WHERE e.lane = n.lane AND e.seq < n.seq
                                              AND e.state IN ('accepted', 'processing'))",
        table.table
    );
    let columns = "q.attempts, q.body, q.attachments, q.envelope, q.context, q.triage,
                   q.classified_at IS NOT NULL AS classified, q.last_error, q.channel, q.endpoint, q.sender,
                   q.thread";
    let also = Also { sql: &sql, params: &[&request] };
    let rows = table.claim(lease, claim, (1, &[]), also, columns).await;
    rows.first_typed().map_err(StoreError::query("claiming a message"))
}

/// Notes under a claim that the message's parts are known. `false`: the claim does not hold any more.
pub async fn classified(tx: &mut Tx<'_>, request: Uuid, claim: Uuid) -> Result<bool, StoreError> {
    let sql = "UPDATE message_inbox SET classified_at = shared.clock()
               WHERE request_id = $1 AND claim_id = $2 AND state = 'processing'";
    Ok(tx.execute(sql, &[&request, &claim]).await.map_err(failed())? > 0)
}

/// Lets a claim go whose parts are with their butlers. Its end may have come meanwhile; then there is none left.
pub async fn handed_on(lease: &mut Lease, schema: &str, request: Uuid, claim: Uuid) -> Result<(), StoreError> {
    lease.execute(&message_inbox(schema).settling(""), &[&request, &claim]).await.map(drop).map_err(failed())
}

/// Lets a claim go, with why the message comes to nothing. `false`: the claim does not hold it.
pub async fn let_go(tx: &mut Tx<'_>, schema: &str, request: Uuid, claim: Uuid, why: &str) -> Result<bool, StoreError> {
    let sql = message_inbox(schema).settling("last_error = $3");
    Ok(tx.execute(&sql, &[&request, &claim, &why]).await.map_err(failed())? > 0)
}

/// Ends a message as dead, unless a butler has a part of it. Returns whether it is at its end.
pub async fn die(tx: &mut Tx<'_>, schema: &str, request: Uuid, now: Timestamp) -> Result<bool, StoreError> {
    let sql = format!(
        "UPDATE \"{schema}\".message_inbox SET state = 'dead', settled_at = $2
         WHERE request_id = $1 AND NOT EXISTS (SELECT 1 FROM \"{schema}\".route_segments
                                               WHERE request_id = $1 AND state = 'accepted')"
    );
    Ok(tx.execute(&sql, &[&request, &now]).await.map_err(failed())? > 0)
}

/// Holds a message's row until the end of the transaction: parts that end at the same time see one another.
pub async fn lock(tx: &mut Tx<'_>, schema: &str, request: Uuid) -> Result<(), StoreError> {
    let sql = format!("SELECT 1 FROM \"{schema}\".message_inbox WHERE request_id = $1 FOR UPDATE");
    tx.query(&sql, &[&request]).await.map(drop).map_err(failed())
}

/// Ends the message if none of its parts is open any more. Returns it with its state then.
pub async fn close(
    tx: &mut Tx<'_>,
    schema: &str,
    request: Uuid,
    now: Timestamp,
) -> Result<Option<(Waiting, String)>, StoreError> {
    let sql = format!(
        "UPDATE \"{schema}\".message_inbox m
         SET state = CASE WHEN EXISTS (SELECT 1 FROM \"{schema}\".route_segments s
                                       WHERE s.request_id = m.request_id AND s.state = 'dead') THEN 'dead' ELSE 'done' END,
             settled_at = $2, {UNCLAIMED},
             last_error = (SELECT string_agg(s.butler || ': ' || s.last_error, '; ' ORDER BY s.n)
                           FROM \"{schema}\".route_segments s WHERE s.request_id = m.request_id AND s.state = 'dead')
         WHERE m.request_id = $1 AND m.state IN ('accepted', 'processing')
           AND NOT EXISTS (SELECT 1 FROM \"{schema}\".route_segments s
                           WHERE s.request_id = m.request_id AND s.state IN ('draft', 'open', 'accepted'))
         RETURNING m.request_id, m.tenant_id, m.lane, m.tier, m.trust, m.channel, m.sender, m.seq, m.state"
    );
    let row = tx.query_opt(&sql, &[&request, &now]).await.map_err(failed())?;
    Ok(row.map(|row| (Waiting::from(&row), row.get("state"))))
}

store::row! {
    /// A message that is held by a person's hand.
    pub struct HeldRow {
        pub state: String,
        pub claimed: bool,
        pub classified: bool,
        pub body: String,
        pub channel: String,
        pub sender: String,
        pub thread: Option<String>,
        pub lane: String,
        pub tier: i16,
        pub trust: String,
        pub seq: i64,
    }
}

/// Holds a tenant's message until the end of the transaction.
pub async fn hold(
    tx: &mut Tx<'_>,
    schema: &str,
    tenant: &TenantId,
    request: Uuid,
) -> Result<Option<HeldRow>, StoreError> {
    let sql = format!(
        "SELECT state, claim_id IS NOT NULL AS claimed, classified_at IS NOT NULL AS classified, body, channel, sender,
                thread, lane, tier, trust, seq
         FROM \"{schema}\".message_inbox WHERE tenant_id = $1 AND request_id = $2 FOR UPDATE"
    );
    Ok(tx.query_opt(&sql, &[&tenant.as_str(), &request]).await.map_err(failed())?.as_ref().map(HeldRow::from))
}

/// The message waits again from now on. `classified`: its parts stay as they are.
pub async fn reopen(
    tx: &mut Tx<'_>,
    schema: &str,
    request: Uuid,
    classified: bool,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = format!(
        "UPDATE \"{schema}\".message_inbox
         SET state = 'accepted', attempts = 0, available_at = clock_timestamp(), settled_at = NULL, last_error = NULL,
             {UNCLAIMED}, classified_at = CASE WHEN $2 THEN coalesce(classified_at, $3) END
         WHERE request_id = $1"
    );
    tx.execute(&sql, &[&request, &classified, &now]).await.map(drop).map_err(failed())
}

/// Ends a message whoever holds it: they find that they hold it no more.
pub async fn end(
    tx: &mut Tx<'_>,
    schema: &str,
    request: Uuid,
    (state, error): (&str, Option<&str>),
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = format!(
        "UPDATE \"{schema}\".message_inbox SET state = $2, settled_at = $3, last_error = $4, {UNCLAIMED}
         WHERE request_id = $1"
    );
    tx.execute(&sql, &[&request, &state, &now, &error]).await.map(drop).map_err(failed())
}
