//! `[modules.email]`

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use base::{ByteSize, HumanDuration};
use config::{KeyMistake, Section};
use mail::{Protocol, ServerAddress, is_address};

/// `[modules.email]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
pub(super) struct Settings {
    /// The mailboxes, by a name of the owner's. What is sent goes out through the first by name, what is answered through the
    /// one that it came to.
    #[serde(default)]
    pub accounts: BTreeMap<String, AccountSection>,
    /// Butlers that may search and read the mailboxes.
    #[schemars(extend("default" = []))]
    #[allow(dead_code, reason = "the roster hands the section to them")]
    pub readers: Vec<String>,
}

/// `[modules.email.accounts.<name>]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
pub(super) struct AccountSection {
    /// The mailbox's address.
    pub address: String,
    /// Its other addresses: letters to these come here, too.
    #[schemars(extend("default" = []))]
    pub aliases: Vec<String>,
    /// What the household calls itself in letters.
    pub name: Option<String>,
    /// The server that is read: `imap.example.org`, or `imap://imap.example.org:143` for STARTTLS. Never without TLS.
    pub imap: String,
    /// The server that letters are handed in at: `smtp.example.org`, or `smtp://smtp.example.org:587` for STARTTLS. Never
    /// without TLS.
    pub smtp: String,
    /// The name to log in with; if not set, the address.
    pub user: Option<String>,
    /// How the account proves itself: by a password, by access that its owner gave with `butlerd connect google`,
    /// `microsoft` or `oidc`, or by an access token that another program keeps fresh.
    #[schemars(extend("default" = "password"))]
    pub auth: Auth,
    /// The credential that holds the password, the access or the token; many providers want a password that is made for one
    /// program.
    #[schemars(extend("format" = "credential", "default" = "BUTLER_EMAIL_PASSWORD"))]
    pub password: String,
    /// The environment variable that is asked where no such secret is stored; if not set, the one of the same name.
    #[schemars(extend("format" = "credential"))]
    pub token_env: Option<String>,
    /// The folders that are taken in; the first is watched, the others are looked at once a minute.
    #[schemars(extend("default" = ["INBOX"]))]
    pub folders: Vec<String>,
    /// Whose letters are taken in: addresses, or `@example.org` for all of a domain; empty: everybody's.
    #[schemars(extend("default" = []))]
    pub senders: Vec<String>,
    /// The names under which the receiving servers write `Authentication-Results`, such as `mx.example.org`. By these alone
    /// it is known who really wrote; without any, everybody is a stranger.
    #[schemars(extend("default" = []))]
    pub trusted_servers: Vec<String>,
    /// Whose letters are answered by themselves: the owner's, or of all who are proven and write to this address alone.
    #[schemars(extend("default" = "owner"))]
    pub answers: Answers,
    /// What becomes of newsletters, lists and machines' notices: they are put on record, or taken in like a person's letter.
    #[schemars(extend("default" = "record"))]
    pub bulk: Bulk,
    /// How far back letters are taken in when the mailbox is connected for the first time.
    #[schemars(range(min = 0.0, max = 31_536_000.0), extend("default" = "0s"))]
    pub backfill: HumanDuration,
    /// The largest letter that is taken in with its files; of a larger one the first megabyte is.
    #[schemars(extend("default" = "8 MiB"))]
    pub largest_letter: ByteSize,
    /// Whether the server puts into the sent folder what is handed in, as Gmail and Outlook do.
    #[schemars(extend("default" = false))]
    pub keeps_sent: bool,
}

/// How an account proves itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Auth {
    Password,
    Oauth,
    Token,
}

/// Whose letters are answered by themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Answers {
    Owner,
    Proven,
}

/// What becomes of letters that no person wrote to the household.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Bulk {
    Record,
    TakeIn,
}

/// The settings, or what is wrong with them.
pub(super) fn read(config: &Value) -> Result<Settings, Vec<KeyMistake>> {
    Section::of::<Settings>().read_with(config, |settings: &Settings| {
        let mut wrong = Vec::new();
        if settings.accounts.is_empty() {
            let expected = "at least one [modules.email.accounts.<name>] with address, imap and smtp";
            wrong.push(KeyMistake::new("accounts", "found none", expected));
        }
        let mut known = BTreeMap::new();
        for (name, account) in &settings.accounts {
            let at = |key: &str| format!("accounts.{name}.{key}");
            if !is_address(&account.address) {
                let problem = format!("found \"{}\"", account.address);
                wrong.push(KeyMistake::new(&at("address"), problem, "an address such as household@example.org"));
            }
            for (key, protocol, text) in
                [("imap", Protocol::Imap, &account.imap), ("smtp", Protocol::Smtp, &account.smtp)]
            {
                if let Err(e) = ServerAddress::parse(protocol, text) {
                    wrong.push(KeyMistake::new(&at(key), format!("found \"{text}\""), e.to_string()));
                }
            }
            let is_sender = |sender: &String| match sender.strip_prefix('@') {
                Some(domain) => !domain.is_empty() && !domain.contains('@'),
                None => is_address(sender),
            };
            if let Some(sender) = account.senders.iter().find(|sender| !is_sender(sender)) {
                let expected = "addresses such as ada@example.org, or @example.org for all of a domain";
                wrong.push(KeyMistake::new(&at("senders"), format!("found \"{sender}\""), expected));
            }
            if let Some(other) = known.insert(account.address.to_lowercase(), name) {
                let expected = format!("an address of its own: accounts.{other} has this one");
                wrong.push(KeyMistake::new(&at("address"), format!("found \"{}\"", account.address), expected));
            }
            if !(64 * 1024..=64 * 1024 * 1024).contains(&account.largest_letter.0) {
                let problem = format!("found {} bytes", account.largest_letter.0);
                wrong.push(KeyMistake::new(&at("largest_letter"), problem, "from 64 KiB to 64 MiB"));
            }
            if account.folders.is_empty() {
                wrong.push(KeyMistake::new(&at("folders"), "found none", "at least one folder, such as INBOX"));
            }
        }
        wrong
    })
}
