//! The indexes of one butler, one for each tenant: made from rows when they are asked for, kept in step by the numbers
//! of the rows' changes, given up when they take too much.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use base::TenantId;
use jiff::tz::TimeZone;
use memory_index::rank::{Hit, Index, Query};
use store::StoreError;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::sql::{IndexRow, Reader};

/// What other butlers, or this one in another daemon, have written is seen after so long at the latest.
const STALE: Duration = Duration::from_millis(250);
/// So many changes are read at once: few enough that whoever asks meanwhile gets a turn in between.
const AT_ONCE: usize = 1000;

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
            let rows = from.own(&mut lease, read.own, AT_ONCE).await?;
            let Some(last) = rows.last() else { break };
            read.own = last.change;
            self.take(&rows, from);
            if rows.len() < AT_ONCE {
                break;
            }
        }
        loop {
            let rows = from.published(&mut lease, read.catalog, AT_ONCE).await?;
            let Some(last) = rows.last() else { break };
            read.catalog = last.change;
            self.take(&rows, from);
            if rows.len() < AT_ONCE {
                break;
            }
        }
        read.at = Some(begun);
        Ok(())
    }

    fn take(&self, rows: &[IndexRow], from: &Reader<'_>) {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        for row in rows {
            if row.live {
                index.put(&row.entry(&row.words(), &row.vector(from.model), from.butler.as_str()));
            } else {
                index.remove(row.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use memory_index::Kind;
    use memory_index::rank::{Entry, Facets};

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
