//! A CalDAV server as a provider.

use std::time::Duration;

use async_trait::async_trait;

use super::bounded::sync_bounded;
use super::following::Rows;
use super::provider::{CalendarProvider, Found, ProviderError};
use super::settings::Settings;
use crate::contract::{ModuleContext, ModuleError};
use dav::sync::{Options, Report};
use dav::{Client, Credentials, DavError, Kind};

/// An account at a server.
pub(super) struct CaldavAccount {
    client: Client,
    account: String,
    /// The name under which its password is stored.
    secret: String,
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
        Ok(Self { client, account, secret: settings.password.clone() })
    }

    /// As a sentence for the owner, with what mends it.
    fn said(&self, e: DavError) -> ProviderError {
        match e {
            DavError::Later { ref after, .. } => {
                let after: Option<Duration> = *after;
                ProviderError::Later { why: format!("{e}; it is tried again"), after }
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
        sync_bounded(collection, rows, options, |e| self.said(e)).await
    }
}
