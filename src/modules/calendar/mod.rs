//! The module `calendar`: the household's calendars, which a butler reads and writes as far as its settings name them.
//!
//! The truth is rows ([`sql`]): each event as its iCalendar bytes, and beside it when it takes place, so that a month is a
//! read of an index. What events mean, repeat and become by an edit the crate `calendar` knows. A provider ([`provider`]) is
//! behind the same rows: calls change these, and a task ([`following`]) makes them and the provider equal, in both
//! directions.

mod answers;
mod args;
mod book;
mod caldav;
mod choices;
mod conflicts;
mod definitions;
mod following;
mod google;
mod layout;
mod provider;
mod reads;
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
use following::Following;
use google::GoogleAccount;
use provider::CalendarProvider;
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
    fn account(&self, cx: &ModuleContext) -> Result<Option<Account>, ModuleError> {
        match self.settings.provider {
            Provider::Caldav => CaldavAccount::new(&self.settings, cx).map(Account::new).map(Some),
            Provider::Google => GoogleAccount::new(&self.settings, cx).map(Account::new).map(Some),
            Provider::Local => Ok(None),
        }
    }
}

/// What is followed, as the sync sees it and as who tries it does.
struct Account {
    provider: Arc<dyn CalendarProvider>,
    trial: Arc<dyn AccountTrial>,
}

impl Account {
    fn new<A: CalendarProvider + AccountTrial + 'static>(account: A) -> Self {
        let account = Arc::new(account);
        Self { provider: account.clone(), trial: account }
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
        let account = self.account(cx)?.map(|account| account.provider.account().to_owned());
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
        self.account(cx).ok().flatten().map(|account| account.trial).into_iter().collect()
    }
    fn tasks(&self, cx: &ModuleContext) -> Vec<BackgroundTask> {
        let (Some(book), Ok(Some(account))) = (self.book.get(), self.account(cx)) else { return Vec::new() };
        let own = book.own().to_vec();
        let every = Duration::from_secs(u64::from(self.settings.sync.interval_minutes) * 60);
        let work = Arc::new(Following::new(book, account.provider, cx, (own, every)));
        vec![BackgroundTask { name: "sync", kind: TaskKind::Loop, work }]
    }
}
