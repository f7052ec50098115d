//! The journal as files and as words: what its documents look like, how they change and are merged, what a session is
//! told of them, and how a person's programs ask the daemon. Pure: it opens no database and writes no file.

pub mod client;
pub mod documents;
pub mod file;
pub mod merge;
pub mod ops;
pub mod pack;
pub mod rotate;
pub mod section;
pub mod start;
pub mod state;
pub mod templates;
pub mod undo;
pub mod wire;

/// What is worth keeping of a conversation, as whoever syncs is told it.
pub const GUIDELINES: &str = include_str!("guidelines.md");

/// The skill `memory-sync` of interactive Claude Code: how a person's own session works a range of conversations in.
pub const MEMORY_SYNC: &str = include_str!("memory_sync.md");
