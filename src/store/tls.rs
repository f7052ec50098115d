//! TLS to a database server on another machine. Its certificate is always verified; `sslmode` in the URL says whether TLS
//! is a must.

use tokio_postgres::config::Host;
use tokio_postgres_rustls::MakeRustlsConnect;

use base::tls::{trusting_machine, trusting_nobody};

/// The way to connect for these settings. A Unix socket needs no TLS, and no certificates are read for it.
pub fn connector(config: &tokio_postgres::Config) -> MakeRustlsConnect {
    let remote = config.get_hosts().iter().any(|h| matches!(h, Host::Tcp(_)));
    let tls = if remote { trusting_machine() } else { trusting_nobody() };
    MakeRustlsConnect::new((*tls).clone())
}
