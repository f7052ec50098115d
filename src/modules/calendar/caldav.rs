//! A CalDAV server as a provider.

use std::time::Duration;

use async_trait::async_trait;

use super::following::{Rows, RowsError};
use super::provider::{CalendarProvider, Found, ProviderError};
use super::settings::Settings;
use crate::contract::{AccountTrial, ModuleContext, ModuleError};
use base::crash;
use dav::sync::{Changes, Fetched, Options, PushError, Remote, Report, Stored, SyncError, sync};
use dav::{Client, Collection, Credentials, DavError, Kind};

/// A larger item has no row: nobody's event is, but one with pictures in it.
const LARGEST_ITEM: usize = 1 << 20;

/// An account at a server.
pub(super) struct CaldavAccount {
    client: Client,
    account: String,
    /// The name under which its password is stored.
    secret: String,
    calendars: Vec<String>,
}

impl CaldavAccount {
    pub fn new(settings: &Settings, cx: &ModuleContext) -> Result<Self, ModuleError> {
        let password = cx.credentials.get(&settings.password);
        let password = password.ok_or_else(|| format!("{} is not set", settings.password))?.clone();
        let user = settings.user.clone().unwrap_or_default();
        let url = settings.url.as_deref().unwrap_or_default();
        let origin = Client::origin_of(url).map_err(ModuleError::new)?;
        let account = format!("{user} at {origin}");
        let client = Client::new(url, Credentials::Basic { user, password }).map_err(ModuleError::new)?;
        Ok(Self { client, account, secret: settings.password.clone(), calendars: settings.calendars.clone() })
    }

    /// As a sentence for the owner, with what mends it.
    fn said(&self, e: DavError) -> ProviderError {
        match e {
            DavError::Later { ref after, .. } => {
                let after: Option<Duration> = *after;
                ProviderError::Later { why: e.to_string(), after }
            }
            DavError::Unauthorized { .. } => {
                ProviderError::Owner(format!("{e}; store a good one with: butlerd secret set {}", self.secret))
            }
            DavError::Changed { .. } | DavError::TokenExpired { .. } | DavError::TooLarge { .. } => {
                ProviderError::Later { why: e.to_string(), after: None }
            }
            e => ProviderError::Owner(e.to_string()),
        }
    }
}

#[async_trait]
impl CalendarProvider for CaldavAccount {
    fn account(&self) -> &str {
        &self.account
    }

    async fn calendars(&self) -> Result<Vec<Found>, ProviderError> {
        let all = self.client.collections(Kind::Calendar).await.map_err(|e| self.said(e))?;
        // A list of things to do has no events.
        let events = |components: &[String]| components.is_empty() || components.iter().any(|one| one == "VEVENT");
        let all = all.into_iter().filter(|info| events(&info.components));
        Ok(all.map(|info| Found { name: info.name, place: info.path, read_only: info.read_only }).collect())
    }

    async fn sync(&self, place: &str, rows: &Rows, options: Options) -> Result<Report, ProviderError> {
        let collection = self.client.collection(Kind::Calendar, place).map_err(|e| self.said(e))?;
        sync(&Fit(collection), rows, options).await.map_err(|e| match e {
            SyncError::Remote(e) => self.said(e),
            SyncError::Store(RowsError::Lost) => ProviderError::Later { why: RowsError::Lost.to_string(), after: None },
            SyncError::Store(e) => ProviderError::Later { why: e.to_string(), after: None },
            SyncError::Endless => ProviderError::Owner(e.to_string()),
        })
    }
}

#[async_trait]
impl AccountTrial for CaldavAccount {
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

/// A collection whose items fit into rows.
struct Fit(Collection);

impl Fit {
    /// Why an item has no row.
    fn unfit(bytes: &[u8]) -> Option<String> {
        if bytes.len() > LARGEST_ITEM {
            return Some("it is larger than 1 MiB; move what is attached out of it".to_owned());
        }
        bytes.contains(&0).then(|| "it holds characters that no text has".to_owned())
    }
}

impl Remote for Fit {
    type Error = DavError;

    async fn changes(&self, since: Option<&str>) -> Result<Changes, DavError> {
        let changes = self.0.changes(since).await?;
        crash::point("calendar.listed");
        Ok(changes)
    }

    async fn fetch(&self, hrefs: &[String]) -> Result<Vec<Fetched>, DavError> {
        let mut fetched = self.0.fetch(hrefs).await?;
        for one in &mut fetched {
            if let dav::sync::Found::Here { bytes, .. } = &one.what
                && let Some(why) = Self::unfit(bytes)
            {
                one.what = dav::sync::Found::Unreadable(why);
            }
        }
        crash::point("calendar.fetched");
        Ok(fetched)
    }

    fn new_href(&self, name: &str) -> Option<String> {
        self.0.new_href(name)
    }

    async fn create(&self, href: &str, bytes: &[u8]) -> Result<Stored, PushError<DavError>> {
        crash::point("calendar.sending");
        let stored = self.0.create(href, bytes).await;
        crash::point("calendar.sent");
        stored
    }

    async fn update(&self, href: &str, etag: &str, bytes: &[u8]) -> Result<Stored, PushError<DavError>> {
        crash::point("calendar.updating");
        let stored = self.0.update(href, etag, bytes).await;
        crash::point("calendar.updated");
        stored
    }

    async fn delete(&self, href: &str, etag: &str) -> Result<(), PushError<DavError>> {
        crash::point("calendar.deleting");
        let gone = self.0.delete(href, etag).await;
        crash::point("calendar.deleted");
        gone
    }
}
