//! Pairing: the owner makes a code for a person, the person shows it from an account of theirs, and from then on that
//! account is theirs. Nobody has to find out numbers of accounts, or to spell them.

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use super::handle::Inbox;
use super::sql::pairings as sql;
use base::text::plain_identity;
use base::{Secret, TenantId};
use store::{Lease, StoreError};

/// How long a code is good.
const LASTS: SignedDuration = SignedDuration::from_hours(1);
/// Among a connector's capabilities: the address at which a code is shown, without the code.
pub const PAIRS_AT: &str = "pairs_at";
/// Crockford's base 32: no letter reads as another one's digit.
const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// 60 bits: nobody guesses one within the hour.
const LENGTH: usize = 12;

/// A code for a person.
#[derive(Clone, Debug)]
pub struct Invitation {
    pub code: Secret<String>,
    /// Opened by the person, it shows the code.
    pub link: Secret<String>,
    pub until: Timestamp,
}

/// Why there is no code.
#[derive(Debug, thiserror::Error)]
pub enum PairingError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("nothing takes codes in on {0}")]
    NoWay(String),
}

/// What became of a code that an account showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Paired {
    /// The account is this person's: from now on, or since it showed the code before. `pairing`: which code it was, for
    /// whoever tells of it once.
    Now { name: String, pairing: String },
    /// The account is somebody else's already, and the code stays good.
    Taken(String),
    /// It was made too long ago.
    Late,
    /// There is no such code, or another account showed it.
    Unknown,
}

/// A code as it is read to somebody.
fn written(bytes: [u8; LENGTH]) -> String {
    let letters: String = bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect();
    format!("{}-{}", &letters[..LENGTH / 2], &letters[LENGTH / 2..])
}

/// The hash of a code as somebody typed it; `None`: it can't be one.
fn hash(typed: &str) -> Option<Vec<u8>> {
    let letter = |c: char| match c.to_ascii_uppercase() {
        'O' => '0',
        'I' | 'L' => '1',
        c => c,
    };
    let typed = typed.chars().filter(|c| *c != '-' && !c.is_whitespace()).take(LENGTH + 1).map(letter);
    let code: String = typed.collect();
    let fits = code.len() == LENGTH && code.bytes().all(|byte| LETTERS.contains(&byte));
    fits.then(|| Sha256::digest(code.as_bytes()).to_vec())
}

impl Inbox {
    async fn pairings(&self, tenant: &TenantId) -> Result<Lease, StoreError> {
        let up = self.up().ok_or_else(|| StoreError::Unexpected("the switchboard is not up".to_owned()))?;
        up.store.tenant(tenant).await
    }

    /// Makes a code for a person, which one account on the channel can show. Only this answer has it.
    pub async fn make_pairing(
        &self,
        tenant: &TenantId,
        channel: &str,
        person: &str,
    ) -> Result<Invitation, PairingError> {
        let mut lease = self.pairings(tenant).await?;
        let at = sql::shown_at(&mut lease, channel, PAIRS_AT).await?;
        let at = at.ok_or_else(|| PairingError::NoWay(channel.to_owned()))?;
        let mut bytes = [0; LENGTH];
        getrandom::fill(&mut bytes).map_err(|e| StoreError::Unexpected(format!("no random bytes: {e}")))?;
        let (code, until) = (written(bytes), self.clock().now() + LASTS);
        sql::make(&mut lease, &hash(&code).unwrap_or_default(), (channel, person), until).await?;
        Ok(Invitation { link: Secret::new(format!("{at}{code}")), code: Secret::new(code), until })
    }

    /// An account, which its channel has proven, shows a code.
    pub async fn pair(
        &self,
        tenant: &TenantId,
        channel: &str,
        identity: &str,
        code: &str,
    ) -> Result<Paired, StoreError> {
        let Some(sha256) = hash(code) else { return Ok(Paired::Unknown) };
        let identity = plain_identity(identity);
        let used = sql::show(&mut self.pairings(tenant).await?, &sha256, channel, &identity).await?;
        Ok(match (used.ended.as_str(), used.name) {
            ("paired", Some(name)) => Paired::Now { name, pairing: base::text::hex(&sha256[..16]) },
            ("taken", Some(name)) => Paired::Taken(name),
            ("late", _) => Paired::Late,
            _ => Paired::Unknown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_however_it_is_typed() {
        let code = written([0, 1, 31, 32, 255, 7, 8, 9, 10, 11, 12, 13]);
        assert_eq!(code, "01Z0Z7-89ABCD");
        let good = hash(&code).unwrap();
        for typed in ["01z0z789abcd", "O1Z0Z7-89ABCD", " oiz0z7 89abcd ", "0LZ0Z789ABCD"] {
            assert_eq!(hash(typed).as_ref(), Some(&good), "{typed}");
        }
        for typed in ["", "01Z0Z7", "01Z0Z7-89ABCDE", "01Z0Z7-89ABCU", "01Z0Z7-89ABC\u{e9}"] {
            assert!(hash(typed).is_none(), "{typed}");
        }
    }
}
