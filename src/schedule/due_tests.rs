//! Every time that passes is decided on once, whatever the zone, the calendar and the clock do.

use std::collections::BTreeMap;

use jiff::ToSpan;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use super::*;
use crate::times::{Rule, at};

const WINDOW: Duration = Duration::from_secs(WINDOW_S as u64);

/// So many days are gone through; `SCHEDULE_DAYS` says otherwise.
fn days() -> i64 {
    std::env::var("SCHEDULE_DAYS").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

const ZONES: [&str; 8] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Africa/Casablanca",
    "Pacific/Auckland",
];

const CRONS: [&str; 14] = [
    "30 2 * * *",
    "0 8 * * 1-5",
    "*/15 * * * *",
    "0 * * * *",
    "15 1,2,3 * * *",
    "*/20 1-3 * * *",
    "5 0 * * *",
    "0 0 29 2 *",
    "45 23 31 * *",
    "10 2 * 3,10,11 SUN",
    "0 12 1 1 *",
    "59 */6 * * *",
    "30 15 2 * * *",
    "0 6 1 JAN-DEC *",
];

/// splitmix64: a failing round can be run again by its number.
struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// A second reading of the fields, simple and slow.
struct Fields {
    seconds: Vec<i8>,
    minutes: Vec<i8>,
    hours: Vec<i8>,
    days: Vec<i8>,
    months: Vec<i8>,
    weekdays: Vec<i8>,
    named: bool,
    any_day: bool,
    any_weekday: bool,
}

fn numbers(text: &str, min: i8, max: i8, names: &[&str]) -> Vec<i8> {
    let number = |s: &str| match names.iter().position(|n| s.eq_ignore_ascii_case(n)) {
        Some(at) => i8::try_from(at).unwrap() + min,
        None => s.parse().unwrap(),
    };
    let mut found = Vec::new();
    for part in text.split(',') {
        let (range, step) = part.split_once('/').map_or((part, 1), |(r, s)| (r, s.parse().unwrap()));
        let (from, to) = match range.split_once('-') {
            Some((a, b)) => (number(a), number(b)),
            None if range == "*" => (min, max),
            None => (number(range), number(range)),
        };
        found.extend((from..=to).step_by(step));
    }
    found
}

impl Fields {
    fn parse(cron: &str) -> Self {
        let mut list: Vec<&str> = cron.split_whitespace().collect();
        if list.len() == 5 {
            list.insert(0, "0");
        }
        let months = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
        Self {
            seconds: numbers(list[0], 0, 59, &[]),
            minutes: numbers(list[1], 0, 59, &[]),
            hours: numbers(list[2], 0, 23, &[]),
            days: numbers(list[3], 1, 31, &[]),
            months: numbers(list[4], 1, 12, &months),
            weekdays: numbers(list[5], 0, 7, &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]),
            named: !list[2].starts_with('*'),
            any_day: list[3] == "*",
            any_weekday: list[5] == "*",
        }
    }

    fn on(&self, date: Date) -> bool {
        let weekday = date.weekday().to_sunday_zero_offset();
        let day = self.days.contains(&date.day());
        let week = self.weekdays.contains(&weekday) || (weekday == 0 && self.weekdays.contains(&7));
        let either = match (self.any_day, self.any_weekday) {
            (false, false) => day || week,
            _ => day && week,
        };
        either && self.months.contains(&date.month())
    }

    /// All times from `from` to `to`, without the first moment and with the last.
    fn all(&self, zone: &TimeZone, from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
        let mut found = Vec::new();
        let mut date = zone.to_datetime(from).date().yesterday().unwrap();
        let end = zone.to_datetime(to).date().tomorrow().unwrap();
        while date <= end {
            if self.on(date) {
                for (h, m, s) in self
                    .hours
                    .iter()
                    .flat_map(|h| self.minutes.iter().flat_map(move |m| self.seconds.iter().map(move |s| (*h, *m, *s))))
                {
                    let local = DateTime::from_parts(date, jiff::civil::time(h, m, s, 0));
                    found.extend(self.instants(zone, local));
                }
            }
            date = date.tomorrow().unwrap();
        }
        found.retain(|t| *t > from && *t <= to);
        found.sort();
        found.dedup();
        found
    }

    fn instants(&self, zone: &TimeZone, local: DateTime) -> Vec<Timestamp> {
        use jiff::tz::AmbiguousOffset::{Fold, Gap, Unambiguous};
        let ambiguous = zone.to_ambiguous_timestamp(local);
        match (ambiguous.offset(), self.named) {
            (Unambiguous { offset }, _) => vec![offset.to_timestamp(local).unwrap()],
            (Fold { before, .. }, true) => vec![before.to_timestamp(local).unwrap()],
            (Fold { before, after }, false) => {
                vec![before.to_timestamp(local).unwrap(), after.to_timestamp(local).unwrap()]
            }
            (Gap { .. }, false) => Vec::new(),
            // The first moment after the gap: the change itself.
            (Gap { after, .. }, true) => {
                let before = after.to_timestamp(local).unwrap();
                vec![zone.following(before).next().unwrap().timestamp()]
            }
        }
    }
}

fn plan(times: Times, now: Timestamp, missed: Missed) -> Plan {
    let next = times.next(now);
    Plan { times, next, decided_at: Some(now), missed, window: WINDOW }
}

/// Goes on from `from` for so many days with a clock that jumps, and returns what became of each time.
fn live(plan: &mut Plan, from: Timestamp, days: i64, random: &mut Random) -> BTreeMap<Timestamp, Option<Cause>> {
    let mut rows = BTreeMap::new();
    let mut now = from;
    let end = from.checked_add((days * 24).hours()).unwrap();
    let mut latest = from;
    while now < end {
        let due = due(now, plan);
        for decision in due.decisions {
            let (fire_at, until, ran) = match decision {
                Decision::Run { fire_at, cause } => (fire_at, fire_at, Some(cause)),
                Decision::Skip { fire_at, until, reason, count, more, .. } => {
                    assert!(!reason.is_empty());
                    let end = until.unwrap_or(fire_at);
                    let mut at = plan.times.next(fire_at);
                    let mut held = 1;
                    while let Some(t) = at.filter(|t| *t <= end) {
                        assert!(rows.insert(t, None).is_none(), "{t} twice");
                        held += 1;
                        at = plan.times.next(t);
                    }
                    assert!(held == count || (more && held > count), "{held} {count}");
                    (fire_at, end, None)
                }
            };
            assert!(fire_at <= until && until <= now, "{fire_at} at {now}");
            assert!(rows.insert(fire_at, ran).is_none(), "{fire_at} is decided on twice, now {now}");
            latest = latest.max(until);
        }
        assert!(due.next.is_none_or(|next| next > now || plan.next == Some(next)));
        plan.next = due.next;
        plan.decided_at = Some(now.max(plan.decided_at.unwrap_or(now)));
        // Sleeps as the loop does; at times butlerd is away, and at times somebody moves the clock by an hour.
        let until_next = plan.next.map_or(3600, |next| next.as_second() - now.as_second()).clamp(1, 3600);
        let step = match random.below(60) {
            0 => 3600 + until_next,
            1 => -3600,
            2 => i64::try_from(random.below(26 * 3600)).unwrap(),
            3 => until_next + i64::try_from(random.below(90)).unwrap(),
            _ => until_next,
        };
        now = now.checked_add(step.seconds()).unwrap();
    }
    let last = due(now.max(latest), plan);
    for decision in last.decisions {
        match decision {
            Decision::Run { fire_at, cause } => assert!(rows.insert(fire_at, Some(cause)).is_none()),
            Decision::Skip { fire_at, until, .. } => {
                let mut at = Some(fire_at);
                while let Some(t) = at.filter(|t| *t <= until.unwrap_or(fire_at)) {
                    assert!(rows.insert(t, None).is_none());
                    at = plan.times.next(t);
                }
            }
        }
    }
    rows
}

#[test]
fn each_time_is_decided_on_exactly_once() {
    // Before 29 February, and before a change of the clock on both halves of the earth.
    let starts = ["2024-02-20T00:00:00Z", "2026-03-01T00:00:00Z", "2026-09-25T00:00:00Z"];
    let mut runs = 0;
    for (round, zone) in ZONES.iter().enumerate() {
        for (n, cron) in CRONS.iter().enumerate() {
            let seed = u64::try_from(round * 100 + n).unwrap();
            let from: Timestamp = starts[(round + n) % 3].parse().unwrap();
            let missed = [Missed::RunOnce, Missed::Skip, Missed::Backfill][n % 3];
            let mut plan = plan(Times::cron(cron, zone).unwrap(), from, missed);
            let rows = live(&mut plan, from, days(), &mut Random(seed));
            let end = from.checked_add((days() * 24).hours()).unwrap();
            let tz = TimeZone::get(zone).unwrap();
            let meant = Fields::parse(cron).all(&tz, from, end);
            let got: Vec<Timestamp> = rows.keys().copied().filter(|t| *t <= end).collect();
            let lost: Vec<_> = meant.iter().filter(|t| got.binary_search(t).is_err()).take(5).collect();
            let odd: Vec<_> = got.iter().filter(|t| meant.binary_search(t).is_err()).take(5).collect();
            assert!(
                lost.is_empty() && odd.is_empty(),
                "{cron} in {zone} from {from}: lost {lost:?}, not meant {odd:?}"
            );
            runs += rows.values().flatten().count();
        }
    }
    assert!(runs > 1000, "{runs}");
}

#[test]
fn slots_of_a_period_are_decided_on_exactly_once() {
    for (n, minutes) in [7u64, 90, 1440, 10_000].into_iter().enumerate() {
        let from: Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
        let period = Duration::from_secs(minutes * 60);
        let times = Times::of(Rule::Every { period, anchor: from });
        let mut plan = plan(times, from, [Missed::RunOnce, Missed::Skip][n % 2]);
        let rows = live(&mut plan, from, days(), &mut Random(n as u64));
        let (mut at, mut missing) = (from, 0);
        let last = *rows.keys().next_back().unwrap();
        while at < last {
            at = at.checked_add(SignedDuration::try_from(period).unwrap()).unwrap();
            missing += usize::from(!rows.contains_key(&at));
        }
        assert_eq!((missing, rows.len() as i64), (0, last.duration_since(from).as_secs() / (minutes as i64 * 60)));
    }
}

/// Away for 26 hours over an hourly schedule: runs, and rows with their reasons.
fn after_a_stop(missed: Missed, window: Duration) -> (Vec<(String, Cause)>, Vec<String>) {
    let times = Times::cron("0 * * * *", "UTC").unwrap();
    let left = at("2026-11-20T08:30:00Z");
    let plan = Plan { window, ..plan(times, left, missed) };
    let due = due(at("2026-11-21T10:30:00Z"), &plan);
    assert_eq!(due.next, Some(at("2026-11-21T11:00:00Z")));
    assert_eq!(due.decisions.len(), 26);
    let (mut runs, mut reasons) = (Vec::new(), Vec::new());
    for decision in due.decisions {
        match decision {
            Decision::Run { fire_at, cause } => runs.push((fire_at.to_string(), cause)),
            Decision::Skip { reason, count: 1, until: None, .. } => reasons.push(reason),
            other => panic!("{other:?}"),
        }
    }
    (runs, reasons)
}

#[test]
fn policies_after_a_stop() {
    let (runs, reasons) = after_a_stop(Missed::Skip, WINDOW);
    assert!(runs.is_empty() && reasons.iter().all(|r| r.contains("skips what it missed")), "{runs:?}");
    let (runs, reasons) = after_a_stop(Missed::RunOnce, WINDOW);
    assert_eq!(runs, [("2026-11-21T10:00:00Z".to_owned(), Cause::Late)]);
    assert!(reasons.iter().all(|r| r.contains("the run of 2026-11-21T10:00:00Z stands for it")), "{reasons:?}");
    let (runs, reasons) = after_a_stop(Missed::Backfill, WINDOW);
    assert_eq!((runs.len(), reasons.len()), (24, 2));
    assert!(reasons[0].contains("at most 24"), "{reasons:?}");
    let (runs, reasons) = after_a_stop(Missed::Backfill, Duration::from_secs(3 * 3600));
    assert_eq!((runs.len(), reasons.len()), (3, 23));
    assert!(reasons[0].contains("longer ago than missed_window"), "{reasons:?}");
    let (runs, _) = after_a_stop(Missed::RunOnce, Duration::from_secs(60));
    assert!(runs.is_empty(), "{runs:?}");
}

#[test]
fn a_year_of_seconds_is_told_in_few_rows() {
    let times = Times::cron("* * * * * *", "UTC").unwrap();
    let plan = plan(times, at("2025-01-01T00:00:00Z"), Missed::RunOnce);
    let now = at("2026-01-01T00:00:00Z");
    let due = due(now, &plan);
    assert!(due.decisions.len() <= MOST_ROWS + 2, "{}", due.decisions.len());
    let Decision::Skip { fire_at, until: Some(until), more: true, .. } = &due.decisions[0] else {
        panic!("{:?}", due.decisions[0])
    };
    assert_eq!(*fire_at, at("2025-01-01T00:00:01Z"));
    let Decision::Skip { fire_at: following, .. } = &due.decisions[1] else { panic!("{:?}", due.decisions[1]) };
    assert_eq!(following.duration_since(*until).as_secs(), 1, "nothing is left out");
    assert_eq!(due.decisions.last(), Some(&Decision::Run { fire_at: now, cause: Cause::Slot }));
}

#[test]
fn a_clock_set_back_by_years_does_not_stop_a_schedule() {
    let times = Times::cron("0 8 * * *", "UTC").unwrap();
    let plan = plan(times, at("2036-01-01T00:00:00Z"), Missed::RunOnce);
    let back = due(at("2026-01-01T00:00:00Z"), &plan);
    assert_eq!((back.decisions.len(), back.next), (0, Some(at("2026-01-01T08:00:00Z"))));
    // An hour back is no new start: what was done in it is done.
    assert_eq!(due(at("2035-12-31T23:00:00Z"), &plan).next, plan.next);
}

#[test]
fn a_rest_is_one_row() {
    let times = Times::cron("0 * * * *", "UTC").unwrap();
    let plan = plan(times, at("2026-11-20T08:30:00Z"), Missed::Backfill);
    let due = rested(at("2026-11-21T10:30:00Z"), &plan, "paused");
    let [Decision::Skip { fire_at, until, count: 26, more: false, reason, cause: Cause::Rest }] = &due.decisions[..]
    else {
        panic!("{:?}", due.decisions)
    };
    assert_eq!((fire_at.to_string().as_str(), reason.as_str()), ("2026-11-20T09:00:00Z", "paused"));
    assert_eq!(*until, Some(at("2026-11-21T10:00:00Z")));
}
