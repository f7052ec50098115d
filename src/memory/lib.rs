//! The memory engine: what a butler knows, written by one writer and found through one index.
//!
//! Rows are the truth (`sql/memory/`); what is searched stands in memory beside them and is kept in step by the numbers
//! of their changes. Whoever reads a row is told how far it is believed by the row's policy, so memory launders
//! nothing. [`write`] takes in, [`Memory`] finds, [`gate`] says what may be remembered, [`Ledger`] what was purged. All
//! SQL stands in [`sql`].

mod ask;
mod engine;
pub mod gate;
mod handle;
mod ledger;
mod shard;
pub mod sql;
pub mod write;

pub use ask::{Answered, Ask, Found};
pub use engine::{Memory, Options, make_missing};
pub use handle::MemoryHandle;
pub use ledger::{DIR as PURGED, Ledger, LedgerError};
pub use memory_index::Kind;
