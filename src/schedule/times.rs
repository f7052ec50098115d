//! When a schedule is due: by cron, every so often, or once.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::cron::{CronError, CronTimes};

/// The rule of a schedule's times.
#[derive(Debug, Clone)]
pub enum Rule {
    Cron(Box<CronTimes>),
    /// Slots at `anchor`, `anchor + period`, …: however long a run takes, the next slot stays where it is.
    Every {
        period: Duration,
        anchor: Timestamp,
    },
    Once(Timestamp),
}

/// A schedule's times within their bounds.
#[derive(Debug, Clone)]
pub struct Times {
    pub rule: Rule,
    pub start_at: Option<Timestamp>,
    pub until_at: Option<Timestamp>,
    /// Added to each slot: of housekeeping alone, so that not all butlers tidy at once.
    pub stagger: Duration,
    /// The least time between two slots.
    pub spacing: Duration,
    /// Times that were taken out of it.
    pub except: Vec<Timestamp>,
}

/// The shortest period.
pub const SHORTEST: Duration = Duration::from_secs(1);

/// The longest stagger.
const MOST_STAGGER: u64 = 30 * 60;

impl Times {
    /// Times without bounds.
    pub fn of(rule: Rule) -> Self {
        Self {
            rule,
            start_at: None,
            until_at: None,
            stagger: Duration::ZERO,
            spacing: Duration::ZERO,
            except: Vec::new(),
        }
    }

    /// Cron times.
    pub fn cron(expression: &str, zone: &str) -> Result<Self, CronError> {
        CronTimes::parse(expression, zone).map(|times| Self::of(Rule::Cron(Box::new(times))))
    }

    /// How close together two slots may come; `None`: there is only one.
    pub fn shortest_gap(&self) -> Option<Duration> {
        match &self.rule {
            Rule::Cron(cron) => Some(cron.shortest_gap()),
            Rule::Every { period, .. } => Some(*period),
            Rule::Once(_) => None,
        }
    }

    /// The first time of `cron` after `after`, and not sooner than `spacing` where `after` is one itself.
    fn spaced(&self, cron: &CronTimes, after: Timestamp) -> Option<Timestamp> {
        let slot = cron.next(after)?;
        let nano = SignedDuration::from_nanos(1);
        let earliest = SignedDuration::try_from(self.spacing).ok().and_then(|spacing| after.checked_add(spacing).ok());
        match earliest.filter(|earliest| slot < *earliest) {
            Some(earliest) if cron.next(after.checked_sub(nano).ok()?) == Some(after) => {
                cron.next(earliest.checked_sub(nano).ok()?)
            }
            _ => Some(slot),
        }
    }

    /// The first due time after `after`; `None` when there is none any more.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let due = |after: &Timestamp| self.due(*after);
        std::iter::successors(due(&after), due).find(|at| !self.except.contains(at))
    }

    fn due(&self, after: Timestamp) -> Option<Timestamp> {
        let stagger = SignedDuration::try_from(self.stagger).unwrap_or_default();
        let slots = after.checked_sub(stagger).ok()?;
        // `start_at` itself may be a slot.
        let slots = match self.start_at.and_then(|s| s.checked_sub(SignedDuration::from_nanos(1)).ok()) {
            Some(start) => slots.max(start),
            None => slots,
        };
        let slot = match &self.rule {
            Rule::Cron(cron) => self.spaced(cron, slots),
            Rule::Every { period, anchor } => next_slot((*period).max(self.spacing), *anchor, slots),
            Rule::Once(at) => (*at > slots).then_some(*at),
        }?;
        let due = slot.checked_add(stagger).ok()?;
        self.until_at.is_none_or(|until| due <= until).then_some(due)
    }
}

/// The first slot after `after`.
fn next_slot(period: Duration, anchor: Timestamp, after: Timestamp) -> Option<Timestamp> {
    let period = i128::try_from(period.max(SHORTEST).as_nanos()).ok()?;
    let anchor = anchor.as_nanosecond();
    let gone = (after.as_nanosecond() - anchor).div_euclid(period);
    // Nothing is due before the anchor.
    let slot = if gone < 0 { anchor } else { anchor.checked_add((gone + 1).checked_mul(period)?)? };
    Timestamp::from_nanosecond(slot).ok()
}

/// The same for the same name at all times, and different for different butlers.
pub fn stagger(butler: &str, schedule: &str) -> Duration {
    use sha2::{Digest, Sha256};
    let hash = Sha256::digest(format!("{butler}/{schedule}"));
    let number = hash.iter().take(8).fold(0u64, |n, byte| (n << 8) | u64::from(*byte));
    Duration::from_secs(number % MOST_STAGGER)
}

#[cfg(test)]
pub(super) fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_stay_at_their_anchor() {
        let every = |after: &str| {
            next_slot(Duration::from_secs(5400), at("2026-11-21T08:00:00Z"), at(after)).unwrap().to_string()
        };
        assert_eq!(every("2026-11-20T00:00:00Z"), "2026-11-21T08:00:00Z");
        assert_eq!(every("2026-11-21T08:00:00Z"), "2026-11-21T09:30:00Z");
        assert_eq!(every("2026-11-21T09:29:59.999Z"), "2026-11-21T09:30:00Z");
        assert_eq!(every("2026-11-22T00:01:00Z"), "2026-11-22T00:30:00Z");
    }

    #[test]
    fn bounds_hold() {
        let mut times = Times::cron("0 8 * * *", "UTC").unwrap();
        times.start_at = Some(at("2026-11-21T08:00:00Z"));
        times.until_at = Some(at("2026-11-22T08:00:00Z"));
        assert_eq!(times.next(at("2026-01-01T00:00:00Z")), Some(at("2026-11-21T08:00:00Z")), "the start is a slot");
        assert_eq!(times.next(at("2026-11-21T08:00:00Z")), Some(at("2026-11-22T08:00:00Z")));
        assert_eq!(times.next(at("2026-11-22T08:00:00Z")), None);
        let once = Times::of(Rule::Once(at("2026-11-21T08:00:00Z")));
        assert_eq!(once.next(at("2026-11-21T07:59:59Z")), Some(at("2026-11-21T08:00:00Z")));
        assert_eq!(once.next(at("2026-11-21T08:00:00Z")), None);
    }

    #[test]
    fn what_was_taken_out_is_passed_over() {
        let mut times = Times::cron("0 8 * * *", "UTC").unwrap();
        times.except = vec![at("2026-11-22T08:00:00Z"), at("2026-11-23T08:00:00Z")];
        assert_eq!(times.next(at("2026-11-21T07:00:00Z")), Some(at("2026-11-21T08:00:00Z")));
        assert_eq!(times.next(at("2026-11-21T08:00:00Z")), Some(at("2026-11-24T08:00:00Z")));
    }

    #[test]
    fn no_slot_comes_sooner_than_the_spacing() {
        let mut times = Times::cron("*/7 * * * * *", "UTC").unwrap();
        times.spacing = Duration::from_secs(60);
        let mut last = times.next(at("2026-11-21T04:00:01Z")).unwrap();
        assert_eq!(last, at("2026-11-21T04:00:07Z"), "the first one does not wait");
        for _ in 0..1000 {
            let next = times.next(last).unwrap();
            assert!(next.duration_since(last).as_secs() >= 60, "{last}, then {next}");
            last = next;
        }
        // The clock is set forward at 02:00, which brings 01:59 and 03:00 together.
        let mut times = Times::cron("30 59 1 * * *", "Europe/Berlin").unwrap();
        times.spacing = Duration::from_secs(60);
        assert_eq!(times.next(at("2026-03-29T00:59:30Z")), Some(at("2026-03-29T23:59:30Z")));
        let mut times = Times::cron("30 59 1,2 * * *", "Europe/Berlin").unwrap();
        times.spacing = Duration::from_secs(60);
        assert_eq!(times.next(at("2026-03-29T00:59:30Z")), Some(at("2026-03-29T23:59:30Z")), "01:00:00Z is too soon");
    }

    #[test]
    fn a_stagger_moves_every_slot_by_the_same() {
        assert_eq!(stagger("health", "tidy"), stagger("health", "tidy"));
        assert_ne!(stagger("health", "tidy"), stagger("travel", "tidy"));
        let mut times = Times::cron("0 4 * * *", "UTC").unwrap();
        times.stagger = Duration::from_secs(600);
        assert_eq!(times.next(at("2026-11-21T04:05:00Z")), Some(at("2026-11-21T04:10:00Z")));
        assert_eq!(times.next(at("2026-11-21T04:10:00Z")), Some(at("2026-11-22T04:10:00Z")));
    }
}
