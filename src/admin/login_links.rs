//! The links that are open: each is taken once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::failure::Failure;
use super::visitor::Visitor;
use access::{GrantScope, Token};
use base::redact::Passing;

/// Links that are open at once; the oldest gives way.
const MOST: usize = 32;
/// Wrong links within a minute, before the next one is told to wait.
const WRONG: u32 = 10;

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

/// What a link gives.
pub(super) struct Offer {
    pub maker: Visitor,
    pub scopes: Vec<GrantScope>,
    pub made: Instant,
    pub until: Instant,
    /// As long as it opens, it stands in no log.
    pub _hidden: Passing,
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
    /// Opens a link.
    pub(super) fn offer(&self, token: &Token, offer: Offer) {
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
    pub(super) fn take(&self, link: &str, now: Instant) -> Result<Offer, Redeemed> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use access::{Edge, TokenBook};
    use http::HeaderMap;

    const USUAL: Duration = Duration::from_secs(60);

    fn links() -> (LoginLinks, Token, Instant) {
        let (links, token, made) = (LoginLinks::default(), Token::generate().unwrap(), Instant::now());
        let edge = Edge::new(TokenBook::default(), &[], &[], 10);
        let maker = Visitor::bearer(edge, HeaderMap::new());
        links.offer(
            &token,
            Offer { maker, scopes: vec![GrantScope::Read], made, until: made + USUAL, _hidden: token.hide_while() },
        );
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
}
