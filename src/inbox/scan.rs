//! The scanner: finds what waits in rows and not in memory, and takes back what nobody holds any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::lanes::{Item, Lanes};
use super::sql::messages;
use store::{Database, QueueTable, StoreError, lease_seconds};

/// What the scanner works with.
pub(super) struct Scan {
    pub db: Arc<Database>,
    pub table: QueueTable,
    pub schema: String,
    pub lanes: Arc<Lanes>,
    /// How often it looks even if nobody asks it to.
    pub every: Duration,
    /// For how long a lease must be over.
    pub grace: Duration,
    /// How many rows it takes at a time.
    pub batch: i64,
    /// For how many seconds the first message that may be dealt with has waited, at the last look.
    pub oldest: Arc<AtomicU64>,
    /// How many such messages there were then; before the first look `u64::MAX`.
    pub waiting: Arc<AtomicU64>,
}

impl Scan {
    /// Looks again and again, until `stop`.
    pub async fn keep(self, stop: CancellationToken) {
        loop {
            let next = self.once().await.unwrap_or_else(|e| {
                tracing::warn!(error = %e, "waiting messages could not be read");
                Some(Duration::from_secs(1))
            });
            // What another node claims meanwhile is seen before its lease can be over.
            let longest = self.every.min(Duration::from_secs_f64(lease_seconds()));
            let pause = next.map_or(longest, |next| next.min(longest));
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                () = self.lanes.starved.notified() => {}
            }
        }
    }

    /// Takes back what nobody holds any more, and puts what is next in each lane into memory. Returns when there is
    /// something to look for again, if that is known.
    async fn once(&self) -> Result<Option<Duration>, StoreError> {
        let Self { db, table, lanes, .. } = self;
        table.give_back_lapsed(db, self.grace, &lanes.known()).await?;
        let outlook = table.outlook(db, self.grace).await?;
        self.oldest.store(outlook.oldest.unwrap_or_default().as_secs(), Ordering::Relaxed);
        self.waiting.store(outlook.waiting.unwrap_or_default(), Ordering::Relaxed);
        let room = i64::try_from(lanes.room()).unwrap_or(0).min(self.batch);
        // What others fill leaves room to the household's own.
        let (own, most) = if room == 0 { (true, self.batch) } else { (false, room) };
        let rows = {
            let mut lease = db.every_tenant().await?;
            messages::first_of_lanes(&mut lease, &self.schema, (&lanes.known(), own), most).await?
        };
        if own {
            rows.into_iter().filter_map(Item::of).for_each(|item| lanes.offer(item));
            lanes.there_is_more();
            return Ok(outlook.next.map(|next| next.max(Duration::from_millis(200))));
        }
        let found = rows.len();
        rows.into_iter().filter_map(Item::of).for_each(|item| lanes.offer(item));
        if i64::try_from(found).unwrap_or(i64::MAX) >= room {
            lanes.there_is_more();
            return Ok(Some(Duration::from_millis(200)));
        }
        Ok(outlook.next.map(|next| next.max(Duration::from_millis(10))))
    }
}
