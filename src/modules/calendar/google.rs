//! Google Calendar as a provider.

use std::sync::Arc;

use async_trait::async_trait;

use super::following::Rows;
use super::provider::{CalendarProvider, Found, ProviderError};
use super::settings::Settings;
use crate::contract::{AccountTrial, ModuleContext, ModuleError};
use crate::grant::given_by;
use ::google::calendar::{Collection, calendars};
use ::google::{Client, GoogleError};
use base::crash;
use dav::sync::{Changes, Fetched, Options, PushError, Remote, Report, Stored, SyncError, sync};

/// Where Google's calendars are.
const GOOGLE: &str = "https://www.googleapis.com";
/// A larger item has no row.
const LARGEST_ITEM: usize = 1 << 20;

/// An account at Google.
pub(super) struct GoogleAccount {
    client: Client,
    account: String,
    /// What the owner types to give access again.
    connect: String,
    calendars: Vec<String>,
}

impl GoogleAccount {
    pub fn new(settings: &Settings, cx: &ModuleContext) -> Result<Self, ModuleError> {
        let secret = cx.credentials.get(&settings.grant);
        let secret = secret.ok_or_else(|| format!("{} is not set", settings.grant))?;
        let user = settings.user.clone().unwrap_or_default();
        let (url, place) = match settings.url.as_deref() {
            Some(url) => (url, url.trim_end_matches('/')),
            None => (GOOGLE, "Google"),
        };
        let tokens = Arc::new(cx.grants.grant(&settings.grant));
        Ok(Self {
            client: Client::new(url, tokens).map_err(ModuleError::new)?,
            account: format!("{user} at {place}"),
            connect: given_by(secret).unwrap_or_else(|| "butlerd connect google".to_owned()),
            calendars: settings.calendars.clone(),
        })
    }

    /// As a sentence for the owner, with what mends it.
    fn said(&self, e: GoogleError) -> ProviderError {
        match e {
            GoogleError::Later { ref after, .. } => {
                let after = *after;
                ProviderError::Later { why: e.to_string(), after }
            }
            GoogleError::NoToken(_) | GoogleError::Unauthorized { .. } | GoogleError::NotGranted { .. } => {
                ProviderError::Owner(format!("{e}; give access again with: {}", self.connect))
            }
            GoogleError::Changed { .. }
            | GoogleError::Exists { .. }
            | GoogleError::Gone { .. }
            | GoogleError::TooLarge { .. } => ProviderError::Later { why: e.to_string(), after: None },
            e => ProviderError::Owner(e.to_string()),
        }
    }
}

#[async_trait]
impl CalendarProvider for GoogleAccount {
    fn account(&self) -> &str {
        &self.account
    }

    /// An organizer there is an account, and which one Google knows.
    fn vouches(&self) -> bool {
        true
    }

    async fn calendars(&self) -> Result<Vec<Found>, ProviderError> {
        let all = calendars(&self.client).await.map_err(|e| self.said(e))?;
        Ok(all.into_iter().map(|one| Found { name: one.name, place: one.id, read_only: one.read_only }).collect())
    }

    async fn sync(&self, place: &str, rows: &Rows, options: Options) -> Result<Report, ProviderError> {
        let collection = Fit(Collection::new(&self.client, place));
        sync(&collection, rows, options).await.map_err(|e| match e {
            SyncError::Remote(e) => self.said(e),
            SyncError::Store(e) => ProviderError::Later { why: e.to_string(), after: None },
            e @ SyncError::Endless => ProviderError::Owner(e.to_string()),
        })
    }
}

#[async_trait]
impl AccountTrial for GoogleAccount {
    fn name(&self) -> String {
        self.account.clone()
    }

    async fn attempt(&self) -> Result<(), ModuleError> {
        let all = self.calendars().await.map_err(ModuleError::new)?;
        for name in &self.calendars {
            super::provider::choose(name, &all).map_err(ModuleError::new)?;
        }
        Ok(())
    }
}

/// A calendar whose items fit into rows.
struct Fit(Collection);

impl Remote for Fit {
    type Error = GoogleError;

    async fn changes(&self, since: Option<&str>) -> Result<Changes, GoogleError> {
        let changes = self.0.changes(since).await?;
        crash::point("calendar.listed");
        Ok(changes)
    }

    async fn fetch(&self, hrefs: &[String]) -> Result<Vec<Fetched>, GoogleError> {
        let mut fetched = self.0.fetch(hrefs).await?;
        for one in &mut fetched {
            if let dav::sync::Found::Here { bytes, .. } = &one.what
                && bytes.len() > LARGEST_ITEM
            {
                let why = "it is larger than 1 MiB; move what is long out of it";
                one.what = dav::sync::Found::Unreadable(why.to_owned());
            }
        }
        crash::point("calendar.fetched");
        Ok(fetched)
    }

    fn new_href(&self, name: &str) -> Option<String> {
        self.0.new_href(name)
    }

    async fn create(&self, href: &str, bytes: &[u8]) -> Result<Stored, PushError<GoogleError>> {
        crash::point("calendar.sending");
        let stored = self.0.create(href, bytes).await;
        crash::point("calendar.sent");
        stored
    }

    async fn update(&self, href: &str, etag: &str, bytes: &[u8]) -> Result<Stored, PushError<GoogleError>> {
        crash::point("calendar.updating");
        let stored = self.0.update(href, etag, bytes).await;
        crash::point("calendar.updated");
        stored
    }

    async fn delete(&self, href: &str, etag: &str) -> Result<(), PushError<GoogleError>> {
        crash::point("calendar.deleting");
        let gone = self.0.delete(href, etag).await;
        crash::point("calendar.deleted");
        gone
    }
}
