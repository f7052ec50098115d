//! Warnings and errors that come again and again: the first ones are written, of the others it is told how many they
//! were.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Of one line, so many are written in a period.
const WRITTEN: u64 = 30;
const PERIOD: Duration = Duration::from_secs(60);
/// So many different lines are counted at a time; others are written as they come.
const LINES: usize = 1000;
/// What is told of repeated lines is not counted itself.
const TARGET: &str = "repeated";

/// The process's own.
pub(crate) static REPEATS: LazyLock<Repeats> = LazyLock::new(Repeats::default);

/// How often each line came in its period.
#[derive(Default)]
pub(crate) struct Repeats {
    hasher: RandomState,
    seen: Mutex<HashMap<u64, Seen>>,
}

struct Seen {
    since: Instant,
    times: u64,
    level: Level,
    text: String,
}

impl Repeats {
    /// Whether the line is written. The same are lines of one place in the code with one text, whatever their fields
    /// say.
    fn passes(&self, place: impl std::hash::Hash, level: Level, text: String, now: Instant) -> bool {
        let key = self.hasher.hash_one((place, &text));
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= LINES && !seen.contains_key(&key) {
            return true;
        }
        let line = seen.entry(key).or_insert_with(|| Seen { since: now, times: 0, level, text });
        line.times += 1;
        line.times <= WRITTEN
    }

    /// The lines whose period is over by `now`, and how often each was left out.
    fn over(&self, now: Option<Instant>) -> Vec<(Level, u64, String)> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = seen.extract_if(|_, line| now.is_none_or(|now| now.duration_since(line.since) >= PERIOD));
        let left_out = |(_, line): (u64, Seen)| (line.level, line.times.saturating_sub(WRITTEN), line.text);
        ended.map(left_out).filter(|(_, more, _)| *more > 0).collect()
    }

    /// Tells of lines that were left out in a period that is over, or in any. Only the log's own thread and the end of
    /// the process tell.
    pub fn tell(&self, all: bool) {
        for (level, more, text) in self.over((!all).then(Instant::now)) {
            if level == Level::ERROR {
                tracing::error!(target: TARGET, more, "… {more} more of this line: {text}");
            } else {
                tracing::warn!(target: TARGET, more, "… {more} more of this line: {text}");
            }
        }
    }
}

/// Leaves out what comes too often.
pub(crate) struct Limit;

impl<S: Subscriber> Layer<S> for Limit {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let meta = event.metadata();
        if *meta.level() > Level::WARN || meta.target() == TARGET {
            return true;
        }
        let mut text = Text::default();
        event.record(&mut text);
        REPEATS.passes(meta.callsite(), *meta.level(), text.0, Instant::now())
    }
}

/// The text of an event, without its fields.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_comes_without_end_is_counted_and_told_once() {
        let (repeats, now) = (Repeats::default(), Instant::now());
        let away = || "the database is away".to_owned();
        let written = (0..1716).filter(|_| repeats.passes("a", Level::WARN, away(), now)).count();
        assert_eq!(written, 30);
        assert!(repeats.passes("a", Level::WARN, "another text".to_owned(), now));
        assert!(repeats.passes("b", Level::WARN, away(), now), "the same text of another place");
        assert_eq!(repeats.over(Some(now + PERIOD / 2)), []);
        let told = repeats.over(Some(now + PERIOD));
        assert_eq!(told, [(Level::WARN, 1686, away())]);
        assert_eq!(repeats.over(None), [], "once");
        assert!(repeats.passes("a", Level::WARN, away(), now + PERIOD), "a new period begins");
    }

    #[test]
    fn many_different_lines_are_written_as_they_come() {
        let (repeats, now) = (Repeats::default(), Instant::now());
        assert!((0..5000).all(|n| repeats.passes(n, Level::ERROR, "a line".to_owned(), now)));
        assert_eq!(repeats.seen.lock().unwrap().len(), LINES);
    }
}
