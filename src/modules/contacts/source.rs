//! An address book as a source of people: an account, and its place in the database.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::{Mutex, Notify};
use uuid::Uuid;

use super::book::Book;
use super::error::BookError;
use super::people::Id;
use super::settings::{Provider, Settings};
use super::sql;
use crate::contract::{AccountTrial, ModuleContext, ModuleError};
use crate::grant::{GrantKeeper, given_by};
use base::{ButlerName, Secret, TenantId};
use config::SyncedContacts;
use dav::Credentials;
use google::people::ORIGIN;
use google::{Client, GoogleError};
use store::{Database, Lease, StoreError};

/// What came of a run.
#[derive(Debug)]
pub(super) enum Outcome {
    Done(Value),
    /// Another daemon or butler syncs this address book just now.
    Elsewhere,
    /// It passes by itself.
    Later(String),
    /// Its owner has to do something.
    Owner(String),
}

/// Keeps one address book and the house's people equal.
pub(super) struct Source {
    house: Arc<Database>,
    pub settings: Settings,
    pub butler: ButlerName,
    password: Option<Secret<String>>,
    /// The access to Google.
    grant: GrantKeeper,
    /// The command that gives it again.
    given_by: String,
    pub id: Uuid,
    pub account: String,
    /// How far senders are believed whom it names.
    pub believed: &'static str,
    /// Who the owner is, by the settings.
    pub owner: Vec<Id>,
    pub cx: ModuleContext,
    /// One run at a time.
    pub one: Mutex<()>,
    pub wake: Notify,
}

/// An address book as its owner knows it.
fn account(settings: &Settings) -> String {
    match settings.provider {
        Provider::Vcard => settings.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default(),
        Provider::Google => format!("{} at Google", settings.user.as_deref().unwrap_or_default()),
        Provider::Carddav => {
            let url = settings.url.as_deref().unwrap_or_default();
            let place = url.split_once("://").map_or(url, |(_, place)| place);
            let place = place.rsplit_once('@').map_or(place, |(_, place)| place).trim_end_matches('/');
            let book = settings.address_book.as_ref().map(|book| format!(" ({book})")).unwrap_or_default();
            format!("{} at {place}{book}", settings.user.as_deref().unwrap_or_default())
        }
    }
}

impl Source {
    /// Takes its place in the database.
    ///
    /// # Errors
    /// Why it has none.
    pub async fn new(cx: &ModuleContext, settings: &Settings) -> Result<Self, ModuleError> {
        let account = account(settings);
        let mut lease = cx.house.shared(&TenantId::owner()).await.map_err(ModuleError::new)?;
        let id = sql::open(&mut lease, cx.butler.as_str(), settings.provider.as_str(), &account).await;
        let id = id.map_err(ModuleError::new)?;
        let believed = match cx.synced_contacts {
            SyncedContacts::Known => "known",
            SyncedContacts::Stranger => "stranger",
        };
        sql::believe(&mut lease, believed).await.map_err(ModuleError::new)?;
        let owner = cx.outbox.owner().identities.iter().map(|(channel, identity)| Id::new(channel, identity)).collect();
        let given_by = cx.credentials.get(&settings.grant).and_then(given_by);
        Ok(Self {
            house: cx.house.clone(),
            grant: cx.grants.grant(&settings.grant),
            given_by: given_by.unwrap_or_else(|| "butlerd connect google --contacts".to_owned()),
            password: cx.credentials.get(&settings.password).cloned(),
            settings: settings.clone(),
            id,
            butler: cx.butler.clone(),
            account,
            believed,
            owner,
            cx: cx.clone(),
            one: Mutex::default(),
            wake: Notify::new(),
        })
    }

    /// The household's rows, as the house has them.
    pub async fn lease(&self) -> Result<Lease, StoreError> {
        self.house.shared(&TenantId::owner()).await
    }

    pub fn is_owner(&self, id: &Id) -> bool {
        self.owner.contains(id)
    }

    /// Goes to the address book.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn open(&self) -> Result<Book, BookError> {
        let missing = |what: &str| BookError::Which(format!("{what} is not set in [modules.contacts]"));
        match self.settings.provider {
            Provider::Google => {
                let url = self.settings.url.as_deref().unwrap_or(ORIGIN);
                Book::at_google(Client::new(url, Arc::new(self.grant.clone()))?).await
            }
            Provider::Vcard => {
                let path = self.settings.path.as_deref().ok_or_else(|| missing("path"))?;
                Book::in_files(path).await
            }
            Provider::Carddav => {
                let user = self.settings.user.clone().ok_or_else(|| missing("user"))?;
                let password = self.password.clone().ok_or_else(|| {
                    BookError::Which(format!(
                        "{0} is not set; store it with: butlerd secret set {0}",
                        self.settings.password
                    ))
                })?;
                let url = self.settings.url.as_deref().ok_or_else(|| missing("url"))?;
                Book::at_server(url, Credentials::Basic { user, password }, self.settings.address_book.as_deref()).await
            }
        }
    }

    /// What the owner reads of an error, and whether it passes by itself.
    pub fn of_book(&self, e: &BookError) -> Outcome {
        let said = self.said(e);
        if e.passes() { Outcome::Later(said) } else { Outcome::Owner(said) }
    }

    /// An error as a sentence for the owner, with what mends it.
    fn said(&self, e: &BookError) -> String {
        match e {
            BookError::Dav(dav::DavError::Unauthorized { .. }) => {
                format!("{e}; store a good one with: butlerd secret set {}", self.settings.password)
            }
            BookError::Google(
                GoogleError::NoToken(_) | GoogleError::Unauthorized { .. } | GoogleError::NotGranted { .. },
            ) => format!("{e}; give access again with: {}", self.given_by),
            BookError::Dav(dav::DavError::Later { .. }) | BookError::Google(GoogleError::Later { .. }) => {
                format!("{e}; it is tried again")
            }
            e => e.to_string(),
        }
    }
}

#[async_trait]
impl AccountTrial for Source {
    fn name(&self) -> String {
        self.account.clone()
    }

    async fn attempt(&self) -> Result<(), ModuleError> {
        self.open().await.map(drop).map_err(|e| ModuleError::new(self.said(&e)))
    }
}
