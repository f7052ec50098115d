//! Why a server of calendars or contacts did not do what it was asked, in as many kinds as callers must tell apart.

use std::time::Duration;

/// What is kept of a server's own words, in characters.
const MOST_SAID: usize = 200;

/// Why a request came to nothing. `host` is the server's name, `path` what was asked for. Nothing here holds a password or
/// a token, and what the server said is cut and cleaned.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DavError {
    /// The address in the settings can't be used. `url` is no more than its origin, because a mistyped address may hold the
    /// password anywhere; `None` where even that is not sure.
    #[error(
        "the address {} {why}; set `url` to the address that your provider gives for calendars or contacts",
        .url.as_deref().unwrap_or("in the settings")
    )]
    Address { url: Option<String>, why: &'static str },
    /// 401.
    #[error("{host} does not accept {what}; check it, and make a password for apps if the provider wants one")]
    Unauthorized { host: String, what: &'static str },
    /// 403 without a reason that has a kind of its own.
    #[error("{host} does not let this account {doing} {path}{said}; ask its owner for the right, or leave it out")]
    Forbidden { host: String, path: String, doing: &'static str, said: String },
    /// 404 or 410.
    #[error("{host} has nothing at {path}; look there whether it was deleted or moved")]
    Missing { host: String, path: String },
    /// 412: it is there already, or was changed or deleted since it was read.
    #[error("{path} at {host} was changed by somebody else meanwhile; sync again")]
    Changed { host: String, path: String },
    /// Another item of the collection has the same UID.
    #[error("{host} has another item with the UID of {path}; delete one of the two")]
    SameUid { host: String, path: String },
    /// The sync token is too old, or of another time of the collection: list everything again.
    #[error("{host} does not know the sync token of {path} any more; list all of it again")]
    TokenExpired { host: String, path: String },
    /// The server refuses this very item, or this very request, and will again.
    #[error("{host} refuses to {doing} {path} (HTTP {status}{said}); change the item, or look at the server's limits")]
    Refused { host: String, path: String, doing: &'static str, status: u16, said: String },
    /// The server names an address of another host. Credentials never go there.
    #[error("{host} leads to {to}, which is not followed; set `url` to that address if you trust it")]
    Elsewhere { host: String, to: String },
    /// A collection is at another path of the same server now. Its items have other hrefs there, so all would be doubled.
    #[error("{path} at {host} has moved to {to}; name it by that path in `calendars` or `address_book`")]
    Moved { host: String, path: String, to: String },
    /// There is no such thing as was looked for.
    #[error("{host} has no {what} for this account; check `url` and the user name")]
    NothingFound { host: String, what: &'static str },
    /// It passes by itself: no network, a server that is busy or broken. A request that changes something may have been
    /// carried out. After `after`, if the server said so.
    #[error("{host}: {why}")]
    Later { host: String, why: String, after: Option<Duration> },
    /// The answer is larger than what is read.
    #[error("{host} answers with more than {limit} MiB to {path}; move large attachments out of the item")]
    TooLarge { host: String, path: String, limit: usize },
    /// The other side does not speak the protocol.
    #[error("{host} does not answer {path} as a server of calendars or contacts does: {why}; check `url`")]
    Protocol { host: String, path: String, why: String },
}

/// What is kept of a server's own words.
pub(crate) fn plain(text: &str) -> String {
    base::text::plain(text, MOST_SAID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_words_are_short_and_plain() {
        assert_eq!(plain("\u{1b}[31mno\r\nco\u{202e}de "), "[31mnocode");
        assert_eq!(plain(&"x".repeat(100_000)).len(), MOST_SAID);
    }

    #[test]
    fn a_sentence_says_what_where_and_what_to_do() {
        let host = "dav.example".to_owned();
        let error = DavError::Unauthorized { host: host.clone(), what: "the user name or password" };
        assert!(error.to_string().starts_with("dav.example does not accept the user name or password; check it"));
        let error = DavError::Elsewhere { host, to: "https://p1.example".into() };
        assert_eq!(
            error.to_string(),
            "dav.example leads to https://p1.example, which is not followed; set `url` to that address if you trust it"
        );
    }
}
