//! The statements on how calendars follow their provider. All as the house: nobody is shown what they read.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use dav::sync::{Conflict, Item, Which};
use store::{AsRows, Lease, StoreError, Tx};

/// A sync that this run may do, until its lease ends.
pub(super) struct Claimed {
    pub source: Uuid,
    pub name: String,
    pub place: Option<String>,
    pub read_only: bool,
    pub failures: i32,
    pub accept_deletions: bool,
    /// It was never synced.
    pub first: bool,
    pub claim: Uuid,
}

/// Who claims: the daemon, its run since it started, and for how many seconds.
pub(super) struct Claimer<'a> {
    pub node: &'a str,
    pub run: Uuid,
    pub seconds: f64,
}

/// What a sync came to.
pub(super) struct Settled<'a> {
    pub claim: Uuid,
    /// Whether both sides were made equal, as far as they could be.
    pub synced: bool,
    pub error: Option<&'a str>,
    pub failures: i32,
    /// When the next one is due.
    pub seconds: f64,
}

store::row! {
    /// How a calendar follows, for people.
    pub(in super::super) struct StateRow {
        pub source: Uuid = |row| row.get("id"),
        pub name: String,
        pub error: Option<String>,
        /// Changes that the provider doesn't know yet.
        pub waiting: i64,
        pub conflicts: i64,
    }
}

/// Takes the calendar whose sync is due and that nobody else syncs. What an earlier run of this daemon held is free: it is
/// gone.
pub(super) async fn claim(
    lease: &mut Lease,
    sources: &[Uuid],
    who: &Claimer<'_>,
) -> Result<Option<Claimed>, StoreError> {
    let claim = Uuid::now_v7();
    let sql = "WITH due AS (
            SELECT c.source FROM shared.calendar_cursors c
            WHERE c.tenant_id = shared.tenant() AND c.source = ANY ($1)
              AND (c.lease_until IS NULL OR c.lease_until < clock_timestamp() OR c.node = $2 AND c.run <> $3)
              AND (c.due_at <= shared.clock() OR c.asked
                   OR c.failures = 0 AND EXISTS (SELECT 1 FROM shared.calendar_items i
                       WHERE i.tenant_id = c.tenant_id AND i.source = c.source AND i.fresh))
            ORDER BY c.asked DESC, c.due_at LIMIT 1 FOR UPDATE SKIP LOCKED),
        taken AS (
            UPDATE shared.calendar_cursors c
            SET node = $2, run = $3, claim = $4, lease_until = clock_timestamp() + make_interval(secs => $5), asked = false,
                -- Due until it is settled, whatever becomes of this run.
                due_at = least(c.due_at, shared.clock()), tried_at = shared.clock(),
                sync_token = CASE WHEN NOT c.read_all THEN c.sync_token END, read_all = false
            FROM due WHERE c.tenant_id = shared.tenant() AND c.source = due.source
            RETURNING c.source, c.failures, c.accept_deletions, c.synced_at IS NULL AS first),
        seen AS (
            UPDATE shared.calendar_items i SET fresh = false FROM taken
            WHERE i.tenant_id = shared.tenant() AND i.source = taken.source AND i.fresh)
        SELECT s.id, s.name, s.place, s.read_only, t.failures, t.accept_deletions, t.first
        FROM taken t JOIN shared.calendar_sources s ON s.tenant_id = shared.tenant() AND s.id = t.source";
    let row = lease.query_opt(sql, &[&sources, &who.node, &who.run, &claim, &who.seconds]).await;
    let row = row.map_err(StoreError::query("claiming a calendar's sync"))?;
    Ok(row.map(|row| Claimed {
        source: row.get("id"),
        name: row.get("name"),
        place: row.get("place"),
        read_only: row.get("read_only"),
        failures: row.get("failures"),
        accept_deletions: row.get("accept_deletions"),
        first: row.get("first"),
        claim,
    }))
}

/// Renews a claim. `false`: somebody else has the calendar by now.
pub(super) async fn renew(lease: &mut Lease, claim: Uuid, seconds: f64) -> Result<bool, StoreError> {
    let sql = "UPDATE shared.calendar_cursors SET lease_until = clock_timestamp() + make_interval(secs => $2)
               WHERE tenant_id = shared.tenant() AND claim = $1";
    let done = lease.execute(sql, &[&claim, &seconds]).await;
    Ok(done.map_err(StoreError::query("renewing a calendar's sync"))? == 1)
}

/// Ends a claim.
pub(super) async fn settle(lease: &mut Lease, end: &Settled<'_>) -> Result<(), StoreError> {
    let sql = "UPDATE shared.calendar_cursors
               SET claim = NULL, lease_until = NULL, error = $2, failures = $3,
                   due_at = shared.clock() + make_interval(secs => $4),
                   synced_at = CASE WHEN $5 THEN shared.clock() ELSE synced_at END,
                   accept_deletions = accept_deletions AND NOT $5
               WHERE tenant_id = shared.tenant() AND claim = $1";
    let Settled { claim, synced, error, failures, seconds } = end;
    let done = lease.execute(sql, &[claim, error, failures, seconds, synced]).await;
    done.map(drop).map_err(StoreError::query("settling a calendar's sync"))
}

/// Gives a claim back undone, so that another daemon need not wait for its end.
pub(super) async fn give_back(lease: &mut Lease, claim: Uuid) -> Result<(), StoreError> {
    let sql = "UPDATE shared.calendar_cursors SET claim = NULL, lease_until = NULL
               WHERE tenant_id = shared.tenant() AND claim = $1";
    let done = lease.execute(sql, &[&claim]).await;
    done.map(drop).map_err(StoreError::query("giving a calendar's sync back"))
}

/// Notes where a calendar is at its provider. The name of another that is there already, for which nothing is noted.
pub(super) async fn found(
    lease: &mut Lease,
    source: Uuid,
    (place, read_only): (&str, bool),
) -> Result<Option<String>, StoreError> {
    let failed = || StoreError::query("noting where a calendar is");
    let sql = "SELECT o.name FROM shared.calendar_sources s
               JOIN shared.calendar_sources o ON (o.tenant_id, o.account) = (s.tenant_id, s.account) AND o.id <> s.id
               WHERE s.tenant_id = shared.tenant() AND s.id = $1 AND o.place = $2";
    if let Some(row) = lease.query_opt(sql, &[&source, &place]).await.map_err(failed())? {
        return Ok(Some(row.get(0)));
    }
    let sql =
        "UPDATE shared.calendar_sources SET place = $2, read_only = $3 WHERE tenant_id = shared.tenant() AND id = $1";
    lease.execute(sql, &[&source, &place, &read_only]).await.map_err(failed())?;
    Ok(None)
}

/// Asks for a sync of these calendars now. `full`: from the beginning.
pub(in super::super) async fn ask(
    lease: &mut Lease,
    sources: &[Uuid],
    (accept_deletions, full): (bool, bool),
) -> Result<(), StoreError> {
    let sql = "UPDATE shared.calendar_cursors
               SET asked = true, accept_deletions = accept_deletions OR $2, read_all = read_all OR $3
               WHERE tenant_id = shared.tenant() AND source = ANY ($1)";
    let done = lease.execute(sql, &[&sources, &accept_deletions, &full]).await;
    done.map(drop).map_err(StoreError::query("asking for a calendar's sync"))
}

/// How these calendars follow.
pub(in super::super) async fn states(lease: &mut Lease, sources: &[Uuid]) -> Result<Vec<StateRow>, StoreError> {
    let sql = "SELECT s.id, s.name, c.error,
                   (SELECT count(*) FROM shared.calendar_items i
                    WHERE i.tenant_id = s.tenant_id AND i.source = s.id AND i.pending) AS waiting,
                   (SELECT count(*) FROM shared.calendar_conflicts f
                    WHERE f.tenant_id = s.tenant_id AND f.source = s.id AND f.kind <> 'merged' AND f.taken IS NULL) AS conflicts
               FROM shared.calendar_sources s JOIN shared.calendar_cursors c ON (c.tenant_id, c.source) = (s.tenant_id, s.id)
               WHERE s.tenant_id = shared.tenant() AND s.id = ANY ($1) ORDER BY s.name";
    lease.read(sql, &[&sources]).await.typed().map_err(StoreError::query("looking at calendars' syncs"))
}

pub(super) async fn cursor(lease: &mut Lease, source: Uuid) -> Result<Option<String>, StoreError> {
    let sql = "SELECT sync_token FROM shared.calendar_cursors WHERE tenant_id = shared.tenant() AND source = $1";
    lease.query_opt(sql, &[&source]).await.cell(0).map_err(StoreError::query("reading a calendar's cursor"))
}

/// Moves the cursor. `false`: the claim is not held any more, and nothing was moved.
pub(super) async fn set_cursor(lease: &mut Lease, claim: Uuid, cursor: Option<&str>) -> Result<bool, StoreError> {
    let sql = "UPDATE shared.calendar_cursors SET sync_token = $2 WHERE tenant_id = shared.tenant() AND claim = $1";
    let done = lease.execute(sql, &[&claim, &cursor]).await;
    Ok(done.map_err(StoreError::query("moving a calendar's cursor"))? == 1)
}

/// Whether the claim is held, and stays so until the transaction ends: nobody takes it over in between.
pub(super) async fn held(tx: &mut Tx<'_>, claim: Uuid) -> Result<bool, tokio_postgres::Error> {
    let sql = "SELECT FROM shared.calendar_cursors WHERE tenant_id = shared.tenant() AND claim = $1 FOR SHARE";
    Ok(tx.query_opt(sql, &[&claim]).await?.is_some())
}

pub(super) async fn items(lease: &mut Lease, source: Uuid, which: Which<'_>) -> Result<Vec<Item>, StoreError> {
    let sql = "SELECT i.id, i.revision, i.uid, i.href, i.etag, i.base, e.ics AS ours, i.sent, i.reread
               FROM shared.calendar_items i
               LEFT JOIN shared.calendar_events e ON (e.tenant_id, e.id) = (i.tenant_id, i.id)
               WHERE i.tenant_id = shared.tenant() AND i.source = $1 AND {which} ORDER BY i.made_at";
    crate::items::items(lease, sql, source, which).await
}

pub(super) async fn linked(lease: &mut Lease, source: Uuid) -> Result<Vec<(Uuid, String)>, StoreError> {
    let sql = "SELECT id, href FROM shared.calendar_items
               WHERE tenant_id = shared.tenant() AND source = $1 AND base IS NOT NULL AND href IS NOT NULL";
    let rows = lease.read(sql, &[&source]).await.map_err(StoreError::query("reading a calendar's items"))?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

pub(super) async fn pending(lease: &mut Lease, source: Uuid) -> Result<Vec<Uuid>, StoreError> {
    let sql = "SELECT id FROM shared.calendar_items WHERE tenant_id = shared.tenant() AND source = $1 AND pending
               ORDER BY made_at, id";
    lease.read(sql, &[&source]).await.column("id").map_err(StoreError::query("reading what a calendar has to send"))
}

/// Whom the provider is to tell of what is sent of the item at this href: of the newest change alone, not of one before it
/// whose answer was lost.
pub(in super::super) async fn tell(lease: &mut Lease, source: Uuid, href: &str) -> Result<Option<String>, StoreError> {
    let sql = "SELECT CASE WHEN e.ics IS NULL OR i.sent = e.ics THEN i.tell END FROM shared.calendar_items i
               LEFT JOIN shared.calendar_events e ON (e.tenant_id, e.id) = (i.tenant_id, i.id)
               WHERE i.tenant_id = shared.tenant() AND i.source = $1 AND i.href = $2";
    lease.query_opt(sql, &[&source, &href]).await.cell(0).map_err(StoreError::query("asking who is told"))
}

/// What the household has of these events.
pub(super) async fn had(tx: &mut Tx<'_>, ids: &[Uuid]) -> Result<Vec<(Uuid, Vec<u8>)>, tokio_postgres::Error> {
    let sql = "SELECT id, ics FROM shared.calendar_events WHERE tenant_id = shared.tenant() AND id = ANY ($1)";
    Ok(tx.query(sql, &[&ids]).await?.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// What stands beside an item's bytes.
pub(super) struct Beside {
    pub trust: &'static str,
    pub repeats: bool,
    pub window: (Timestamp, Timestamp),
    pub instances: Value,
}

/// Writes items, all by one statement. Those that have another revision by now, of which nothing was done; so has the second
/// of two that are the same item.
pub(super) async fn take(
    tx: &mut Tx<'_>,
    source: Uuid,
    items: &[(&Item, Beside)],
) -> Result<Vec<Uuid>, tokio_postgres::Error> {
    let mut ids = BTreeSet::new();
    let (items, again): (Vec<_>, Vec<_>) = items.iter().partition(|(item, _)| ids.insert(item.id));
    let mut refused: Vec<Uuid> = again.iter().map(|(item, _)| item.id).collect();
    if items.is_empty() {
        return Ok(refused);
    }
    let sql = "SELECT shared.calendar_take($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";
    fn column<'i, T>(items: &[&'i (&'i Item, Beside)], of: impl Fn(&'i Item, &'i Beside) -> T) -> Vec<T> {
        items.iter().map(|(item, beside)| of(item, beside)).collect()
    }
    let items = &items;
    let params: store::Params<'_> = &[
        &source,
        &column(items, |item, _| item.id),
        &column(items, |item, _| i64::try_from(item.revision).unwrap_or(i64::MAX)),
        &column(items, |item, _| item.uid.as_deref()),
        &column(items, |item, _| item.href.as_deref()),
        &column(items, |item, _| item.etag.as_deref()),
        &column(items, |item, _| item.base.as_deref()),
        &column(items, |item, _| item.ours.as_deref()),
        &column(items, |item, _| item.sent.as_deref()),
        &column(items, |item, _| item.reread),
        &column(items, |_, beside| beside.trust),
        &column(items, |_, beside| beside.repeats),
        &column(items, |_, beside| beside.window.0),
        &column(items, |_, beside| beside.window.1),
        &column(items, |_, beside| &beside.instances),
    ];
    refused.extend(tx.query(sql, params).await?.iter().map(|row| row.get::<_, Uuid>(0)));
    Ok(refused)
}

/// How far it was believed. `None`: the item has another revision by now, and nothing was done.
pub(super) async fn forget(tx: &mut Tx<'_>, id: Uuid, revision: u64) -> Result<Option<String>, tokio_postgres::Error> {
    let seen = i64::try_from(revision).unwrap_or(i64::MAX);
    let sql = "SELECT shared.calendar_forget($1, $2), coalesce((SELECT i.trust FROM shared.calendar_items i
                   WHERE i.tenant_id = shared.tenant() AND i.id = $1), 'stranger')";
    Ok(tx.query_opt(sql, &[&id, &seen]).await?.filter(|row| row.get(0)).map(|row| row.get(1)))
}

/// Has the database count what is in the tables. Until it has, it takes each to be all but empty, and reads all of a calendar
/// to find one event of it; by itself it counts once a minute.
pub(super) async fn count(lease: &mut Lease) -> Result<(), StoreError> {
    let sql = "ANALYZE shared.calendar_items, shared.calendar_events, shared.calendar_instances";
    lease.execute(sql, &[]).await.map(drop).map_err(StoreError::query("counting a calendar's items"))
}

/// Puts a conflict on record, believed no more than its item, whose label is given where it was forgotten.
pub(super) async fn conflict(
    tx: &mut Tx<'_>,
    (source, event, label): (Uuid, Uuid, Option<&str>),
    conflict: &Conflict,
) -> Result<(), tokio_postgres::Error> {
    let sql = "INSERT INTO shared.calendar_conflicts (source, event, kind, uid, base, ours, theirs, trust)
               SELECT $1, $2, $3, $4, $5, $6, $7, coalesce($8, (SELECT i.trust FROM shared.calendar_items i
                   WHERE i.tenant_id = shared.tenant() AND i.id = $2), 'stranger')";
    let Conflict { kind, uid, base, ours, theirs } = conflict;
    tx.execute(sql, &[&source, &event, &kind.word(), uid, base, ours, theirs, &label]).await.map(drop)
}
