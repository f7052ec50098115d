//! The other side of a sync, as the engine sees it: a collection of items with hrefs and etags, and a list of changes.

use std::error::Error;
use std::future::Future;

/// What changed since a cursor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Changes {
    Page(Page),
    /// The cursor is not known any more: everything must be listed.
    Expired,
}

/// A part of the changes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    /// Whether this page and those behind it list all items, so that what they don't name is gone. The first page says it
    /// for all.
    pub whole: bool,
    /// href and etag; the etag is empty where the server names none.
    pub changed: Vec<(String, String)>,
    /// What was deleted. Items that nobody here knows are no mistake.
    pub gone: Vec<String>,
    pub next: Next,
}

/// Where the changes go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// At once, with this.
    More(String),
    /// The next time, with this; `None` where the server can only list everything.
    Done(Option<String>),
}

impl Default for Next {
    fn default() -> Self {
        Self::Done(None)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fetched {
    pub href: String,
    pub what: Found,
}

/// What is at an href.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    Here {
        etag: Option<String>,
        bytes: Vec<u8>,
    },
    Missing,
    /// It is there and can't be had: a sentence says why.
    Unreadable(String),
}

/// What a write led to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stored {
    /// Where it is; commonly where it was sent.
    pub href: String,
    /// `None` where the server doesn't say; it is read then.
    pub etag: Option<String>,
}

/// Why a write came to nothing, or to what nobody knows.
#[derive(Debug)]
pub enum PushError<E> {
    /// It is not as it was: somebody else changed it, or created it.
    Changed,
    /// It is not there.
    Missing,
    /// Another item has its UID.
    SameUid,
    /// The server will not take this item, whenever it is sent. A sentence says why.
    Refused(String),
    /// The request may have been carried out or not. The run ends.
    Failed(E),
}

/// One collection at a server. Hrefs are texts that are equal when they mean the same.
///
/// [`Collection`](crate::Collection) is one; `tests/simulated.rs` of this crate has a small one in memory.
pub trait Remote: Sync {
    type Error: Error + Send + Sync + 'static;

    /// What changed since `since`, or everything. Reading changes nothing, however often it is done.
    fn changes(&self, since: Option<&str>) -> impl Future<Output = Result<Changes, Self::Error>> + Send;

    /// The items at these hrefs, in any order.
    fn fetch(&self, hrefs: &[String]) -> impl Future<Output = Result<Vec<Fetched>, Self::Error>> + Send;

    /// Where an item of this name would be, which no other item has; `None` where the server alone knows.
    fn new_href(&self, name: &str) -> Option<String>;

    /// Writes a new item. Fails with [`PushError::Changed`] if there is one.
    fn create(&self, href: &str, bytes: &[u8]) -> impl Future<Output = Result<Stored, PushError<Self::Error>>> + Send;

    /// Replaces an item that has this etag; else fails with [`PushError::Changed`] or [`PushError::Missing`].
    fn update(
        &self,
        href: &str,
        etag: &str,
        bytes: &[u8],
    ) -> impl Future<Output = Result<Stored, PushError<Self::Error>>> + Send;

    /// Deletes an item that has this etag; else fails with [`PushError::Changed`] or [`PushError::Missing`].
    fn delete(&self, href: &str, etag: &str) -> impl Future<Output = Result<(), PushError<Self::Error>>> + Send;
}
