//! When a butler counts as idle, and how long a run waits for that.

use std::time::Duration;

/// A butler is idle once it has had no session, at work or waiting, for so long.
pub const QUIET: Duration = Duration::from_secs(3);
/// A run that needs its butler idle begins after so long though the butler is busy, unless the next time comes before.
pub const MOST_WAIT: Duration = Duration::from_secs(30 * 60);

/// What the row of a run says while it waits.
pub(super) const WAITS: &str = "waits until its butler is idle";
/// What it says of a run that began when its butler was idle.
pub(super) const WAITED: &str = "it had waited until its butler was idle";
/// What it says of a run that began after [`MOST_WAIT`].
pub(super) const BEGAN_ANYWAY: &str = "it began though its butler was busy, after 30 minutes";
