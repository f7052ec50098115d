//! TLS to a database server on another machine. The server's certificate is always verified, against the machine's
//! trusted ones (`SSL_CERT_FILE` adds others); `sslmode` in the URL says whether TLS is a must.

use std::sync::{Arc, OnceLock};

use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::config::Host;
use tokio_postgres_rustls::MakeRustlsConnect;

/// The way to connect for these settings. A Unix socket needs no TLS, and no certificates are read for it.
pub fn connector(config: &tokio_postgres::Config) -> MakeRustlsConnect {
    static LOCAL: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    static REMOTE: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let remote = config.get_hosts().iter().any(|h| matches!(h, Host::Tcp(_)));
    let tls = if remote {
        REMOTE.get_or_init(|| settings(trusted()))
    } else {
        LOCAL.get_or_init(|| settings(RootCertStore::empty()))
    };
    MakeRustlsConnect::new((**tls).clone())
}

fn settings(roots: RootCertStore) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring offers the default versions of TLS");
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

fn trusted() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    for e in &found.errors {
        tracing::warn!(error = %e, "some of the machine's trusted certificates can't be read");
    }
    let mut roots = RootCertStore::empty();
    let (good, bad) = roots.add_parsable_certificates(found.certs);
    tracing::debug!(good, bad, "trusted certificates for the database");
    roots
}
