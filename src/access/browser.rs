//! A browser at the door: the cookie of its session, the forms that it sends, and the address that it reached us under.
//!
//! A session of a browser is a token like others, with a grant, an end and a row; only the way in differs. Its cookie goes
//! to this host alone (`SameSite=Strict`, no script sees it), and a form that changes something must bring a second proof
//! that only a page of this very session holds.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use http::HeaderMap;
use http::header::{COOKIE, HOST};
use subtle::ConstantTimeEq;

use super::grant::Grant;
use super::token::{Token, TokenBook};

/// Sessions of browsers that one token may have let in at a time; one more ends the oldest. Whoever lost a token so can't
/// fill the table, and a phone that signs in anew each day leaves no trail of open sessions.
pub(super) const MOST_BROWSERS: usize = 20;

/// Before a session's token in what its forms bring.
const FORM: &str = "form of a browser session\n";

/// Who sent a request, as the connection says; in the request's extensions.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// Addresses that begin alike, such as `10.0.0.0/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    /// Reads `192.168.1.7`, `10.0.0.0/8` or `fd00::/8`.
    ///
    /// ```
    /// use access::Network;
    /// let lan = Network::parse("10.0.0.0/8").unwrap();
    /// assert!(lan.contains("10.7.7.7".parse().unwrap()) && !lan.contains("11.0.0.1".parse().unwrap()));
    /// assert_eq!(Network::parse("10.0.0.0/33"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Some(most), |bits| bits.parse().ok().filter(|bits| *bits <= most))?;
        Some(Self { address, bits })
    }

    /// Whether an address is one of them. An IPv4 address in IPv6's clothes is the IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address.to_canonical(), address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let shift = 32 - self.bits.min(32);
                u64::from(own.to_bits()) >> shift == u64::from(other.to_bits()) >> shift
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let shift = 128 - self.bits;
                shift == 128 || own.to_bits() >> shift == other.to_bits() >> shift
            }
            _ => false,
        }
    }
}

/// Under which address a page was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageAddress {
    /// It came over TLS, as a proxy says that is trusted.
    pub secure: bool,
    /// Host and port, as the browser shows them.
    pub authority: String,
}

impl PageAddress {
    pub(super) fn of(headers: &HeaderMap, secure: bool) -> Self {
        let authority = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        Self { secure, authority: authority.trim().to_ascii_lowercase() }
    }

    /// What the browser calls the origin of these pages.
    pub fn origin(&self) -> String {
        format!("{}://{}", if self.secure { "https" } else { "http" }, self.authority)
    }

    /// The name of the session's cookie. Cookies know no ports, so the daemon's stands in it: several households of one
    /// machine keep theirs apart.
    pub fn cookie_name(&self, port: u16) -> String {
        // A browser takes such a name over TLS only, for this very host and for all its paths.
        format!("{}butlerd_{port}", if self.secure { "__Host-" } else { "" })
    }
}

/// A browser that has signed in.
#[derive(Clone)]
pub struct BrowserSession {
    token: Token,
    pub grant: Arc<Grant>,
}

impl BrowserSession {
    /// The session whose cookie the request brings. One that comes twice counts for nothing: somebody may have planted
    /// the other.
    pub fn of(book: &TokenBook, headers: &HeaderMap, cookie: &str) -> Option<Self> {
        let pairs = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut named = pairs
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(name, _)| *name == cookie);
        let (_, text) = named.next()?;
        if named.next().is_some() {
            return None;
        }
        let token = Token::from_text(text);
        let grant = book.find_browser(&token)?;
        Some(Self { token, grant })
    }

    /// The grant as it is now: a session may have been ended meanwhile.
    pub fn renewed(&self, book: &TokenBook) -> Option<Arc<Grant>> {
        book.find_browser(&self.token)
    }

    /// What forms of this session's pages bring, and no other page can know.
    pub fn form_token(&self) -> String {
        BASE64.encode(self.token.marked_sha256(FORM))
    }

    /// Whether a form brought that.
    pub fn sent_form(&self, given: &str) -> bool {
        self.form_token().as_bytes().ct_eq(given.as_bytes()).into()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn headers(cookies: &[&str]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for cookie in cookies {
            map.append(COOKIE, cookie.parse().unwrap());
        }
        map
    }

    #[test]
    fn a_cookie_opens_its_session_and_no_other_door() {
        let (book, token) = (TokenBook::default(), Token::generate().unwrap());
        book.insert_for(Duration::from_secs(60), token.browser_sha256(), Grant::owner("phone"));
        let text = token.expose();
        let found = |cookies: &[&str]| BrowserSession::of(&book, &headers(cookies), "butlerd_1");
        let own = format!("a=b; butlerd_1={text}; c=d");
        let session = found(&[&own]).unwrap();
        assert!(session.sent_form(&session.form_token()) && session.renewed(&book).is_some());
        for wrong in ["", "x", text, &session.form_token().to_lowercase()] {
            assert!(!session.sent_form(wrong));
        }
        assert!(book.find(text).is_none(), "it is no bearer's token");
        for cookies in [&[][..], &["butlerd_1="], &["butlerd_2=x"], &[&own, &own], &["butlerd_1"]] {
            assert!(found(cookies).is_none(), "{cookies:?}");
        }
        book.remove(&token.browser_sha256());
        assert!(session.renewed(&book).is_none());
        // And a bearer's is no cookie.
        book.insert(token.sha256(), Grant::owner("laptop"));
        assert!(found(&[&own]).is_none());
    }

    #[test]
    fn networks_hold_what_begins_alike() {
        let holds = |network: &str, address: &str| Network::parse(network).unwrap().contains(address.parse().unwrap());
        assert!(holds("127.0.0.1", "127.0.0.1") && holds("127.0.0.1", "::ffff:127.0.0.1"));
        assert!(holds("fd00::/8", "fd12::1") && !holds("fd00::/8", "fe80::1") && holds("::/0", "::1"));
        assert!(holds("0.0.0.0/0", "8.8.8.8") && !holds("0.0.0.0/0", "::1") && !holds("10.0.0.1", "10.0.0.2"));
        for wrong in ["", "home", "10.0.0.0/", "10.0.0.0/33", "::/129", "10.0.0.0/-1"] {
            assert_eq!(Network::parse(wrong), None, "{wrong}");
        }
    }
}
