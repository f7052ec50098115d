//! TLS of the protocols that are not HTTP: database servers on other machines, and mail. The other side's certificate is
//! always verified, against the machine's trusted ones; `SSL_CERT_FILE` adds others.

use std::sync::{Arc, OnceLock};

use rustls::{ClientConfig, RootCertStore};

/// What trusts the machine's authorities. They are read once.
pub fn trusting_machine() -> Arc<ClientConfig> {
    static MADE: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    MADE.get_or_init(|| client_config(trusted())).clone()
}

/// What trusts nobody, for where no TLS is spoken: no certificates are read.
pub fn trusting_nobody() -> Arc<ClientConfig> {
    static MADE: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    MADE.get_or_init(|| client_config(RootCertStore::empty())).clone()
}

fn client_config(roots: RootCertStore) -> Arc<ClientConfig> {
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
    tracing::debug!(good, bad, "trusted certificates");
    roots
}
