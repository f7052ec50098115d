//! Access to the contacts of an account at Google, as its owner gave it.

use std::sync::Arc;

use async_trait::async_trait;

use super::error::BookError;
use super::settings::Settings;
use crate::grant::{GrantError, GrantKeeper};
use base::Secret;
use google::people::ORIGIN;
use google::{AccessToken, Client, TokenError};

/// A grant as the crate `google` asks for it.
struct Renewed(GrantKeeper);

#[async_trait]
impl AccessToken for Renewed {
    async fn token(&self) -> Result<Secret<String>, TokenError> {
        self.0.token().await.map_err(|e| match e {
            GrantError::Owner(why) => TokenError::Owner(why),
            GrantError::Later(why) => TokenError::Later(why),
        })
    }
    async fn was_refused(&self, token: &Secret<String>) -> bool {
        self.0.was_refused(token).await
    }
}

/// The account's service of contacts.
///
/// # Errors
///
/// Its address in the settings can't be used.
pub(super) fn client(settings: &Settings, grant: &GrantKeeper) -> Result<Client, BookError> {
    let url = settings.url.as_deref().unwrap_or(ORIGIN);
    Ok(Client::new(url, Arc::new(Renewed(grant.clone())))?)
}
