//! Why there are no tokens, in as many kinds as callers must tell apart.

use std::time::Duration;

/// What is kept of a server's own words, in characters.
const MOST_SAID: usize = 200;
/// What is kept of an error's name.
const LONGEST_NAME: usize = 60;

/// Why there are no tokens. `host` is the server's name without port and path. What the server said is cut and cleaned, and
/// holds nothing that was sent to it in confidence.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OauthError {
    /// The grant is gone: the person must give access again. Also for a code that is too old or was used.
    #[error("{host} does not accept the access that was given ({said}); connect the account again")]
    Revoked { host: String, said: String },
    /// The settings are wrong: client, its secret, its scopes, or the provider's address.
    #[error("{host} does not work with these settings ({said}); check client id, client secret, scopes and issuer")]
    Client { host: String, said: String },
    /// The person said no.
    #[error("access was refused at {host}; start again, and agree there")]
    Refused { host: String },
    /// Nobody said anything for too long.
    #[error("nobody gave access at {host} in time; start again")]
    Expired { host: String },
    /// It passes by itself: no network, a server that is busy or broken. After `after`, if the server said so.
    ///
    /// A request whose answer was lost may have been carried out. A provider that replaces refresh tokens may answer its
    /// repetition with [`OauthError::Revoked`].
    #[error("{host}: {why}")]
    Later { host: String, why: String, after: Option<Duration> },
    /// The other side does not speak the protocol, or speaks of something else.
    #[error("{host}: {why}")]
    Protocol { host: String, why: String },
}

impl OauthError {
    pub(crate) fn protocol(host: &str, why: impl Into<String>) -> Self {
        Self::Protocol { host: host.to_owned(), why: why.into() }
    }

    pub(crate) fn client(host: &str, said: impl Into<String>) -> Self {
        Self::Client { host: host.to_owned(), said: said.into() }
    }

    pub(crate) fn later(host: &str, why: impl Into<String>) -> Self {
        Self::Later { host: host.to_owned(), why: why.into(), after: None }
    }
}

/// An error as a server names it (RFC 6749 4.1.2.1 and 5.2), with its own words.
pub(crate) struct Named {
    pub name: String,
    pub said: String,
}

impl Named {
    /// Whatever in `secrets` the server repeats is left out.
    pub fn new(name: &str, description: &str, secrets: &[&str]) -> Self {
        let (name, description) = (hide(&plain(name), secrets), hide(&plain(description), secrets));
        let name: String = name.chars().take(LONGEST_NAME).collect();
        let description: String = description.chars().take(MOST_SAID).collect();
        let said = if description.is_empty() { name.clone() } else { format!("{name}: {description}") };
        Self { name, said }
    }

    /// What it means for whoever wants tokens.
    pub fn at(self, host: &str) -> OauthError {
        let host = host.to_owned();
        let Self { name, said } = self;
        match name.as_str() {
            "invalid_grant" | "interaction_required" | "login_required" | "consent_required" => {
                OauthError::Revoked { host, said }
            }
            // The last two are Google's.
            "invalid_client"
            | "unauthorized_client"
            | "invalid_scope"
            | "unsupported_grant_type"
            | "deleted_client"
            | "redirect_uri_mismatch" => OauthError::Client { host, said },
            // The second is Microsoft's, of its device flow.
            "access_denied" | "authorization_declined" => OauthError::Refused { host },
            "expired_token" => OauthError::Expired { host },
            "server_error" | "temporarily_unavailable" | "slow_down" | "rate_limit_exceeded" => {
                OauthError::Later { host, why: format!("it can't answer now ({said})"), after: None }
            }
            _ => OauthError::Protocol { host, why: format!("it refuses ({said})") },
        }
    }
}

pub(crate) fn plain(text: &str) -> String {
    base::text::plain(text, usize::MAX)
}

fn hide(text: &str, secrets: &[&str]) -> String {
    let worth = secrets.iter().filter(|secret| !secret.is_empty());
    worth.fold(text.to_owned(), |text, secret| text.replace(secret, "[hidden]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_is_short_plain_and_holds_no_secret() {
        let long = format!("\u{1b}[31mno\r\nco\u{202e}de abc-123 {}", "x".repeat(100_000));
        let named = Named::new("invalid_grant", &long, &["abc-123", ""]);
        assert!(named.said.starts_with("invalid_grant: [31mnocode [hidden] xxx"), "{}", named.said);
        assert_eq!(named.said.chars().count(), "invalid_grant: ".len() + MOST_SAID);
        assert!(Named::new(&"y".repeat(100_000), "", &[]).said.len() == LONGEST_NAME);
        // A secret is not halved by the cut, and control characters don't hide it.
        let named = Named::new("x", &format!("{}sec\u{7}ret", "x".repeat(MOST_SAID - 3)), &["secret"]);
        assert!(!named.said.contains("sec"), "{}", named.said);
    }

    #[test]
    fn each_name_means_something_to_callers() {
        let of = |name: &str| Named::new(name, "", &[]).at("id.example");
        assert!(matches!(of("invalid_grant"), OauthError::Revoked { .. }));
        for name in ["invalid_client", "unauthorized_client", "invalid_scope"] {
            assert!(matches!(of(name), OauthError::Client { .. }), "{name}");
        }
        assert_eq!(of("access_denied").to_string(), "access was refused at id.example; start again, and agree there");
        assert!(matches!(of("expired_token"), OauthError::Expired { .. }));
        assert!(matches!(of("temporarily_unavailable"), OauthError::Later { .. }));
        assert_eq!(of("what").to_string(), "id.example: it refuses (what)");
    }
}
