//! What was spent, by whom and for what, and what the month will come to.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::{ToSpan, Zoned};
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use super::sql::Entry;
use base::Money;

/// What a report's rows stand for.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, schemars::JsonSchema, strum::EnumString,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
#[schemars(rename = "CostsBy")]
pub enum By {
    #[default]
    Butler,
    /// Schedules, and what else starts sessions.
    Schedule,
    Model,
    /// Each day of the period that had a session, the first first.
    Day,
}

impl By {
    pub const NAMES: &[&str] = &["butler", "schedule", "model", "day"];
}

/// The days of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Period {
    /// So many days, today included.
    Days(u32),
    /// From the first of this month on.
    Month,
}

/// What was spent on something.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Cost {
    /// A butler, `health: schedule:morning`, or a model; `null` is a model that nobody named. Empty for the total.
    pub name: Option<String>,
    /// Sessions that were started.
    pub sessions: u64,
    /// Of these, those whose cost is unknown; `usd` is without them.
    pub sessions_of_unknown_cost: u64,
    /// Of all kinds together.
    pub tokens: u64,
    /// Of these, what the schemas of tools took, estimated; `null` where it is known of no session.
    pub schema_tokens: Option<u64>,
    /// US dollars; `null` where the cost of every session is unknown, or there was none.
    pub usd: Option<Money>,
}

/// What this month comes to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "CostsOfMonth")]
pub struct Month {
    /// What it came to until now; `null` where nothing is known.
    pub usd: Option<Money>,
    pub sessions_of_unknown_cost: u64,
    /// With what is to come; `null` where there is nothing to base it on.
    pub forecast_usd: Option<Money>,
    /// What the forecast rests on, in words.
    pub basis: String,
}

/// `butlerd costs`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Costs {
    /// The first and the last day, in the owner's time zone. A session counts for the day on which it started.
    pub from: Date,
    pub until: Date,
    pub by: By,
    /// The dearest first.
    pub rows: Vec<Cost>,
    pub total: Cost,
    pub month: Month,
}

/// How many full days a forecast looks back on.
const LOOK_BACK: i64 = 7;

/// The first day of a period, and the first that must be read for its report.
pub(super) fn first_day(period: Period, today: Date) -> (Date, Date) {
    let first = match period {
        Period::Days(days) => today.saturating_sub(i64::from(days.max(1) - 1).days()),
        Period::Month => today.first_of_month(),
    };
    (first, first.min(today.first_of_month()).min(today.saturating_sub(LOOK_BACK.days())))
}

/// The report of what was read: `entries` of every day since [`first_day`], by butler and source or by model.
pub(super) fn report(period: Period, by: By, now: &Zoned, entries: &[Entry], by_model: &[Entry]) -> Costs {
    let today = now.date();
    let (from, _) = first_day(period, today);
    let within = |e: &&Entry| e.day >= from && e.day <= today;
    let mut rows: BTreeMap<Option<String>, Cost> = BTreeMap::new();
    for entry in (if by == By::Model { by_model } else { entries }).iter().filter(within) {
        let name = match by {
            By::Butler => Some(entry.butler.clone()),
            By::Schedule => Some(format!("{}: {}", entry.butler, entry.what.as_deref().unwrap_or_default())),
            By::Model => entry.what.clone(),
            By::Day => Some(entry.day.to_string()),
        };
        let row = rows.entry(name.clone()).or_insert_with(|| Cost { name, ..Cost::default() });
        row.add(entry);
    }
    let mut total = Cost::default();
    entries.iter().filter(within).for_each(|e| total.add(e));
    let mut rows: Vec<Cost> = rows.into_values().collect();
    // Days are in order as they come out of the map.
    if by != By::Day {
        rows.sort_by(|a, b| b.usd.cmp(&a.usd).then(b.tokens.cmp(&a.tokens)));
    }
    Costs { from, until: today, by, rows, total, month: month(now, entries) }
}

impl Cost {
    fn add(&mut self, entry: &Entry) {
        self.sessions += entry.sessions;
        self.sessions_of_unknown_cost += entry.unknown;
        self.tokens = self.tokens.saturating_add(entry.tokens);
        if let Some(schemas) = entry.schema_tokens {
            self.schema_tokens = Some(self.schema_tokens.unwrap_or_default().saturating_add(schemas));
        }
        if let Some(usd) = entry.usd {
            self.usd = Some(self.usd.unwrap_or_default() + usd);
        }
    }
}

fn month(now: &Zoned, entries: &[Entry]) -> Month {
    let today = now.date();
    let mut so_far = Cost::default();
    entries.iter().filter(|e| e.day >= today.first_of_month()).for_each(|e| so_far.add(e));
    let (forecast_usd, basis) = forecast(now, entries, so_far.usd);
    Month { usd: so_far.usd, sessions_of_unknown_cost: so_far.sessions_of_unknown_cost, forecast_usd, basis }
}

/// What the month was until now, and for each moment that is left of it the average of the last full days.
fn forecast(now: &Zoned, entries: &[Entry], so_far: Option<Money>) -> (Option<Money>, String) {
    let today = now.date();
    let nothing = || (None, "no session has a known cost to base a forecast on".to_owned());
    let Some(first) = entries.iter().filter(|e| e.usd.is_some()).map(|e| e.day).min() else { return nothing() };
    let back = today.saturating_sub(LOOK_BACK.days()).max(first);
    let full_days = i64::from((today - back).get_days());
    let (spent, days, basis) = if full_days > 0 {
        let usd = entries.iter().filter(|e| e.day >= back && e.day < today).filter_map(|e| e.usd);
        let spent = usd.fold(Money::ZERO, |a, b| a + b);
        let plural =
            if full_days == 1 { "the last full day".to_owned() } else { format!("the last {full_days} full days") };
        (spent, Decimal::from(full_days), plural)
    } else {
        // The first day: what it came to so far, over the part of it that is over.
        let gone = part_of_day(now).max(Decimal::new(1, 2));
        (so_far.unwrap_or_default(), gone, "today so far, the first day with a session".to_owned())
    };
    let left = Decimal::from(today.days_in_month() - today.day()) + Decimal::ONE - part_of_day(now);
    let more = (spent.0 * left / days).round_dp(4);
    (Some(Money(so_far.unwrap_or_default().0 + more)), basis)
}

/// How much of the day is over, 0 to 1, to the minute.
fn part_of_day(now: &Zoned) -> Decimal {
    let minutes = i64::from(now.hour()) * 60 + i64::from(now.minute());
    Decimal::from(minutes) / Decimal::from(24 * 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(day: &str, butler: &str, what: &str, usd: Option<&str>) -> Entry {
        Entry {
            day: day.parse().unwrap(),
            butler: butler.to_owned(),
            what: Some(what.to_owned()),
            sessions: 1,
            unknown: u64::from(usd.is_none()),
            tokens: 100,
            schema_tokens: usd.map(|_| 40),
            usd: usd.map(|u| Money::parse(u).unwrap()),
        }
    }

    fn at(text: &str) -> Zoned {
        text.parse().unwrap()
    }

    fn shown(costs: &Costs) -> Vec<String> {
        let row = |c: &Cost| {
            let usd = c.usd.map_or("unknown".to_owned(), |u| u.to_string());
            format!("{} {}/{} {usd}", c.name.as_deref().unwrap_or("-"), c.sessions, c.sessions_of_unknown_cost)
        };
        costs.rows.iter().chain([&costs.total]).map(row).collect()
    }

    #[test]
    fn rows_add_up_and_what_is_unknown_stands_apart() {
        let now = at("2026-11-21T12:00:00+01:00[Europe/Berlin]");
        let entries = [
            entry("2026-11-20", "health", "trigger", Some("0.5")),
            entry("2026-11-21", "health", "schedule:morning", Some("0.25")),
            entry("2026-11-21", "travel", "trigger", None),
            entry("2026-10-31", "travel", "trigger", Some("9")),
        ];
        let models = [entry("2026-11-21", "health", "a", Some("0.75")), entry("2026-11-21", "travel", "b", None)];
        let costs = |period, by| shown(&report(period, by, &now, &entries, &models));
        assert_eq!(costs(Period::Month, By::Butler), ["health 2/0 $0.75", "travel 1/1 unknown", "- 3/1 $0.75"]);
        assert_eq!(
            costs(Period::Days(1), By::Schedule),
            ["health: schedule:morning 1/0 $0.25", "travel: trigger 1/1 unknown", "- 2/1 $0.25"]
        );
        let schemas = |n: usize| report(Period::Month, By::Butler, &now, &entries, &models).rows[n].schema_tokens;
        assert_eq!((schemas(0), schemas(1)), (Some(80), None), "unknown is not 0");
        assert_eq!(costs(Period::Days(30), By::Model)[..2], ["a 1/0 $0.75", "b 1/1 unknown"]);
        assert_eq!(costs(Period::Days(30), By::Butler)[0], "travel 2/1 $9.00");
    }

    #[test]
    fn a_forecast_goes_on_as_the_last_week_went() {
        let month = |now: &str, entries: &[Entry]| {
            let month = month(&at(now), entries);
            (month.usd.map(Money::plain), month.forecast_usd.map(Money::plain), month.basis)
        };
        let noon = "2026-11-21T12:00:00+01:00[Europe/Berlin]";
        assert_eq!(month(noon, &[]).1, None);
        assert_eq!(month(noon, &[entry("2026-11-21", "a", "t", None)]).1, None, "unknown is not 0");
        // Seven days of a dollar, half a dollar today: nine and a half more days.
        let week: Vec<Entry> = (14..21).map(|d| entry(&format!("2026-11-{d}"), "a", "t", Some("1"))).collect();
        let with_today = [&week[..], &[entry("2026-11-21", "a", "t", Some("0.5"))]].concat();
        let (usd, forecast, basis) = month(noon, &with_today);
        assert_eq!((usd.as_deref(), forecast.as_deref()), (Some("7.5"), Some("17")));
        assert_eq!(basis, "the last 7 full days");
        // Nothing happened for three days: that counts.
        let (_, forecast, basis) = month(noon, &[entry("2026-11-17", "a", "t", Some("4"))]);
        assert_eq!((forecast.as_deref(), basis.as_str()), (Some("13.5"), "the last 4 full days"));
        // The first day of all.
        let (_, forecast, basis) =
            month("2026-11-30T06:00:00+01:00[Europe/Berlin]", &[entry("2026-11-30", "a", "t", Some("1"))]);
        assert_eq!(forecast.as_deref(), Some("4"));
        assert!(basis.starts_with("today so far"));
        // Last month counts for the rate, not for the sum.
        let (usd, forecast, _) =
            month("2026-12-01T00:00:00+01:00[Europe/Berlin]", &[entry("2026-11-30", "a", "t", Some("1"))]);
        assert_eq!((usd, forecast.as_deref()), (None, Some("31")));
    }
}
