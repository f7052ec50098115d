//! Where an HTTP tool's requests may go: to hosts that its file names, and there to no address inside of the machine or its
//! networks, unless the file names that, too. A name is looked up once for each connection, and the address that was
//! judged is the one that is connected to: a name that means another address the next moment gains nothing.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Finds a name's addresses. Tests put their own in its place.
pub(super) type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// The system's.
pub(super) fn system_lookup() -> Lookup {
    Arc::new(|name| {
        Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|found| found.ip()).collect()) })
    })
}

/// Why no request goes there: for the model and the tool's author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAllowed(String);

/// What a tool's file names.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    /// Host and port; without one the scheme's own.
    hosts: Vec<(String, Option<u16>)>,
    /// Addresses inside that are meant: a network and the bits that count.
    networks: Vec<(IpAddr, u8)>,
}

impl Guard {
    /// `url`: where its requests begin. `allow`: hosts (`api.example.org`) and addresses or networks
    /// (`192.168.1.10`, `10.0.0.0/8`) that are allowed besides.
    ///
    /// # Errors
    /// An entry is none of these.
    pub fn new(url: &Url, allow: &[String]) -> Result<Self, NotAllowed> {
        let mut guard = Self { hosts: Vec::new(), networks: Vec::new() };
        if let Some(host) = url.host_str() {
            guard.hosts.push((host.to_ascii_lowercase(), url.port()));
        }
        for entry in allow {
            let entry = entry.trim().to_ascii_lowercase();
            if let Some(network) = network(&entry) {
                guard.networks.push(network);
                guard.hosts.push((bracketed(network.0), None));
                continue;
            }
            if let Ok(at) = entry.parse::<SocketAddr>() {
                guard.networks.push((plain(at.ip()), if at.is_ipv4() { 32 } else { 128 }));
            }
            // As the URL's own parser reads it, so that both mean the same host.
            let read = Url::parse(&format!("https://{entry}/")).ok();
            let plain = read.filter(|url| url.path() == "/" && url.username().is_empty() && url.query().is_none());
            let host = plain.as_ref().and_then(Url::host_str).filter(|_| !entry.contains(['/', '@', '?', '#', '*']));
            // One that begins with a dot would look like all hosts below it.
            let Some(host) = host.filter(|host| !host.starts_with('.')) else {
                return Err(NotAllowed(format!(
                    "`{entry}` is no host, address or network; each host is named in full"
                )));
            };
            guard.hosts.push((host.to_owned(), plain.as_ref().and_then(Url::port)));
        }
        Ok(guard)
    }

    /// Whether a request may go there. `from`: what redirected to it.
    ///
    /// # Errors
    /// Why not, for the model and the tool's author.
    pub fn admits(&self, url: &Url, from: Option<&Url>) -> Result<(), NotAllowed> {
        if !matches!(url.scheme(), "https" | "http") {
            return Err(NotAllowed(format!("{} is neither https nor http", url.scheme())));
        }
        if from.is_some_and(|from| from.scheme() == "https" && url.scheme() != "https") {
            return Err(NotAllowed("a redirect leads from https to http".to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(NotAllowed("the address has a user name in it".to_owned()));
        }
        let host = url.host_str().unwrap_or_default();
        let named = |(name, port): &(String, Option<u16>)| name == host && *port == url.port();
        if host.is_empty() || !self.hosts.iter().any(named) {
            let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
            return Err(NotAllowed(format!("{host}{port} is not among its allow_hosts")));
        }
        match literal(url) {
            Some(ip) if !self.may_connect(ip) => Err(inside(host)),
            _ => Ok(()),
        }
    }

    /// Whether it names an address inside: what answers there is the household's own.
    pub fn reaches_inside(&self) -> bool {
        self.networks.iter().any(|(network, _)| !is_public(*network))
    }

    /// Whether a connection may be made to this address.
    pub fn may_connect(&self, ip: IpAddr) -> bool {
        let ip = plain(ip);
        is_public(ip) || self.networks.iter().any(|(network, bits)| contains(*network, *bits, ip))
    }
}

/// The host as an address, if it is one.
fn literal(url: &Url) -> Option<IpAddr> {
    url.host_str()?.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn inside(host: &str) -> NotAllowed {
    NotAllowed(format!(
        "{host} is an address inside of this machine or its networks; allow_hosts has to name the address"
    ))
}

fn bracketed(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// An address or a network, with the bits that count.
fn network(entry: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = entry.split_once('/').map_or((entry, None), |(address, bits)| (address, Some(bits)));
    let ip: IpAddr = address.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(most), |bits| bits.parse().ok().filter(|bits| *bits <= most))?;
    Some((plain(ip), bits))
}

fn contains(network: IpAddr, bits: u8, ip: IpAddr) -> bool {
    let same = |a: u128, b: u128, width: u8| bits == 0 || (a ^ b) >> (width - bits.min(width)) == 0;
    match (network, ip) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(u32::from(a).into(), u32::from(b).into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.into(), b.into(), 128),
        _ => false,
    }
}

/// An IPv4 address in the clothes of an IPv6 one as what it is.
fn plain(ip: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = ip else { return ip };
    let octets = v6.octets();
    let v4 = |at: usize| Ipv4Addr::new(octets[at], octets[at + 1], octets[at + 2], octets[at + 3]).into();
    match v6.segments() {
        // Mapped, translated (RFC 6052), 6to4.
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => v4(12),
        [0x2002, ..] => v4(2),
        _ => ip,
    }
}

/// Whether an address is one of the internet at large (IANA's special-purpose registries).
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, _] = ip.octets();
            !(a == 0
                || ip.is_private()
                || ip.is_loopback()
                || ip.is_link_local()
                || a == 100 && (64..128).contains(&b)
                || a == 192 && b == 0 && (c == 0 || c == 2)
                || a == 192 && b == 88 && c == 99
                || a == 198 && (b == 18 || b == 19)
                || a == 198 && b == 51 && c == 100
                || a == 203 && b == 0 && c == 113
                || a >= 224)
        }
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    match ip.segments() {
        // Teredo and what is reserved beside it; documentation.
        [0x2001, second, ..] => second >= 0x200 && second != 0xdb8,
        [0x3fff, second, ..] => second >= 0x1000,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// Looks names up for a client's connections, and leaves out what none may be made to.
pub(super) struct GuardedResolver {
    pub guard: Arc<Guard>,
    pub lookup: Lookup,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (guard, lookup) = (self.guard.clone(), self.lookup.clone());
        Box::pin(async move {
            let name = name.as_str().to_owned();
            let found = lookup(name.clone()).await?;
            // Judged in the form in which it will be connected to.
            let allowed: Vec<SocketAddr> =
                found.into_iter().filter(|ip| guard.may_connect(*ip)).map(|ip| SocketAddr::new(ip, 0)).collect();
            if allowed.is_empty() {
                return Err(inside(&name).into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(url: &str, allow: &[&str]) -> Guard {
        let allow: Vec<String> = allow.iter().map(|entry| (*entry).to_owned()).collect();
        Guard::new(&Url::parse(url).unwrap(), &allow).unwrap()
    }

    #[test]
    fn nothing_inside_is_public() {
        for ip in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:0:7f00:1::",
            "2001:10::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a00:1::",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!guard("https://example.org/", &[]).may_connect(ip.parse().unwrap()), "{ip}");
        }
        for ip in [
            "1.1.1.1",
            "93.184.216.34",
            "100.128.0.1",
            "172.32.0.1",
            "2606:4700::1111",
            "2002:808:808::",
            "64:ff9b::808:808",
        ] {
            assert!(guard("https://example.org/", &[]).may_connect(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn only_named_hosts_are_asked() {
        let of = guard("https://api.example.org/v1", &["cdn.example.org", "files.example.org:8443"]);
        let admits = |url: &str| of.admits(&Url::parse(url).unwrap(), None);
        for url in [
            "https://api.example.org/x",
            "https://API.example.org:443/",
            "https://cdn.example.org/",
            "https://files.example.org:8443/",
        ] {
            assert_eq!(admits(url), Ok(()), "{url}");
        }
        for url in [
            "https://example.org/",
            "https://evil.example.net/",
            "https://api.example.org.evil.net/",
            "https://api.example.org:8443/",
            "https://files.example.org/",
            "https://api.example.org@evil.net/",
            "https://user@api.example.org/",
            "https://user:pw@api.example.org/",
            "ftp://api.example.org/",
            "file:///etc/passwd",
            "gopher://api.example.org/",
            "https://127.0.0.1/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://0177.0.0.1/",
            "https://[::1]/",
            "https://[::ffff:127.0.0.1]/",
            "https://localhost/",
            "https://169.254.169.254/latest/meta-data/",
            "https://api.example.org%2eevil.net/",
        ] {
            assert!(Url::parse(url).is_err() || admits(url).is_err(), "{url}");
        }
        let from = Url::parse("https://api.example.org/").unwrap();
        assert!(
            of.admits(&Url::parse("http://api.example.org/").unwrap(), Some(&from)).is_err(),
            "no step down from https"
        );
    }

    #[test]
    fn an_address_inside_is_reached_only_where_it_is_named() {
        for url in ["http://127.0.0.1:9/", "http://localhost:9/", "http://[::1]:9/", "http://10.1.2.3/"] {
            let url = Url::parse(url).unwrap();
            let of = Guard::new(&url, &[]).unwrap();
            let refused = of.admits(&url, None).is_err() || !of.may_connect("127.0.0.1".parse().unwrap());
            assert!(refused, "{url}");
        }
        let named = guard("http://home.local:8123/", &["192.168.1.0/24", "fd00::/8"]);
        let may = |ip: &str| named.may_connect(ip.parse().unwrap());
        let at = guard("http://127.0.0.1:9/", &["127.0.0.1:9"]);
        assert_eq!(at.admits(&Url::parse("http://127.0.0.1:9/x").unwrap(), None), Ok(()));
        assert!(at.admits(&Url::parse("http://127.0.0.1:10/").unwrap(), None).is_err());
        assert!(may("192.168.1.7") && may("::ffff:192.168.1.7") && may("fd00::7"));
        assert!(!may("192.168.2.7") && !may("127.0.0.1") && !may("fe80::1"));
        for wrong in ["", "a b", "https://x.org", "x.org/path", "user@x.org", "10.0.0.0/33"] {
            assert!(Guard::new(&Url::parse("https://x.org").unwrap(), &[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_name_that_turns_inward_reaches_nothing() {
        let addresses =
            ["93.184.216.34", "127.0.0.1", "::1", "169.254.169.254"].map(|ip| ip.parse::<IpAddr>().unwrap());
        let found = |several: Vec<IpAddr>| {
            let lookup: Lookup = Arc::new(move |_| {
                let several = several.clone();
                Box::pin(async move { Ok(several) })
            });
            let resolver = GuardedResolver { guard: Arc::new(guard("https://api.example.org/", &[])), lookup };
            async move {
                let name: Name = "api.example.org".parse().unwrap();
                resolver
                    .resolve(name)
                    .await
                    .map(|all| all.map(|at| at.ip()).collect::<Vec<_>>())
                    .map_err(|e| e.to_string())
            }
        };
        assert_eq!(found(addresses.to_vec()).await.unwrap(), [addresses[0]], "what is inside is left out");
        for inside in &addresses[1..] {
            assert!(found(vec![*inside]).await.unwrap_err().contains("inside"), "{inside}");
        }
    }
}
