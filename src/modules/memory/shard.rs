//! The indexes of one butler, one for each tenant: made from rows when they are asked for, kept in step by the numbers of
//! the rows' changes, given up when they take too much.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::sync::Notify;
use tokio_postgres::Row;
use uuid::Uuid;

use super::core::{Reader, fact_text};
use super::rank::{Entry, Facets, Hit, Index, Kind, Query};
use base::{TenantId, Trust};
use store::StoreError;

/// What other butlers, or this one in another daemon, have written is seen after so long at the latest.
const STALE: Duration = Duration::from_millis(250);
/// So many changes are read at once: few enough that whoever asks meanwhile gets a turn in between.
const AT_ONCE: i64 = 1000;

const COLD: u8 = 0;
const WARMING: u8 = 1;
const WARM: u8 = 2;

/// All indexes of a butler.
pub(super) struct Shards {
    dim: usize,
    zone: TimeZone,
    /// In bytes, for all together.
    limit: u64,
    uses: AtomicU64,
    all: Mutex<HashMap<TenantId, Arc<Shard>>>,
}

impl Shards {
    pub fn new(dim: usize, zone: TimeZone, limit: u64) -> Self {
        Self { dim, zone, limit, uses: AtomicU64::new(0), all: Mutex::default() }
    }

    /// The tenant's index, cold at first.
    pub fn of(&self, tenant: &TenantId) -> Arc<Shard> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let shard = all.entry(tenant.clone()).or_insert_with(|| Arc::new(Shard::new(self.dim, &self.zone))).clone();
        shard.used.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        shard
    }

    /// Gives up what was used longest ago while all take more than they may; `but` stays.
    pub fn evict(&self, but: &TenantId) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let sizes: Vec<(TenantId, u64, u64)> =
                all.iter().map(|(t, s)| (t.clone(), s.size().1 as u64, s.used.load(Ordering::Relaxed))).collect();
            let whole: u64 = sizes.iter().map(|(_, bytes, _)| bytes).sum();
            let oldest = sizes.into_iter().filter(|(t, ..)| t != but).min_by_key(|(.., used)| *used);
            let (true, Some((tenant, ..))) = (whole > self.limit, oldest) else { return };
            all.remove(&tenant);
        }
    }
}

/// Up to which change of a butler's own rows, and of the catalog, the index has them.
#[derive(Default)]
struct Read {
    own: i64,
    catalog: i64,
    at: Option<Instant>,
}

/// One tenant's index.
pub struct Shard {
    index: RwLock<Index>,
    state: AtomicU8,
    warmed: Notify,
    read: tokio::sync::Mutex<Read>,
    /// Something was written while it was being made, maybe after that was read.
    behind: AtomicBool,
    used: AtomicU64,
}

impl Shard {
    fn new(dim: usize, zone: &TimeZone) -> Self {
        Self {
            index: RwLock::new(Index::new(dim, zone.clone())),
            state: AtomicU8::new(COLD),
            warmed: Notify::new(),
            read: tokio::sync::Mutex::default(),
            behind: AtomicBool::new(false),
            used: AtomicU64::new(0),
        }
    }

    pub fn is_warm(&self) -> bool {
        self.state.load(Ordering::Acquire) == WARM
    }

    /// Whether the caller is to make it.
    pub(super) fn begin_warming(&self) -> bool {
        self.state.compare_exchange(COLD, WARMING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(super) fn warmed(&self) {
        self.state.store(WARM, Ordering::Release);
        self.warmed.notify_waiters();
    }

    /// The next question reads what has changed first.
    pub(super) fn falls_behind(&self) {
        self.behind.store(true, Ordering::Release);
    }

    pub(super) fn cooled(&self) {
        self.state.store(COLD, Ordering::Release);
    }

    /// Waits until it is there, at most so long.
    pub(super) async fn wait(&self, at_most: Duration) -> bool {
        let warmed = self.warmed.notified();
        tokio::pin!(warmed);
        warmed.as_mut().enable();
        self.is_warm() || (tokio::time::timeout(at_most, warmed).await.is_ok() && self.is_warm())
    }

    /// How many memories it holds, and in how many bytes.
    pub fn size(&self) -> (usize, usize) {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        (index.len(), index.bytes())
    }

    pub(super) fn search(&self, query: &Query<'_>) -> Vec<Hit> {
        self.index.read().unwrap_or_else(PoisonError::into_inner).search(query)
    }

    /// Lets go of these.
    pub(super) fn remove(&self, ids: &[Uuid]) {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        for id in ids {
            index.remove(*id);
        }
    }

    /// Reads what has changed, unless that was done a moment ago.
    pub(super) async fn step_if_due(&self, from: &Reader<'_>) -> Result<(), StoreError> {
        let mut read = self.read.lock().await;
        if self.behind.swap(false, Ordering::AcqRel) {
            read.at = None;
        }
        match read.at {
            Some(at) if at.elapsed() < STALE => Ok(()),
            _ => self.read_on(&mut read, from).await,
        }
    }

    /// Reads what has changed.
    pub(super) async fn step(&self, from: &Reader<'_>) -> Result<(), StoreError> {
        let mut read = self.read.lock().await;
        self.read_on(&mut read, from).await
    }

    async fn read_on(&self, read: &mut Read, from: &Reader<'_>) -> Result<(), StoreError> {
        let begun = Instant::now();
        // As the house itself: nobody is shown anything here.
        let mut lease = from.store.tenant(from.tenant).await?;
        loop {
            let rows = lease.read(OWN, &[&read.own, &AT_ONCE]).await.map_err(StoreError::query("reading memories"))?;
            let Some(last) = rows.last() else { break };
            let upto: i64 = last.get("change");
            self.take(&rows, from);
            read.own = upto;
            if i64::try_from(rows.len()).is_ok_and(|n| n < AT_ONCE) {
                break;
            }
        }
        loop {
            let given = lease.read(PUBLISHED, &[&read.catalog, &AT_ONCE, &from.butler.as_str()]).await;
            let rows = given.map_err(StoreError::query("reading published memories"))?;
            let Some(last) = rows.last() else { break };
            let upto: i64 = last.get("change");
            self.take(&rows, from);
            read.catalog = upto;
            if i64::try_from(rows.len()).is_ok_and(|n| n < AT_ONCE) {
                break;
            }
        }
        read.at = Some(begun);
        Ok(())
    }

    fn take(&self, rows: &[Row], from: &Reader<'_>) {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        for row in rows {
            let id: Uuid = row.get("id");
            if row.get::<_, bool>("live") {
                take_in(&mut index, id, row, from);
            } else {
                index.remove(id);
            }
        }
    }
}

fn take_in(index: &mut Index, id: Uuid, row: &Row, from: &Reader<'_>) {
    let kind = Kind::from_name(row.get("kind")).unwrap_or(Kind::Fact);
    let (about, predicate): (Option<&str>, Option<&str>) = (row.get("about"), row.get("predicate"));
    let content: &str = row.get("content");
    let worded = predicate.map(|predicate| fact_text(predicate, content));
    let of_model = row.get::<_, Option<&str>>("embedding_model") == Some(from.model);
    let vector: Vec<i8> = match row.get::<_, Option<&[u8]>>("embedding").filter(|_| of_model) {
        Some(bytes) => bytes.iter().map(|b| b.cast_signed()).collect(),
        None => Vec::new(),
    };
    index.put(&Entry {
        id,
        kind,
        seq: row.get("seq"),
        thread: row.get("thread"),
        about,
        at: row.get::<_, Timestamp>("at"),
        text: worded.as_deref().unwrap_or(content),
        vector: &vector,
        importance: row.get("importance"),
        confidence: row.get("confidence"),
        decay: row.get("decay"),
        confirmed_at: row.get("confirmed_at"),
        used_at: row.get("used_at"),
        facets: Facets {
            scope: row.get("scope"),
            butler: row.get::<_, Option<&str>>("butler").unwrap_or(from.butler.as_str()),
            class: row.get("class"),
            predicate,
            entity: row.get("entity"),
            object: row.get("object"),
            valid_to: row.get("valid_to"),
            sensitivity: match row.get::<_, &str>("sensitivity") {
                "normal" => 0,
                "sensitive" => 1,
                _ => 2,
            },
            trust: Trust::from_name(row.get("trust")),
        },
    });
}

/// What has changed of a butler's own memories since `$1`, in the order of the changes.
const OWN: &str = "
    SELECT * FROM (
        (SELECT 'episode' AS kind, id, change, seq, forgotten_at IS NULL AND (expires_at IS NULL OR expires_at > shared.clock()) AS live,
                session_id AS thread, speaker AS about, NULL::text AS predicate, content, embedding, embedding_model, occurred_at AS at,
                importance, 1::real AS confidence, 0::real AS decay, NULL::timestamptz AS confirmed_at,
                last_referenced_at AS used_at, 'global' AS scope, NULL::text AS butler, retention_class AS class,
                NULL::uuid AS entity, NULL::uuid AS object, NULL::timestamptz AS valid_to, sensitivity, trust
         FROM memory_episodes WHERE tenant_id = shared.tenant() AND change > $1 ORDER BY change LIMIT $2)
        UNION ALL
        (SELECT 'fact', id, change, seq, forgotten_at IS NULL AND validity IN ('active', 'fading'),
                NULL, subject, predicate, content, embedding, embedding_model, coalesce(valid_from, learned_at),
                importance, confidence, decay_rate, last_confirmed_at,
                last_referenced_at, scope, NULL, retention_class,
                entity_id, object_entity_id, valid_to, sensitivity, trust
         FROM memory_facts WHERE tenant_id = shared.tenant() AND change > $1 ORDER BY change LIMIT $2)
        UNION ALL
        (SELECT 'rule', id, change, seq, forgotten_at IS NULL AND validity IN ('active', 'fading'),
                NULL, NULL, NULL, content, embedding, embedding_model, learned_at,
                importance, confidence, decay_rate, last_confirmed_at,
                last_referenced_at, scope, NULL, retention_class,
                NULL, NULL, NULL, sensitivity, trust
         FROM memory_rules WHERE tenant_id = shared.tenant() AND change > $1 ORDER BY change LIMIT $2)
    ) changed ORDER BY change LIMIT $2";

/// What has changed of what other butlers than `$3` have published.
const PUBLISHED: &str = "
    SELECT 'fact' AS kind, memory_id AS id, change, change AS seq, live, NULL::uuid AS thread, subject AS about, predicate, content,
           embedding, embedding_model, coalesce(valid_from, learned_at) AS at, importance, confidence, decay_rate AS decay,
           last_confirmed_at AS confirmed_at, NULL::timestamptz AS used_at, 'global' AS scope, butler,
           retention_class AS class, entity_id AS entity, object_entity_id AS object, valid_to, 'normal' AS sensitivity,
           trust
    FROM shared.memory_catalog
    WHERE tenant_id = shared.tenant() AND change > $1 AND butler <> $3 ORDER BY change LIMIT $2";

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).expect("a name")
    }

    #[test]
    fn what_was_used_longest_ago_goes_when_all_take_too_much() {
        let shards = Shards::new(4, TimeZone::UTC, 1);
        for (n, name) in (1..).zip(["owner", "guest", "neighbour"]) {
            let entry = Entry {
                id: Uuid::now_v7(),
                kind: Kind::Fact,
                seq: n,
                thread: None,
                about: None,
                at: Timestamp::UNIX_EPOCH,
                text: "a jar with plums",
                vector: &[1, 2, 3, 4],
                importance: 5.0,
                confidence: 1.0,
                decay: 0.0,
                confirmed_at: None,
                used_at: None,
                facets: Facets::default(),
            };
            shards.of(&tenant(name)).index.write().expect("a lock").put(&entry);
        }
        let there = |name: &str| shards.all.lock().expect("a lock").contains_key(&tenant(name));
        shards.of(&tenant("owner"));
        shards.evict(&tenant("owner"));
        assert!(there("owner") && !there("guest") && !there("neighbour"), "but one stays, whatever it takes");
        assert_eq!(shards.of(&tenant("guest")).size().0, 0, "it is made anew when somebody asks");
        let roomy = Shards::new(4, TimeZone::UTC, 1 << 30);
        for name in ["owner", "guest"] {
            roomy.of(&tenant(name));
        }
        roomy.evict(&tenant("owner"));
        assert_eq!(roomy.all.lock().expect("a lock").len(), 2);
    }
}
