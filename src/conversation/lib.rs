//! The conversation log: what was said between people and the household, in and out, on all channels, in one order.
//!
//! An entry is written by the database itself (`sql/shared/011_conversation.sql`), in the transaction that accepts a
//! message or that delivers one: there is no way to do either and leave the entry out, and writers wait for nobody.
//!
//! **Whoever has seen an entry numbered n never finds another one of a smaller number later.** An entry has no number
//! as it is committed; [`ConversationLog::order`] gives it one. That runs under a lock which it holds to the end of its
//! transaction, draws from a sequence after it got the lock, and takes committed entries only. The server makes a
//! transaction's changes visible before it lets go of its locks; so as a run gets the lock, all runs before it are
//! visible or undone, and its numbers are greater than theirs. Therefore, where n can be seen, every number below it is
//! either visible as well or was never given. The SQL file has the proof step by step. It needs nothing of readers: it
//! holds for plain SELECTs, in every isolation level, and after a restore into another cluster.
//!
//! Two things give numbers: whoever reads on ([`ConversationLog::after`], [`ConversationReader::after`]) does it first,
//! and so finds all that was committed before; and [`ConversationLog::keep`] does it for those who read by SQL.
//!
//! Who reads: the house reads everything of a tenant. A butler reads, under row-level security, what concerns it:
//! messages of which a part was handed to it, and what it said itself. A message may become its concern after later
//! ones were said; so a butler reads on by a number of its own of the same sequence, which [`Placed::place`] is.

mod lane;
mod pages;
mod reference;
mod sql;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub use lane::{Lane, bounded, joined};
pub use pages::{ConversationPages, Page};
pub use reference::{NoReference, Reference};
pub use sql::{Direction, Entry, MESSAGE_TEXT, OLD, PageEntry, Placed, written_to};

use base::TenantId;
use store::{Database, Lease, StoreError};

/// Entries are looked for this often even if nobody says that there are any: another daemon may have written them.
const LOOK: Duration = Duration::from_secs(15);
/// What is written within this time gets its numbers together.
const GATHER: Duration = Duration::from_millis(100);
/// After a look that failed.
const AGAIN: Duration = Duration::from_secs(1);

/// Butlers that read more than what was handed to them or said by them.
const READ_ALL: [&str; 2] = ["switchboard", "messenger"];

/// The log of the whole household. Cheap to clone.
#[derive(Clone)]
pub struct ConversationLog {
    db: Arc<Database>,
    wake: Arc<Notify>,
}

impl ConversationLog {
    pub fn new(db: Arc<Database>) -> Self {
        Self { db, wake: Arc::default() }
    }

    /// Something was said: it gets its number soon.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Keeps the log in order until `stop`.
    pub async fn keep(self, stop: CancellationToken) {
        loop {
            let pause = match self.order().await {
                Ok(_) => LOOK,
                Err(e) => {
                    tracing::warn!(error = %e, "the conversation log can't be put in order");
                    AGAIN
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                () = self.wake.notified() => tokio::time::sleep(GATHER).await,
            }
        }
    }

    /// What was said to and by the household after `place` (0: from the beginning), at most so much. All that was
    /// committed when this was called is in order.
    pub async fn after(&self, tenant: &TenantId, place: i64, most: i64) -> Result<Vec<Placed>, StoreError> {
        self.order().await?;
        let mut lease = self.db.shared(tenant).await?;
        sql::after(&mut lease, tenant, place, most).await
    }

    /// The log for people.
    pub fn pages(&self) -> ConversationPages {
        ConversationPages::new(self.db.clone())
    }

    /// A butler's view of the log, for its modules.
    pub fn reader(&self, butler: &str) -> ConversationReader {
        ConversationReader { log: self.clone(), butler: butler.into(), all: READ_ALL.contains(&butler) }
    }
}

/// What one butler may read of the log. Cheap to clone.
///
/// ```no_run
/// # use {base::TenantId, conversation::ConversationReader, store::{Store, StoreError}};
/// # async fn follow(reader: ConversationReader, store: Store, tenant: TenantId) -> Result<(), StoreError> {
/// let mut place = 0;
/// loop {
///     let mut lease = store.tenant(&tenant).await?;
///     let page = reader.after(&mut lease, &tenant, place, 100).await?;
///     let Some(last) = page.last() else { return Ok(()) };
///     place = last.place;
///     for said in &page {
///         println!("{}: {:?}", said.entry.person, said.entry.text);
///     }
/// }
/// # }
/// ```
#[derive(Clone)]
pub struct ConversationReader {
    log: ConversationLog,
    butler: Arc<str>,
    all: bool,
}

/// A stretch of the log as a butler reads it: of the entries behind a place the first, the last, and how many there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    pub first: i64,
    pub last: i64,
    pub count: i64,
}

impl ConversationReader {
    /// What concerns the butler after `place` (0: from the beginning), at most so much, read over a lease of its own
    /// role: row-level security decides, and what a stranger said lowers the lease's trust as any row does.
    pub async fn after(
        &self,
        lease: &mut Lease,
        tenant: &TenantId,
        place: i64,
        most: i64,
    ) -> Result<Vec<Placed>, StoreError> {
        self.log.order().await?;
        match self.all {
            true => sql::after(lease, tenant, place, most).await,
            false => sql::concerning(lease, tenant, place, most).await,
        }
    }

    /// Whose entries it reads; `None`: all.
    fn own(&self) -> Option<&str> {
        (!self.all).then_some(&*self.butler)
    }
}
