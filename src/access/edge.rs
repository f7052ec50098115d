//! The checks at the door, in order: Host, Origin, size, token. None of them reads the body.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, ORIGIN};
use http::{HeaderMap, StatusCode, Uri};

use super::browser::{BrowserSession, Network, PageAddress};
use super::grant::Grant;
use super::token::TokenBook;

/// Why a request was turned away: a status and a sentence for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: StatusCode,
    pub code: &'static str,
    pub message: &'static str,
}

impl Refusal {
    pub const fn new(status: StatusCode, code: &'static str, message: &'static str) -> Self {
        Self { status, code, message }
    }
}

const BAD_HOST: Refusal = Refusal::new(
    StatusCode::FORBIDDEN,
    "bad_host",
    "This Host is not served here. Use a loopback address, or list the name under [admin] allowed_hosts.",
);
const BAD_ORIGIN: Refusal = Refusal::new(
    StatusCode::FORBIDDEN,
    "bad_origin",
    "Requests from this Origin are not accepted. List it under [admin] allowed_origins if it is yours.",
);
const BAD_PAGE_ORIGIN: Refusal = Refusal::new(
    StatusCode::FORBIDDEN,
    "bad_origin",
    "Only the dashboard's own pages may do this. Open it again with: butlerd open",
);
const TOO_LARGE: Refusal =
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", "The request is larger than this server accepts.");
const NO_TOKEN: Refusal = Refusal::new(
    StatusCode::UNAUTHORIZED,
    "unauthorized",
    "A valid token is needed: Authorization: Bearer TOKEN. Make one with: butlerd token new",
);

/// One door: which names and origins it answers to, and how much it takes.
#[derive(Clone)]
pub struct Edge {
    hosts: Arc<[String]>,
    origins: Arc<[String]>,
    /// The name under which the world reaches what needs no token.
    public: Option<Arc<str>>,
    /// Who is believed about the way on which a request came.
    proxies: Arc<[Network]>,
    max_body: u64,
    book: TokenBook,
}

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// `name:port` or `name`, lower-cased and without the port; `None` when it is malformed.
fn host_name(authority: &str) -> Option<String> {
    let text = authority.trim().to_ascii_lowercase();
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (inner, after) = rest.split_once(']')?;
            (format!("[{inner}]"), after.strip_prefix(':').or(after.is_empty().then_some("")))
        }
        None => match text.split_once(':') {
            Some((name, port)) => (name.to_owned(), Some(port)),
            None => (text.clone(), Some("")),
        },
    };
    let port = port?;
    let port_ok = port.is_empty() && !text.ends_with(':') || port.parse::<u16>().is_ok_and(|p| p > 0);
    let name_ok = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._[]:".contains(&b));
    (port_ok && name_ok).then_some(name)
}

impl Edge {
    /// A door that answers to loopback names, and to `hosts` and `origins` besides.
    pub fn new(book: TokenBook, hosts: &[String], origins: &[String], max_body: u64) -> Self {
        let lower = |list: &[String]| list.iter().map(|s| s.trim_end_matches('/').to_ascii_lowercase()).collect();
        Self { hosts: lower(hosts), origins: lower(origins), public: None, proxies: Arc::default(), max_body, book }
    }

    /// The same, where requests that bring a proof of their own may also come under the host of this URL.
    pub fn with_public_url(mut self, url: Option<&str>) -> Self {
        let authority = url.and_then(|url| url.parse::<Uri>().ok()?.authority().map(ToString::to_string));
        self.public = authority.and_then(|authority| host_name(&authority)).map(Into::into);
        self
    }

    /// The same, behind these proxies.
    pub fn with_proxies(mut self, networks: &[String]) -> Self {
        self.proxies = networks.iter().filter_map(|network| Network::parse(network)).collect();
        self
    }

    /// The most bytes of a body.
    pub fn max_body(&self) -> u64 {
        self.max_body
    }

    /// Host, Origin and declared size.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        self.check_all(uri, headers, None)
    }

    /// As [`Edge::check`], of a request that brings a proof of its own: the world may send it.
    pub fn check_open(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        self.check_all(uri, headers, self.public.as_deref())
    }

    /// Host, Origin and declared size of a request for a page. The world's name for this household counts where a proxy
    /// brings the request, and pages take requests of no page but their own.
    pub fn check_page(&self, uri: &Uri, headers: &HeaderMap, peer: Option<IpAddr>) -> Result<PageAddress, Refusal> {
        let proxied = peer.is_some_and(|peer| self.proxies.iter().any(|network| network.contains(peer)));
        self.check_host(uri, headers, self.public.as_deref().filter(|_| proxied))?;
        let mut protocols = headers.get_all("x-forwarded-proto").iter();
        let https = protocols.next().is_some_and(|protocol| protocol.as_bytes().eq_ignore_ascii_case(b"https"));
        let address = PageAddress::of(headers, proxied && https && protocols.next().is_none());
        let own = address.origin();
        let foreign = |origin: &http::HeaderValue| !origin.as_bytes().eq_ignore_ascii_case(own.as_bytes());
        let site = headers.get("sec-fetch-site").map(http::HeaderValue::as_bytes);
        let crossed = matches!(site, Some(b"cross-site" | b"same-site")) && headers.contains_key(ORIGIN);
        if headers.get_all(ORIGIN).iter().any(foreign) || crossed {
            return Err(BAD_PAGE_ORIGIN);
        }
        self.check_size(headers).map(|()| address)
    }

    /// The session of the browser that sends this.
    pub fn browser(&self, headers: &HeaderMap, cookie: &str) -> Option<BrowserSession> {
        BrowserSession::of(&self.book, headers, cookie)
    }

    /// The grant of a browser's session as it is now.
    pub fn renewed(&self, session: &BrowserSession) -> Result<Arc<Grant>, Refusal> {
        session.renewed(&self.book).ok_or(NO_TOKEN)
    }

    fn check_all(&self, uri: &Uri, headers: &HeaderMap, public: Option<&str>) -> Result<(), Refusal> {
        self.check_host(uri, headers, public)?;
        self.check_origin(headers)?;
        self.check_size(headers)
    }

    fn check_size(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let declared = headers.get(CONTENT_LENGTH).map(|v| v.to_str().ok().and_then(|s| s.parse::<u64>().ok()));
        match declared {
            Some(Some(n)) if n <= self.max_body => Ok(()),
            None => Ok(()),
            Some(_) => Err(TOO_LARGE),
        }
    }

    fn check_host(&self, uri: &Uri, headers: &HeaderMap, public: Option<&str>) -> Result<(), Refusal> {
        let mut given = headers.get_all(HOST).iter();
        let host = given.next().ok_or(BAD_HOST)?;
        if given.next().is_some() {
            return Err(BAD_HOST);
        }
        let name = host.to_str().ok().and_then(host_name).ok_or(BAD_HOST)?;
        // An absolute request target must not say another name than the header.
        if let Some(authority) = uri.authority()
            && host_name(authority.as_str()).as_ref() != Some(&name)
        {
            return Err(BAD_HOST);
        }
        let own = LOOPBACK.contains(&name.as_str()) || self.hosts.contains(&name) || public == Some(&name);
        if own { Ok(()) } else { Err(BAD_HOST) }
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let mut given = headers.get_all(ORIGIN).iter();
        let Some(origin) = given.next() else { return Ok(()) };
        if given.next().is_some() {
            return Err(BAD_ORIGIN);
        }
        let text = origin.to_str().map_err(|_| BAD_ORIGIN)?.to_ascii_lowercase();
        // A page served from this machine's loopback counts as ours only when it is configured.
        if self.origins.contains(&text) { Ok(()) } else { Err(BAD_ORIGIN) }
    }

    /// The grant of the request's bearer token.
    pub fn authenticate(&self, headers: &HeaderMap) -> Result<Arc<Grant>, Refusal> {
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let value = given.next().ok_or(NO_TOKEN)?;
        if given.next().is_some() {
            return Err(NO_TOKEN);
        }
        let (scheme, token) = value.to_str().ok().and_then(|v| v.split_once(' ')).ok_or(NO_TOKEN)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(NO_TOKEN);
        }
        self.grant_of(token.trim())
    }

    /// The grant of a token that came in some other way than as the bearer's.
    pub fn grant_of(&self, token: &str) -> Result<Arc<Grant>, Refusal> {
        self.book.find(token).ok_or(NO_TOKEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in list {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    fn edge() -> Edge {
        let hosts = ["butler.lan".to_owned()];
        Edge::new(TokenBook::default(), &hosts, &["https://butler.lan".to_owned()], 100)
    }

    #[test]
    fn loopback_and_configured_hosts_pass() {
        for host in ["localhost", "LOCALHOST:40100", "127.0.0.1:1", "[::1]:40100", "butler.lan", "Butler.LAN:80"] {
            assert_eq!(edge().check(&"/mcp".parse().unwrap(), &headers(&[("host", host)])), Ok(()), "{host}");
        }
    }

    #[test]
    fn the_target_may_not_contradict_the_header() {
        let h = headers(&[("host", "localhost:1")]);
        assert_eq!(edge().check(&"http://evil.example/mcp".parse().unwrap(), &h), Err(BAD_HOST));
        assert_eq!(edge().check(&"http://localhost:1/mcp".parse().unwrap(), &h), Ok(()));
    }

    #[test]
    fn pages_take_what_their_own_origin_sends() {
        let edge = edge().with_public_url(Some("https://home.example")).with_proxies(&["10.0.0.0/8".to_owned()]);
        let page = |list: &[(&'static str, &str)], peer: &str| {
            edge.check_page(&"/".parse().unwrap(), &headers(list), Some(peer.parse().unwrap())).map(|a| a.origin())
        };
        let local = ("host", "localhost:40200");
        assert_eq!(page(&[local], "127.0.0.1"), Ok("http://localhost:40200".to_owned()));
        assert!(page(&[local, ("origin", "http://localhost:40200")], "127.0.0.1").is_ok());
        for origin in ["http://localhost:1", "https://localhost:40200", "null", "https://butler.lan", ""] {
            assert_eq!(page(&[local, ("origin", origin)], "127.0.0.1"), Err(BAD_PAGE_ORIGIN), "{origin}");
        }
        let own = ("origin", "http://localhost:40200");
        assert_eq!(page(&[local, own, ("sec-fetch-site", "cross-site")], "127.0.0.1"), Err(BAD_PAGE_ORIGIN));
        assert_eq!(page(&[local, own, own], "127.0.0.1"), Ok("http://localhost:40200".to_owned()));
        // The world's name counts through the proxy alone, and so does what it says about TLS.
        let (public, tls) = (("host", "home.example"), ("x-forwarded-proto", "https"));
        assert_eq!(page(&[public, tls], "10.1.2.3"), Ok("https://home.example".to_owned()));
        assert_eq!(page(&[public, tls], "192.168.1.1"), Err(BAD_HOST));
        assert_eq!(page(&[local, tls], "192.168.1.1"), Ok("http://localhost:40200".to_owned()));
        assert_eq!(page(&[public, tls, tls], "10.1.2.3"), Ok("http://home.example".to_owned()));
        assert_eq!(page(&[("host", "evil.example"), tls], "10.1.2.3"), Err(BAD_HOST));
    }

    #[test]
    fn sizes_are_checked_before_the_body() {
        let at =
            |n: &str| edge().check(&"/".parse().unwrap(), &headers(&[("host", "localhost"), ("content-length", n)]));
        assert_eq!(at("100"), Ok(()));
        for bad in ["101", "-1", "x", "99999999999999999999"] {
            assert_eq!(at(bad), Err(TOO_LARGE), "{bad}");
        }
    }
}
