//! What each butler and each tenant has used in a day: the sums of the day's session rows, read once, and from then on
//! what this process's sessions add to them.
//!
//! A session counts for the day on which it got its slot (`started_at`). Its row is brought up to date while it runs, so
//! that the sums of the next start are those of this one but for the last moment.
//!
//! The rule that keeps sessions side by side within a limit and one call, from the first call of a day on:
//!
//! 1. Before a call goes to its model it reserves the most that it may come to (`sum::at_most`): no guess from calls before
//!    it, of which a day that begins has none and a long prompt is no copy. Where nobody knows the most, it is all there is.
//! 2. It goes on if what was used and what is reserved are together below each limit. What is under way then stays below
//!    the limit whatever comes of it, and only this call may cross it.
//! 3. Where only reservations stand in its way it waits until one of them is given back, and is asked again: a reservation
//!    is far more than most calls use, so that it makes calls go one after the other near a limit, and refuses none.
//! 4. What a call used is added before its reservation is given back, so that at no instant it counts for nothing.
//!
//! It does not hold for what nobody asks before it happens: programs past the gateway, whose next call counts as their
//! butler's largest so far; what a vendor's own tools bring in; and other daemons on the same database.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::costs::{self, By, Costs, Period};
use super::sql::{self, OfButler};
use super::sum::{Limit, Sum};
use base::{ButlerName, Clock, TenantId};
use store::{Database, StoreError};

/// The household's days. Cheap to clone.
#[derive(Clone)]
pub struct Ledger {
    inner: Arc<Inner>,
}

struct Inner {
    db: Arc<Database>,
    clock: Clock,
    zone: TimeZone,
    /// Today, for each tenant that had a session.
    days: Mutex<BTreeMap<TenantId, Arc<Day>>>,
    /// One reads at a time, and nobody adds to a day before it was read.
    reading: tokio::sync::Mutex<()>,
}

/// One day of one tenant.
#[derive(Debug)]
pub struct Day {
    pub tenant: TenantId,
    pub date: Date,
    /// When the next one begins, as people read it.
    pub next: String,
    used: Mutex<DayUsed>,
    given_back: Notify,
}

/// What was used in a day.
#[derive(Debug, Default)]
struct DayUsed {
    butlers: BTreeMap<ButlerName, Used>,
    /// Of that, what sessions used that messages of strangers had started.
    strangers: Used,
}

/// What may be used in a day.
#[derive(Clone, Copy, Debug, Default)]
pub struct DayLimits {
    /// By the butler.
    pub own: Limit,
    /// By all butlers together.
    pub tenant: Limit,
    /// By all that strangers start; `None`: no stranger started this.
    pub strangers: Option<Limit>,
}

/// What one butler used in a day.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    sum: Sum,
    /// What the model calls under way may come to at most.
    open: Sum,
    /// The largest model call since this process looks.
    largest: Sum,
}

/// Which of two limits of a day is reached, as a sentence.
pub type Reached = String;

impl Ledger {
    pub fn new(db: Arc<Database>, clock: Clock, zone: TimeZone) -> Self {
        Self {
            inner: Arc::new(Inner { db, clock, zone, days: Mutex::default(), reading: tokio::sync::Mutex::default() }),
        }
    }

    /// The tenant's today. Reads the database when it is asked for the first time.
    pub async fn today(&self, tenant: &TenantId) -> Result<Arc<Day>, StoreError> {
        let date = self.inner.clock.now().to_zoned(self.inner.zone.clone()).date();
        if let Some(day) = self.known(tenant, date) {
            return Ok(day);
        }
        let _reading = self.inner.reading.lock().await;
        if let Some(day) = self.known(tenant, date) {
            return Ok(day);
        }
        let (from, until) = (start(date, &self.inner.zone), start(tomorrow(date), &self.inner.zone));
        let sums = sql::sums(&self.inner.db, tenant, from, until).await?;
        let day = Arc::new(Day::new(tenant.clone(), date, &self.inner.zone, sums));
        self.lock().insert(tenant.clone(), day.clone());
        Ok(day)
    }

    /// What was spent, as the rows have it; of one butler or of all.
    pub async fn costs(
        &self,
        tenant: &TenantId,
        only: Option<&ButlerName>,
        period: Period,
        by: By,
    ) -> Result<Costs, StoreError> {
        let Inner { db, clock, zone, .. } = &*self.inner;
        let now = clock.now().to_zoned(zone.clone());
        let (_, first) = costs::first_day(period, now.date());
        let days = (start(first, zone), start(tomorrow(now.date()), zone));
        let entries = sql::entries(db, tenant, only, days, zone, false).await?;
        let by_model = match by {
            By::Model => sql::entries(db, tenant, only, days, zone, true).await?,
            _ => Vec::new(),
        };
        Ok(costs::report(period, by, &now, &entries, &by_model))
    }

    fn known(&self, tenant: &TenantId, date: Date) -> Option<Arc<Day>> {
        self.lock().get(tenant).filter(|day| day.date == date).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TenantId, Arc<Day>>> {
        self.inner.days.lock().unwrap_or_else(|e| e.into_inner())
    }
}

fn tomorrow(date: Date) -> Date {
    date.saturating_add(1.day())
}

/// The first moment of a date; the end of time for one that no calendar has.
fn start(date: Date, zone: &TimeZone) -> Timestamp {
    date.to_zoned(zone.clone()).map_or(Timestamp::MAX, |z| z.timestamp())
}

impl Day {
    fn new(tenant: TenantId, date: Date, zone: &TimeZone, sums: BTreeMap<ButlerName, OfButler>) -> Self {
        let name = zone.iana_name().unwrap_or("UTC");
        let next = format!("{} 00:00 {name}", tomorrow(date));
        let mut used = DayUsed::default();
        for (butler, OfButler { all, strangers }) in sums {
            used.strangers.sum = used.strangers.sum.plus(strangers);
            used.butlers.insert(butler, Used { sum: all, ..Used::default() });
        }
        Self { tenant, date, next, used: Mutex::new(used), given_back: Notify::new() }
    }

    /// What the butler has used, and all butlers together.
    pub fn used(&self, butler: &ButlerName) -> (Sum, Sum) {
        let used = self.lock();
        let own = used.butlers.get(butler).map(|used| used.sum).unwrap_or_default();
        (own, used.all())
    }

    /// What all butlers have used together, also those that are gone.
    pub fn used_by_all(&self) -> Sum {
        self.lock().all()
    }

    /// What strangers' sessions have used, of all butlers.
    pub fn used_by_strangers(&self) -> Sum {
        self.lock().strangers.sum
    }

    /// Whether the butler, the tenant or the strangers have reached their limit.
    pub fn check(&self, butler: &ButlerName, limits: DayLimits) -> Result<(), Reached> {
        let (own, all) = self.used(butler);
        self.told(butler, limits, DaySums { own, all, strangers: self.used_by_strangers() }, false)
    }

    /// Whether one more model call may begin beside those under way. If so it counts as one of them, with `most` or, where
    /// nobody knows its request, as much as the butler's largest so far; the answer is what to give back.
    pub fn begin(&self, butler: &ButlerName, limits: DayLimits, most: Option<Sum>) -> Result<Sum, Reached> {
        let mut used = self.lock();
        let mine = used.butlers.get(butler).copied().unwrap_or_default();
        let all = used.butlers.values().fold(Used::default(), |all, used| Used {
            sum: all.sum.plus(used.sum),
            open: all.open.plus(used.open),
            ..all
        });
        let sums = |of: fn(&Used) -> Sum| DaySums { own: of(&mine), all: of(&all), strangers: of(&used.strangers) };
        self.told(butler, limits, sums(|used| used.sum), false)?;
        self.told(butler, limits, sums(|used| used.sum.plus(used.open)), true)?;
        let open = most.unwrap_or(mine.largest);
        for entry in used.of(butler, limits.strangers.is_some()) {
            entry.open = entry.open.plus(open);
        }
        Ok(open)
    }

    /// Waits for the next [`Self::give_back`] after this was called, not only after it is first polled.
    pub fn given_back(&self) -> Notified<'_> {
        self.given_back.notified()
    }

    /// A call that was under way is so no more. `strangers`: a stranger had started its session.
    pub fn give_back(&self, butler: &ButlerName, open: Sum, strangers: bool) {
        for entry in self.lock().of(butler, strangers) {
            entry.open = entry.open.minus(open);
        }
        self.given_back.notify_waiters();
    }

    /// Adds what a call used. `strangers`: a stranger had started its session.
    pub fn add(&self, butler: &ButlerName, sum: Sum, strangers: bool) {
        for entry in self.lock().of(butler, strangers) {
            entry.sum = entry.sum.plus(sum);
            entry.largest = entry.largest.max(sum);
        }
    }

    fn told(&self, butler: &ButlerName, limits: DayLimits, sums: DaySums, open: bool) -> Result<(), Reached> {
        let strangers = limits.strangers.and_then(|limit| limit.reached(sums.strangers));
        let (who, what) = match (limits.own.reached(sums.own), limits.tenant.reached(sums.all), strangers) {
            (Some(what), ..) => (format!("{butler} has"), what),
            (None, Some(what), _) => (format!("all butlers together have, for the tenant {},", self.tenant), what),
            (None, None, Some(what)) => ("sessions that strangers started have".to_owned(), what),
            (None, None, None) => return Ok(()),
        };
        let open = if open { ", model calls under way included" } else { "" };
        Err(format!(
            "{who} used {what} for {}{open}; the next day begins at {}; [spawner.budgets] and [butler.budgets] hold the limits",
            self.date, self.next
        ))
    }

    fn lock(&self) -> MutexGuard<'_, DayUsed> {
        self.used.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// What each limit of a day is held against.
struct DaySums {
    own: Sum,
    all: Sum,
    strangers: Sum,
}

impl DayUsed {
    fn all(&self) -> Sum {
        self.butlers.values().fold(Sum::default(), |all, used| all.plus(used.sum))
    }

    /// What a session of this butler counts for.
    fn of(&mut self, butler: &ButlerName, strangers: bool) -> impl Iterator<Item = &mut Used> {
        let own = self.butlers.entry(butler.clone()).or_default();
        [Some(own), strangers.then_some(&mut self.strangers)].into_iter().flatten()
    }
}

#[cfg(test)]
pub(super) fn day(date: &str) -> Day {
    let zone = TimeZone::get("Europe/Berlin").expect("a zone");
    Day::new(TenantId::owner(), date.parse().expect("a date"), &zone, BTreeMap::new())
}

#[cfg(test)]
mod tests {
    use super::super::sum::tokens;
    use super::*;
    use base::Money;

    fn name(s: &str) -> ButlerName {
        ButlerName::new(s).unwrap()
    }

    fn limits(own: Limit, tenant: Limit) -> DayLimits {
        DayLimits { own, tenant, strangers: None }
    }

    fn sum(tokens: u64) -> Sum {
        Sum { tokens, usd: Money::ZERO }
    }

    #[test]
    fn a_day_says_who_reached_which_limit_and_when_it_ends() {
        let day = day("2026-03-28");
        let (health, finance) = (name("health"), name("finance"));
        day.add(&health, sum(600), false);
        day.add(&finance, sum(500), false);
        assert_eq!(day.used(&health), (sum(600), sum(1100)));
        assert_eq!(day.check(&health, limits(tokens(601), tokens(1101))), Ok(()));
        let said = day.check(&health, limits(tokens(600), tokens(1))).unwrap_err();
        assert!(said.starts_with("health has used 600 of 600 tokens for 2026-03-28; the next day begins at 2026-03-29 00:00 Europe/Berlin"), "{said}");
        let said = day.check(&health, limits(tokens(601), tokens(1100))).unwrap_err();
        let all = "all butlers together have, for the tenant owner, used 1100 of 1100 tokens";
        assert!(said.starts_with(all), "{said}");
    }

    #[test]
    fn sessions_side_by_side_do_not_all_take_the_last_of_a_day() {
        let day = day("2026-03-28");
        let health = name("health");
        let (own, tenant) = (tokens(1000), Limit::default());
        let unasked = day.begin(&health, limits(own, tenant), None);
        assert_eq!(unasked, Ok(sum(0)), "nothing is known of calls yet");
        day.add(&health, sum(700), false);
        let first = day.begin(&health, limits(own, tenant), None).unwrap();
        assert_eq!(first, sum(700));
        let said = day.begin(&health, limits(own, tenant), Some(sum(1))).unwrap_err();
        assert!(said.contains("model calls under way included"), "{said}");
        day.give_back(&health, first, false);
        assert_eq!(day.begin(&health, limits(own, tenant), Some(sum(9))), Ok(sum(9)), "it came to nothing");
        day.add(&health, sum(300), false);
        assert!(day.check(&health, limits(own, tenant)).is_err());
    }

    #[test]
    fn strangers_together_have_a_share_and_the_owner_all_the_rest() {
        let day = day("2026-03-28");
        let (health, finance) = (name("health"), name("finance"));
        let (free, strangers) = (DayLimits::default(), Some(tokens(1000)));
        let theirs = DayLimits { strangers, ..free };
        day.add(&health, sum(600), true);
        day.add(&finance, sum(5000), false);
        assert_eq!((day.used_by_strangers(), day.check(&finance, theirs)), (sum(600), Ok(())));
        let open = day.begin(&health, theirs, None).unwrap();
        let said = day.begin(&health, theirs, None).unwrap_err();
        let all = "sessions that strangers started have used 1200 of 1000 tokens for 2026-03-28, model calls under way";
        assert!(said.starts_with(all), "{said}");
        assert!(day.begin(&health, free, None).is_ok(), "the owner's go on");
        day.give_back(&health, open, true);
        day.add(&finance, sum(400), true);
        assert!(day.check(&health, theirs).is_err() && day.check(&health, free).is_ok());
    }

    #[test]
    fn a_day_may_have_another_length() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let date: Date = "2026-03-29".parse().unwrap();
        let hours = (start(tomorrow(date), &zone) - start(date, &zone)).total(jiff::Unit::Hour).unwrap();
        assert_eq!(hours as i64, 23);
    }
}
