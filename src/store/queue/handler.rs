//! What a queue's user says: how a row is claimed and read, what is done with it, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::lease::lease_seconds;
use super::sql::{Claim, Outlook, QueueTable};
use crate::database::Database;
use crate::error::StoreError;

/// A row in these hands.
#[derive(Clone, Debug)]
pub struct Claimed<R> {
    pub claim: Claim,
    /// Its tries, this one included, where they are counted.
    pub attempts: i32,
    pub row: R,
}

/// What follows from a try for its row.
#[derive(Clone, Debug)]
pub enum Verdict<E> {
    /// It is at its end, or where the handler's own statement puts it.
    Settle(E),
    /// It failed; again after a while, unless it has failed too often: then it comes to this end.
    Retry { why: String, dead: E },
    /// Nothing of it is at fault; the same again after this long. `counts`: as a try.
    Later { after: Duration, counts: bool },
    /// As [`Verdict::Later`] of the machine or the other side, uncounted; its row says what is waited for.
    Wait { after: Duration, why: String },
    /// The handler has let it go itself.
    Gone,
}

/// How a row left these hands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Left {
    Settled,
    /// It failed too often, and was settled so.
    Dead,
    /// It waits for another try.
    Retried,
    /// It waits, and nothing was tried.
    PutBack,
    Gone,
    /// Another claim holds it; nothing was written.
    Lost,
    /// The database was away for too long; its lease runs out.
    Unwritten,
}

base::named!(Left);

/// The user of a queue. [`Queue`](super::Queue) calls it.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use store::{Also, Claim, Claimed, Database, Handler, QueueTable, RetryPolicy, StoreError, Verdict};
/// use tokio_util::sync::CancellationToken;
/// use uuid::Uuid;
///
/// struct Letters {
///     db: Arc<Database>,
///     table: QueueTable,
/// }
///
/// impl Letters {
///     fn new(db: Arc<Database>) -> Self {
///         let retry = RetryPolicy { tries: 5, pause: |n| Duration::from_secs(2 << n), error: "last_error" };
///         Self { db, table: QueueTable::accepted("shared.letters".to_owned(), "id", "n.seq", retry) }
///     }
/// }
///
/// #[async_trait::async_trait]
/// impl Handler for Letters {
///     const NAME: &'static str = "letter";
///     type Row = String;
///     type End = &'static str;
///
///     fn table(&self) -> &QueueTable {
///         &self.table
///     }
///     fn db(&self) -> &Arc<Database> {
///         &self.db
///     }
///     fn node(&self) -> &str {
///         "node-1"
///     }
///     async fn claim(&self, in_hand: &[Uuid]) -> Result<Option<Claimed<String>>, StoreError> {
///         let (id, mut lease) = (Uuid::now_v7(), self.db.every_tenant().await?);
///         let of = (id, self.node());
///         let rows = self.table.claim(&mut lease, of, (1, in_hand), Also::default(), "q.id, q.attempts, q.body").await;
///         let rows = rows.map_err(StoreError::query("claiming a letter"))?;
///         Ok(rows.first().map(|row| Claimed {
///             claim: Claim { row: row.get(0), id },
///             attempts: row.get(1),
///             row: row.get(2),
///         }))
///     }
///     async fn run(&self, letter: &Claimed<String>, _lost: &CancellationToken) -> Verdict<&'static str> {
///         match letter.row.is_empty() {
///             true => Verdict::Retry { why: "it is empty".to_owned(), dead: "dead" },
///             false => Verdict::Settle("done"),
///         }
///     }
///     fn broke(&self, _letter: &Claimed<String>, why: &str) -> Verdict<&'static str> {
///         Verdict::Retry { why: why.to_owned(), dead: "dead" }
///     }
///     async fn settle(&self, letter: &Claimed<String>, state: &&'static str) -> Result<bool, StoreError> {
///         let mut lease = self.db.every_tenant().await?;
///         let sql = self.table.settling("state = $3");
///         let done = lease.execute(&sql, &[&letter.claim.row, &letter.claim.id, state]).await;
///         Ok(done.map_err(StoreError::query("settling a letter"))? > 0)
///     }
/// }
/// ```
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// The queue in the log and in metrics, and the first part of its crash points.
    const NAME: &'static str;
    /// Whether somebody looks at the rows of all who share the table, more often than leases are renewed, and rings for
    /// whom one is open. Then the longest sleep may be longer than a lease.
    const WATCHED: bool = false;
    /// A row as it was read.
    type Row: Send + Sync + 'static;
    /// How a row ends.
    type End: Send + Sync + 'static;

    fn table(&self) -> &QueueTable;

    fn db(&self) -> &Arc<Database>;

    /// Who claims here: the same after a restart, another one on another machine.
    fn node(&self) -> &str;

    /// Gives back at a start what this node held. Returns how many rows that is.
    async fn recover(&self) -> Result<u64, StoreError> {
        self.table().give_back(self.db(), self.node(), &[], true).await
    }

    /// Before rows are claimed: what else follows from what is on record.
    async fn prepare(&self, _in_hand: &[Uuid]) -> Result<(), StoreError> {
        Ok(())
    }

    /// Claims the next row, none of those in hand. It is committed when this returns.
    async fn claim(&self, in_hand: &[Uuid]) -> Result<Option<Claimed<Self::Row>>, StoreError>;

    /// After rows were claimed: what follows from those that are at their end.
    async fn follow(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// What waits, once no more could be claimed: for its time, or for the end of a lease, whoever's it is.
    async fn outlook(&self) -> Result<Outlook, StoreError> {
        self.table().outlook(self.db(), Duration::ZERO).await
    }

    /// Works on the row. It is never dropped half-way: `lost` is cancelled where the claim does not hold any more, and
    /// then its end is awaited.
    async fn run(&self, claimed: &Claimed<Self::Row>, lost: &CancellationToken) -> Verdict<Self::End>;

    /// Writes the end in one transaction, with [`QueueTable::settling`]. `false`: the claim does not hold the row any
    /// more, and nothing was written. Called again while the database is away.
    async fn settle(&self, claimed: &Claimed<Self::Row>, end: &Self::End) -> Result<bool, StoreError>;

    /// What becomes of a row whose work panicked; `why` is kept as its last error. By itself it is tried again after a
    /// while and the try counts: `run` sees in [`Claimed::attempts`] that there were enough, or this says
    /// [`Verdict::Retry`].
    fn broke(&self, claimed: &Claimed<Self::Row>, _why: &str) -> Verdict<Self::End> {
        let lease = || Duration::from_secs_f64(lease_seconds());
        let after = self.table().retry.map_or_else(lease, |retry| (retry.pause)(claimed.attempts));
        Verdict::Later { after, counts: true }
    }

    /// The row has left these hands.
    fn left(&self, _claimed: &Claimed<Self::Row>, _how: Left) {}
}
