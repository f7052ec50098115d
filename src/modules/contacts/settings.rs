//! `[modules.contacts]`

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use strum::IntoStaticStr;

use config::{KeyMistake, Section};

/// Where an address book is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub(super) enum Provider {
    /// A CardDAV server.
    Carddav,
    /// Google.
    Google,
    /// Files of vCards on this machine.
    Vcard,
}

base::named!(Provider);

/// `[modules.contacts.sync]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
pub(super) struct Sync {
    /// Minutes between two looks at the address book.
    #[schemars(range(min = 1, max = 1440), extend("default" = 15))]
    pub interval_minutes: u32,
}

/// `[modules.contacts]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
pub(super) struct Settings {
    /// Where the address book is: `carddav` is a server, `google` the contacts of an account at Google, `vcard` a file or a
    /// directory of this machine.
    pub provider: Provider,
    /// The server's address, or that of one address book there. Never without TLS but on this machine. Of Google none.
    pub url: Option<String>,
    /// The name to log in with; at Google the account's address.
    pub user: Option<String>,
    /// The credential that holds the password; many providers want a password that is made for one program.
    #[schemars(extend("format" = "credential", "default" = "BUTLER_CONTACTS_PASSWORD"))]
    pub password: String,
    /// The credential that holds the access to Google which `butlerd connect google --contacts` stored.
    #[schemars(extend("format" = "credential", "default" = "BUTLER_GOOGLE_GRANT"))]
    pub grant: String,
    /// The environment variable that is asked where no such secret is stored; if not set, the one of the same name.
    #[schemars(extend("format" = "credential"))]
    pub token_env: Option<String>,
    /// Which address book, by its name, where the account has several.
    pub address_book: Option<String>,
    /// A file with vCards, or a directory of `.vcf` files.
    #[schemars(with = "Option<String>")]
    pub path: Option<PathBuf>,
    /// Whether the address book is written as well as read. If not set: a server's is, files are not.
    pub write: Option<bool>,
    /// Whether people whom the household alone knows are added to an address book that is written.
    #[schemars(extend("default" = true))]
    pub add_people: bool,
    /// How it follows the address book.
    pub sync: Sync,
}

impl Settings {
    /// Whether the settings let the address book be written.
    pub fn writes(&self) -> bool {
        self.write.unwrap_or(self.provider != Provider::Vcard)
    }
}

/// The settings, or what is wrong with them.
pub(super) fn read(config: &Value) -> Result<Settings, Vec<KeyMistake>> {
    Section::of::<Settings>().read_with(config, |settings: &Settings| {
        let mut wrong = Vec::new();
        let mut mistake = |key: &str, found: &str, expected: &str| wrong.push(KeyMistake::new(key, found, expected));
        match settings.provider {
            Provider::Google => {
                if settings.user.is_none() {
                    mistake(
                        "user",
                        "found none",
                        "the account's address; `butlerd connect google --contacts` writes it",
                    );
                }
                // A server that stands in for Google is on this machine, or reached as safely as Google is.
                if let Some(Err(e)) = settings.url.as_deref().map(dav::Client::origin_of) {
                    mistake("url", &e.to_string(), "no url");
                }
                if settings.path.is_some() || settings.address_book.is_some() {
                    mistake("provider", "found `google` with path or address_book", "the contacts of an account");
                }
            }
            Provider::Carddav => {
                if settings.url.is_none() {
                    mistake("url", "found none", "the address that your provider gives for contacts");
                }
                if settings.user.is_none() {
                    mistake("user", "found none", "the name to log in with");
                }
                if settings.path.is_some() {
                    mistake("path", "found with provider `carddav`", "no path: a server's address book has a url");
                }
            }
            Provider::Vcard => {
                if !settings.path.as_ref().is_some_and(|path| path.is_absolute()) {
                    mistake("path", "found none from the root", "a file or a directory such as /home/ada/contacts");
                }
                if settings.url.is_some() {
                    mistake("url", "found with provider `vcard`", "no url: files have a path");
                }
            }
        }
        wrong
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_provider_has_its_own_keys() {
        let wrong = |config: Value| match read(&config) {
            Ok(_) => Vec::new(),
            Err(wrong) => wrong.iter().map(ToString::to_string).collect::<Vec<_>>(),
        };
        let dav = json!({"provider": "carddav", "url": "https://dav.example", "user": "ada"});
        assert_eq!(wrong(dav.clone()), Vec::<String>::new());
        assert!(read(&dav).is_ok_and(|settings| settings.writes() && settings.sync.interval_minutes == 15));
        assert!(read(&json!({"provider": "vcard", "path": "/cards"})).is_ok_and(|settings| !settings.writes()));
        assert_eq!(wrong(json!({"provider": "carddav"})).len(), 2);
        assert_eq!(wrong(json!({"provider": "vcard", "path": "cards"})).len(), 1);
        assert_eq!(wrong(json!({"provider": "google", "user": "ada@example.org"})), Vec::<String>::new());
        let google = wrong(json!({"provider": "google", "url": "http://people.example", "path": "/c"}));
        assert_eq!(google.len(), 3, "{google:?}");
        assert!(!wrong(json!({"provider": "vcard", "path": "/c", "sync": {"interval_minutes": 0}})).is_empty());
    }
}
