//! This side of a sync: rows that outlive any kill, each step committed before the next.

use std::collections::BTreeSet;
use std::error::Error;
use std::future::Future;

use uuid::Uuid;

/// An item as this side knows it. What is to be done follows from `base` and `ours`:
///
/// | base | ours | the item is |
/// |---|---|---|
/// | none | some | new here |
/// | some | equal | as the server has it |
/// | some | other | edited here |
/// | some | none | deleted here |
/// | none | none | deleted before it was known that the server has it |
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    pub id: Uuid,
    /// Counted up by the store with each change, whoever makes it; a write under an older one is refused.
    pub revision: u64,
    pub uid: Option<String>,
    /// Where the server has it, or where it was sent first.
    pub href: Option<String>,
    /// Of the server's version in `base`; `None` while that is not known.
    pub etag: Option<String>,
    /// What both sides last had in common, as the server writes it.
    pub base: Option<Vec<u8>>,
    /// What the house shows and edits; `None` once it is deleted here.
    pub ours: Option<Vec<u8>>,
    /// What was last sent, while nobody knows whether it arrived.
    pub sent: Option<Vec<u8>>,
    /// The server took `base` from us and may have written it otherwise: it is to be read.
    pub reread: bool,
}

impl Item {
    /// A new item of the house.
    pub fn new(uid: Option<String>, bytes: Vec<u8>) -> Self {
        let id = Uuid::new_v4();
        Self { id, revision: 0, uid, href: None, etag: None, base: None, ours: Some(bytes), sent: None, reread: false }
    }

    /// Whether the server is to learn something of it.
    pub fn is_pending(&self) -> bool {
        self.ours != self.base || self.sent.is_some() || self.ours.is_none()
    }
}

/// Both sides changed one item, and what became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConflictKind {
    /// Different properties changed: the item has both changes, and nobody need look.
    Merged,
    /// The same property changed: the server's version stays.
    BothEdited,
    /// Both sides made an item with one UID: the server's version stays.
    BothCreated,
    /// Deleted at the server, edited here: it is created there again, unless others would be told of it.
    DeletedThere,
    /// Deleted here, edited at the server: it is here again.
    DeletedHere,
    /// Nobody else changed it, but the server did not keep all that it was sent: its version stays.
    Rewritten,
}

impl ConflictKind {
    /// As rows name it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Merged => "merged",
            Self::BothEdited => "both_edited",
            Self::BothCreated => "both_created",
            Self::DeletedThere => "deleted_there",
            Self::DeletedHere => "deleted_here",
            Self::Rewritten => "rewritten",
        }
    }
}

/// All versions of an item in conflict, so that a person can choose another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict {
    pub kind: ConflictKind,
    pub uid: Option<String>,
    pub base: Option<Vec<u8>>,
    pub ours: Option<Vec<u8>>,
    pub theirs: Option<Vec<u8>>,
}

/// One row's change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Write {
    /// The row becomes this. `item.revision` is the one that was read; a row that isn't there yet has 0.
    Save { item: Item, conflict: Option<Conflict> },
    /// The item is at neither side any more; what the house does with it (an archive) is its own affair. With a conflict
    /// its content lives on in another item, or on record alone.
    Remove { id: Uuid, revision: u64, conflict: Option<Conflict> },
}

impl Write {
    pub fn id(&self) -> Uuid {
        match self {
            Self::Save { item, .. } => item.id,
            Self::Remove { id, .. } => *id,
        }
    }

    pub fn conflict(&self) -> Option<&Conflict> {
        match self {
            Self::Save { conflict, .. } | Self::Remove { conflict, .. } => conflict.as_ref(),
        }
    }

    pub(super) fn removes(&self) -> bool {
        matches!(self, Self::Remove { .. })
    }
}

/// Which items of a collection are read.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    Id(Uuid),
    Hrefs(&'a [String]),
    Uids(&'a [String]),
}

/// Items, conflicts and cursor of one collection. Only one sync of it may run at a time; the house may edit meanwhile.
///
/// `tests/memory.rs` of this crate has a small one.
pub trait LocalStore: Sync {
    type Error: Error + Send + Sync + 'static;

    fn cursor(&self) -> impl Future<Output = Result<Option<String>, Self::Error>> + Send;

    fn set_cursor(&self, cursor: Option<&str>) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// All of these items, the oldest first.
    fn items(&self, which: Which<'_>) -> impl Future<Output = Result<Vec<Item>, Self::Error>> + Send;

    /// Ids and hrefs of all items that have a `base`.
    fn linked(&self) -> impl Future<Output = Result<Vec<(Uuid, String)>, Self::Error>> + Send;

    /// Ids of all items of which [`Item::is_pending`] holds, oldest first.
    fn pending(&self) -> impl Future<Output = Result<Vec<Uuid>, Self::Error>> + Send;

    /// Who besides the house is told when the server has this content of an item, as those whom an event asks to come.
    fn told(&self, _content: &[u8]) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// Makes these changes and records their conflicts in one transaction. Tells the ids of those that it refused, because
    /// their rows have another revision than was read; the others are done.
    fn write(&self, writes: Vec<Write>) -> impl Future<Output = Result<Vec<Uuid>, Self::Error>> + Send;
}
