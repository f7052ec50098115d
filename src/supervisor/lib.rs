//! The tree: what starts in which order, what is started again, what is given up, and how everything ends.
//!
//! What never happens here: a butler that fails taking another along, a failure that no status names, a stop that
//! leaves a child behind.

mod backups;
mod embedded;
mod entry;
mod foundation;
mod health;
mod notify;
mod place;
mod rehearsal;
mod reload;
mod serve;
mod signals;
mod tree;

pub use backups::{BackupOrder, Backups, NoBackup, WriteBackup, backup_dir, newest_backup};
pub use embedded::{Embedded, EmbeddedError};
pub use entry::ButlerLookupError;
pub use foundation::{FoundationError, cache_dir, on_ground, owner_login};
pub use health::Health;
pub use rehearsal::{RehearsalError, rehearse};
pub use reload::{Change, ReloadError, Reloaded, ReloadedButler};
pub use serve::{AdminDoor, Hooks, Prepare, ServeError, StartAdmin, serve, serve_with, with_causes};
pub use tree::Supervisor;
