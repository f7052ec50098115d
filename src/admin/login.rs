//! Links by which a browser signs in to the dashboard: each opens once, for a moment, and gives no more than whoever made
//! it may do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jiff::Timestamp;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::rights::Need;
use super::rpc::{Rpc, Visitor, visitor};
use super::sealed::Sealed;
use access::{Grant, GrantScope, NewToken, Token, TokenError};
use base::{HumanDuration, Secret};

/// How long a link opens that says nothing else.
const USUAL: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Links that are open at once; the oldest gives way.
const MOST: usize = 32;
/// Wrong links within a minute, before the next one is told to wait.
const WRONG: u32 = 10;

/// Signing in to the dashboard.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait LoginApi {
    /// Makes a link that signs one browser in, once. It may do what the caller's token may, or less. Scope `read`.
    #[method(name = "login_link", param_kind = map, with_extensions)]
    async fn login_link(&self, wanted: WantedLink) -> Result<LoginLink, Failure>;
}

/// What a link shall be.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedLink {
    /// How long it opens, such as `10m`; at most a day, a minute if it is not said.
    #[serde(default)]
    pub lasts: Option<String>,
    /// The browser may look, and nothing more.
    #[serde(default)]
    pub only_look: bool,
}

/// A link that was just made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoginLink {
    /// On this machine.
    pub url: Sealed,
    /// From elsewhere, if `[admin] public_url` says how.
    pub public_url: Option<Sealed>,
    pub expires_at: Timestamp,
}

/// The open links of a daemon. They are kept in memory alone: one that was not used before a restart is made anew.
#[derive(Clone, Default)]
pub struct LoginLinks {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    open: HashMap<[u8; 32], Offer>,
    /// Since when wrong links are counted, and how many there were.
    wrong: Option<(Instant, u32)>,
}

struct Offer {
    maker: Visitor,
    scopes: Vec<GrantScope>,
    made: Instant,
    until: Instant,
}

/// What became of a link that somebody brought.
pub enum Redeemed {
    /// A session was made: what its cookie holds.
    Session(Token),
    /// It is used up, too old, or no link at all.
    Unknown,
    /// The same, and too many of these came.
    TooMany,
    Failed(Failure),
}

impl LoginLinks {
    fn offer(&self, token: &Token, offer: Offer) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.open.retain(|_, open| open.until > offer.made);
        if inner.open.len() >= MOST
            && let Some(oldest) = inner.open.iter().min_by_key(|(_, open)| open.made).map(|(key, _)| *key)
        {
            inner.open.remove(&oldest);
        }
        inner.open.insert(token.sha256(), offer);
    }

    /// Takes a link away: only one caller ever gets it. A right one is taken however many wrong ones came.
    fn take(&self, link: &str, now: Instant) -> Result<Offer, Redeemed> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let found = inner.open.remove(&Token::from_text(link).sha256());
        if let Some(offer) = found.filter(|offer| offer.until > now) {
            return Ok(offer);
        }
        let counted = inner.wrong.filter(|(since, _)| now.duration_since(*since) < Duration::from_secs(60));
        let (since, before) = counted.unwrap_or((now, 0));
        inner.wrong = Some((since, before.saturating_add(1)));
        Err(if before < WRONG { Redeemed::Unknown } else { Redeemed::TooMany })
    }
}

impl Rpc {
    /// Signs a browser in that brought a link, if whoever made it may still do what it gives.
    pub async fn redeem(&self, link: &str) -> Redeemed {
        let offer = match self.links().take(link, Instant::now()) {
            Ok(offer) => offer,
            Err(wrong) => return wrong,
        };
        let grant = match offer.maker.grant(Need::Look) {
            Ok(grant) => grant,
            Err(_) => return Redeemed::Unknown,
        };
        match self.begin_session(&grant, &offer.scopes).await {
            Ok(token) => Redeemed::Session(token),
            Err(failure) => Redeemed::Failed(failure),
        }
    }

    async fn begin_session(&self, grant: &Grant, scopes: &[GrantScope]) -> Result<Token, Failure> {
        let services = self.supervisor().services();
        let lasts = services.config.admin.browser_session.0;
        let end = services.clock.now().checked_add(lasts).map_err(|e| Failure::invalid(e.to_string()))?;
        let new = NewToken {
            label: "browser".to_owned(),
            tenant: grant.tenant.clone(),
            butler: grant.butler.clone(),
            scopes: scopes.iter().copied().collect(),
            ends: Default::default(),
            // Nobody stays longer than whoever let them in.
            expires_at: Some(grant.expires_at.map_or(end, |at| at.min(end))),
            browser: true,
        };
        Ok(services.operators.create(new).await?.0)
    }
}

#[async_trait]
impl LoginApiServer for Rpc {
    async fn login_link(&self, ext: &Extensions, wanted: WantedLink) -> Result<LoginLink, Failure> {
        let maker = visitor(ext)?.clone();
        let grant = maker.grant(Need::Look)?;
        let lasts = match &wanted.lasts {
            None => USUAL,
            Some(text) => HumanDuration::parse(text).map_err(|e| Failure::invalid(format!("lasts: {e}.")))?.0,
        };
        if lasts.is_zero() || lasts > LONGEST {
            return Err(Failure::invalid("A link opens for longer than nothing and at most a day."));
        }
        let scopes = match wanted.only_look {
            true => vec![GrantScope::Read],
            false => grant.scopes.iter().copied().filter(|scope| *scope != GrantScope::Ingest).collect(),
        };
        let token = Token::generate().map_err(|e| Failure::from(TokenError::Entropy(e)))?;
        token.hide();
        let made = Instant::now();
        self.links().offer(&token, Offer { maker, scopes, made, until: made + lasts });
        let services = self.supervisor().services();
        let at = |base: &str| Secret::new(format!("{}/login/{}", base.trim_end_matches('/'), token.expose())).into();
        let expires_at = services.clock.now().checked_add(lasts).map_err(|e| Failure::invalid(e.to_string()))?;
        let own = self.supervisor().status().await.admin;
        Ok(LoginLink {
            url: at(&format!("http://{}", reachable(&own))),
            public_url: services.config.admin.public_url.as_deref().map(at),
            expires_at,
        })
    }
}

/// An address under which this machine reaches one that listens on all of its own.
fn reachable(listening: &str) -> String {
    match listening.parse::<std::net::SocketAddr>() {
        Ok(addr) if addr.ip().is_unspecified() && addr.is_ipv4() => format!("127.0.0.1:{}", addr.port()),
        Ok(addr) if addr.ip().is_unspecified() => format!("[::1]:{}", addr.port()),
        _ => listening.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use access::{Edge, TokenBook};
    use http::HeaderMap;

    fn links() -> (LoginLinks, Token, Instant) {
        let (links, token, made) = (LoginLinks::default(), Token::generate().unwrap(), Instant::now());
        let edge = Edge::new(TokenBook::default(), &[], &[], 10);
        let maker = Visitor::new(edge, HeaderMap::new());
        links.offer(&token, Offer { maker, scopes: vec![GrantScope::Read], made, until: made + USUAL });
        (links, token, made)
    }

    #[test]
    fn a_link_opens_once_and_in_time() {
        let (all, token, made) = links();
        assert!(all.take(token.expose(), made + USUAL).is_err(), "too late");
        let (all, token, made) = links();
        assert!(all.take(token.expose(), made + USUAL - Duration::from_millis(1)).is_ok());
        assert!(matches!(all.take(token.expose(), made), Err(Redeemed::Unknown)), "twice");
    }

    #[test]
    fn guessing_is_slowed_down_and_the_right_link_still_opens() {
        let (all, token, made) = links();
        for _ in 0..WRONG {
            assert!(matches!(all.take("x", made), Err(Redeemed::Unknown)));
        }
        assert!(matches!(all.take("x", made), Err(Redeemed::TooMany)));
        assert!(all.take(token.expose(), made).is_ok());
        assert!(matches!(all.take("x", made + Duration::from_secs(61)), Err(Redeemed::Unknown)));
    }

    #[test]
    fn a_link_names_an_address_that_answers() {
        assert_eq!(reachable("0.0.0.0:40200"), "127.0.0.1:40200");
        assert_eq!(reachable("[::]:1"), "[::1]:1");
        assert_eq!(reachable("192.168.1.7:40200"), "192.168.1.7:40200");
    }
}
