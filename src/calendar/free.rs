//! Free time and conflicts.

use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};

/// Time that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    pub start: Timestamp,
    pub end: Timestamp,
    /// Whether one has to travel to it and back.
    pub away: bool,
}

/// Time that is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub start: Timestamp,
    pub end: Timestamp,
}

/// The hours in which something may be put.
#[derive(Clone, Debug, PartialEq)]
pub struct DayHours {
    pub from: Time,
    pub to: Time,
    pub days: Vec<Weekday>,
}

/// What is looked for.
#[derive(Clone, Debug)]
pub struct FreeSearch {
    pub from: Timestamp,
    pub to: Timestamp,
    pub length: SignedDuration,
    /// The zone of `hours`.
    pub zone: TimeZone,
    /// `None`: at any hour.
    pub hours: Option<DayHours>,
    /// Left free before and after what is elsewhere.
    pub travel: SignedDuration,
    /// Left free before and after everything else.
    pub pause: SignedDuration,
    /// Whether what is put there is elsewhere, too.
    pub away: bool,
}

const GRID: i64 = 15 * 60;
const MAX_DAYS: usize = 400;

/// What of `busy` overlaps a time.
pub fn conflicts(busy: &[Busy], slot: Slot) -> impl Iterator<Item = usize> + '_ {
    let at = busy.iter().enumerate();
    at.filter(move |(_, taken)| taken.start < slot.end && taken.end > slot.start).map(|(n, _)| n)
}

/// The first `limit` free times, one behind the other. They begin at quarters of an hour.
pub fn free_slots(busy: &[Busy], search: &FreeSearch, limit: usize) -> Vec<Slot> {
    let mut found = Vec::new();
    let taken = taken(busy, search);
    for open in openings(search) {
        let mut at = on_grid(open.start);
        let mut next = taken.partition_point(|slot| slot.end <= open.start);
        while found.len() < limit {
            let Some(end) = at.checked_add(search.length).ok().filter(|end| *end <= open.end) else { break };
            while taken.get(next).is_some_and(|slot| slot.end <= at) {
                next += 1;
            }
            match taken.get(next).filter(|slot| slot.start < end) {
                Some(slot) => at = on_grid(slot.end),
                None => {
                    found.push(Slot { start: at, end });
                    at = on_grid(end.max(at + SignedDuration::from_secs(1)));
                }
            }
        }
    }
    found
}

/// Three free times near a wanted one, the nearest first.
pub fn suggestions(busy: &[Busy], search: &FreeSearch, wanted: Timestamp) -> Vec<Slot> {
    let mut all = free_slots(busy, search, 2_000);
    all.sort_by_key(|slot| (slot.start.duration_since(wanted).abs(), slot.start));
    all.truncate(3);
    all
}

/// Taken times with what must stay free around them, joined and in order.
fn taken(busy: &[Busy], search: &FreeSearch) -> Vec<Slot> {
    let mut all: Vec<Slot> = busy
        .iter()
        .map(|taken| {
            let around = if taken.away || search.away { search.travel.max(search.pause) } else { search.pause };
            let start = taken.start.saturating_sub(around).unwrap_or(taken.start);
            Slot { start, end: taken.end.saturating_add(around).unwrap_or(taken.end) }
        })
        .filter(|slot| slot.end > slot.start && slot.end > search.from && slot.start < search.to)
        .collect();
    all.sort_by_key(|slot| slot.start);
    let mut joined: Vec<Slot> = Vec::with_capacity(all.len());
    for slot in all {
        match joined.last_mut() {
            Some(last) if slot.start <= last.end => last.end = last.end.max(slot.end),
            _ => joined.push(slot),
        }
    }
    joined
}

/// The parts of the search in which hours allow something.
fn openings(search: &FreeSearch) -> Vec<Slot> {
    let whole = Slot { start: search.from, end: search.to };
    let Some(hours) = &search.hours else { return vec![whole] };
    let mut day = search.from.to_zoned(search.zone.clone()).date();
    let mut all = Vec::new();
    for _ in 0..MAX_DAYS {
        let at = |time: Time| search.zone.to_timestamp(day.to_datetime(time)).ok();
        let Some((from, to)) = at(hours.from).zip(at(hours.to)) else { break };
        if from >= search.to {
            break;
        }
        if hours.days.contains(&day.weekday()) {
            let slot = Slot { start: from.max(whole.start), end: to.min(whole.end) };
            if slot.start < slot.end {
                all.push(slot);
            }
        }
        let Ok(next) = day.checked_add(1.day()) else { break };
        day = next;
    }
    all
}

/// Zones differ by quarters of an hour, so quarters of UTC are quarters everywhere.
fn on_grid(at: Timestamp) -> Timestamp {
    let second = at.as_second() + i64::from(at.subsec_nanosecond() > 0);
    let up = second + (GRID - second.rem_euclid(GRID)) % GRID;
    Timestamp::from_second(up).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }
    fn search() -> FreeSearch {
        FreeSearch {
            from: at("2026-03-27T00:00:00Z"),
            to: at("2026-03-31T00:00:00Z"),
            length: SignedDuration::from_hours(8),
            zone: TimeZone::get("Europe/Berlin").unwrap(),
            hours: Some(DayHours {
                from: Time::constant(9, 0, 0, 0),
                to: Time::constant(17, 0, 0, 0),
                days: vec![Weekday::Friday, Weekday::Monday],
            }),
            travel: SignedDuration::from_mins(30),
            pause: SignedDuration::ZERO,
            away: false,
        }
    }

    #[test]
    fn hours_are_those_of_the_zone_on_each_day() {
        // The clock changes on the Sunday between.
        let found = free_slots(&[], &search(), 10);
        let starts: Vec<String> = found.iter().map(|slot| slot.start.to_string()).collect();
        assert_eq!(starts, ["2026-03-27T08:00:00Z", "2026-03-30T07:00:00Z"]);
    }

    #[test]
    fn travel_keeps_time_free_around_what_is_elsewhere() {
        let mut search = FreeSearch { length: SignedDuration::from_hours(1), ..search() };
        let lunch = Busy { start: at("2026-03-27T11:00:00Z"), end: at("2026-03-27T12:10:00Z"), away: true };
        let found = free_slots(&[lunch], &search, 100);
        assert!(
            found.contains(&Slot { start: at("2026-03-27T12:45:00Z"), end: at("2026-03-27T13:45:00Z") }),
            "{found:?}"
        );
        assert!(
            found.iter().all(|slot| slot.end <= at("2026-03-27T10:30:00Z") || slot.start >= at("2026-03-27T12:40:00Z"))
        );
        search.travel = SignedDuration::ZERO;
        let near = suggestions(&[lunch], &search, lunch.start);
        assert_eq!(near.len(), 3);
        assert_eq!(near[0].start, at("2026-03-27T10:00:00Z"));
        assert_eq!(
            conflicts(&[lunch], Slot { start: at("2026-03-27T12:00:00Z"), end: at("2026-03-27T13:00:00Z") }).count(),
            1
        );
        assert_eq!(conflicts(&[lunch], Slot { start: lunch.end, end: at("2026-03-27T13:00:00Z") }).count(), 0);
    }
}
