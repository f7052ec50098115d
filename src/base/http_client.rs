//! Clients of model servers: what all of them have alike.

use std::net::IpAddr;
use std::time::Duration;

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
    let Ok(url) = reqwest::Url::parse(url) else { return false };
    match url.host_str() {
        Some("localhost" | "[::1]") => true,
        Some(host) => host.parse::<std::net::Ipv4Addr>().is_ok_and(|ip| ip.is_loopback()),
        None => false,
    }
}

/// Whether a URL's host is this machine or on its own network: a loopback, private or link-local address, a name
/// without a dot, or one that ends in `.local`, `.lan` or `.internal`. A URL that can't be read is not.
pub fn is_local_network(url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(url) else { return false };
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
