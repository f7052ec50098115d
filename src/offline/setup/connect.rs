//! `butlerd connect`: a channel's settings, written where they belong.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use toml_edit::{DocumentMut, Item, Table, value};

use super::SetupError;
use super::butler::settings;
use super::ready::append;
use super::start::look;
use super::tool::files_of;
use config::{CORE_BUTLERS, Environment, Overrides};

/// Writes that the household has a Telegram bot, whose owner has this account. Returns the files that were changed: none,
/// if all of it was there. `api_url`: of a Bot API server that is not Telegram's own.
pub fn connect_telegram(
    overrides: &Overrides,
    environment: &Environment,
    account: &str,
    api_url: Option<&str>,
) -> Result<Vec<PathBuf>, SetupError> {
    let url = api_url.map(|url| format!("api_url = {}\n", text(url))).unwrap_or_default();
    let section =
        format!("# People write to the household on Telegram.\n[modules.telegram]\n{url}\n[modules.telegram.bot]\n");
    connect(overrides, environment, (&["telegram"], &section), Some(("telegram", account)))
}

/// The name under which a mailbox's password is stored, if its settings don't say another.
pub const MAILBOX_PASSWORD: &str = "BUTLER_EMAIL_PASSWORD";

/// What is known of a mailbox that is connected.
#[derive(Clone, Copy, Debug)]
pub struct MailboxSettings<'a> {
    /// What it is called in the settings.
    pub name: &'a str,
    pub address: &'a str,
    /// If it is not the address.
    pub user: Option<&'a str>,
    pub imap: &'a str,
    pub smtp: &'a str,
    /// How it proves itself, if not by a password.
    pub auth: Option<&'a str>,
    /// The name under which its password, or the access to it, is stored.
    pub secret: &'a str,
    /// Whose findings about senders are believed.
    pub trusted_server: Option<&'a str>,
    pub keeps_sent: bool,
}

/// Writes that the household has a mailbox, and from which address its owner writes. Returns the files that were changed.
pub fn connect_email(
    overrides: &Overrides,
    environment: &Environment,
    mailbox: &MailboxSettings<'_>,
    owner: Option<&str>,
) -> Result<Vec<PathBuf>, SetupError> {
    let mut section = format!(
        "# People write to the household by mail.\n[modules.email.accounts.{}]\naddress = {}\nimap = {}\nsmtp = {}\n",
        mailbox.name,
        text(mailbox.address),
        text(mailbox.imap),
        text(mailbox.smtp)
    );
    let keys = [("user", mailbox.user), ("auth", mailbox.auth), ("password", Some(mailbox.secret))];
    for (key, value) in keys.iter().filter_map(|(key, value)| Some((key, (*value)?))) {
        section.push_str(&format!("{key} = {}\n", text(value)));
    }
    if let Some(server) = mailbox.trusted_server {
        section.push_str(&format!("trusted_servers = [{}]\n", text(server)));
    }
    if mailbox.keeps_sent {
        section.push_str("keeps_sent = true\n");
    }
    let at = ["email", "accounts", mailbox.name];
    connect(overrides, environment, (&at, &section), owner.map(|owner| ("email", owner)))
}

/// A mailbox that the settings have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownMailbox {
    pub name: String,
    pub address: String,
    /// The name under which its password is stored, or the access to it.
    pub secret: String,
    /// How it proves itself: `password`, `oauth` or `token`.
    pub auth: String,
}

/// The mailboxes that the settings have.
pub fn mailboxes(overrides: &Overrides, environment: &Environment) -> Result<Vec<KnownMailbox>, SetupError> {
    let (_, _, document) = files_of(&settings(overrides, environment)?, CORE_BUTLERS[0])?;
    let place = ["modules", "email", "accounts"];
    let accounts = place.iter().try_fold(document.as_item(), |at, name| at.get(name));
    let accounts = accounts.and_then(Item::as_table_like);
    let known = accounts.into_iter().flat_map(|accounts| accounts.iter()).map(|(name, account)| {
        let text = |key: &str| account.get(key).and_then(Item::as_str).map(str::to_owned);
        let secret = text("password").unwrap_or_else(|| MAILBOX_PASSWORD.to_owned());
        let auth = text("auth").unwrap_or_else(|| "password".to_owned());
        KnownMailbox { name: name.to_owned(), address: text("address").unwrap_or_default(), secret, auth }
    });
    Ok(known.collect())
}

/// Who the owner is on a channel, as the settings say.
pub fn owners_identity(overrides: &Overrides, environment: &Environment, channel: &str) -> Option<String> {
    let text = fs::read_to_string(look(overrides, environment).settings).ok()?;
    let document: DocumentMut = text.parse().ok()?;
    document.get("owner")?.get("identities")?.get(channel)?.as_str().map(str::to_owned)
}

/// A text as TOML has it.
fn text(value: &str) -> serde_json::Value {
    serde_json::Value::from(value)
}

/// Adds a module's section to the switchboard's settings where there is none at this place yet, and who the owner is on
/// the channel.
fn connect(
    overrides: &Overrides,
    environment: &Environment,
    (place, section): (&[&str], &str),
    identity: Option<(&str, &str)>,
) -> Result<Vec<PathBuf>, SetupError> {
    let mut changed = Vec::new();
    let (home, before, document) = files_of(&settings(overrides, environment)?, CORE_BUTLERS[0])?;
    let file = home.join("butler.toml");
    let there = place.iter().try_fold(document.get("modules"), |at, name| Some(at?.get(name))).flatten();
    if there.is_none() {
        append(&file, &before, section).map_err(|e| unwritten(&file, &e))?;
        changed.push(file);
    }
    let Some((channel, identity)) = identity else { return Ok(changed) };
    let file = look(overrides, environment).settings;
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(SetupError::failed(format!("{} can't be read: {e}.", file.display()), "")),
    };
    let document = text.parse::<DocumentMut>();
    let mut document = document
        .map_err(|_| SetupError::failed(format!("{} is not valid TOML.", file.display()), "See: butlerd check"))?;
    if set_identity(&mut document, channel, identity) {
        replace(&file, &document.to_string()).map_err(|e| unwritten(&file, &e))?;
        changed.push(file);
    }
    Ok(changed)
}

fn unwritten(file: &Path, e: &io::Error) -> SetupError {
    SetupError::failed(format!("{} can't be written: {e}.", file.display()), "")
}

/// Says who the owner is on a channel. Whether that is new.
fn set_identity(document: &mut DocumentMut, channel: &str, identity: &str) -> bool {
    let table = || Item::Table(Table::new());
    let owner = document.entry("owner").or_insert_with(table);
    let Some(owner) = owner.as_table_like_mut() else { return false };
    let identities = owner.entry("identities").or_insert_with(table);
    let Some(identities) = identities.as_table_like_mut() else { return false };
    if identities.get(channel).and_then(Item::as_str) == Some(identity) {
        return false;
    }
    identities.insert(channel, value(identity));
    true
}

/// Puts a text in a file's place: the old one or the new one is there, at any instant, with the same rights.
pub(super) fn replace(file: &Path, text: &str) -> io::Result<()> {
    let new = file.with_extension("toml.new");
    let rights = fs::metadata(file).map(|old| old.permissions()).ok();
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut open = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&new)?;
    if let Some(rights) = rights {
        open.set_permissions(rights)?;
    }
    open.write_all(text.as_bytes())?;
    open.sync_all()?;
    fs::rename(&new, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_added_to_what_is_there() {
        let after = |before: &str| {
            let mut document: DocumentMut = before.parse().unwrap();
            set_identity(&mut document, "telegram", "42");
            document.to_string()
        };
        assert_eq!(after(""), "[owner]\n\n[owner.identities]\ntelegram = \"42\"\n");
        let there = "# mine\n[owner]\nname = \"Ada\"\nidentities = { email = \"a@b.c\" }\n";
        let said = after(there);
        assert!(said.starts_with("# mine\n[owner]\nname = \"Ada\"\n") && said.contains("email = \"a@b.c\""), "{said}");
        assert!(said.contains("telegram = \"42\""), "{said}");
        assert_eq!(after(&said), said);
    }
}
