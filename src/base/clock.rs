//! The only place that asks what time it is.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};

use super::crash::variable;

/// The household's clock: the system's, moved by an offset that tests set.
///
/// Clones share the offset. Leases do not use it: they use the database server's clock.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    offset_ms: Arc<AtomicI64>,
    /// Says the offset anew at each look; of tests that move the clock of a running daemon.
    file: Option<Arc<PathBuf>>,
}

impl Clock {
    /// The clock of a daemon. Builds with test points move it by `BUTLERD_CLOCK_OFFSET`, such as `26h`, or by what stands
    /// in the file that `BUTLERD_CLOCK_FILE` names, which may change while the daemon runs.
    pub fn of_environment() -> Self {
        let file = variable("BUTLERD_CLOCK_FILE").map(|path| Arc::new(PathBuf::from(path)));
        let clock = Self { file, ..Self::default() };
        let offset = variable("BUTLERD_CLOCK_OFFSET");
        if let Some(by) = offset.and_then(|o| o.parse().ok()) {
            clock.advance(by);
        }
        clock
    }

    /// The present.
    pub fn now(&self) -> Timestamp {
        let offset = SignedDuration::from_millis(self.offset());
        Timestamp::now().saturating_add(offset).unwrap_or(Timestamp::MAX)
    }

    fn offset(&self) -> i64 {
        let own = self.offset_ms.load(Ordering::Relaxed);
        let Some(file) = &self.file else { return own };
        let text = std::fs::read_to_string(file.as_path()).unwrap_or_default();
        let more = text.trim().parse::<SignedDuration>().map_or(0, |by| by.as_millis());
        own.saturating_add(i64::try_from(more).unwrap_or(i64::MAX))
    }

    /// Whether somebody moved this clock. Only then must SQL be told the time.
    pub fn is_moved(&self) -> bool {
        self.offset() != 0
    }

    /// Sets the clock: it shows `at` now and goes on from there; with `None` it is the system's again. For households
    /// that are thrown away.
    pub fn set(&self, at: Option<Timestamp>) {
        // Never before it, by the part of a millisecond that is not kept.
        let by = at.map(|at| i64::try_from(at.duration_since(Timestamp::now()).as_millis() + 1).unwrap_or(i64::MAX));
        self.offset_ms.store(by.unwrap_or(0), Ordering::Relaxed);
    }

    /// Moves the clock by `by`, on top of earlier moves.
    pub fn advance(&self, by: SignedDuration) {
        let ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.offset_ms.fetch_add(ms, Ordering::Relaxed);
    }
}
