//! Google Calendar as a provider.

use std::sync::Arc;

use async_trait::async_trait;

use super::book::Book;
use super::bounded::sync_bounded;
use super::following::{Rows, sql};
use super::provider::{CalendarProvider, Found, ProviderError};
use super::settings::Settings;
use crate::contract::{ModuleContext, ModuleError};
use crate::grant::given_by;
use ::google::calendar::{Collection, ORIGIN, Recipients, calendars};
use ::google::{Client, GoogleError};
use base::TenantId;
use dav::sync::{Options, Report};
use store::StoreError;
use uuid::Uuid;

/// An account at Google.
pub(super) struct GoogleAccount {
    client: Client,
    account: String,
    /// What the owner types to give access again.
    connect: String,
}

impl GoogleAccount {
    pub fn new(settings: &Settings, cx: &ModuleContext) -> Result<Self, ModuleError> {
        let secret = cx.credentials.get(&settings.grant);
        let secret = secret.ok_or_else(|| format!("{} is not set", settings.grant))?;
        let user = settings.user.clone().unwrap_or_default();
        let (url, place) = match settings.url.as_deref() {
            Some(url) => (url, url.trim_end_matches('/')),
            None => (ORIGIN, "Google"),
        };
        let tokens = Arc::new(cx.grants.grant(&settings.grant));
        Ok(Self {
            client: Client::new(url, tokens).map_err(ModuleError::new)?,
            account: format!("{user} at {place}"),
            connect: given_by(secret).unwrap_or_else(|| "butlerd connect google".to_owned()),
        })
    }

    /// As a sentence for the owner, with what mends it.
    fn said(&self, e: GoogleError) -> ProviderError {
        match e {
            GoogleError::Later { ref after, .. } => {
                let after = *after;
                ProviderError::Later { why: format!("{e}; it is tried again"), after }
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
        let tells = Arc::new(Tells { book: rows.book.clone(), source: rows.source });
        let calendar = Collection::new(&self.client, place).telling(tells);
        sync_bounded(calendar, rows, options, |e| self.said(e)).await
    }
}

/// Whom changes of one calendar are told, as their calls said.
struct Tells {
    book: Arc<Book>,
    source: Uuid,
}

#[async_trait]
impl Recipients for Tells {
    async fn whom(&self, href: &str) -> Result<Option<String>, GoogleError> {
        let asked = async {
            let mut lease = self.book.house().shared(&TenantId::owner()).await?;
            sql::tell(&mut lease, self.source, href).await
        };
        asked.await.map_err(|e: StoreError| GoogleError::Later {
            host: "the household".to_owned(),
            why: e.to_string(),
            after: None,
        })
    }
}
