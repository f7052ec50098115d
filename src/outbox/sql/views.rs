//! Deliveries as people look at them and change them, and what the chat shows.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use base::text::links::for_owner;
use base::{TenantId, Trust};
use store::{AsRows, Lease, StoreError};

store::row! {
    /// One delivery as people see it.
    #[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
    #[schemars(rename = "Delivery")]
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
        pub tries: Vec<Attempt> = |_| Vec::new(),
        /// What goes along, the same.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub files: Vec<FileView> = |_| Vec::new(),
    }
}

store::row! {
    /// A file of a delivery, as it is told of.
    #[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
    #[schemars(rename = "DeliveryFile")]
    pub struct FileView {
        pub name: String,
        pub media_type: String,
        /// In bytes.
        pub size: i64,
        /// The beginning of its content's hash, by which it is saved.
        pub handle: String,
        /// Its content is still kept.
        pub kept: bool,
    }
}

store::row! {
    /// One try.
    #[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
    #[schemars(rename = "DeliveryTry")]
    pub struct Attempt {
        pub n: i32,
        pub begun_at: Timestamp,
        pub ended_at: Option<Timestamp>,
        pub outcome: Option<String>,
        pub detail: Option<String>,
    }
}

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("reading deliveries")
}

/// The ids of a tenant's deliveries, each with its butler.
pub(crate) const IDS: &str = "SELECT id, origin FROM shared.outbox WHERE tenant_id = $1";

const COLUMNS: &str = "id, origin, kind, intent, channel, target, subject, message, emoji, priority, state, reason, \
    last_error, request_id, session_id, created_at, due_at, settled_at, attempts, receipt, discarded";

/// The newest deliveries: of one butler, in one of these states, or all; those made before another, if that is named.
/// Of each state so many are read by themselves: a state that few are in is found as fast as all of them.
pub(crate) async fn newest(
    lease: &mut Lease,
    tenant: &TenantId,
    (origin, states, before): (Option<&str>, &[&str], Option<Uuid>),
    limit: i64,
) -> Result<Vec<DeliveryView>, StoreError> {
    let own = "o.tenant_id = $1 AND ($2::text IS NULL OR o.origin = $2)
               AND ($4::uuid IS NULL OR o.seq < (SELECT b.seq FROM shared.outbox b WHERE b.id = $4))";
    let rows = match states {
        [] => {
            let sql = format!("SELECT {COLUMNS} FROM shared.outbox o WHERE {own} ORDER BY o.seq DESC LIMIT $3");
            lease.read(&sql, &[&tenant.as_str(), &origin, &limit, &before]).await
        }
        states => {
            let sql = format!(
                "SELECT {COLUMNS} FROM unnest($5::text[]) AS wanted(of_state) CROSS JOIN LATERAL
                     (SELECT * FROM shared.outbox o WHERE {own} AND o.state = wanted.of_state
                      ORDER BY o.seq DESC LIMIT $3) AS found
                 ORDER BY seq DESC LIMIT $3"
            );
            lease.read(&sql, &[&tenant.as_str(), &origin, &limit, &before, &states]).await
        }
    };
    Ok(rows.map_err(failed())?.iter().map(DeliveryView::from).collect())
}

/// The deliveries that these requests led to, the oldest first.
pub(crate) async fn of_requests(
    lease: &mut Lease,
    tenant: &TenantId,
    (origin, requests): (Option<&str>, &[Uuid]),
    limit: i64,
) -> Result<Vec<DeliveryView>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM shared.outbox o
         WHERE o.tenant_id = $1 AND o.request_id = ANY ($2) AND ($3::text IS NULL OR o.origin = $3) ORDER BY o.seq LIMIT $4"
    );
    lease.read(&sql, &[&tenant.as_str(), &requests, &origin, &limit]).await.typed().map_err(failed())
}

/// One delivery, without its tries.
pub(crate) async fn one(lease: &mut Lease, tenant: &TenantId, id: Uuid) -> Result<Option<DeliveryView>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM shared.outbox WHERE tenant_id = $1 AND id = $2");
    lease.read(&sql, &[&tenant.as_str(), &id]).await.first_typed().map_err(failed())
}

/// The tries of a delivery, in their order.
pub(crate) async fn tries_of(lease: &mut Lease, tenant: &TenantId, id: Uuid) -> Result<Vec<Attempt>, StoreError> {
    let sql = "SELECT n, begun_at, ended_at, outcome, detail FROM shared.outbox_attempts
                   WHERE tenant_id = $1 AND outbox_id = $2 ORDER BY n";
    lease.read(sql, &[&tenant.as_str(), &id]).await.typed().map_err(failed())
}

/// The files of a delivery, in their order.
pub(crate) async fn files_of(lease: &mut Lease, tenant: &TenantId, id: Uuid) -> Result<Vec<FileView>, StoreError> {
    let sql = "SELECT name, media_type, size, left(sha256, 12) AS handle, content IS NOT NULL AS kept FROM shared.outbox_files
                   WHERE tenant_id = $1 AND outbox_id = $2 ORDER BY n";
    lease.read(sql, &[&tenant.as_str(), &id]).await.typed().map_err(failed())
}

store::row! {
    /// A file that is kept.
    pub(crate) struct KeptFile {
        pub name: String,
        pub media_type: String,
        pub content: Vec<u8>,
        /// Of its delivery.
        pub trust: Trust = |row| Trust::from_name(row.get("trust")),
    }
}

/// A file whose content is kept and has a hash that begins so; of one butler, or of all.
pub(crate) async fn kept_file(
    lease: &mut Lease,
    tenant: &TenantId,
    handle: &str,
    origin: Option<&str>,
) -> Result<Option<KeptFile>, StoreError> {
    let sql = "SELECT f.name, f.media_type, f.content, o.trust
               FROM shared.outbox_files f JOIN shared.outbox o ON o.id = f.outbox_id
               WHERE f.tenant_id = $1 AND starts_with(f.sha256, $2) AND f.content IS NOT NULL
                 AND ($3::text IS NULL OR o.origin = $3)
               ORDER BY o.seq DESC LIMIT 1";
    lease.read(sql, &[&tenant.as_str(), &handle, &origin]).await.first_typed().map_err(failed())
}

/// What a person makes of a delivery.
pub(crate) struct Change<'a> {
    /// In one of these states alone, and in nobody's hands.
    pub from: &'a [&'a str],
    pub set: Set,
    /// What `set` takes as `$3`.
    pub with: &'a Value,
    pub now: Timestamp,
}

/// What a change writes.
#[derive(Clone, Copy)]
pub(crate) enum Set {
    /// It waits again, as if it were new.
    Again,
    /// It waits again, since it did not arrive.
    NotArrived,
    /// It was called off by `with.by`.
    CalledOff,
    /// It is put aside; `with` says by whom, when and why.
    Discarded,
    /// It arrived after all; `with` is its receipt.
    Arrived,
}

impl Set {
    fn sql(self) -> &'static str {
        match self {
            Set::Again => "state = 'pending', reason = NULL, failures = 0, due_at = $4, available_at = clock_timestamp(),
                   settled_at = NULL, followed_at = NULL, receipt = NULL, discarded = NULL",
            Set::NotArrived => "state = 'pending', reason = NULL, failures = 0, due_at = $4, available_at = clock_timestamp(),
                       settled_at = NULL, followed_at = NULL, discarded = NULL",
            Set::CalledOff => "state = 'failed', reason = 'cancelled', last_error = 'called off by ' || ($3 ->> 'by'), settled_at = $4,
                   followed_at = $4",
            Set::Discarded => "discarded = $3",
            Set::Arrived => "state = 'sent', reason = 'resolved', last_error = NULL, receipt = $3, settled_at = $4,
                   discarded = NULL",
        }
    }
}

/// Changes a delivery. Returns its state before; `None`: it is not in such a state, or in somebody's hands.
pub(crate) async fn change(
    lease: &mut Lease,
    tenant: &TenantId,
    id: Uuid,
    change: &Change<'_>,
) -> Result<Option<String>, StoreError> {
    let sql = format!(
        "UPDATE shared.outbox o SET {}
             FROM (SELECT state AS before FROM shared.outbox WHERE tenant_id = $1 AND id = $2 FOR UPDATE) b
             WHERE o.tenant_id = $1 AND o.id = $2 AND o.claim_id IS NULL AND b.before = ANY($5)
               AND ($3::jsonb IS NOT NULL OR $4::timestamptz IS NOT NULL)
             RETURNING b.before",
        change.set.sql()
    );
    let Change { from, with, now, .. } = change;
    lease.query_opt(&sql, &[&tenant.as_str(), &id, with, now, from]).await.cell("before").map_err(failed())
}

store::row! {
    /// Where a delivery stands.
    pub(crate) struct Standing {
        pub state: String,
        /// It is being sent.
        pub in_hand: bool,
    }
}

/// Where a delivery stands.
pub(crate) async fn standing(lease: &mut Lease, tenant: &TenantId, id: Uuid) -> Result<Option<Standing>, StoreError> {
    let sql = "SELECT state, claim_id IS NOT NULL AS in_hand FROM shared.outbox WHERE tenant_id = $1 AND id = $2";
    lease.read(sql, &[&tenant.as_str(), &id]).await.first_typed().map_err(failed())
}

store::row! {
    /// What became of a delivery so far.
    #[derive(Clone, Debug)]
    pub struct DeliveryStatus {
        pub delivery: Uuid,
        pub state: String,
        pub error: Option<String>,
        pub receipt: Option<Value>,
        pub due_at: Timestamp,
    }
}

impl DeliveryStatus {
    /// Nothing is known of it yet.
    pub(crate) fn open(delivery: Uuid, due_at: Timestamp) -> Self {
        Self { delivery, state: "pending".to_owned(), error: None, receipt: None, due_at }
    }
}

/// What became of a delivery so far.
pub(crate) async fn posted(
    lease: &mut Lease,
    tenant: &TenantId,
    id: Uuid,
) -> Result<Option<DeliveryStatus>, StoreError> {
    let sql = "SELECT id AS delivery, state, last_error AS error, receipt, due_at FROM shared.outbox
               WHERE tenant_id = $1 AND id = $2";
    lease.read(sql, &[&tenant.as_str(), &id]).await.first_typed().map_err(failed())
}

/// Notes that its butler was told of a delivery's bad end.
pub(crate) async fn heard(lease: &mut Lease, tenant: &TenantId, id: Uuid, now: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE shared.outbox SET told_at = $3 WHERE tenant_id = $1 AND id = $2 AND told_at IS NULL
                   AND state IN ('unknown', 'failed', 'dead')";
    lease.execute(sql, &[&tenant.as_str(), &id, &now]).await.map(drop).map_err(failed())
}

store::row! {
    /// Something that the chat shows.
    #[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
    #[schemars(rename = "OwnerNote")]
    pub struct Note {
        pub id: Uuid,
        pub from: String = |row| row.get("origin"),
        pub kind: String,
        pub subject: Option<String> = |row| for_chat(row, "subject"),
        pub message: String = |row| for_chat(row, "message").unwrap_or_default(),
        pub at: Timestamp = |row| row.get("created_at"),
        /// When somebody saw it, where that is asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub seen_at: Option<Timestamp> = |row| row.get("shown_at"),
    }
}

/// A text of a delivery, as far as its owner may be told it.
fn for_chat(row: &Row, column: &str) -> Option<String> {
    let trust = Trust::from_name(row.get("trust"));
    row.get::<_, Option<String>>(column).map(|text| for_owner(&text, trust).into_owned())
}

/// What is there for the chat and was not shown, the oldest first.
pub(crate) async fn unshown(lease: &mut Lease, tenant: &TenantId) -> Result<Vec<Note>, StoreError> {
    let sql = "SELECT id, origin, kind, subject, message, created_at, shown_at, trust FROM shared.outbox
                   WHERE tenant_id = $1 AND channel = 'chat' AND intent = 'send' AND state = 'sent' AND shown_at IS NULL
                   ORDER BY seq LIMIT 50";
    lease.read(sql, &[&tenant.as_str()]).await.typed().map_err(failed())
}

/// Notes that these were shown. Returns how many were not before.
pub(crate) async fn shown(
    lease: &mut Lease,
    tenant: &TenantId,
    ids: &[Uuid],
    now: Timestamp,
) -> Result<u64, StoreError> {
    let sql = "UPDATE shared.outbox SET shown_at = $3 WHERE tenant_id = $1 AND id = ANY($2) AND shown_at IS NULL
                   AND channel = 'chat'";
    lease.execute(sql, &[&tenant.as_str(), &ids, &now]).await.map_err(failed())
}

/// What the chat has for the owner, seen or not, the newest first; what came before another, if that is named.
pub(crate) async fn told(
    lease: &mut Lease,
    tenant: &TenantId,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Note>, StoreError> {
    let sql = "SELECT id, origin, kind, subject, message, created_at, shown_at, trust FROM shared.outbox
               WHERE tenant_id = $1 AND channel = 'chat' AND intent = 'send' AND state = 'sent'
                 AND ($2::uuid IS NULL OR seq < (SELECT b.seq FROM shared.outbox b WHERE b.id = $2))
               ORDER BY seq DESC LIMIT $3";
    lease.read(sql, &[&tenant.as_str(), &before, &limit]).await.typed().map_err(failed())
}
