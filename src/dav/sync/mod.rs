//! Keeps one collection the same at two sides that both change it.
//!
//! A run is: pull what changed there, push what changed here, and if anything was pushed, pull again, which reads back what
//! the server made of it. Each step is a row that is committed before the next step begins, and nothing else is remembered.
//! So a kill at any instant, or an answer that was lost, is made right by the next run:
//!
//! - Before a write is sent, the row says what is sent and where (`sent`, `href`), and it is sent under a condition: that
//!   there is nothing (`If-None-Match: *`), or that the etag is the one that was seen. Whoever repeats it can't do it twice.
//! - A new item is sent to an href that was made up for it alone. What is found there is ours.
//! - While nobody knows whether a write arrived, nothing else is sent of this item but the same again.
//! - The cursor moves after all that it stands for is committed.
//!
//! # What becomes of an item
//!
//! | here | there: as before | changed | deleted |
//! |---|---|---|---|
//! | as before | – | theirs | removed; the store may archive it |
//! | new | created there | the same content: linked; else conflict, theirs stays | – |
//! | edited | sent | different properties: merged; else conflict, theirs stays | conflict, created there again |
//! | deleted | deleted there | conflict, it is here again | removed |
//!
//! Every conflict is recorded with all versions, in the transaction that decides it, so nothing that anybody wrote is lost.
//! An edit always outlives a deletion: deleting again is one step, writing again what was deleted is not. Theirs stays where
//! a choice must be made, because other people and programs look at the server, and have seen it.
//! An item of which a server tells others ([`LocalStore::told`]) stays deleted once it is deleted there, with the edit on record.
//! Two edits of it are merged only if all whom the result tells were told by both sides.
//!
//! # How two edits are merged
//!
//! The merge has three ways, as diff3 has (Khanna, Kunal and Pierce, "A Formal Investigation of Diff3", 2007), but over
//! properties rather than lines, because their order says nothing: what one side changed since `base` is taken from that
//! side, and what both changed differently is a conflict of the whole item. Properties that mean something only together
//! are one: when an event is, a name and its parts, a number and its label. A series that moved on one side and had single
//! times changed on the other is a conflict. What both sides only added to (telephone numbers, attendees) has both.
//! Stamps that programs write are the server's. Bytes that nobody touched stay as they are.
//!
//! A server may write an item in its own way. What it is sent is read back, and where it did not keep all of it (some drop
//! what stands behind a comma of a property that they don't know), what was sent is on record as a conflict.
//!
//! # What is not believed
//!
//! What is missing from a list is asked for by itself, and only what is not there either is deleted: a list that was cut, or
//! made while items moved, deletes nothing. Where most of what the server had is not there at all, the reason is more often
//! a broken disk, another account or a changed address than a person who deleted everything. Such a run removes nothing,
//! pushes nothing, keeps its cursor, and says so ([`Report::held`]) until somebody says that it is right
//! ([`Options::believe_mass_deletion`]). Deletions that the server names one by one are believed. An expired cursor leads to
//! such a list, never to a gap.

mod decide;
mod engine;
mod merge;
mod remote;
mod store;

pub use engine::{Held, Options, Report, SyncError, sync};
pub use remote::{Changes, Fetched, Found, Next, Page, PushError, Remote, Stored};
pub use store::{Conflict, ConflictKind, Item, LocalStore, Which, Write};
