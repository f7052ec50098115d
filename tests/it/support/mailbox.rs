//! A household with a mailbox at a real mail server, and the letters that people put into it.

use super::Household;
use super::mail_server::{HOST, MailServer};

pub const HOUSEHOLD: &str = "household@example.org";
/// The owner's address.
pub const ADA: &str = "ada@example.org";
/// The server whose findings the household believes.
pub const MX: &str = "mx.example.org";

/// A letter to the household, which the receiving server found to be from where it says.
pub fn proven(from: &str, id: &str, subject: &str, more: &str, text: &str) -> Vec<u8> {
    let domain = from.rsplit_once('@').map_or("", |(_, domain)| domain);
    let found = format!("Authentication-Results: {MX}; dmarc=pass header.from={domain}\r\n");
    letter(from, id, subject, &format!("{found}{more}"), text)
}

/// A letter to the household. `more`: header fields that end in CRLF.
pub fn letter(from: &str, id: &str, subject: &str, more: &str, text: &str) -> Vec<u8> {
    let text = text.replace('\n', "\r\n");
    format!(
        "{more}From: {from}\r\nTo: {HOUSEHOLD}\r\nSubject: {subject}\r\nMessage-ID: <{id}>\r\n\
         Date: Wed, 25 Nov 2026 10:00:00 +0000\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{text}\r\n"
    )
    .into_bytes()
}

/// The value of a header field of a raw letter, unfolded.
pub fn field(raw: &[u8], name: &str) -> Option<String> {
    let text = String::from_utf8_lossy(raw).replace("\r\n ", " ").replace("\r\n\t", " ");
    let head = text.split("\r\n\r\n").next()?.to_owned();
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    })
}

impl Household {
    /// With the mailbox of the household at this server, and Ada as the owner. `more`: settings of the mailbox.
    pub fn with_email(self, server: &MailServer, more: &str) -> Self {
        self.with_email_at(server, HOST, (server.imap_port(), server.smtp_port()), more)
    }

    /// The same, where IMAP and SMTP are at these ports of a host: something may stand before the server.
    pub fn with_email_at(self, server: &MailServer, host: &str, (imap, smtp): (u16, u16), more: &str) -> Self {
        let toml = self.roster().join("switchboard/butler.toml");
        let before = std::fs::read_to_string(toml).expect("the switchboard");
        let section = format!(
            "\n[modules.email.accounts.home]\naddress = \"{HOUSEHOLD}\"\nname = \"The household\"\n\
             imap = \"imap://{host}:{imap}\"\nsmtp = \"smtp://{host}:{smtp}\"\ntrusted_servers = [\"{MX}\"]\n{more}\n"
        );
        self.write("switchboard/butler.toml", &format!("{before}{section}"))
            .env("BUTLER_EMAIL_PASSWORD", "secret1")
            .env("SSL_CERT_FILE", server.ca().to_str().expect("a path"))
            .env("BUTLERD_OWNER__IDENTITIES__EMAIL", ADA)
            .env("BUTLERD_DELIVERY_PAUSE_MS", "20")
            .env("BUTLERD_NOTICE_SECONDS", "1")
    }
}
