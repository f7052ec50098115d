//! The statements on `shared.conversation`, and what a row of it is.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use super::lane::Lane;
use super::{ConversationLog, ConversationReader, Stretch};
use base::{Audience, RequestId, TenantId, Trust};
use store::{Aged, AsRows, Lease, Params, StoreError, Tx};

/// What was said long ago. Who it concerned goes with it.
pub const OLD: &[Aged] = &[Aged { table: "conversation", old: "said_at < $1" }];

/// Who spoke to whom.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// A person to the household.
    In,
    /// The household to a person.
    Out,
}

impl Direction {
    fn of(row: &Row) -> Self {
        // The table allows no third.
        if row.get::<_, &str>("direction") == "in" { Direction::In } else { Direction::Out }
    }
}

store::row! {
    /// Something that was said.
    #[derive(Clone, PartialEq, Debug)]
    pub struct Entry {
        /// Its place in the log; `None`: it was committed a moment ago.
        pub id: Option<i64>,
        pub direction: Direction = Direction::of,
        /// `message`, `reply`, `react`, `failure`, `reminder` or `notice`.
        pub kind: String,
        pub channel: String,
        /// The household's own end of the channel.
        pub endpoint: Option<String>,
        /// The conversation that it belongs to.
        pub lane: Lane = |row| Lane(row.get("lane")),
        pub thread: Option<String>,
        /// Who it came from or went to, as the channel names them.
        pub person: String,
        /// How that person calls themselves.
        pub person_name: Option<String>,
        pub contact_id: Option<Uuid>,
        /// Who spoke for the household.
        pub butler: Option<String>,
        /// The butler's last words were taken for an answer.
        pub auto: bool,
        pub subject: Option<String>,
        pub text: Option<String>,
        pub emoji: Option<String>,
        /// By reference, as `ingest.v1` has them.
        pub attachments: Value,
        pub trust: Trust = |row| Trust::from_name(row.get("trust")),
        /// Who may learn it: those who may learn what it was made of, and those who heard it.
        pub audience: Audience = |row| Audience::from_names(row.get::<_, Vec<String>>("audience")),
        pub request_id: Uuid,
        pub session_id: Option<Uuid>,
        /// Of what the household said: its row in `shared.outbox`.
        pub delivery_id: Option<Uuid> = |row| (Direction::of(row) == Direction::Out).then(|| row.get("entry")),
        /// Of an answer: its number in `shared.replies`.
        pub reply_seq: Option<i64>,
        pub said_at: Timestamp,
    }
}

const COLUMNS: &str = "c.entry, c.id, c.direction, c.kind, c.channel, c.endpoint, c.lane, c.thread, c.person, c.person_name, \
    c.contact_id, c.butler, c.auto, c.subject, c.text, c.emoji, c.attachments, c.trust, c.audience, c.request_id, c.session_id, \
    c.reply_seq, c.said_at";

store::row! {
    /// An entry as a reader comes to it.
    #[derive(Clone, PartialEq, Debug)]
    pub struct Placed {
        /// Where to read on: greater than those of all entries that this reader has come to before.
        pub place: i64,
        pub entry: Entry = |row| row.into(),
    }
}

/// What the message `m` of a statement says.
pub const MESSAGE_TEXT: &str = "(SELECT c.text FROM shared.conversation c
    WHERE c.entry = m.request_id AND c.direction = 'in')";

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("reading the conversation log")
}

impl ConversationLog {
    /// Gives what is committed and has no number its number. Returns how many were given.
    pub async fn order(&self) -> Result<i64, StoreError> {
        let mut lease = self.db.every_tenant().await?;
        let row = lease.query_opt("SELECT shared.conversation_order()", &[]).await;
        let row = row.map_err(StoreError::query("putting the conversation log in order"))?;
        Ok(row.map_or(0, |row| row.get(0)))
    }

    /// What was said in a lane before this message and later than `since`, the newest first, without what the daemon
    /// itself tells the owner. Of what has no place yet, too.
    pub async fn before(
        &self,
        tenant: &TenantId,
        lane: &Lane,
        request: RequestId,
        since: Timestamp,
        most: i64,
    ) -> Result<Vec<Entry>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM shared.conversation c
             WHERE c.tenant_id = $1 AND c.lane = $2 AND c.said_at > $4 AND c.kind <> 'notice'
               AND c.butler IS DISTINCT FROM 'butlerd'
               AND (c.direction = 'out' OR c.seq < (SELECT m.seq FROM shared.conversation m
                                                    WHERE m.entry = $3 AND m.direction = 'in'))
             ORDER BY c.said_at DESC, c.seq DESC LIMIT $5"
        );
        let mut lease = self.db.shared(tenant).await?;
        lease.read(&sql, &[&tenant.as_str(), &lane.0, &request.0, &since, &most]).await.typed().map_err(failed())
    }

    /// What was answered to a message and delivered, in the order of the answers.
    pub async fn answers(&self, tenant: &TenantId, request: Uuid) -> Result<Vec<Entry>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM shared.conversation c
             WHERE c.tenant_id = $1 AND c.request_id = $2 AND c.direction = 'out' AND c.reply_seq IS NOT NULL
             ORDER BY c.reply_seq"
        );
        let mut lease = self.db.shared(tenant).await?;
        lease.read(&sql, &[&tenant.as_str(), &request]).await.typed().map_err(failed())
    }

    /// What these messages say, for views of them.
    pub async fn texts(&self, tenant: &TenantId, requests: &[Uuid]) -> Result<HashMap<Uuid, String>, StoreError> {
        let sql = "SELECT request_id, text FROM shared.conversation
                   WHERE tenant_id = $1 AND entry = ANY($2) AND direction = 'in' AND text IS NOT NULL";
        let mut lease = self.db.shared(tenant).await?;
        let rows = lease.read(sql, &[&tenant.as_str(), &requests]).await.map_err(failed())?;
        Ok(rows.iter().map(|row| (row.get("request_id"), row.get("text"))).collect())
    }
}

/// What stands behind `place` of all that the lease's role may read of the tenant.
pub(super) async fn after(
    lease: &mut Lease,
    tenant: &TenantId,
    place: i64,
    most: i64,
) -> Result<Vec<Placed>, StoreError> {
    let sql = format!(
        "SELECT c.id AS place, {COLUMNS} FROM shared.conversation c WHERE c.tenant_id = $1 AND c.id > $2
         ORDER BY c.id LIMIT $3"
    );
    lease.read(&sql, &[&tenant.as_str(), &place, &most]).await.typed().map_err(failed())
}

/// What stands behind `place` of what concerns the butler whose role the lease has. The entries are named before they
/// are read, so that no other one lowers anybody's trust.
pub(super) async fn concerning(
    lease: &mut Lease,
    tenant: &TenantId,
    place: i64,
    most: i64,
) -> Result<Vec<Placed>, StoreError> {
    let sql = "SELECT r.entry, r.direction, r.id AS place FROM shared.conversation_readers r WHERE r.tenant_id = $1 AND r.id > $2
               ORDER BY r.id LIMIT $3";
    let named = lease.read(sql, &[&tenant.as_str(), &place, &most]).await.map_err(failed())?;
    let key = |row: &Row| (row.get::<_, Uuid>("entry"), Direction::of(row));
    let places: HashMap<(Uuid, Direction), i64> = named.iter().map(|row| (key(row), row.get("place"))).collect();
    let entries: Vec<Uuid> = places.keys().map(|(entry, _)| *entry).collect();
    let sql = format!("SELECT {COLUMNS} FROM shared.conversation c WHERE c.entry = ANY($1)");
    let rows = lease.read(&sql, &[&entries]).await.map_err(failed())?;
    let placed = |row: &Row| Some(Placed { place: *places.get(&key(row))?, entry: row.into() });
    let mut found: Vec<Placed> = rows.iter().filter_map(placed).collect();
    found.sort_by_key(|placed| placed.place);
    Ok(found)
}

impl ConversationReader {
    /// What there is behind `place` for the butler, without what the daemon itself tells the owner; `None`: nothing. The
    /// daemon looks, not the butler, so this lowers nobody's trust: it tells numbers alone.
    pub async fn stretch(&self, tenant: &TenantId, place: i64) -> Result<Option<Stretch>, StoreError> {
        self.log.order().await?;
        let mut lease = self.log.db.shared(tenant).await?;
        let tenant = tenant.as_str();
        let found = match self.own() {
            Some(butler) => {
                let sql =
                    "SELECT min(r.id) AS first, max(r.id) AS last, count(*) AS count FROM shared.conversation_readers r
                           WHERE r.tenant_id = $1 AND r.butler = $3 AND r.id > $2";
                lease.read(sql, &[&tenant, &place, &butler]).await
            }
            None => {
                let sql = "SELECT min(c.id) AS first, max(c.id) AS last, count(*) AS count FROM shared.conversation c
                           WHERE c.tenant_id = $1 AND c.id > $2 AND c.kind <> 'notice'";
                lease.read(sql, &[&tenant, &place]).await
            }
        };
        let found = found.map_err(failed())?;
        let stretch = |row: &Row| {
            Some(Stretch { first: row.get::<_, Option<i64>>("first")?, last: row.get("last"), count: row.get("count") })
        };
        Ok(found.first().and_then(stretch))
    }

    /// What was said behind `place` and up to `end`, at most so much of it, read by the daemon: whoever hands it on
    /// answers for each entry's label. `newest`: the last of it instead of the first, in the same order.
    pub async fn between(
        &self,
        tenant: &TenantId,
        (place, end): (i64, i64),
        most: i64,
        newest: bool,
    ) -> Result<Vec<Placed>, StoreError> {
        let mut lease = self.log.db.shared(tenant).await?;
        let (tenant, order) = (tenant.as_str(), if newest { "DESC" } else { "ASC" });
        let found = match self.own() {
            Some(butler) => {
                let sql = format!(
                    "SELECT r.id AS place, {COLUMNS} FROM shared.conversation_readers r
                     JOIN shared.conversation c USING (entry, direction)
                     WHERE r.tenant_id = $1 AND r.butler = $5 AND r.id > $2 AND r.id <= $3 ORDER BY r.id {order} LIMIT $4"
                );
                lease.read(&sql, &[&tenant, &place, &end, &most, &butler]).await
            }
            None => {
                let sql = format!(
                    "SELECT c.id AS place, {COLUMNS} FROM shared.conversation c
                     WHERE c.tenant_id = $1 AND c.id > $2 AND c.id <= $3 AND c.kind <> 'notice' ORDER BY c.id {order} LIMIT $4"
                );
                lease.read(&sql, &[&tenant, &place, &end, &most]).await
            }
        };
        let mut found: Vec<Placed> = found.map_err(failed())?.iter().map(Placed::from).collect();
        found.sort_by_key(|placed| placed.place);
        Ok(found)
    }
}

/// What stands at this place of the log, if the lease's role may read it; the lease is told its label.
pub(super) async fn at(lease: &mut Lease, place: i64) -> Result<Option<Entry>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM shared.conversation c WHERE c.id = $1");
    Ok(lease.read(&sql, &[&place]).await.map_err(failed())?.first().map(Entry::from))
}

/// Whether the household ever wrote to this address.
pub async fn written_to(tx: &mut Tx<'_>, tenant: &TenantId, channel: &str, person: &str) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM shared.conversation c
               WHERE c.tenant_id = $1 AND c.channel = $2 AND lower(c.person) = lower($3) AND c.direction = 'out' LIMIT 1";
    Ok(tx.query_opt(sql, &[&tenant.as_str(), &channel, &person]).await.map_err(failed())?.is_some())
}

store::row! {
    /// An entry as people page through them, from the newest back.
    #[derive(Clone, PartialEq, Debug)]
    pub struct PageEntry {
        /// In the order of writing; what is older has a smaller one.
        pub seq: i64,
        pub entry: Entry = |row| row.into(),
    }
}

/// Part of the log that one look goes through: from `low` to below `before`.
pub(super) struct Window {
    pub low: i64,
    pub before: i64,
    /// There is something older than all of it.
    pub more: bool,
}

/// The newest entries before `before`, at most so many.
pub(super) async fn window(lease: &mut Lease, tenant: &TenantId, before: i64, most: i64) -> Result<Window, StoreError> {
    let sql = "SELECT min(w.seq) AS low, count(*) AS count FROM (SELECT c.seq FROM shared.conversation c
               WHERE c.tenant_id = $1 AND c.seq < $2 ORDER BY c.seq DESC LIMIT $3) w";
    let rows = lease.read(sql, &[&tenant.as_str(), &before, &most]).await.map_err(failed())?;
    let found = rows.first().map(|row| (row.get::<_, Option<i64>>("low"), row.get::<_, i64>("count")));
    let (low, count) = found.unwrap_or_default();
    Ok(Window { low: low.unwrap_or(before), before, more: count >= most })
}

/// Entries `c` of the log of which a condition holds, the newest first; as many as the last of the parameters says.
async fn paged(lease: &mut Lease, condition: &str, params: Params<'_>) -> Result<Vec<PageEntry>, StoreError> {
    let sql = format!(
        "SELECT c.seq, {COLUMNS} FROM shared.conversation c
         WHERE c.tenant_id = $1 AND {condition} ORDER BY c.seq DESC LIMIT ${}",
        params.len()
    );
    lease.read(&sql, params).await.typed().map_err(failed())
}

/// Of each conversation whose last entry is in this window that entry, the newest first.
pub(super) async fn last_of_lanes(
    lease: &mut Lease,
    tenant: &TenantId,
    window: &Window,
    most: i64,
) -> Result<Vec<PageEntry>, StoreError> {
    let is_last = "c.seq >= $2 AND c.seq < $3
           AND NOT EXISTS (SELECT 1 FROM shared.conversation n
                           WHERE n.tenant_id = $1 AND n.lane = c.lane AND n.seq > c.seq)";
    paged(lease, is_last, &[&tenant.as_str(), &window.low, &window.before, &most]).await
}

/// What in this window says this, the newest first. `like` is a pattern of `ILIKE`.
pub(super) async fn saying(
    lease: &mut Lease,
    tenant: &TenantId,
    window: &Window,
    like: &str,
    most: i64,
) -> Result<Vec<PageEntry>, StoreError> {
    let says = "c.seq >= $2 AND c.seq < $3
           AND (c.text ILIKE $4 OR c.subject ILIKE $4 OR c.person ILIKE $4 OR c.person_name ILIKE $4)";
    paged(lease, says, &[&tenant.as_str(), &window.low, &window.before, &like, &most]).await
}

/// The conversation that an entry belongs to.
pub(super) async fn lane_of(lease: &mut Lease, tenant: &TenantId, entry: Uuid) -> Result<Option<Lane>, StoreError> {
    let sql = "SELECT c.lane FROM shared.conversation c WHERE c.tenant_id = $1 AND c.entry = $2 LIMIT 1";
    let rows = lease.read(sql, &[&tenant.as_str(), &entry]).await.map_err(failed())?;
    Ok(rows.first().map(|row| Lane(row.get("lane"))))
}

/// What was said in a conversation before `before`, the newest first.
pub(super) async fn of_lane(
    lease: &mut Lease,
    tenant: &TenantId,
    lane: &Lane,
    before: i64,
    most: i64,
) -> Result<Vec<PageEntry>, StoreError> {
    let params: Params<'_> = &[&tenant.as_str(), &lane.0, &before, &most];
    paged(lease, "c.lane = $2 AND c.seq < $3", params).await
}

/// What was said to a contact, or by one, on all channels before `before`, the newest first.
pub(super) async fn of_contact(
    lease: &mut Lease,
    tenant: &TenantId,
    contact: Uuid,
    before: i64,
    most: i64,
) -> Result<Vec<PageEntry>, StoreError> {
    let params: Params<'_> = &[&tenant.as_str(), &contact, &before, &most];
    paged(lease, "c.contact_id = $2 AND c.seq < $3", params).await
}
