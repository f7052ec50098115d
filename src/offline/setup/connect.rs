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
    let mut changed = Vec::new();
    let (home, before, document) = files_of(&settings(overrides, environment)?, CORE_BUTLERS[0])?;
    let file = home.join("butler.toml");
    if document.get("modules").and_then(|modules| modules.get("telegram")).is_none() {
        let url = api_url.map(|url| format!("api_url = {}\n", serde_json::Value::from(url))).unwrap_or_default();
        let section = format!(
            "# People write to the household on Telegram.\n[modules.telegram]\n{url}\n[modules.telegram.bot]\n"
        );
        append(&file, &before, &section).map_err(|e| unwritten(&file, &e))?;
        changed.push(file);
    }
    let file = look(overrides, environment).settings;
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(SetupError::failed(format!("{} can't be read: {e}.", file.display()), "")),
    };
    let document = text.parse::<DocumentMut>();
    let mut document = document
        .map_err(|_| SetupError::failed(format!("{} is not valid TOML.", file.display()), "See: butlerd check"))?;
    if set_identity(&mut document, "telegram", account) {
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
fn replace(file: &Path, text: &str) -> io::Result<()> {
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
