//! The butler registry: who can be routed to. A registration is a row that its butler renews while it is up; how long
//! ago that was says what it is worth.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use strum::{EnumString, IntoStaticStr};
use tokio::sync::Notify;

use super::types::ROUTE_CONTRACT;
use config::CORE_BUTLERS;

/// Looks that are further apart than this: nobody looked in between.
const ASLEEP: SignedDuration = SignedDuration::from_secs(30);

/// What a registration is worth.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, IntoStaticStr, EnumString)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Eligibility {
    Active,
    /// No sign of life within its time; it may still be there.
    Stale,
    /// None within twice that: nothing is routed to it.
    Quarantined,
}

base::named!(Eligibility);

impl Eligibility {
    /// By when the butler was last seen.
    pub fn at(last_seen: Timestamp, ttl_s: i32, now: Timestamp) -> Self {
        let (age, ttl) = (now.duration_since(last_seen), SignedDuration::from_secs(i64::from(ttl_s)));
        match () {
            () if age <= ttl => Eligibility::Active,
            () if age <= ttl * 2 => Eligibility::Stale,
            () => Eligibility::Quarantined,
        }
    }

    /// As [`Eligibility::at`], for one that was `was` when somebody last looked: a time in which nobody looked, as
    /// before a start or while the machine slept, is no silence.
    pub(super) fn after(
        was: Option<Self>,
        last_seen: Timestamp,
        ttl_s: i32,
        now: Timestamp,
        looking_since: Timestamp,
    ) -> Self {
        let by_row = Self::at(last_seen, ttl_s, now);
        match was {
            Some(was) if by_row > was => Self::at(last_seen.max(looking_since), ttl_s, now).max(was),
            _ => by_row,
        }
    }

    /// Why a registration has come to this.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Eligibility::Active => "a sign of life came",
            Eligibility::Stale => "no sign of life within its time",
            Eligibility::Quarantined => "no sign of life within twice its time",
        }
    }
}

/// A butler's registration.
#[derive(Clone, Debug)]
pub struct ButlerRegistration {
    pub description: String,
    pub endpoint_url: String,
    pub modules: Vec<String>,
    pub liveness_ttl_s: i32,
    pub route_contract_min: i32,
    pub route_contract_max: i32,
}

/// Whether this build's routing contract is among those that a butler understands.
pub fn understands((min, max): (i32, i32)) -> bool {
    (min..=max).contains(&ROUTE_CONTRACT)
}

/// A registered butler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    pub name: String,
    pub description: String,
    pub eligibility: Eligibility,
    /// The versions of the routing contract that it understands.
    pub contract: (i32, i32),
    /// It is up in this process.
    pub here: bool,
    /// `None`: its registration is not written yet.
    pub last_seen_at: Option<Timestamp>,
}

impl Listed {
    /// Whether messages can go to it. The core butlers are how messages travel, and never where they go.
    pub fn routable(&self) -> bool {
        let core = CORE_BUTLERS.contains(&self.name.as_str());
        !core && self.here && self.eligibility != Eligibility::Quarantined && understands(self.contract)
    }
}

/// A row, as it was last read.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub description: String,
    pub contract: (i32, i32),
    pub ttl_s: i32,
    pub last_seen_at: Timestamp,
    pub state: Eligibility,
}

/// The rows as they were last read, so that nobody who routes must wait for them.
#[derive(Default)]
pub(super) struct Registry {
    seen: Mutex<BTreeMap<String, Seen>>,
    watch: Mutex<Option<Watch>>,
    wake: Notify,
}

/// Since when somebody looks, and when that was last.
#[derive(Clone, Copy, Debug)]
struct Watch {
    since: Timestamp,
    looked: Timestamp,
}

impl Registry {
    /// Something may be due.
    pub fn look(&self) {
        self.wake.notify_one();
    }

    /// Waits until something may be due.
    pub async fn called(&self) {
        self.wake.notified().await;
    }

    /// The rows as they were read a moment ago.
    pub fn read(&self, seen: BTreeMap<String, Seen>) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }

    /// Somebody looks now.
    pub fn looks(&self, now: Timestamp) {
        let since = self.since(now);
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Watch { since: since.unwrap_or(now), looked: now });
    }

    /// Since when somebody has looked all the time; `None`: nobody does.
    pub fn since(&self, now: Timestamp) -> Option<Timestamp> {
        let watch = (*self.watch.lock().unwrap_or_else(PoisonError::into_inner))?;
        Some(if now.duration_since(watch.looked).abs() > ASLEEP { now } else { watch.since })
    }

    /// What a row that was read is worth by now.
    fn worth(&self, seen: &Seen, ttl_s: i32, now: Timestamp) -> Eligibility {
        let since = self.since(now).unwrap_or(seen.last_seen_at);
        Eligibility::after(Some(seen.state), seen.last_seen_at, ttl_s, now, since)
    }

    /// The butler comes up: what an earlier run left of it says nothing.
    pub fn expect(&self, butler: &str) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(butler);
    }

    /// A butler that is up here. One whose registration is not written yet is worth what a fresh one is.
    pub fn of(&self, name: &str, registration: &ButlerRegistration, now: Timestamp) -> Listed {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        Listed {
            name: name.to_owned(),
            description: registration.description.clone(),
            eligibility: seen.as_ref().map_or(Eligibility::Active, |s| self.worth(s, registration.liveness_ttl_s, now)),
            contract: (registration.route_contract_min, registration.route_contract_max),
            here: true,
            last_seen_at: seen.map(|s| s.last_seen_at),
        }
    }

    pub fn listed(&self, here: &[(String, ButlerRegistration)], now: Timestamp) -> Vec<Listed> {
        let mut all: BTreeMap<String, Listed> = BTreeMap::new();
        for (name, seen) in self.seen.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let listed = Listed {
                name: name.clone(),
                description: seen.description.clone(),
                eligibility: self.worth(seen, seen.ttl_s, now),
                contract: seen.contract,
                here: false,
                last_seen_at: Some(seen.last_seen_at),
            };
            all.insert(name.clone(), listed);
        }
        for (name, registration) in here {
            all.insert(name.clone(), self.of(name, registration, now));
        }
        all.into_values().collect()
    }

    /// Those of `here` whose registration is to be written or renewed.
    pub fn due(&self, here: Vec<(String, ButlerRegistration)>, now: Timestamp) -> Vec<(String, ButlerRegistration)> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let due = |(name, registration): &(String, ButlerRegistration)| {
            let third = SignedDuration::from_millis(i64::from(registration.liveness_ttl_s) * 1000 / 3);
            // A clock that was put back counts as well.
            seen.get(name).is_none_or(|s| now.duration_since(s.last_seen_at).abs() >= third)
        };
        here.into_iter().filter(due).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registration(min: i32, max: i32) -> ButlerRegistration {
        ButlerRegistration {
            description: "d".into(),
            endpoint_url: "u".into(),
            modules: Vec::new(),
            liveness_ttl_s: 300,
            route_contract_min: min,
            route_contract_max: max,
        }
    }

    #[test]
    fn a_registration_ages_by_the_clock_alone() {
        let seen: Timestamp = "2026-11-01T08:00:00Z".parse().unwrap();
        let at = |seconds| Eligibility::at(seen, 300, seen + SignedDuration::from_secs(seconds));
        for (seconds, state) in [
            (-60, Eligibility::Active),
            (0, Eligibility::Active),
            (300, Eligibility::Active),
            (301, Eligibility::Stale),
            (600, Eligibility::Stale),
            (601, Eligibility::Quarantined),
            (86_400, Eligibility::Quarantined),
        ] {
            assert_eq!(at(seconds), state, "after {seconds} s");
        }
    }

    #[test]
    fn a_time_in_which_nobody_looked_is_no_silence() {
        use Eligibility::{Active, Quarantined, Stale};
        let start: Timestamp = "2026-11-01T08:00:00Z".parse().unwrap();
        let after = |was, seen: i64, now: i64| {
            let at = |seconds| start + SignedDuration::from_secs(seconds);
            Eligibility::after(was, at(seen), 300, at(now), start)
        };
        for (was, seen, now, state) in [
            (Some(Active), -86_400, 0, Active),
            (Some(Active), -86_400, 300, Active),
            (Some(Active), -86_400, 301, Stale),
            (Some(Active), -86_400, 601, Quarantined),
            (Some(Stale), -86_400, 0, Stale),
            (Some(Quarantined), -86_400, 0, Quarantined),
            (Some(Quarantined), 0, 10, Active),
            (Some(Active), 10, 311, Stale),
            (None, -86_400, 0, Quarantined),
        ] {
            assert_eq!(after(was, seen, now), state, "{was:?}, seen at {seen}, now {now}");
        }
    }

    #[test]
    fn who_is_here_is_due_after_a_third_of_its_time_and_routable_until_twice_of_it() {
        let now: Timestamp = "2026-11-01T08:00:00Z".parse().unwrap();
        let registry = Registry::default();
        let here = vec![("health".to_owned(), registration(1, 1))];
        assert_eq!(registry.due(here.clone(), now).len(), 1, "not written yet");
        assert!(registry.of("health", &here[0].1, now).routable(), "and routable all the same");
        let state = Eligibility::Active;
        let seen = Seen { description: "d".into(), contract: (1, 1), ttl_s: 300, last_seen_at: now, state };
        registry.seen.lock().unwrap().insert("health".to_owned(), seen.clone());
        registry.seen.lock().unwrap().insert("elsewhere".to_owned(), seen);
        let later = |seconds| now + SignedDuration::from_secs(seconds);
        assert!(registry.due(here.clone(), later(99)).is_empty());
        assert_eq!(registry.due(here.clone(), later(100)).len(), 1);
        assert_eq!(registry.due(here.clone(), later(-100)).len(), 1, "the clock was put back");
        let routable = |seconds| {
            let listed = registry.listed(&here, later(seconds));
            listed.into_iter().filter(Listed::routable).map(|l| l.name).collect::<Vec<_>>()
        };
        assert_eq!(routable(600), ["health"], "who is not here is listed, and nothing goes there");
        assert!(routable(601).is_empty());
        // The machine slept, and woke up a moment ago.
        registry.looks(later(50));
        assert_eq!(routable(601), ["health"], "nobody has looked since");
        registry.looks(later(599));
        registry.looks(later(600));
        assert_eq!(routable(601), ["health"], "nor for long");
        *registry.watch.lock().unwrap() = None;
        registry.expect("health");
        assert_eq!(routable(601), ["health"], "it came up anew");
        assert!(!registry.of("x", &registration(2, 3), now).routable(), "contracts that have no version in common");
        assert!(registry.of("x", &registration(1, 3), now).routable());
    }
}
