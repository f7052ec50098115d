//! How often hooks were silent that could have spoken, so that `status` shows it.

use std::time::{Duration, Instant};

use base::Clock;
use serde::{Deserialize, Serialize};

use super::clean;
use super::state::StateDirectory;

const FILE: &str = "hooks.json";
const LOCK: &str = "hooks.lock";
/// Longer reasons are cut.
const LONGEST: usize = 300;
/// A hook looks again for the lock after this.
const PAUSE: Duration = Duration::from_millis(1);
/// And at most so often: a count may be lost, time may not.
const TRIES: u32 = 20;

/// What was missed on this machine, by this user.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Missed {
    /// How many hooks said less than they could have.
    pub missed: u64,
    /// When it happened last, RFC 3339.
    pub last_missed: String,
    /// Why, for people.
    pub why: String,
}

/// What was missed so far; nothing: no hook ever missed anything.
pub fn missed() -> Option<Missed> {
    read(&StateDirectory::of_environment()?)
}

pub fn read(state: &StateDirectory) -> Option<Missed> {
    serde_json::from_str(&state.read(FILE)?).ok()
}

/// Counts one, unless others hold the file until `until`. Returns whether it was counted.
pub fn count(state: &StateDirectory, why: &str, until: Instant) -> bool {
    for _ in 0..TRIES {
        if let Some(_lock) = state.lock(LOCK) {
            let before = read(state).unwrap_or_default();
            let now = Clock::of_environment().now();
            let why = clean::cut(&clean::visible(why), LONGEST);
            let missed = Missed { missed: before.missed.saturating_add(1), last_missed: now.to_string(), why };
            // Where that fails, there is nobody left to tell.
            return serde_json::to_string(&missed).is_ok_and(|text| state.replace(FILE, &text).is_ok());
        }
        if Instant::now() + PAUSE >= until {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_kept_and_told() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDirectory::at(&home.path().join("a/butlerd"));
        assert_eq!(read(&state), None);
        let soon = Instant::now() + Duration::from_secs(5);
        count(&state, "butlerd does not\nanswer", soon);
        count(&state, "late", soon);
        let missed = read(&state).unwrap();
        assert_eq!((missed.missed, missed.why.as_str()), (2, "late"));
        assert!(missed.last_missed.parse::<jiff::Timestamp>().is_ok(), "{missed:?}");
        // A file that something else broke does not stop the count.
        std::fs::write(state.path(FILE), "{").unwrap();
        count(&state, "late", soon);
        assert_eq!(read(&state).unwrap().missed, 1);
        let names = std::fs::read_dir(home.path().join("a/butlerd")).unwrap().count();
        assert_eq!(names, 2, "the file and its lock");
    }

    #[test]
    fn a_held_lock_costs_the_count_and_no_time() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDirectory::at(home.path());
        let held = state.lock(LOCK).unwrap();
        count(&state, "late", Instant::now());
        assert_eq!(read(&state), None);
        drop(held);
        count(&state, "late", Instant::now());
        assert_eq!(read(&state).unwrap().missed, 1);
    }

    #[test]
    fn counts_of_many_at_once_are_not_lost() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDirectory::at(home.path());
        let soon = Instant::now() + Duration::from_secs(60);
        let work = || (0..5).filter(|_| count(&state, "late", soon)).count();
        let counted = std::thread::scope(|scope| {
            let all: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
            all.into_iter().map(|one| one.join().unwrap()).sum::<usize>()
        });
        assert!(counted > 0);
        assert_eq!(read(&state).unwrap().missed, counted as u64);
    }
}
