//! Clients of model servers: what all of them have alike.

use std::time::Duration;

/// A builder of an HTTP client for `url`. No redirect is followed: it would carry a key to an address that nobody
/// configured. For plain HTTP no certificate is loaded; a loopback address never goes through a proxy.
pub fn http_client(url: &str) -> reqwest::ClientBuilder {
    // An error means that it was done before, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(10))
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

fn is_loopback(url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(url) else { return false };
    match url.host_str() {
        Some("localhost" | "[::1]") => true,
        Some(host) => host.parse::<std::net::Ipv4Addr>().is_ok_and(|ip| ip.is_loopback()),
        None => false,
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
    fn loopback_is_known_by_address_and_name() {
        for url in ["http://127.0.0.1:1/v1", "http://localhost/", "http://[::1]:2/", "http://127.1.2.3/"] {
            assert!(is_loopback(url), "{url}");
        }
        for url in ["http://10.0.0.1/", "https://example.org/", "http://localhost.example.org/", "nonsense"] {
            assert!(!is_loopback(url), "{url}");
        }
    }
}
