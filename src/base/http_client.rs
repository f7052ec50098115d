//! Clients of servers outside: what all of them have alike.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Response, Url};

/// A server that asks for more patience than this gets no more.
pub const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

/// A builder of an HTTP client for `url`. No redirect is followed: it would carry a key to an address that nobody
/// configured. For plain HTTP no certificate is loaded; a loopback address never goes through a proxy.
pub fn http_client(url: &str) -> reqwest::ClientBuilder {
    // An error means that it was done before, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        // Long enough for two lost packets; who waits for an answer is told within 5 s that there is nobody.
        .connect_timeout(Duration::from_secs(4))
        // Common model servers close an idle connection after 5 s; a request sent just then would be lost.
        .pool_idle_timeout(Duration::from_secs(4));
    if url.starts_with("http://") {
        builder = builder.tls_certs_only([]);
    }
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    builder
}

/// Whether a URL is of this machine.
pub fn is_loopback(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    match url.host_str() {
        Some("localhost" | "[::1]") => true,
        Some(host) => host.parse::<std::net::Ipv4Addr>().is_ok_and(|ip| ip.is_loopback()),
        None => false,
    }
}

/// Whether a URL's host is this machine or on its own network: a loopback, private or link-local address, a name
/// without a dot, or one that ends in `.local`, `.lan` or `.internal`. A URL that can't be read is not.
pub fn is_local_network(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let host = url.host_str().unwrap_or_default().trim_end_matches('.');
    match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        Ok(IpAddr::V4(ip)) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        Ok(IpAddr::V6(ip)) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
        Err(_) => {
            !host.is_empty() && !host.contains('.')
                || [".local", ".lan", ".internal"].iter().any(|end| host.ends_with(end))
        }
    }
}

/// A URL to which secrets may go: by https, or by http to this machine itself.
///
/// # Errors
///
/// With the reason, as the end of a sentence that begins with the URL's purpose.
pub fn url_for_secrets(text: &str) -> Result<Url, &'static str> {
    let url = Url::parse(text).map_err(|_| "is not a URL")?;
    if url.host_str().is_none() {
        return Err("has no host");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("holds a login");
    }
    if url.scheme() == "https" || url.scheme() == "http" && is_loopback(text) {
        return Ok(url);
    }
    Err("does not begin with https://")
}

/// The body of an answer. `None`: it is larger than this many bytes.
///
/// # Errors
///
/// It did not come whole.
pub async fn body_within(mut response: Response, most: usize) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await? {
        if body.len() + piece.len() > most {
            return Ok(None);
        }
        body.extend_from_slice(&piece);
    }
    Ok(Some(body))
}

/// Why there is no answer from a server to which `patience` was given. The words never hold the address.
pub fn no_answer(e: reqwest::Error, patience: Duration) -> String {
    let e = e.without_url();
    match (e.is_timeout(), e.is_connect()) {
        (true, _) => format!("no answer within {} s", patience.as_secs()),
        (false, true) => format!("no connection ({})", innermost(&e)),
        (false, false) => format!("no whole answer ({})", innermost(&e)),
    }
}

/// For how many seconds a server asks; a date is left to the caller's own patience.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u32 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.into()).min(LONGEST_WAIT))
}

/// The innermost cause: "Connection refused" instead of three layers of "error sending request".
pub fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_network_is_known_by_address_and_name() {
        for url in [
            "http://127.0.0.1:11434/v1",
            "http://localhost:8080",
            "http://[::1]:8000/v1",
            "http://[::ffff:10.0.0.2]/",
            "http://192.168.1.5/v1",
            "http://2130706433/",
            "http://[fd00::5]/v1",
            "http://ollama:11434",
            "https://Box.LAN./v1",
        ] {
            assert!(is_local_network(url), "{url}");
        }
        for url in [
            "https://api.openai.com/v1",
            "http://8.8.8.8",
            "https://localhost@llm.example/",
            "https://llm.example/?x=http://localhost/",
            "https://192.168.1.5.llm.example/",
            "nonsense",
        ] {
            assert!(!is_local_network(url), "{url}");
        }
    }

    #[test]
    fn loopback_is_known_by_address_and_name() {
        for url in ["http://127.0.0.1:1/v1", "http://localhost/", "http://[::1]:2/", "http://127.1.2.3/"] {
            assert!(is_loopback(url), "{url}");
        }
        for url in ["http://10.0.0.1/", "https://example.org/", "http://localhost.example.org/", "nonsense"] {
            assert!(!is_loopback(url), "{url}");
        }
    }
}
