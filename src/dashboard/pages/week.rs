//! A week as a drawing: a row for each calendar with its events, and one for each schedule with its runs and times to come.

use admin::{CalendarRow, RunRow};
use jiff::civil::Date;
use jiff::{Timestamp, ToSpan, Zoned};
use maud::{Markup, html};
use modules::calendar::HouseEvent;

use crate::parts::{Tone, line};
use crate::time::Now;

const WIDTH: f64 = 960.0;
/// Where the days begin: names stand before.
const LEFT: f64 = 190.0;
const TOP: f64 = 26.0;
const ROW: f64 = 24.0;
/// A mark.
const MARK: f64 = 5.0;
const TALL: f64 = 14.0;

/// A week of the owner's, from Monday on.
pub(super) struct Week {
    pub monday: Date,
    /// The beginnings of its days, and of the day after. A day may have 23 or 25 hours.
    days: Vec<Zoned>,
    now: Now,
}

impl Week {
    /// The week of a day. `None`: the calendar ends before.
    pub fn of(day: Date, now: &Now) -> Option<Self> {
        let monday = day.checked_sub(i64::from(day.weekday().to_monday_zero_offset()).days()).ok()?;
        let begin = |n: i64| monday.checked_add(n.days()).ok()?.to_zoned(now.zone.clone()).ok();
        let days = (0..=7).map(begin).collect::<Option<Vec<_>>>()?;
        Some(Self { monday, days, now: now.clone() })
    }

    pub fn from(&self) -> Timestamp {
        self.days[0].timestamp()
    }

    pub fn to(&self) -> Timestamp {
        self.days[7].timestamp()
    }

    /// Whether it is the present one.
    pub fn is_this(&self) -> bool {
        (self.from()..self.to()).contains(&self.now.at)
    }

    /// Where a moment stands.
    fn x(&self, at: Timestamp) -> f64 {
        let share = at.duration_since(self.from()).as_secs_f64() / self.to().duration_since(self.from()).as_secs_f64();
        LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT)
    }

    /// The drawing. What it shows stands in words in the list below it, and on each mark.
    pub fn draw(&self, events: &[HouseEvent], rows: &[CalendarRow]) -> Markup {
        let mut calendars: Vec<&str> = events.iter().map(|event| event.calendar_id.as_str()).collect();
        calendars.sort_unstable();
        calendars.dedup();
        let height = TOP + ROW * (calendars.len() + rows.len()) as f64 + 4.0;
        let label =
            format!("The week from {}: {} events, and runs of {} schedules", self.monday, events.len(), rows.len());
        html! {
            div.week tabindex="0" role="region" aria-label=(label) {
                svg viewBox={ "0 0 " (WIDTH) " " (height) } role="group" aria-label=(label) xmlns="http://www.w3.org/2000/svg" {
                    @for (n, day) in self.days.iter().enumerate() {
                        @let x = place(self.x(day.timestamp()));
                        line.grid x1=(x) x2=(x) y1="4" y2=(height) {}
                        @if n < 7 { text x=(place(self.x(day.timestamp()) + 4.0)) y="17" { (day.strftime("%a %-d %b").to_string()) } }
                    }
                    @for (n, calendar) in calendars.iter().enumerate() { (self.events(calendar, events, TOP + ROW * n as f64)) }
                    @for (n, row) in rows.iter().enumerate() { (self.row(row, TOP + ROW * (calendars.len() + n) as f64)) }
                    @if self.is_this() {
                        @let x = place(self.x(self.now.at));
                        line.now x1=(x) x2=(x) y1="4" y2=(height) { title { "Now" } }
                    }
                }
            }
        }
    }

    /// The row of a calendar. A mark leads to its event in the list.
    fn events(&self, calendar: &str, all: &[HouseEvent], top: f64) -> Markup {
        let own = all.iter().enumerate().filter(|(_, event)| event.calendar_id == calendar);
        html! {
            (named(calendar, top))
            @for (n, event) in own {
                @let words = format!("{}: {}", line(&event.title, 100), self.times(event));
                (self.mark((event.starts_at, event.ends_at), top, Tone::Busy, &words, &format!("#event-{n}")))
            }
        }
    }

    /// When an event is, in words of whoever looks. The end of days is the last of them.
    pub fn times(&self, event: &HouseEvent) -> String {
        if !event.all_day {
            let (from, to) = (self.now.zoned(event.starts_at), self.now.zoned(event.ends_at));
            let end = if from.date() == to.date() { to.strftime("%H:%M") } else { to.strftime("%a %-d %b, %H:%M") };
            return format!("{}–{end}", from.strftime("%a %-d %b, %H:%M"));
        }
        let day = |date: Date| date.strftime("%a %-d %b").to_string();
        let days = (event.start.parse::<Date>(), event.end.parse::<Date>());
        let (Ok(first), Ok(behind)) = days else { return event.start.clone() };
        let last = behind.checked_sub(1.day()).unwrap_or(first);
        if last <= first { day(first) } else { format!("{} to {}", day(first), day(last)) }
    }

    fn row(&self, row: &CalendarRow, top: f64) -> Markup {
        let name = &row.schedule.name;
        let schedule = format!("/schedules/{}", row.schedule.id);
        html! {
            (named(name, top))
            @for at in &row.coming {
                (self.mark((*at, *at), top, Tone::Quiet, &format!("{name}: to come, {}", self.exact(*at)), &schedule))
            }
            @for run in &row.runs {
                @let (tone, word) = mark_of(run);
                @let to = run.session_id.map_or_else(|| schedule.clone(), |session| format!("/sessions/{session}"));
                (self.mark((run.fire_at, run.until.unwrap_or(run.fire_at)), top, tone, &self.told(name, run, word), &to))
            }
        }
    }

    fn told(&self, name: &str, run: &RunRow, word: &str) -> String {
        let times = if run.times > 1 { format!(", {} times", run.times) } else { String::new() };
        let why = run.reason.as_deref().map(|why| format!(": {}", line(why, 200))).unwrap_or_default();
        format!("{name}: {word}, {}{times}{why}", self.exact(run.fire_at))
    }

    fn exact(&self, at: Timestamp) -> String {
        self.now.zoned(at).strftime("%a %-d %b %Y, %H:%M %Z").to_string()
    }

    /// A mark that leads to what it stands for. Marks may be hundreds, and the list below leads to the same places: the
    /// keyboard does not stop at each.
    fn mark(&self, (at, until): (Timestamp, Timestamp), top: f64, tone: Tone, words: &str, leads: &str) -> Markup {
        let (from, to) = (self.x(at), self.x(until));
        let wide = (to - from).max(MARK);
        let left = from.min(WIDTH - wide);
        html! {
            a href=(leads) tabindex="-1" aria-label=(words) {
                rect class={ "run " (tone.as_str()) } x=(place(left)) y=(place(top + (ROW - TALL) / 2.0)) width=(place(wide))
                    height=(TALL) rx="1.5" { title { (words) } }
            }
        }
    }
}

/// The beginning of a row.
fn named(name: &str, top: f64) -> Markup {
    html! {
        line.grid x1="0" x2=(WIDTH) y1=(place(top)) y2=(place(top)) {}
        text x="2" y=(place(top + 16.0)) { (line(name, 28)) }
    }
}

/// A coordinate without needless digits.
fn place(at: f64) -> String {
    format!("{at:.1}")
}

/// A run's tone, and what became of it in a word.
pub(super) fn mark_of(run: &RunRow) -> (Tone, &'static str) {
    match (run.state.as_str(), run.cause.as_str()) {
        ("done", _) => (Tone::Good, "done"),
        ("failed", _) => (Tone::Bad, "failed"),
        ("running", _) => (Tone::Busy, "at work"),
        ("due", _) => (Tone::Busy, "waits"),
        ("skipped", "missed") => (Tone::Warn, "missed"),
        ("skipped", "rest") => (Tone::Warn, "left out while it was paused"),
        ("skipped", _) => (Tone::Warn, "left out"),
        _ => (Tone::Warn, "unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    fn week(day: &str) -> Week {
        let now = Now { at: "2026-10-23T12:00:00Z".parse().unwrap(), zone: TimeZone::get("Europe/Vienna").unwrap() };
        Week::of(day.parse().unwrap(), &now).unwrap()
    }

    #[test]
    fn a_week_goes_from_monday_to_monday_of_the_owner() {
        let this = week("2026-10-25");
        assert_eq!(this.monday.to_string(), "2026-10-19");
        // Its last day has 25 hours.
        assert_eq!(
            (this.from().to_string(), this.to().to_string()),
            ("2026-10-18T22:00:00Z".into(), "2026-10-25T23:00:00Z".into())
        );
        assert!(this.is_this() && !week("2026-10-26").is_this());
        assert_eq!(this.x(this.from()), LEFT);
        assert_eq!(this.x(this.to()), WIDTH);
    }

    #[test]
    fn a_mark_has_its_outcome_and_its_words() {
        let run: RunRow = serde_json::from_value(serde_json::json!({
            "fire_at": "2026-10-20T06:00:00Z", "until": null, "times": 1, "more": false, "cause": "slot", "state": "failed",
            "reason": "<b>no</b>", "session_id": null})).unwrap();
        let this = week("2026-10-20");
        let (tone, word) = mark_of(&run);
        let shown = this.mark((run.fire_at, run.fire_at), 0.0, tone, &this.told("weigh", &run, word), "/schedules/1").0;
        assert!(shown.contains("<a href=\"/schedules/1\" tabindex=\"-1\""), "{shown}");
        assert!(
            shown.contains("class=\"run bad\"")
                && shown.contains("weigh: failed, Tue 20 Oct 2026, 08:00 CEST: &lt;b&gt;no"),
            "{shown}"
        );
    }

    #[test]
    fn an_event_is_told_with_its_days_or_its_times() {
        let event = |start: &str, end: &str, all_day: bool| -> HouseEvent {
            let at = |text: &str| if all_day { format!("{text}T00:00:00+02:00") } else { text.to_owned() };
            serde_json::from_value(serde_json::json!({
                "event_id": uuid::Uuid::nil(), "calendar_id": "household", "starts_at": at(start), "ends_at": at(end),
                "all_day": all_day, "start": start, "end": end, "title": "<b>Dentist</b>", "location": "",
                "status": "confirmed", "busy": true, "trust": "stranger"}))
            .unwrap()
        };
        let this = week("2026-10-20");
        assert_eq!(this.times(&event("2026-10-21", "2026-10-22", true)), "Wed 21 Oct");
        assert_eq!(this.times(&event("2026-10-21", "2026-10-24", true)), "Wed 21 Oct to Fri 23 Oct");
        let hour = event("2026-10-20T06:00:00Z", "2026-10-20T07:30:00Z", false);
        assert_eq!(this.times(&hour), "Tue 20 Oct, 08:00–09:30");
        assert_eq!(
            this.times(&event("2026-10-24T20:00:00Z", "2026-10-25T06:00:00Z", false)),
            "Sat 24 Oct, 22:00–Sun 25 Oct, 07:00"
        );
        let drawn = this.draw(&[hour], &[]).0;
        assert!(
            drawn.contains("href=\"#event-0\"") && drawn.contains("&lt;b&gt;Dentist&lt;/b&gt;: Tue 20 Oct, 08:00"),
            "{drawn}"
        );
    }
}
