//! Tokens: 256 random bits, known to the book only by their SHA-256.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::grant::{Grant, Holder};
use base::redact::{Passing, household};
use base::{Clock, Secret};

/// Before a browser's token in what is hashed.
const BROWSER: &str = "browser session\n";

/// A bearer token in clear. It exists only where it is handed out.
#[derive(Clone, Debug)]
pub struct Token(Secret<String>);

impl Token {
    /// A new random token.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = [0u8; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(Secret::new(BASE64.encode(bytes))))
    }

    /// A token as it came in.
    pub fn from_text(text: &str) -> Self {
        Self(Secret::new(text.to_owned()))
    }

    /// From now on hides it wherever text is stored or logged.
    pub fn hide(&self) {
        household().hide(&self.0);
    }

    /// The same, until the guard is dropped.
    pub fn hide_while(&self) -> Passing {
        household().hide_while(&self.0)
    }

    /// The text to hand to the holder.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// What the book and the database know it by.
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(self.0.expose().as_bytes()).into()
    }

    /// The same, of one that a browser brings as its session's cookie. Another hash, so that it opens nothing as a bearer's
    /// token, nor a bearer's as a cookie.
    pub fn browser_sha256(&self) -> [u8; 32] {
        self.marked_sha256(BROWSER)
    }

    /// What only somebody knows who has the token, for this use alone.
    pub(super) fn marked_sha256(&self, mark: &str) -> [u8; 32] {
        Sha256::new().chain_update(mark).chain_update(self.0.expose()).finalize().into()
    }
}

/// All live tokens of this process, by hash.
#[derive(Clone, Default)]
pub struct TokenBook {
    grants: Arc<RwLock<HashMap<[u8; 32], Entry>>>,
    clock: Clock,
}

struct Entry {
    grant: Arc<Grant>,
    /// The end of what lives for a while, whatever is done to the clock meanwhile.
    until: Option<Instant>,
}

impl TokenBook {
    pub fn new(clock: Clock) -> Self {
        Self { grants: Arc::default(), clock }
    }

    /// Lets the token with this hash in, with this grant.
    pub fn insert(&self, sha256: [u8; 32], grant: Grant) {
        self.write().insert(sha256, Entry { grant: Arc::new(grant), until: None });
    }

    /// As [`TokenBook::insert`], for no longer than `life`.
    pub fn insert_for(&self, life: Duration, sha256: [u8; 32], grant: Grant) {
        let until = Instant::now().checked_add(life);
        self.write().insert(sha256, Entry { grant: Arc::new(grant), until });
    }

    /// From now on the token is unknown.
    pub fn remove(&self, sha256: &[u8; 32]) {
        self.write().remove(sha256);
    }

    /// The grant of a token, unless it is unknown or expired.
    pub fn find(&self, text: &str) -> Option<Arc<Grant>> {
        self.find_hashed(text, Sha256::digest(text.as_bytes()).into())
    }

    /// The grant of a browser's session, unless it is unknown or expired.
    pub fn find_browser(&self, token: &Token) -> Option<Arc<Grant>> {
        self.find_hashed(token.expose(), token.browser_sha256())
    }

    fn find_hashed(&self, text: &str, hash: [u8; 32]) -> Option<Arc<Grant>> {
        let grants = self.grants.read().unwrap_or_else(|e| e.into_inner());
        // The map compares hashes, whose timing tells nothing of the token; the last comparison is constant in time.
        let (key, Entry { grant, until }) = grants.get_key_value(&hash)?;
        let expired = until.is_some_and(|until| until <= Instant::now())
            || grant.expires_at.is_some_and(|at| at <= self.clock.now());
        if !bool::from(key.ct_eq(&hash)) || expired {
            return None;
        }
        // The book knows an operator's token by its hash alone, so this is the first chance to know it in clear. That
        // of a session was hidden when it was made.
        if matches!(grant.holder, Holder::Operator { .. }) {
            household().hide_bytes(text.as_bytes());
        }
        Some(grant.clone())
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<[u8; 32], Entry>> {
        self.grants.write().unwrap_or_else(|e| e.into_inner())
    }
}
