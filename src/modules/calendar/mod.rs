//! The module `calendar`: the household's calendars, which a butler reads and writes as far as its settings name them.
//!
//! The truth is rows ([`sql`]): each event as its iCalendar bytes, and beside it when it takes place, so that a month is a
//! read of an index. What events mean, repeat and become by an edit the crate `calendar` knows. A provider is a source
//! behind the same rows: `calendar_events.etag` and `calendar_cursors` are its place, and only [`Provider::Local`], which
//! needs none, is built.

mod args;
mod book;
mod conflicts;
mod definitions;
mod reads;
mod sql;
mod writes;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::contract::{Factory, Manifest, Module, ModuleContext, ModuleError};
use ::tools::Tool;
use base::{ButlerName, HumanDuration};
use book::Book;
use config::{KeyMistake, Section};

const NAME: &str = "calendar";

pub(super) struct CalendarFactory;

/// Where calendars are kept besides the household's own database.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Provider {
    /// Nowhere: they are the household's own.
    #[default]
    Local,
    /// A CalDAV server.
    Caldav,
    /// Google Calendar.
    Google,
}

/// What becomes of an event that overlaps another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Policy {
    /// Nothing is changed; three free times are answered.
    #[default]
    Suggest,
    /// It is refused, whatever a call asks for.
    Fail,
    /// It is made.
    AllowOverlap,
}

/// `[modules.calendar.conflicts]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
struct Conflicts {
    /// What becomes of an event that overlaps another: `suggest` answers three free times and changes nothing, `fail`
    /// refuses, `allow_overlap` makes it.
    #[schemars(extend("default" = "suggest"))]
    policy: Policy,
    /// Whether sessions may not let events overlap by themselves.
    #[schemars(extend("default" = false))]
    require_approval: bool,
}

/// `[modules.calendar.sync]`. How often a provider is asked comes with the first provider that can be asked.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
struct Sync {
    /// How far ahead repeating events are laid out; who looks further ahead waits a moment longer.
    #[schemars(extend("default" = "400d"))]
    window: HumanDuration,
}

/// `[modules.calendar]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
struct Settings {
    /// Where calendars are kept: `local` is the household's own database. `caldav` and `google` are not built yet.
    #[schemars(extend("default" = "local"))]
    provider: Provider,
    /// The provider's address.
    url: Option<String>,
    /// The calendars that the butler sees, by name; new events go into the first.
    #[schemars(length(min = 1, max = 50), extend("default" = ["household"]))]
    calendars: Vec<String>,
    /// The zone of times without one; the owner's, if not set.
    time_zone: Option<String>,
    /// Events that overlap others.
    conflicts: Conflicts,
    /// How the calendars follow a provider.
    sync: Sync,
}

fn read(config: &Value) -> Result<Settings, Vec<KeyMistake>> {
    Section::of::<Settings>().read_with(config, |settings: &Settings| {
        let mut wrong = Vec::new();
        let mut mistake = |key: &str, found: String, expected: &str| wrong.push(KeyMistake::new(key, found, expected));
        match settings.provider {
            Provider::Local if settings.url.is_some() => {
                mistake("url", "found with provider `local`".to_owned(), "no url: local calendars have no server");
            }
            Provider::Local => {}
            Provider::Caldav | Provider::Google => {
                let found = "found a provider that this build does not have yet".to_owned();
                mistake("provider", found, "`local`, which keeps calendars in the household's own database");
            }
        }
        if let Some(zone) = &settings.time_zone
            && calendar::Zone::named(zone).is_err()
        {
            mistake("time_zone", format!("found `{zone}`"), "a time zone such as Europe/Berlin");
        }
        let named = |n: usize| settings.calendars[..n].contains(&settings.calendars[n]);
        let empty = settings.calendars.iter().any(|name| name.trim().is_empty() || name.len() > 200);
        if empty || (0..settings.calendars.len()).any(named) {
            mistake("calendars", "found an empty name, or one twice".to_owned(), "each calendar's name once");
        }
        wrong
    })
}

impl Factory for CalendarFactory {
    fn name(&self) -> &str {
        NAME
    }
    fn settings(&self) -> Section {
        Section::of::<Settings>()
    }
    fn check(&self, config: &Value) -> Vec<KeyMistake> {
        read(config).err().unwrap_or_default()
    }
    fn build(&self, config: &Value, _: &ButlerName, _: &Path) -> Result<Box<dyn Module>, ModuleError> {
        Ok(Box::new(CalendarModule { settings: read(config)?, book: OnceLock::new() }))
    }
}

struct CalendarModule {
    settings: Settings,
    /// There once the module has started.
    book: OnceLock<Arc<Book>>,
}

#[async_trait]
impl Module for CalendarModule {
    fn manifest(&self) -> Result<Manifest, ModuleError> {
        Ok(Manifest { tools: definitions::NAMES.map(str::to_owned).into(), ..Manifest::default() })
    }
    async fn start(&self, cx: &ModuleContext) -> Result<(), ModuleError> {
        let book = Book::new(cx, &self.settings).map_err(ModuleError::new)?;
        // At once, so that a butler whose settings name a calendar no longer stops seeing it.
        book.open(&base::TenantId::owner()).await.map_err(ModuleError::new)?;
        let _ = self.book.set(Arc::new(book));
        Ok(())
    }
    async fn tools(&self, _: &ModuleContext) -> Result<Vec<Tool>, ModuleError> {
        self.book.get().map_or_else(|| Ok(Vec::new()), definitions::tools)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_provider_that_is_not_built_is_refused() {
        let check = |config: Value| CalendarFactory.check(&config).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(check(json!({"provider": "local"})), Vec::<String>::new());
        assert_eq!(check(json!({"conflicts": {"policy": "fail"}, "sync": {"window": "90d"}})), Vec::<String>::new());
        for provider in ["caldav", "google"] {
            let wrong = check(json!({"provider": provider}));
            assert!(wrong.len() == 1 && wrong[0].contains("does not have yet"), "{wrong:?}");
        }
        assert!(!check(json!({"time_zone": "Nowhere/Land"})).is_empty());
        assert!(!check(json!({"calendars": ["a", "a"]})).is_empty());
        assert!(!check(json!({"provider": "local", "url": "https://x"})).is_empty());
    }
}
