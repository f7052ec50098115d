//! Where a series goes that is moved as a whole: its exceptions, its further times and the end of its rule go along.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use crate::event::Length;
use crate::rule::Frequency;
use crate::text::Line;
use crate::{CalendarError, Object, Rule, When};

/// A rule that names its days, and exceptions of whole days or of times, don't go along with every move: guessed wrong, what
/// was taken away would be back.
pub(crate) fn series_may_move(object: &Object, rule: &Rule, (old, new): (&When, &When)) -> Result<(), CalendarError> {
    let mut days = rule.month_days.iter().chain(&rule.year_days).chain(&rule.weeks).chain(&rule.months);
    let mut times = rule.hours.iter().chain(&rule.minutes).chain(&rule.seconds);
    let names_days = !rule.days.is_empty() || days.next().is_some();
    let (from, to) = (old.local(), new.local());
    if names_days && from.date() != to.date() || times.next().is_some() && from != to {
        let why = "it names its own days or hours, so it would not follow the new start; give the new rule as well";
        return Err(CalendarError::rule(&rule.text, why));
    }
    let exceptions =
        object.events.len() > 1 || object.events.iter().any(|e| !(e.except.is_empty() && e.extra.is_empty()));
    // Months are not equally long: days that go along in the first one are others in the next.
    let months = matches!(rule.frequency, Frequency::Monthly | Frequency::Yearly);
    let within = from.date().first_of_month() == to.date().first_of_month() && from.day().max(to.day()) <= 28;
    if months && from.date() != to.date() && !within && (exceptions || rule.until.is_some()) {
        let why = "months are not equally long, so its end or its exceptions would not follow the new day; give the new rule as \
                   well, or make a new event instead";
        return Err(CalendarError::rule(&rule.text, why));
    }
    if exceptions && old.is_date() != new.is_date() {
        let why = "single instances of it were changed or taken away, and a day is no time; make a new event instead";
        return Err(CalendarError::rule(&rule.text, why));
    }
    Ok(())
}

/// Where a series was and where it goes.
pub(crate) struct Moved<'m> {
    pub from: &'m When,
    pub to: When,
    pub home: &'m TimeZone,
}

impl Moved<'_> {
    /// Where what named an instance by its start goes. Other programs name it in UTC as well, or by its day.
    fn start(&self, at: &When) -> Result<When, CalendarError> {
        if at.is_date() && !self.from.is_date() {
            return Ok(When::Date(self.days(at.local().date())?));
        }
        if at.is_date() {
            return self.by_the_clock(at.local());
        }
        let instant = at.instant(self.home)?;
        let named = self.from.of_instant(instant, self.home).local();
        // In an hour that the clock skips an instance is later than its series says.
        let said = named.date().to_datetime(self.from.local().time());
        let is_it = self.from.at(said).instant(self.home)? == instant;
        self.by_the_clock(if is_it { said } else { named })
    }

    fn by_the_clock(&self, at: DateTime) -> Result<When, CalendarError> {
        let by = self.to.local().duration_since(self.from.local());
        Ok(self.to.at(at.checked_add(by).map_err(|_| self.range())?))
    }

    /// Where the end of its rule goes, which is read as the series' instances are: see `is_past`.
    pub fn end(&self, until: &When) -> Result<When, CalendarError> {
        let (from, to) = (self.from.local(), self.to.local());
        let local = match self.from {
            When::Date(_) | When::Floating(_) => until.local(),
            _ => self.from.of_instant(until.instant(&TimeZone::UTC)?, self.home).local(),
        };
        let moved = if self.from.is_date() == self.to.is_date() {
            self.by_the_clock(local)?
        } else {
            // The last day on which it takes place, and with it the new time of day.
            let none_then = !self.from.is_date() && local.time() < from.time();
            let last = if none_then { local.date().yesterday().map_err(|_| self.range())? } else { local.date() };
            self.to.at(self.days(last)?.to_datetime(to.time()))
        };
        match moved {
            When::Zoned(..) => Ok(When::Utc(moved.instant(self.home)?.to_zoned(TimeZone::UTC).datetime())),
            _ => Ok(moved),
        }
    }

    fn days(&self, day: Date) -> Result<Date, CalendarError> {
        let by = self.to.local().date().duration_since(self.from.local().date());
        day.checked_add(by).map_err(|_| self.range())
    }

    fn range(&self) -> CalendarError {
        CalendarError::OutOfRange(self.to.to_string())
    }
}

/// A further time of a series, which may bring its own length.
pub(crate) fn extra_line(at: &When, length: Option<Length>) -> Line {
    let line = at.line("RDATE");
    let Some(Length::Wall(length) | Length::Exact(length)) = length.filter(|_| !at.is_date()) else { return line };
    let value = format!("{}/PT{}S", line.value, length.as_secs());
    Line::new(&format!("{};VALUE=PERIOD{}", line.name, line.params), &value)
}

/// Exceptions name instances by their start, so they move with the series.
pub(crate) fn shift_exceptions(object: &mut Object, moved: &Moved<'_>) -> Result<(), CalendarError> {
    for at in 0..object.events.len() {
        let event = object.events[at].clone();
        let Some(component) = object.component_mut(at) else { continue };
        if let Some(id) = &event.recurrence_id {
            let name = if event.this_and_future { "RECURRENCE-ID;RANGE=THISANDFUTURE" } else { "RECURRENCE-ID" };
            component.set("RECURRENCE-ID", vec![moved.start(id)?.line(name)]);
            continue;
        }
        let except = event.except.iter().map(|at| Ok(moved.start(at)?.line("EXDATE")));
        component.set("EXDATE", except.collect::<Result<_, CalendarError>>()?);
        let extra = event.extra.iter().map(|(at, length)| Ok(extra_line(&moved.start(at)?, *length)));
        component.set("RDATE", extra.collect::<Result<_, CalendarError>>()?);
    }
    Ok(())
}
