//! What each butler and each tenant has used in a day: the sums of the day's session rows, read once, and from then on
//! what this process's sessions add to them.
//!
//! A session counts for the day on which it got its slot (`started_at`). Its row is brought up to date while it runs, so
//! that the sums of the next start are those of this one but for the last moment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::costs::{self, By, Costs, Period};
use super::sql;
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
    butlers: Mutex<BTreeMap<ButlerName, Used>>,
}

/// What one butler used in a day.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    sum: Sum,
    /// What the model calls under way may come to.
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
    fn new(tenant: TenantId, date: Date, zone: &TimeZone, sums: BTreeMap<ButlerName, Sum>) -> Self {
        let name = zone.iana_name().unwrap_or("UTC");
        let next = format!("{} 00:00 {name}", tomorrow(date));
        let used = |(butler, sum)| (butler, Used { sum, ..Used::default() });
        Self { tenant, date, next, butlers: Mutex::new(sums.into_iter().map(used).collect()) }
    }

    /// What the butler has used, and all butlers together.
    pub fn used(&self, butler: &ButlerName) -> (Sum, Sum) {
        let butlers = self.lock();
        let own = butlers.get(butler).map(|used| used.sum).unwrap_or_default();
        (own, butlers.values().fold(Sum::default(), |all, used| all.plus(used.sum)))
    }

    /// Whether the butler or the tenant has reached its limit.
    pub fn check(&self, butler: &ButlerName, own: Limit, tenant: Limit) -> Result<(), Reached> {
        let (sum, all) = self.used(butler);
        self.told(butler, (own, sum), (tenant, all), false)
    }

    /// Whether one more model call may begin. If so it counts as under way with as much as the butler's largest so far,
    /// so that sessions that run side by side don't all take the last of a day; the answer is what to give back.
    pub fn begin(&self, butler: &ButlerName, own: Limit, tenant: Limit) -> Result<Sum, Reached> {
        let mut butlers = self.lock();
        let mine = butlers.get(butler).copied().unwrap_or_default();
        let all = butlers.values().fold(Used::default(), |all, used| Used {
            sum: all.sum.plus(used.sum),
            open: all.open.plus(used.open),
            ..all
        });
        self.told(butler, (own, mine.sum), (tenant, all.sum), false)?;
        self.told(butler, (own, mine.sum.plus(mine.open)), (tenant, all.sum.plus(all.open)), true)?;
        let entry = butlers.entry(butler.clone()).or_default();
        entry.open = entry.open.plus(mine.largest);
        Ok(mine.largest)
    }

    /// A call that was under way is so no more.
    pub fn give_back(&self, butler: &ButlerName, open: Sum) {
        let mut butlers = self.lock();
        let entry = butlers.entry(butler.clone()).or_default();
        entry.open = entry.open.minus(open);
    }

    /// Adds what a call used.
    pub fn add(&self, butler: &ButlerName, sum: Sum) {
        let mut butlers = self.lock();
        let entry = butlers.entry(butler.clone()).or_default();
        entry.sum = entry.sum.plus(sum);
        entry.largest = entry.largest.max(sum);
    }

    fn told(
        &self,
        butler: &ButlerName,
        (own, mine): (Limit, Sum),
        (tenant, all): (Limit, Sum),
        open: bool,
    ) -> Result<(), Reached> {
        let (who, what) = match (own.reached(mine), tenant.reached(all)) {
            (Some(what), _) => (format!("{butler} has"), what),
            (None, Some(what)) => (format!("all butlers together have, for the tenant {},", self.tenant), what),
            (None, None) => return Ok(()),
        };
        let open = if open { ", model calls under way included" } else { "" };
        Err(format!(
            "{who} used {what} for {}{open}; the next day begins at {}; [spawner.budgets] and [butler.budgets] hold the limits",
            self.date, self.next
        ))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ButlerName, Used>> {
        self.butlers.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[cfg(test)]
pub(super) fn day(date: &str) -> Day {
    let zone = TimeZone::get("Europe/Berlin").expect("a zone");
    Day::new(TenantId::owner(), date.parse().expect("a date"), &zone, BTreeMap::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Money;

    fn name(s: &str) -> ButlerName {
        ButlerName::new(s).unwrap()
    }

    fn tokens(n: u64) -> Limit {
        Limit { tokens: Some(n), usd: None }
    }

    fn sum(tokens: u64) -> Sum {
        Sum { tokens, usd: Money::ZERO }
    }

    #[test]
    fn a_day_says_who_reached_which_limit_and_when_it_ends() {
        let day = day("2026-03-28");
        let (health, finance) = (name("health"), name("finance"));
        day.add(&health, sum(600));
        day.add(&finance, sum(500));
        assert_eq!(day.used(&health), (sum(600), sum(1100)));
        assert_eq!(day.check(&health, tokens(601), tokens(1101)), Ok(()));
        let said = day.check(&health, tokens(600), tokens(1)).unwrap_err();
        assert!(said.starts_with("health has used 600 of 600 tokens for 2026-03-28; the next day begins at 2026-03-29 00:00 Europe/Berlin"), "{said}");
        let said = day.check(&health, tokens(601), tokens(1100)).unwrap_err();
        assert!(
            said.starts_with("all butlers together have, for the tenant owner, used 1100 of 1100 tokens"),
            "{said}"
        );
    }

    #[test]
    fn sessions_side_by_side_do_not_all_take_the_last_of_a_day() {
        let day = day("2026-03-28");
        let health = name("health");
        let (own, tenant) = (tokens(1000), Limit::default());
        assert_eq!(day.begin(&health, own, tenant), Ok(sum(0)), "nothing is known of calls yet");
        day.add(&health, sum(700));
        let first = day.begin(&health, own, tenant).unwrap();
        assert_eq!(first, sum(700));
        let said = day.begin(&health, own, tenant).unwrap_err();
        assert!(said.contains("model calls under way included"), "{said}");
        day.give_back(&health, first);
        day.add(&health, sum(100));
        assert!(day.begin(&health, own, tenant).is_ok(), "it came to less than was feared");
        day.add(&health, sum(200));
        assert!(day.check(&health, own, tenant).is_err());
    }

    #[test]
    fn a_day_may_have_another_length() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let date: Date = "2026-03-29".parse().unwrap();
        let hours = (start(tomorrow(date), &zone) - start(date, &zone)).total(jiff::Unit::Hour).unwrap();
        assert_eq!(hours as i64, 23);
    }
}
