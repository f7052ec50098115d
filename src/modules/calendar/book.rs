//! A butler's calendars, and how their events are laid out in time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use uuid::Uuid;

use super::layout::{self, BACK, Layout};
use super::settings::{Policy, Provider, Settings};
use super::sql::{self, EventRow, SourceRow, Written};
use crate::contract::ModuleContext;
use ::tools::{ToolCall, ToolError};
use base::{Clock, TenantId, Trust};
use calendar::{CalendarError, Event, Object, Zone, is_one_of};
use store::{Database, StoreError};

/// What people ask for mostly.
pub(super) const SOON: SignedDuration = SignedDuration::from_hours(24 * 31);
/// How often series are laid out further.
const LAID_OUT: SignedDuration = SignedDuration::from_hours(6);
/// How often calendars are looked for that others make just now.
const MOST_OPENINGS: u32 = 5;

pub(super) struct Book {
    house: Arc<Database>,
    butler: String,
    calendars: Vec<String>,
    provider: Provider,
    /// The provider's account, without its secret; none of the household's own.
    account: Option<String>,
    private: Vec<String>,
    /// The owner's addresses, as events name who comes.
    own: Vec<String>,
    clock: Clock,
    /// Rings when a calendar that follows a provider was changed here.
    pub nudge: Arc<Notify>,
    /// The zone of times without one.
    pub zone: Zone,
    ahead: SignedDuration,
    pub policy: Policy,
    pub require_approval: bool,
    /// Tenants whose calendars are open.
    opened: Mutex<BTreeSet<String>>,
}

/// An event of which nobody can say when it is.
pub(super) struct Unknown {
    pub source: Uuid,
    pub event: Uuid,
    /// Its calendar's name.
    pub calendar: String,
    /// How far whoever wrote it is believed: why it can't be read quotes it.
    pub trust: Trust,
    pub why: CalendarError,
}

/// What laying a time out came to.
pub(super) struct Covered {
    /// Whether anything was laid out that was not.
    pub anew: bool,
    pub unknown: Vec<Unknown>,
}

/// Why a butler's calendars can't be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "the calendar `{calendar}` is kept by {holder} already; give another name, or a server's calendar by its path"
    )]
    Elsewhere { calendar: String, holder: String },
}

impl From<OpenError> for ToolError {
    fn from(e: OpenError) -> Self {
        match e {
            OpenError::Store(e) => e.into(),
            e => ToolError::refused("not_found", e.to_string()),
        }
    }
}

/// An event that is out of order is its caller's mistake.
pub(super) fn refused(e: CalendarError) -> ToolError {
    let code = match &e {
        CalendarError::NoInstance(_) => "not_found",
        CalendarError::NotInvited => "not_invited",
        CalendarError::TooMany { .. } | CalendarError::Window(_) => "too_many",
        _ => "invalid_event",
    };
    ToolError::refused(code, e.to_string())
}

/// The owner's addresses, as events name who comes: those of the settings, else what else is known of them.
fn own_addresses(cx: &ModuleContext, settings: &Settings) -> Vec<String> {
    if !settings.own_addresses.is_empty() {
        return settings.own_addresses.clone();
    }
    let known = settings.user.iter().chain(cx.outbox.owner().identities.values());
    let mut found: Vec<String> = known.filter(|name| name.contains('@')).cloned().collect();
    found.sort();
    found.dedup();
    found
}

impl Book {
    pub fn new(cx: &ModuleContext, settings: &Settings, account: Option<String>) -> Result<Self, CalendarError> {
        let owners = || cx.store.time_zone().iana_name().unwrap_or("UTC").to_owned();
        Ok(Self {
            house: cx.house.clone(),
            butler: cx.butler.to_string(),
            calendars: settings.calendars.clone(),
            provider: settings.provider,
            account,
            private: settings.private.clone(),
            own: own_addresses(cx, settings),
            clock: cx.clock.clone(),
            nudge: Arc::default(),
            zone: Zone::named(&settings.time_zone.clone().unwrap_or_else(owners))?,
            ahead: SignedDuration::try_from(settings.sync.window.0).unwrap_or(BACK),
            policy: settings.conflicts.policy,
            require_approval: settings.conflicts.require_approval,
            opened: Mutex::default(),
        })
    }

    pub fn home(&self) -> &TimeZone {
        &self.zone.tz
    }

    pub fn house(&self) -> &Database {
        &self.house
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The owner's addresses, as events name who comes.
    pub fn own(&self) -> &[String] {
        &self.own
    }

    /// Who invites the owner to an event. `None`: nobody else does.
    pub fn inviter(&self, object: &Object) -> Option<String> {
        let asked = || object.events.iter().filter(|event| event.answer_of(&self.own).is_some());
        let organizer = std::iter::once(object.main()).chain(asked()).find_map(|event| event.organizer.clone())?;
        (asked().next().is_some() && !is_one_of(&self.own, &organizer)).then_some(organizer)
    }

    /// Whether an event takes the owner's time: not what was cancelled, and not what the owner declined.
    pub fn takes_time(&self, event: &Event) -> bool {
        layout::takes_time(event, &self.own)
    }

    /// Whether its calendars follow a provider.
    pub fn follows(&self) -> bool {
        self.provider != Provider::Local
    }

    /// Whether its provider tells of a change whom the change says.
    pub fn tells(&self) -> bool {
        self.provider == Provider::Google
    }

    /// What is to be said of a call that says whom to tell.
    pub fn of_telling(&self, whom: Option<&str>) -> Option<&'static str> {
        Some(match (self.provider, whom?) {
            (Provider::Caldav, _) => "send_updates promises nothing: the calendar's server decides whom it tells.",
            (_, "none") => return None,
            (Provider::Google, _) => "Google mails them once the change is there.",
            (Provider::Local, _) => "Nobody was told: the calendar is the household's own. Tell them yourself.",
        })
    }

    /// Whether nobody but the owner sees and writes a calendar.
    pub fn is_private(&self, calendar: &str) -> bool {
        !self.follows() || self.private.iter().any(|name| name == calendar)
    }

    /// Where its calendars are, in words for the owner.
    pub fn account(&self) -> &str {
        self.account.as_deref().unwrap_or("the household")
    }

    /// Makes the calendars of the settings for a tenant, once. A provider's account is the owner's: no other tenant has it.
    pub async fn open(&self, tenant: &TenantId) -> Result<(), OpenError> {
        let known = |book: &Self| book.opened.lock().unwrap_or_else(PoisonError::into_inner).contains(tenant.as_str());
        if known(self) || self.follows() && *tenant != TenantId::owner() {
            return Ok(());
        }
        let mut lease = self.house.shared(tenant).await?;
        let kept = (self.provider.as_str(), self.account.as_deref());
        // Butlers that start side by side make the same calendars: what another has made meanwhile is seen the next time.
        for _ in 0..MOST_OPENINGS {
            let elsewhere = sql::open(&mut lease, &self.butler, kept, &self.zone.id, &self.calendars).await?;
            if let Some((calendar, holder)) = elsewhere.into_iter().next() {
                return Err(OpenError::Elsewhere { calendar, holder });
            }
            if sql::seen_by(&mut lease, &self.butler).await? >= self.calendars.len() {
                break;
            }
        }
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).insert(tenant.to_string());
        Ok(())
    }

    /// The rows of the calendars that the settings name, for the household's owner.
    pub async fn own_sources(&self) -> Result<Vec<Uuid>, StoreError> {
        let mut lease = self.house.shared(&TenantId::owner()).await?;
        let kept = (self.provider.as_str(), self.account.as_deref());
        sql::own(&mut lease, kept, &self.calendars).await
    }

    /// The calendars that a call means: the one that it names, else all.
    pub async fn sources(&self, call: &ToolCall, names: &[String]) -> Result<Vec<SourceRow>, ToolError> {
        self.open(&call.context().tenant_id).await?;
        let all = sql::sources(call).await?;
        if let Some(unknown) = names.iter().find(|name| !all.iter().any(|source| source.name == **name)) {
            let known: Vec<&str> = all.iter().map(|source| source.name.as_str()).collect();
            let why = format!("There is no calendar `{unknown}` here; there are: {}.", known.join(", "));
            return Err(ToolError::refused("not_found", why));
        }
        Ok(all.into_iter().filter(|source| names.is_empty() || names.contains(&source.name)).collect())
    }

    /// In whose name a server invites; Google and the household's own calendars know it themselves.
    pub fn organizer(&self) -> Option<String> {
        self.own.first().filter(|_| self.provider == Provider::Caldav).cloned()
    }

    fn layout(&self) -> Layout<'_> {
        Layout { home: self.home(), ahead: self.ahead, own: &self.own }
    }

    /// Lays repeating events out for this time, where they are not yet. Says of which nobody can say when they are then: an
    /// answer that left them out in silence would call their time free.
    pub async fn cover(&self, tenant: &TenantId, from: Timestamp, to: Timestamp) -> Result<Covered, StoreError> {
        let mut lease = self.house.shared(tenant).await?;
        let (layout, mut anew, mut unknown) = (self.layout(), false, Vec::new());
        for event in sql::unprojected(&mut lease, &[self.butler.as_str()], from, to).await? {
            let Some(why) = layout.cover(&mut lease, &event, (from, to)).await? else {
                anew = true;
                continue;
            };
            let trust = Trust::from_name(&event.trust);
            let (source, id, calendar) = (event.row.source, event.row.id, event.calendar);
            unknown.push(Unknown { source, event: id, calendar, trust, why });
        }
        Ok(Covered { anew, unknown })
    }

    /// Lays out what is soon, now and then: jobs in SQL read rows alone. `last`: when it was done.
    pub async fn keep_laid_out(&self, last: &mut Option<Timestamp>) -> Result<(), StoreError> {
        let now = self.now();
        if last.is_none_or(|at| now.duration_since(at) > LAID_OUT) {
            self.cover(&TenantId::owner(), now, now.saturating_add(SOON).unwrap_or(now)).await?;
            *last = Some(now);
        }
        Ok(())
    }

    /// What is written of an event.
    pub fn written<'a>(
        &self,
        object: &'a Object,
        id: Uuid,
        source: Uuid,
        seen: Option<i64>,
        now: Timestamp,
    ) -> Result<Written<'a>, ToolError> {
        let start = object.main().start.instant(self.home()).map_err(refused)?;
        // One that takes place once is laid out wherever it is.
        let window = if object.repeats() {
            (now.saturating_sub(BACK).unwrap_or(now), now.saturating_add(self.ahead).unwrap_or(now))
        } else {
            let end =
                object.events.iter().filter_map(|event| event.end.instant(self.home()).ok()).max().unwrap_or(start);
            let day = SignedDuration::from_hours(24);
            (start.saturating_sub(day).unwrap_or(start), end.max(start).saturating_add(day).unwrap_or(end))
        };
        let instances = self.layout().laid_out(object, window).map_err(refused)?;
        let ics = object.write();
        Ok(Written { id, source, uid: object.uid(), ics, repeats: object.repeats(), seen, window, instances })
    }

    /// The event of a call.
    pub async fn event(&self, call: &ToolCall) -> Result<(EventRow, Object), ToolError> {
        self.open(&call.context().tenant_id).await?;
        let given = call.text("event_id").unwrap_or_default();
        let unknown = || {
            ToolError::refused(
                "not_found",
                format!("There is no event {given}; calendar_list_events shows those there are."),
            )
        };
        let id: Uuid = given.parse().map_err(|_| unknown())?;
        let row = sql::event(call, id).await?.ok_or_else(unknown)?;
        let object = Object::read(&row.ics).map_err(refused)?;
        Ok((row, object))
    }
}
