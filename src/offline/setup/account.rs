//! `butlerd connect` for calendars and address books: which butler follows the account, and its section in that butler's
//! settings. It stands there whole and passes the check, or the file is as it was.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use toml_edit::Item;

use super::SetupError;
use super::butler::{mistakes, settings};
use super::connect::replace;
use super::tool::files_of;
use config::{CORE_BUTLERS, Config, Environment, Overrides};

/// Calendars that the household keeps itself.
const LOCAL: &str = "local";

/// A module that follows accounts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Follower {
    Calendar,
    Contacts,
}

impl Follower {
    /// As its section is called.
    pub fn module(self) -> &'static str {
        match self {
            Self::Calendar => "calendar",
            Self::Contacts => "contacts",
        }
    }

    const ALL: [Self; 2] = [Self::Calendar, Self::Contacts];

    /// Who gets the account if nobody says another.
    fn usual(self) -> &'static str {
        match self {
            Self::Calendar => "general",
            Self::Contacts => "relationship",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::Calendar => "# The calendars of an account, followed in both directions.",
            Self::Contacts => "# An address book, kept equal with the people whom the household knows.",
        }
    }
}

/// What tells an account from others in settings.
#[derive(Clone, Copy, Debug)]
pub struct AccountKey<'a> {
    pub follower: Follower,
    /// As `provider` has it.
    pub provider: &'a str,
    /// `None` where the provider has but one address.
    pub url: Option<&'a str>,
    /// `None`: it is not known yet, and any will do.
    pub user: Option<&'a str>,
    /// The key that names its secret: `password` or `grant`.
    pub secret_key: &'a str,
    /// The secret that this key means where it is not set, and the first one that is taken.
    pub secret: &'a str,
}

/// Where an account stands, or is to stand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountPlace {
    pub butler: String,
    /// The butler's settings.
    pub file: PathBuf,
    /// The name under which what opens the account is stored.
    pub secret: String,
    /// Whether the settings have it already.
    pub there: bool,
    /// Other butlers whose calendars are the household's own.
    pub local: Vec<String>,
}

/// A section that was written, which can be taken back as long as nobody else wrote the file.
#[derive(Debug)]
pub struct WrittenAccount {
    file: PathBuf,
    before: String,
    after: String,
}

impl WrittenAccount {
    /// Makes the file as it was before. A sentence if that is not possible.
    pub fn take_back(&self) -> Result<(), SetupError> {
        let by_hand = |why: String| {
            let sentence = format!("What was added to {} can't be taken back: {why}.", self.file.display());
            SetupError::failed(sentence, "Remove it from the file's end yourself.")
        };
        match fs::read_to_string(&self.file) {
            Ok(now) if now == self.after => replace(&self.file, &self.before).map_err(|e| by_hand(e.to_string())),
            Ok(_) => Err(by_hand("somebody wrote the file meanwhile".to_owned())),
            Err(e) => Err(by_hand(e.to_string())),
        }
    }
}

/// A section of a follower that some butler has.
struct Known {
    butler: String,
    provider: String,
    url: Option<String>,
    user: Option<String>,
    secret: String,
}

impl Known {
    fn read(butler: &str, section: &Item, key: &AccountKey<'_>) -> Self {
        let text = |key: &str| section.get(key).and_then(Item::as_str).map(str::to_owned);
        Self {
            butler: butler.to_owned(),
            provider: text("provider").unwrap_or_else(|| "local".to_owned()),
            url: text("url"),
            user: text("user"),
            secret: text(key.secret_key).unwrap_or_else(|| key.secret.to_owned()),
        }
    }

    fn is(&self, key: &AccountKey<'_>) -> bool {
        let plain = |url: Option<&str>| url.map(|url| url.trim_end_matches('/').to_owned());
        let user = key.user.is_none() || self.user.is_none() || self.user.as_deref() == key.user;
        self.provider == key.provider && plain(self.url.as_deref()) == plain(key.url) && user
    }

    /// As its owner knows it.
    fn shown(&self) -> String {
        let at = self.url.as_deref().map(|url| format!(" at {}", without_login(url))).unwrap_or_default();
        let of = self.user.as_deref().map(|user| format!(" of {user}")).unwrap_or_default();
        format!("provider = \"{}\"{of}{at}", self.provider)
    }
}

/// A mistyped address may hold a password.
fn without_login(url: &str) -> &str {
    url.rsplit_once('@').map_or(url, |(_, place)| place)
}

/// All butlers of the roster that have settings, in the order of their names, those of every household last.
fn butlers(roster: &Path) -> Vec<String> {
    let entries = fs::read_dir(roster).into_iter().flatten().flatten();
    let names = entries.filter(|entry| entry.path().join("butler.toml").is_file());
    let names: BTreeSet<String> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let (core, others): (Vec<String>, Vec<String>) =
        names.into_iter().partition(|name| CORE_BUTLERS.contains(&name.as_str()));
    others.into_iter().chain(core).collect()
}

/// The sections of a follower, with what tells their accounts apart.
fn known(config: &Config, all: &[String], follower: Follower, key: &AccountKey<'_>) -> Vec<Known> {
    let section = |name: &String| {
        let (_, _, document) = files_of(config, name).ok()?;
        document.get("modules")?.get(follower.module()).map(|section| Known::read(name, section, key))
    };
    all.iter().filter_map(section).collect()
}

/// What is followed by the access of an account, in whichever butler's settings.
pub fn followed(
    overrides: &Overrides,
    environment: &Environment,
    key: &AccountKey<'_>,
    secret: &str,
) -> Result<Vec<Follower>, SetupError> {
    let config = settings(overrides, environment)?;
    let all = butlers(&config.daemon.roster);
    let follows = |follower: &Follower| {
        let known = known(&config, &all, *follower, key);
        known.iter().any(|known| known.provider == key.provider && known.secret == secret)
    };
    Ok(Follower::ALL.into_iter().filter(follows).collect())
}

/// Where an account would stand: with this butler, else with the one that has it, else with the usual one or the first.
/// Before anything is stored, because what opens another account would be gone.
pub fn place_account(
    overrides: &Overrides,
    environment: &Environment,
    key: &AccountKey<'_>,
    butler: Option<&str>,
) -> Result<AccountPlace, SetupError> {
    let config = settings(overrides, environment)?;
    let module = key.follower.module();
    let all = butlers(&config.daemon.roster);
    let known = known(&config, &all, key.follower, key);
    let same = known.iter().find(|known| known.is(key));
    let usual = || all.iter().find(|name| *name == key.follower.usual()).or(all.first()).cloned();
    let name = match (butler, same) {
        (Some(named), _) => named.to_owned(),
        (None, Some(known)) => known.butler.clone(),
        (None, None) => usual().ok_or_else(|| SetupError::failed("The roster has no butler.", "See: butlerd check"))?,
    };
    let (home, ..) = files_of(&config, &name)?;
    let file = home.join("butler.toml");
    let own = known.iter().find(|known| known.butler == name);
    // What the household keeps itself is no account: a server takes its place, as the owner asks.
    if let Some(other) = own.filter(|other| !other.is(key) && other.provider != LOCAL) {
        let sentence = format!(
            "{} has [modules.{module}] with {} already, and nothing was changed.",
            file.display(),
            other.shown()
        );
        let next = "Take that section out if it is not wanted any more, or name another butler with --butler NAME.";
        return Err(SetupError::request(sentence, next));
    }
    // What a person gave one access to, opens calendars and address books alike.
    let others: Vec<Known> = match key.secret_key {
        "grant" => Follower::ALL.iter().flat_map(|follower| self::known(&config, &all, *follower, key)).collect(),
        _ => Vec::new(),
    };
    let same = same.or(others.iter().find(|known| known.is(key)));
    let of = |known: &Known, secret: &String| known.secret == *secret && known.provider == key.provider;
    let taken = |secret: &String| known.iter().chain(&others).any(|known| of(known, secret));
    let numbered = (2..).map(|n| format!("{}_{n}", key.secret));
    let mut names = std::iter::once(key.secret.to_owned()).chain(numbered);
    let new = || names.find(|secret| !taken(secret)).unwrap_or_default();
    // Whoever has the account in other settings, too, has one secret for it.
    let secret = own.filter(|own| own.is(key)).or(same).map(|known| known.secret.clone()).unwrap_or_else(new);
    let local = known.iter().filter(|known| known.provider == LOCAL && known.butler != name);
    let local = local.map(|known| known.butler.clone()).collect();
    let there = own.is_some_and(|own| own.is(key));
    Ok(AccountPlace { butler: name, file, secret, there, local })
}

/// A file without the section of a module, and without what stands above it as its comment.
fn without(text: &str, module: &str) -> String {
    let (own, parts) = (format!("[modules.{module}]"), format!("[modules.{module}."));
    let (mut kept, mut comment, mut inside) = (String::new(), String::new(), false);
    for line in text.split_inclusive('\n') {
        if line.starts_with('[') {
            inside = line.starts_with(&own) || line.starts_with(&parts);
            if inside {
                comment.clear();
            }
        }
        // What stands above a section belongs to it.
        if line.starts_with('#') {
            comment.push_str(line);
            continue;
        }
        if !inside {
            kept.push_str(&comment);
            kept.push_str(line);
        }
        comment.clear();
    }
    kept.push_str(&comment);
    kept.truncate(kept.trim_end().len());
    kept.push('\n');
    kept
}

/// Writes an account's section behind what its butler's settings have: these keys, each on a line. A section of the
/// household's own calendars goes. `None` if the settings have
/// it already: they stay as they are.
///
/// # Errors
///
/// The file can't be written, or would not pass the check then. It is as it was.
pub fn write_account(
    overrides: &Overrides,
    environment: &Environment,
    place: &AccountPlace,
    follower: Follower,
    keys: &[(&str, Value)],
) -> Result<Option<WrittenAccount>, SetupError> {
    if place.there {
        return Ok(None);
    }
    let (_, before, document) = files_of(&settings(overrides, environment)?, &place.butler)?;
    let file = place.file.clone();
    let module = follower.module();
    let section = document.get("modules").and_then(|modules| modules.get(module));
    let provider = section.map(|section| section.get("provider").and_then(Item::as_str).unwrap_or(LOCAL));
    if provider.is_some_and(|provider| provider != LOCAL) {
        let sentence = format!("{} got a [modules.{module}] meanwhile, and nothing was changed.", file.display());
        return Err(SetupError::failed(sentence, "Run this again."));
    }
    let was_right = mistakes(overrides, environment, &place.butler).is_none();
    let kept = if provider.is_some() { without(&before, module) } else { before.clone() };
    let gap = if kept.is_empty() || kept.ends_with('\n') { "\n" } else { "\n\n" };
    let mut after = format!("{kept}{gap}{}\n[modules.{module}]\n", follower.about());
    for (key, value) in keys {
        // Texts, lists of them and booleans are in TOML as they are in JSON.
        after.push_str(&format!("{key} = {value}\n"));
    }
    replace(&file, &after).map_err(|e| SetupError::failed(format!("{} can't be written: {e}.", file.display()), ""))?;
    let written = WrittenAccount { file, before, after };
    if let (true, Some(why)) = (was_right, mistakes(overrides, environment, &place.butler)) {
        written.take_back()?;
        let sentence = format!("Nothing was changed, because the settings would not pass the check: {why}");
        return Err(SetupError::failed(sentence, ""));
    }
    Ok(Some(written))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key<'a>(url: &'a str, user: &'a str) -> AccountKey<'a> {
        AccountKey {
            follower: Follower::Calendar,
            provider: "caldav",
            url: Some(url),
            user: Some(user),
            secret_key: "password",
            secret: "BUTLER_CALENDAR_PASSWORD",
        }
    }

    #[test]
    fn a_section_goes_with_its_comment_and_its_parts() {
        let text = "# About\n[butler]\nname = \"x\"\n\n# Kept here.\n# And how.\n[modules.calendar]\nprovider = \"local\"\n\n\
                    [modules.calendar.sync]\ninterval_minutes = 5\n\n# Memories\n[modules.memory]\nenabled = true\n";
        let left = "# About\n[butler]\nname = \"x\"\n\n# Memories\n[modules.memory]\nenabled = true\n";
        assert_eq!(without(text, "calendar"), left);
        assert_eq!(without(left, "calendar"), left);
        assert_eq!(without("[a]\nb = 1\n# end\n", "calendar"), "[a]\nb = 1\n# end\n");
    }

    #[test]
    fn an_account_is_known_by_provider_address_and_user() {
        let document: toml_edit::DocumentMut =
            "provider = \"caldav\"\nurl = \"https://dav.example/\"\nuser = \"ada\"\n".parse().unwrap();
        let known = Known::read("general", document.as_item(), &key("", ""));
        assert!(known.is(&key("https://dav.example", "ada")));
        assert!(!known.is(&key("https://dav.example", "bea")) && !known.is(&key("https://other.example", "ada")));
        assert_eq!(known.secret, "BUTLER_CALENDAR_PASSWORD");
        assert_eq!(known.shown(), "provider = \"caldav\" of ada at https://dav.example/");
        assert_eq!(without_login("https://ada:secret@dav.example"), "dav.example");
        let local = Known::read("general", toml_edit::DocumentMut::new().as_item(), &key("", ""));
        assert!(!local.is(&key("https://dav.example", "ada")) && local.provider == "local");
    }
}
