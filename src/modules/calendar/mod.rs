//! The module `calendar`: the household's calendars, which a butler reads and writes as far as its settings name them.
//!
//! The truth is rows ([`sql`]): each event as its iCalendar bytes, and beside it when it takes place, so that a month is a
//! read of an index. What events mean, repeat and become by an edit the crate `calendar` knows. A provider ([`provider`]) is
//! behind the same rows: calls change these, and a task ([`following`]) makes them and the provider equal, in both
//! directions.

mod answers;
mod args;
mod book;
mod bounded;
mod caldav;
mod choices;
mod conflicts;
mod days;
mod definitions;
mod following;
mod google;
mod layout;
mod provider;
mod reads;
mod reminders;
mod settings;
mod sql;
mod week;
mod writes;

pub use week::{HouseEvent, HouseEvents, house_events};

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use crate::background::{BackgroundTask, TaskKind};
use crate::contract::{AccountTrial, Credential, Factory, Manifest, Module, ModuleContext, ModuleError};
use ::tools::Tool;
use base::ButlerName;
use book::Book;
use caldav::CaldavAccount;
use config::{KeyMistake, Section};
use following::CalendarSync;
use google::GoogleAccount;
use provider::{CalendarProvider, Trial};
use reminders::Reminders;
use settings::{Provider, Settings, read};

const NAME: &str = "calendar";

pub(super) struct CalendarFactory;

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

impl CalendarModule {
    /// The account that is followed; `None`: the calendars are the household's own.
    fn account(&self, cx: &ModuleContext) -> Result<Option<Arc<dyn CalendarProvider>>, ModuleError> {
        Ok(match self.settings.provider {
            Provider::Caldav => Some(Arc::new(CaldavAccount::new(&self.settings, cx)?)),
            Provider::Google => Some(Arc::new(GoogleAccount::new(&self.settings, cx)?)),
            Provider::Local => None,
        })
    }
}

#[async_trait]
impl Module for CalendarModule {
    fn manifest(&self) -> Result<Manifest, ModuleError> {
        Ok(Manifest { tools: definitions::NAMES.map(str::to_owned).into(), ..Manifest::default() })
    }
    fn credentials(&self) -> Vec<Credential> {
        let named = |name: &str| {
            let (name, token_env) = (name.to_owned(), self.settings.token_env.clone());
            vec![Credential { name, token_env, required: true }]
        };
        match self.settings.provider {
            Provider::Local => Vec::new(),
            Provider::Caldav => named(&self.settings.password),
            Provider::Google => named(&self.settings.grant),
        }
    }
    async fn start(&self, cx: &ModuleContext) -> Result<(), ModuleError> {
        let account = self.account(cx)?.map(|account| account.account().to_owned());
        let book = Book::new(cx, &self.settings, account).map_err(ModuleError::new)?;
        // At once, so that a butler whose settings name a calendar no longer stops seeing it.
        book.open(&base::TenantId::owner()).await.map_err(ModuleError::new)?;
        let _ = self.book.set(Arc::new(book));
        Ok(())
    }
    async fn tools(&self, _: &ModuleContext) -> Result<Vec<Tool>, ModuleError> {
        self.book.get().map_or_else(|| Ok(Vec::new()), definitions::tools)
    }
    fn accounts(&self, cx: &ModuleContext) -> Vec<Arc<dyn AccountTrial>> {
        let Ok(Some(account)) = self.account(cx) else { return Vec::new() };
        vec![Arc::new(Trial { account, calendars: self.settings.calendars.clone() })]
    }
    fn tasks(&self, cx: &ModuleContext) -> Vec<BackgroundTask> {
        let Some(book) = self.book.get() else { return Vec::new() };
        let Ok(Some(account)) = self.account(cx) else {
            let work = Arc::new(Reminders::new(book, cx));
            return vec![BackgroundTask { name: "reminders", kind: TaskKind::Loop, work }];
        };
        let own = book.own().to_vec();
        let every = Duration::from_secs(u64::from(self.settings.sync.interval_minutes) * 60);
        let work = Arc::new(CalendarSync::new(book, account, cx, (own, every)));
        vec![BackgroundTask { name: "sync", kind: TaskKind::Loop, work }]
    }
}
