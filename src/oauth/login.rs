//! Access by a browser that comes back to this machine (RFC 8252 7.3), guarded by PKCE (RFC 7636) and a state.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::stream::{FuturesUnordered, StreamExt};
use reqwest::Url;
use sha2::{Digest, Sha256};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use super::error::{Named, OauthError};
use super::page;
use super::provider::Provider;
use base::Secret;

/// Connections at once. A browser opens several, and may send nothing on some of them.
const MOST_OPEN: usize = 32;
/// What somebody pastes is shorter.
const LONGEST_PASTE: usize = 16 * 1024;

/// A login that was begun: the link that the person opens, and the port at which the browser comes back.
#[derive(Debug)]
pub struct Login {
    provider: Provider,
    listener: TcpListener,
    return_to: String,
    url: Secret<String>,
    state: Secret<String>,
    verifier: Secret<String>,
    /// The answer came; there is one.
    taken: AtomicBool,
}

/// What the browser brought: good for [`Provider::exchange`], once.
#[derive(Debug)]
pub struct Code {
    pub(crate) code: Secret<String>,
    pub(crate) verifier: Secret<String>,
    pub(crate) return_to: String,
}

/// What an address at which a browser arrived means.
enum Returned {
    /// It belongs to something else, and changes nothing. With the reason, for who pasted it.
    Foreign(&'static str),
    Ours(Result<Code, OauthError>),
}

impl Login {
    /// Listens on a port of 127.0.0.1 that the system chooses, and makes the link.
    ///
    /// # Errors
    ///
    /// [`OauthError::Later`] when this machine has no port or no random bytes.
    pub async fn begin(provider: &Provider) -> Result<Self, OauthError> {
        let here = |what: &str, e: &dyn std::fmt::Display| OauthError::later("127.0.0.1", format!("{what}: {e}"));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(|e| here("no port to listen on", &e))?;
        let port = listener.local_addr().map_err(|e| here("no port to listen on", &e))?.port();
        let return_to = provider.about.return_to.at(port);
        let random = || random().map_err(|e| here("no random bytes", &e));
        let (state, verifier) = (random()?, random()?);
        let url = provider.about.authorization_url(&[
            ("response_type", "code"),
            ("client_id", &provider.about.client_id),
            ("redirect_uri", &return_to),
            ("scope", &provider.scopes().join(" ")),
            ("state", state.expose()),
            ("code_challenge", &challenge(&verifier)),
            ("code_challenge_method", "S256"),
        ])?;
        let (provider, url, taken) = (provider.clone(), Secret::new(url), AtomicBool::new(false));
        Ok(Self { provider, listener, return_to, url, state, verifier, taken })
    }

    /// What the person opens in a browser. It is not for the log.
    pub fn url(&self) -> &str {
        self.url.expose()
    }

    /// Waits until the browser comes back. What else comes to the port is answered and changes nothing. It may be dropped
    /// and called again; drop it when [`Login::take_pasted`] gave the code.
    ///
    /// # Errors
    ///
    /// [`OauthError::Expired`] after `most`; [`OauthError::Refused`]; what else the provider lets the browser say.
    pub async fn wait(&self, most: Duration) -> Result<Code, OauthError> {
        let host = self.provider.host();
        timeout(most, self.listen()).await.unwrap_or(Err(OauthError::Expired { host }))
    }

    /// Takes the address at which a browser on another machine ended, as the person pasted it.
    ///
    /// # Errors
    ///
    /// [`OauthError::Protocol`] when it is another address, which changes nothing: the person may paste the right one.
    /// Otherwise as [`Login::wait`].
    pub fn take_pasted(&self, pasted: &str) -> Result<Code, OauthError> {
        let whole = if pasted.len() <= LONGEST_PASTE { pasted } else { "" };
        // A terminal or a letter may have broken it into lines, or put it into quotes.
        let address: String = whole.chars().filter(|c| !c.is_whitespace() && !"<>\"'`".contains(*c)).collect();
        let query = address.split_once('?').map_or("", |(_, query)| query);
        match self.returned(query.split('#').next().unwrap_or_default()) {
            Returned::Ours(result) => result,
            Returned::Foreign(why) => Err(OauthError::protocol(&self.provider.host(), why)),
        }
    }

    /// Whether an address came back that was this login's: another one can't any more.
    pub fn is_over(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }

    async fn listen(&self) -> Result<Code, OauthError> {
        let mut open = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if open.len() < MOST_OPEN => match accepted {
                    Ok((stream, _)) => open.push(self.serve(stream)),
                    // No file may be opened just now.
                    Err(_) => sleep(Duration::from_millis(100)).await,
                },
                Some(served) = open.next() => if let Some(result) = served {
                    return result;
                },
            }
        }
    }

    /// Answers one connection. What it brought, if that is the answer.
    async fn serve(&self, mut stream: TcpStream) -> Option<Result<Code, OauthError>> {
        let target = page::target(&mut stream).await?;
        let (page, result) = match target.split_once('?') {
            Some(("/", query)) => match self.returned(query) {
                Returned::Ours(Ok(code)) => (page::GIVEN, Some(Ok(code))),
                Returned::Ours(Err(error)) => (page::REFUSED, Some(Err(error))),
                Returned::Foreign(_) => (page::FOREIGN, None),
            },
            _ => (page::NOTHING, None),
        };
        page::show(stream, &page).await;
        result
    }

    /// Reads the parameters with which a browser arrived (RFC 6749 4.1.2).
    fn returned(&self, query: &str) -> Returned {
        let Ok(mut url) = Url::parse("http://127.0.0.1/") else { return Returned::Foreign("it can't be read") };
        url.set_query(Some(query));
        let all: Vec<_> = url.query_pairs().collect();
        let named =
            |name: &str| all.iter().filter(|(n, _)| n == name).map(|(_, value)| value.as_ref()).collect::<Vec<_>>();
        let (state, code, error, issuer) = (named("state"), named("code"), named("error"), named("iss"));
        if !named("code_challenge").is_empty() {
            return Returned::Foreign(
                "this is the link to open; paste the address at which the browser ended after it",
            );
        }
        let [state] = state[..] else {
            return Returned::Foreign("this is not the address at which the browser ended");
        };
        // Anybody's page can send a browser here; what nobody knows is the state.
        if !self.state.same_as(state.as_bytes()) {
            return Returned::Foreign("this address belongs to another attempt; use the link that was given last");
        }
        if self.taken.swap(true, Ordering::AcqRel) {
            return Returned::Foreign("this address was used already");
        }
        Returned::Ours(self.judge(&code, &error, &issuer, named("error_description").first().unwrap_or(&"")))
    }

    fn judge(&self, code: &[&str], error: &[&str], issuer: &[&str], said: &str) -> Result<Code, OauthError> {
        let host = self.provider.host();
        // Another provider's answer would carry its code to this one (RFC 9207 2.4).
        match issuer {
            [] if self.provider.about.tells_issuer => {
                return Err(OauthError::protocol(&host, "the browser came back without the provider's name"));
            }
            [] => {}
            [issuer] if self.provider.is_issuer(issuer) => {}
            _ => return Err(OauthError::protocol(&host, "the browser came back from another provider")),
        }
        match (code, error) {
            ([code], []) if !code.is_empty() => Ok(Code {
                code: Secret::new((*code).to_owned()),
                verifier: self.verifier.clone(),
                return_to: self.return_to.clone(),
            }),
            ([], [error]) => Err(Named::new(error, said, &[self.state.expose(), self.verifier.expose()]).at(&host)),
            _ => Err(OauthError::protocol(&host, "the browser came back without one code")),
        }
    }
}

/// 256 random bits in 43 letters that are good in a URL.
fn random() -> Result<Secret<String>, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(Secret::new(URL_SAFE_NO_PAD.encode(bytes)))
}

/// What the provider keeps of the verifier until the code is exchanged (RFC 7636 4.2).
fn challenge(verifier: &Secret<String>) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.expose()))
}

#[cfg(test)]
#[path = "login_tests.rs"]
mod tests;
