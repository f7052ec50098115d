//! Access to somebody's account that they gave by OAuth: kept as a secret, and renewed by one at a time.
//!
//! A provider may take the last refresh token away with each new one, and take all away where an old one is shown twice. So
//! one row lock goes around reading the grant, renewing it and writing it down, however many daemons there are; and what was
//! renewed is written before it is used, or kept until it can be.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep};

use access::credentials::{CredentialError, Credentials};
use base::redact::{Passing, household};
use base::{Clock, Secret, TenantId, crash, task};
use google::{AccessToken, TokenError};
use oauth::{OauthError, Provider, Tokens};

/// A token is renewed this long before it ends: whoever gets it still has to use it.
const EARLY: SignedDuration = SignedDuration::from_secs(60);
/// For how long one is good whose provider does not say.
const USUAL: Duration = Duration::from_secs(600);
/// One that a server refuses is not renewed for that more often.
const REFUSED_AGAIN: Duration = Duration::from_secs(60);
/// A grant that can't be written down is tried so often, so far apart, before it is only kept in memory.
const WRITE_TRIES: u32 = 20;
const WRITE_AGAIN: Duration = Duration::from_secs(2);

/// Why there is no token.
#[derive(Clone, Debug, thiserror::Error)]
pub enum GrantError {
    /// Only the owner can mend it; the sentence says how.
    #[error("{0}")]
    Owner(String),
    /// It passes by itself.
    #[error("{0}")]
    Later(String),
}

/// A grant as its secret holds it.
#[derive(Clone, Serialize, Deserialize)]
struct Grant {
    /// As [`Provider::to_json_with_secret`] has it.
    provider: String,
    refresh: String,
    access: String,
    expires_at: Timestamp,
    /// The command by which it was given.
    connect: String,
}

impl Grant {
    fn new(provider: &str, connect: &str, tokens: &Tokens, refresh: &Secret<String>, now: Timestamp) -> Self {
        let lasts = SignedDuration::try_from(tokens.expires_in.unwrap_or(USUAL)).unwrap_or(SignedDuration::MAX);
        Self {
            provider: provider.to_owned(),
            refresh: refresh.expose().clone(),
            access: tokens.access.expose().clone(),
            expires_at: now.checked_add(lasts).unwrap_or(Timestamp::MAX),
            connect: connect.to_owned(),
        }
    }

    fn read(name: &str, secret: &Secret<String>) -> Result<Self, GrantError> {
        serde_json::from_str(secret.expose()).map_err(|_| {
            GrantError::Owner(format!(
                "the secret {name} is not what `butlerd connect` stores; connect the account again"
            ))
        })
    }

    fn written(&self) -> Secret<String> {
        Secret::new(serde_json::to_string(self).unwrap_or_default())
    }

    fn is_good(&self, now: Timestamp) -> bool {
        self.expires_at.checked_sub(EARLY).is_ok_and(|end| now < end)
    }
}

/// A grant as it is stored. `connect`: what the owner types to give it again, such as `butlerd connect google`.
///
/// # Errors
/// The provider gave no access that lasts.
pub fn new_grant(
    provider: &Provider,
    connect: &str,
    tokens: &Tokens,
    now: Timestamp,
) -> Result<Secret<String>, GrantError> {
    let refresh = tokens.refresh.as_ref().ok_or_else(|| {
        GrantError::Owner(format!("{} gave access for this once only; ask for offline access", provider.host()))
    })?;
    let provider = provider.to_json_with_secret();
    Ok(Grant::new(provider.expose(), connect, tokens, refresh, now).written())
}

/// The command by which the grant in a secret was given.
pub(crate) fn given_by(secret: &Secret<String>) -> Option<String> {
    serde_json::from_str::<Grant>(secret.expose()).ok().map(|grant| grant.connect)
}

/// All grants of the household. Cheap to clone.
#[derive(Clone)]
pub struct Grants {
    credentials: Credentials,
    clock: Clock,
    kept: Arc<Mutex<HashMap<String, GrantKeeper>>>,
}

impl Grants {
    pub fn new(credentials: Credentials, clock: Clock) -> Self {
        Self { credentials, clock, kept: Arc::default() }
    }

    /// The keeper of the grant in the secret of this name: the same for all who ask.
    pub(crate) fn grant(&self, name: &str) -> GrantKeeper {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            let (credentials, clock, name) = (self.credentials.clone(), self.clock.clone(), name.to_owned());
            GrantKeeper(Arc::new(Inner { credentials, clock, name, one: tokio::sync::Mutex::default() }))
        };
        kept.entry(name.to_owned()).or_insert_with(new).clone()
    }
}

/// Keeps one grant. Cheap to clone.
#[derive(Clone)]
pub(crate) struct GrantKeeper(Arc<Inner>);

struct Inner {
    credentials: Credentials,
    clock: Clock,
    name: String,
    /// One asks at a time.
    one: tokio::sync::Mutex<Known>,
}

/// What is known without asking the database.
#[derive(Default)]
struct Known {
    /// As of this version of the secret.
    grant: Option<(u64, Grant)>,
    /// Renewed, and not written down yet: the refresh token that it came of, in whose place it is to stand.
    unwritten: Option<String>,
    /// A token that a server did not take, and since when.
    refused: Option<(Vec<u8>, Instant)>,
    /// What is hidden wherever text is stored or logged, for as long as it is good.
    hidden: Vec<Passing>,
}

fn hash(token: &str) -> Vec<u8> {
    Sha256::digest(token.as_bytes()).to_vec()
}

fn of_store(e: CredentialError) -> GrantError {
    match e {
        CredentialError::Store(e) => GrantError::Later(format!("the database: {e}")),
        other => GrantError::Owner(other.to_string()),
    }
}

impl GrantKeeper {
    /// An access token that is good for a minute at least.
    pub async fn token(&self) -> Result<Secret<String>, GrantError> {
        let own = self.clone();
        // A task of its own: whoever stops waiting must not be the end of what the provider has just given.
        let asked = task::spawn(task::Kind::Request, "grant", async move { own.ask().await });
        asked.await.unwrap_or_else(|_| Err(GrantError::Later("access could not be renewed".to_owned())))
    }

    /// A server did not take this token. Whether another one may help.
    pub async fn was_refused(&self, token: &Secret<String>) -> bool {
        let mut known = self.0.one.lock().await;
        if known.grant.as_ref().is_some_and(|(_, grant)| grant.access != *token.expose()) {
            // There is another one by now.
            return true;
        }
        if known.refused.as_ref().is_some_and(|(_, since)| since.elapsed() < REFUSED_AGAIN) {
            return false;
        }
        known.refused = Some((hash(token.expose()), Instant::now()));
        true
    }

    async fn ask(&self) -> Result<Secret<String>, GrantError> {
        let Inner { credentials, clock, name, one } = &*self.0;
        let (tenant, mut known) = (TenantId::owner(), one.lock().await);
        let known: &mut Known = &mut known;
        let version = credentials.version(name);
        let (now, refused) = (clock.now(), known.refused.as_ref().map(|(token, _)| token.clone()));
        let good =
            move |grant: &Grant| grant.is_good(now) && refused.as_ref().is_none_or(|no| *no != hash(&grant.access));
        if let Some((of, grant)) = &known.grant
            && *of == version
        {
            if let Some(old) = &known.unwritten
                && self.write_once(old, grant).await.is_ok()
            {
                known.unwritten = None;
            }
            if good(grant) {
                return Ok(Secret::new(grant.access.clone()));
            }
        }
        let in_memory = known.grant.as_ref().filter(|(of, _)| known.unwritten.is_some() && *of == version);
        let in_memory = in_memory.map(|(_, grant)| grant.clone());
        let (called, clock) = (name.clone(), clock.clone());
        let renewed = credentials.change(&tenant, name, move |stored| {
            async move {
                let grant = match in_memory {
                    Some(newer) => newer,
                    None => Grant::read(&called, &stored)?,
                };
                // Another daemon may have renewed it while this one waited.
                if good(&grant) {
                    return Ok(((grant, String::new()), None));
                }
                let renewed = renew(&grant, &clock).await?;
                // Ended here, the next run shows the old refresh token, and hears that the owner must give access again.
                crash::point("grant.renewed");
                let written = renewed.written();
                Ok(((renewed, grant.refresh), Some(written)))
            }
            .boxed()
        });
        let renewed = renewed.await.map_err(of_store)?;
        let missing = || GrantError::Owner(format!("the secret {name} is not there; connect the account again"));
        let ((grant, old), written) = renewed.ok_or_else(missing)??;
        // What the provider gave counts, whether or not the database is there.
        known.unwritten = (written.is_err() && !self.write(&old, &grant).await).then_some(old);
        let token = Secret::new(grant.access.clone());
        let secrets = [token.clone(), Secret::new(grant.refresh.clone())];
        known.hidden = secrets.iter().map(|secret| household().hide_while(secret)).collect();
        known.grant = Some((version, grant));
        Ok(token)
    }

    /// Writes a grant down that could not be written with its renewal.
    async fn write(&self, old: &str, grant: &Grant) -> bool {
        for _ in 0..WRITE_TRIES {
            match self.write_once(old, grant).await {
                Ok(()) => return true,
                Err(e) => tracing::warn!(secret = self.0.name, error = %e, "renewed access can't be written down yet"),
            }
            sleep(WRITE_AGAIN).await;
        }
        false
    }

    /// Puts a grant in the place of the one that it came of. Where the owner gave another one since, or took it out, that
    /// counts.
    async fn write_once(&self, old: &str, grant: &Grant) -> Result<(), CredentialError> {
        let (name, old, new) = (self.0.name.clone(), old.to_owned(), grant.written());
        let tenant = TenantId::owner();
        let put = self.0.credentials.change(&tenant, &self.0.name, move |stored| {
            let same = Grant::read(&name, &stored).is_ok_and(|stored| stored.refresh == old);
            async move { Ok::<_, GrantError>(((), same.then_some(new))) }.boxed()
        });
        match put.await? {
            Some(Ok(((), written))) => written,
            // It was taken out, or is no grant any more.
            None | Some(Err(_)) => Ok(()),
        }
    }
}

#[async_trait]
impl AccessToken for GrantKeeper {
    async fn token(&self) -> Result<Secret<String>, TokenError> {
        Self::token(self).await.map_err(|e| match e {
            GrantError::Owner(why) => TokenError::Owner(why),
            GrantError::Later(why) => TokenError::Later(why),
        })
    }

    async fn was_refused(&self, token: &Secret<String>) -> bool {
        Self::was_refused(self, token).await
    }
}

/// Has the provider renew it.
async fn renew(grant: &Grant, clock: &Clock) -> Result<Grant, GrantError> {
    let again = |e: &OauthError| GrantError::Owner(e.to_string());
    let provider = Provider::from_json(&grant.provider).map_err(|e| again(&e))?;
    let old = Secret::new(grant.refresh.clone());
    let tokens = provider.refresh(&old).await.map_err(|e| match e {
        OauthError::Later { .. } => GrantError::Later(e.to_string()),
        e => again(&e),
    })?;
    let refresh = tokens.refresh.clone().unwrap_or(old);
    Ok(Grant::new(&grant.provider, &grant.connect, &tokens, &refresh, clock.now()))
}
