//! What is to be done about the times that have passed. Pure: the present is an argument.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use strum::IntoStaticStr;

use super::times::Times;
use config::Missed;

/// A time that passed no longer than this ago is not missed.
pub const ON_TIME: Duration = Duration::from_secs(60);
/// How far back missed times are made up for, if nobody says otherwise: in seconds, a week.
pub const WINDOW_S: i64 = 7 * 86_400;
/// How the reason of a missed time ends that a later run makes up for: nothing is amiss then.
pub const STANDS_FOR_IT: &str = "stands for it";
/// At most so many missed times get a run each under `backfill`.
pub const MOST_BACKFILLED: usize = 24;
/// At most so many missed times get a row each; the others share one, which says from when to when and how many.
const MOST_ROWS: usize = 100;
/// Further back than this many, times are not counted one by one.
const MOST_COUNTED: usize = 10_000;
/// A clock that was set back by more than this gets the schedule a new start; by less, the times that it shows a second
/// time are over already.
const SET_BACK: SignedDuration = SignedDuration::from_hours(24);

/// A schedule, as far as its times go.
#[derive(Debug, Clone)]
pub struct Plan {
    pub times: Times,
    /// The first time that nothing was decided on yet; `None`: no time is left.
    pub next: Option<Timestamp>,
    /// The last time that something was decided.
    pub decided_at: Option<Timestamp>,
    pub missed: Missed,
    pub window: Duration,
}

/// Why a run is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Cause {
    /// It is its time.
    Slot,
    /// The last of the times that were missed.
    Late,
    /// One of the times that were missed, made up for.
    Backfill,
    /// It was missed, and nothing makes up for it.
    Missed,
    /// Its schedule was paused.
    Rest,
}

base::named!(Cause);

/// What becomes of one time, or of many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Run {
        fire_at: Timestamp,
        cause: Cause,
    },
    Skip {
        fire_at: Timestamp,
        /// The last of them, where the row stands for several.
        until: Option<Timestamp>,
        /// How many times the row stands for; with `more`, at least.
        count: usize,
        more: bool,
        reason: String,
        cause: Cause,
    },
}

/// The decisions on all times up to the present, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    pub decisions: Vec<Decision>,
    /// The first time after the present.
    pub next: Option<Timestamp>,
}

/// Decides on every time that has passed.
pub fn due(now: Timestamp, plan: &Plan) -> Due {
    let times = &plan.times;
    if plan.decided_at.is_some_and(|last| last.duration_since(now) > SET_BACK) {
        return Due { decisions: Vec::new(), next: times.next(now) };
    }
    let Some(first) = plan.next.filter(|first| *first <= now) else {
        return Due { decisions: Vec::new(), next: plan.next };
    };
    let passed = Passed::since(first, now, times);
    let next = passed.next(times);
    let mut decisions = Vec::new();
    let age = |t: Timestamp| now.duration_since(t).unsigned_abs();
    let mut missed = passed.last;
    let punctual = missed.pop_if(|last| age(*last) <= ON_TIME);
    let within = missed.iter().filter(|t| age(**t) <= plan.window).count();
    // The times that come too late for a run, the oldest first, and those that get one.
    let runs = match plan.missed {
        Missed::Skip => 0,
        Missed::RunOnce => usize::from(punctual.is_none() && within > 0),
        Missed::Backfill => within.min(MOST_BACKFILLED),
    };
    let late = missed.split_off(missed.len() - runs);
    let reason = |t: Timestamp| match (plan.missed, late.first().copied().or(punctual)) {
        (Missed::Skip, _) => "missed; this schedule skips what it missed".to_owned(),
        (Missed::RunOnce, Some(run)) => format!("missed; the run of {run} {STANDS_FOR_IT}"),
        (Missed::Backfill, _) if age(t) <= plan.window => {
            format!("missed; at most {MOST_BACKFILLED} runs are made up for")
        }
        _ => "missed, and longer ago than missed_window".to_owned(),
    };
    skip(&mut decisions, passed.before, missed, reason);
    let cause = if plan.missed == Missed::Backfill { Cause::Backfill } else { Cause::Late };
    decisions.extend(late.into_iter().map(|fire_at| Decision::Run { fire_at, cause }));
    decisions.extend(punctual.map(|fire_at| Decision::Run { fire_at, cause: Cause::Slot }));
    Due { decisions, next }
}

/// The times that passed while the schedule was at rest, as one decision.
pub fn rested(now: Timestamp, plan: &Plan, reason: &str) -> Due {
    let mut decisions = Vec::new();
    if let Some(first) = plan.next.filter(|first| *first <= now) {
        let passed = Passed::since(first, now, &plan.times);
        let (count, more, next) = (passed.count(), passed.more(), passed.next(&plan.times));
        let (first, last) = (passed.first(), passed.last.last().copied());
        let until = last.filter(|last| *last != first);
        let (fire_at, reason) = (first, reason.to_owned());
        decisions.push(Decision::Skip { fire_at, until, count, more, reason, cause: Cause::Rest });
        return Due { decisions, next };
    }
    Due { decisions, next: plan.times.next(now) }
}

/// The times from the first undecided one to the present.
struct Passed {
    /// Older ones than those of `last`: first, last, how many, and whether there may be more between the two.
    before: Option<(Timestamp, Timestamp, usize, bool)>,
    /// The last ones, at least one, oldest first.
    last: Vec<Timestamp>,
}

impl Passed {
    fn since(first: Timestamp, now: Timestamp, times: &Times) -> Self {
        let mut all = vec![first];
        let mut at = first;
        while let Some(t) = times.next(at).filter(|t| *t <= now && all.len() < MOST_COUNTED) {
            all.push(t);
            at = t;
        }
        let more = times.next(at).is_some_and(|t| t <= now);
        let mut before = None;
        let mut last = all;
        if more {
            // Too many to go through one by one: the last ones are looked for from the present backwards.
            let (oldest, counted) = (last[0], last.len());
            last = last_ones(at, now, times);
            let end = times_before(last[0], at, times);
            before = Some((oldest, end, counted, true));
        }
        if last.len() > MOST_ROWS {
            let rest = last.split_off(last.len() - MOST_ROWS);
            let (oldest, newest, counted) = (last[0], last[last.len() - 1], last.len());
            before = Some(match before {
                None => (oldest, newest, counted, false),
                Some((first, _, n, _)) => (first, newest, n + counted, true),
            });
            last = rest;
        }
        Self { before, last }
    }

    /// The first time that has not passed. It is counted from the last one that has: a spacing counts from there.
    fn next(&self, times: &Times) -> Option<Timestamp> {
        self.last.last().and_then(|last| times.next(*last))
    }

    fn first(&self) -> Timestamp {
        self.before.map_or(self.last[0], |b| b.0)
    }
    fn count(&self) -> usize {
        self.last.len() + self.before.map_or(0, |b| b.2)
    }
    fn more(&self) -> bool {
        self.before.is_some_and(|b| b.3)
    }
}

/// At least the last time before `now`, found in ever longer stretches that end there.
fn last_ones(after: Timestamp, now: Timestamp, times: &Times) -> Vec<Timestamp> {
    let mut back = SignedDuration::from_secs(1);
    loop {
        let from = now.checked_sub(back).unwrap_or(after).max(after);
        let mut found = Vec::new();
        let mut at = from;
        while let Some(t) = times.next(at).filter(|t| *t <= now) {
            found.push(t);
            at = t;
        }
        if found.len() >= MOST_ROWS || from <= after {
            return found;
        }
        back = back.saturating_mul(2);
    }
}

/// The last time before `end`, or the oldest known one.
fn times_before(end: Timestamp, known: Timestamp, times: &Times) -> Timestamp {
    let mut back = SignedDuration::from_secs(1);
    loop {
        let from = end.checked_sub(back).unwrap_or(known).max(known);
        let mut at = from;
        let mut last = None;
        while let Some(t) = times.next(at).filter(|t| *t < end) {
            last = Some(t);
            at = t;
        }
        match last {
            Some(t) => return t,
            None if from <= known => return known,
            None => back = back.saturating_mul(2),
        }
    }
}

/// One decision for each time, and one for all those of `before`.
fn skip(
    decisions: &mut Vec<Decision>,
    before: Option<(Timestamp, Timestamp, usize, bool)>,
    each: Vec<Timestamp>,
    reason: impl Fn(Timestamp) -> String,
) {
    if let Some((first, last, count, more)) = before {
        let until = (last != first).then_some(last);
        let reason = reason(first);
        decisions.push(Decision::Skip { fire_at: first, until, count, more, reason, cause: Cause::Missed });
    }
    for fire_at in each {
        let reason = reason(fire_at);
        decisions.push(Decision::Skip { fire_at, until: None, count: 1, more: false, reason, cause: Cause::Missed });
    }
}

#[cfg(test)]
#[path = "due_tests.rs"]
mod tests;
