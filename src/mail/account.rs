//! Where an account's servers are, and how it proves itself there.

use std::fmt;
use std::str::FromStr;

use base::Secret;

/// What a server is asked in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    Imap,
    Smtp,
}

/// When TLS begins. Without TLS nothing is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tls {
    /// With the connection.
    AtOnce,
    /// After STARTTLS, which must succeed.
    Upgraded,
}

/// A mail server: `imap.example.org`, `imaps://imap.example.org:993`, `smtp://mail.example.org:587`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerAddress {
    pub protocol: Protocol,
    pub host: String,
    pub port: u16,
    pub tls: Tls,
}

/// Why a text is no server.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{text}` is not a mail server; give it as {example}")]
pub struct AddressError {
    text: String,
    example: &'static str,
}

impl ServerAddress {
    /// Reads a server of this protocol. Without a scheme and a port it is the usual one with TLS at once; with the port
    /// that is known for STARTTLS it is that.
    ///
    /// ```
    /// use mail::{Protocol, ServerAddress, Tls};
    ///
    /// let server = ServerAddress::parse(Protocol::Smtp, "smtp.example.org:587").unwrap();
    /// assert_eq!((server.port, server.tls), (587, Tls::Upgraded));
    /// ```
    pub fn parse(protocol: Protocol, text: &str) -> Result<Self, AddressError> {
        let (names, ports, example) = match protocol {
            Protocol::Imap => (["imaps", "imap"], [993, 143], "imap.example.org or imap://imap.example.org:143"),
            Protocol::Smtp => (["smtps", "smtp"], [465, 587], "smtp.example.org or smtp://smtp.example.org:587"),
        };
        let wrong = || AddressError { text: text.to_owned(), example };
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (Some(scheme), rest),
            None => (None, text),
        };
        let rest = rest.trim_end_matches('/');
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse::<u16>().map_err(|_| wrong())?)),
            None => (rest, None),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        if host.is_empty() || !host.chars().all(plain) || port == Some(0) {
            return Err(wrong());
        }
        let tls = match scheme {
            Some(scheme) if scheme == names[0] => Tls::AtOnce,
            Some(scheme) if scheme == names[1] => Tls::Upgraded,
            Some(_) => return Err(wrong()),
            None if port == Some(ports[1]) => Tls::Upgraded,
            None => Tls::AtOnce,
        };
        let port = port.unwrap_or(if tls == Tls::AtOnce { ports[0] } else { ports[1] });
        Ok(Self { protocol, host: host.to_owned(), port, tls })
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// What an account proves itself by.
#[derive(Clone, Debug)]
pub enum Login {
    Password(Secret<String>),
    /// An access token of OAuth, by XOAUTH2.
    Token(Secret<String>),
}

/// An account at a server.
#[derive(Clone, Debug)]
pub struct Account {
    pub server: ServerAddress,
    pub user: String,
    pub login: Login,
}

/// Whether a text is an address that mail can be sent to: `local@domain` in ASCII, as people have them.
pub fn is_address(text: &str) -> bool {
    lettre::Address::from_str(text).is_ok() && text.is_ascii() && !text.contains(['"', ' ', '<', '>', ','])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read() {
        let read = |text: &str| ServerAddress::parse(Protocol::Imap, text).map(|s| (s.host, s.port, s.tls));
        let host = || "imap.example.org".to_owned();
        assert_eq!(read("imap.example.org"), Ok((host(), 993, Tls::AtOnce)));
        assert_eq!(read("imap.example.org:143"), Ok((host(), 143, Tls::Upgraded)));
        assert_eq!(read("imap.example.org:1993"), Ok((host(), 1993, Tls::AtOnce)));
        assert_eq!(read("imap://imap.example.org/"), Ok((host(), 143, Tls::Upgraded)));
        assert_eq!(read("imap://imap.example.org:1143"), Ok((host(), 1143, Tls::Upgraded)));
        for wrong in ["", "imap.example.org:x", "smtp://a", "a b", "imap.example.org:0", "user@host"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_are_told_from_other_text() {
        for good in ["ada@example.org", "a.b+c@x.example.org"] {
            assert!(is_address(good), "{good}");
        }
        for bad in ["ada", "a@b@c.org", "Ada <a@b.org>", "a@b.org\r\nBcc: x@y.org", "\"a b\"@c.org", "a@b.org,c@d.org"]
        {
            assert!(!is_address(bad), "{bad}");
        }
    }
}
