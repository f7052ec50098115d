//! `butlerd new butler`: a directory that is a butler already, to be made one's own.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use serde::Serialize;
use toml_edit::DocumentMut;

use super::SetupError;
use super::place::{is_there, whole_directory};
use super::shipped::write_files;
use crate::scenario::mentions;
use base::ButlerName;
use butler::own_tools;
use config::{Catalog as _, Config, Environment, Overrides, SHARED_DIR, load, load_config};
use modules::{Catalog, StrictCatalog};

static TEMPLATE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/setup/template");

/// Ports of butlers.
const PORTS: std::ops::Range<u16> = 40100..40200;
/// Shared skills that a butler wants, where the roster has them.
const SHARED_SKILLS: [&str; 2] = ["butler-memory", "butler-notifications"];

/// A butler that was made.
#[derive(Debug, Serialize)]
pub struct NewButler {
    pub name: String,
    pub dir: PathBuf,
    pub port: u16,
    /// Its files, below `dir`.
    pub files: Vec<PathBuf>,
}

/// Makes the directory of a butler with one table, one tool, one skill, one schedule and one file of scenarios.
pub fn new_butler(overrides: &Overrides, environment: &Environment, name: &str) -> Result<NewButler, SetupError> {
    let name = ButlerName::new(name).map_err(|_| {
        SetupError::request(
            format!("`{name}` can't be a butler's name."),
            "A name is a lower-case letter, then at most 30 of a-z, 0-9, `_` and `-`.",
        )
    })?;
    let config = settings(overrides, environment)?;
    let roster = &config.daemon.roster;
    if name.as_str() == SHARED_DIR || Catalog::default().module(name.as_str()) {
        let what = if name.as_str() == SHARED_DIR { "what butlers share" } else { "a module" };
        return Err(SetupError::request(format!("`{name}` is the name of {what}."), "Choose another one."));
    }
    let dir = roster.join(name.as_str());
    if is_there(&dir) {
        return Err(SetupError::failed(
            format!("{} exists already and is not changed.", dir.display()),
            "Choose another name.",
        ));
    }
    let claimed = claimed_ports(roster)?;
    let port = free_port(&claimed, &config).ok_or_else(|| {
        let sentence = format!("No port from {} to {} is free.", PORTS.start, PORTS.end - 1);
        SetupError::failed(sentence, "Free one in a butler.toml of the roster.")
    })?;
    let filled = Filled { name: &name, port, roster };
    whole_directory(&dir, |at| write_files(&TEMPLATE, Path::new(""), at, &|text: &[u8]| filled.fill(text)))?;
    if let Some(why) = mistakes(overrides, environment, name.as_str()) {
        // It is a moment old, and all of it is ours.
        let _ = fs::remove_dir_all(&dir);
        return Err(SetupError::failed(format!("No butler was made, because it would not pass the check: {why}"), ""));
    }
    let mut files = Vec::new();
    paths(&TEMPLATE, &mut files);
    files.sort();
    Ok(NewButler { name: name.to_string(), dir, port, files })
}

/// The settings, from which the roster's place is known.
pub(super) fn settings(overrides: &Overrides, environment: &Environment) -> Result<Config, SetupError> {
    let config = load_config(overrides, environment).map_err(|e| {
        SetupError::request(format!("The settings have mistakes: {e}"), "`butlerd check` lists them all.")
    })?;
    if !config.daemon.roster.is_dir() {
        let sentence = format!("There is no roster at {}.", config.daemon.roster.display());
        return Err(SetupError::request(sentence, "Name it with --roster DIR, or make one: butlerd init"));
    }
    Ok(config)
}

/// What `butlerd check` says of this butler; `None`: nothing.
pub(super) fn mistakes(overrides: &Overrides, environment: &Environment, name: &str) -> Option<String> {
    let broken = match load(overrides, environment, &StrictCatalog::new(own_tools, mentions)) {
        Ok(household) => household.broken,
        Err(refused) => refused.broken,
    };
    let broken = broken.into_iter().find(|b| b.name == name)?;
    Some(broken.mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

/// The other butlers' ports, as far as their files can be read: a port is taken by a broken one too.
fn claimed_ports(roster: &Path) -> Result<BTreeSet<i64>, SetupError> {
    let list = fs::read_dir(roster)
        .map_err(|e| SetupError::failed(format!("The roster {} can't be read: {e}.", roster.display()), ""))?;
    let port = |entry: fs::DirEntry| {
        let document: DocumentMut = fs::read_to_string(entry.path().join("butler.toml")).ok()?.parse().ok()?;
        document.get("butler")?.get("port")?.as_integer()
    };
    Ok(list.flatten().filter_map(port).collect())
}

/// The lowest port that no butler claims and nobody listens on.
fn free_port(claimed: &BTreeSet<i64>, config: &Config) -> Option<u16> {
    let free = |port: &u16| {
        let Some(moved) = config.daemon.moved(*port) else { return false };
        !claimed.contains(&i64::from(*port))
            && config.admin.listen.port() != moved
            && TcpListener::bind((Ipv4Addr::LOCALHOST, moved)).is_ok()
    };
    PORTS.filter(|port| *port > PORTS.start).find(free)
}

fn paths(dir: &Dir<'_>, into: &mut Vec<PathBuf>) {
    into.extend(dir.files().map(|file| file.path().to_owned()));
    for inner in dir.dirs() {
        paths(inner, into);
    }
}

/// The template with what is this butler's own.
struct Filled<'a> {
    name: &'a ButlerName,
    port: u16,
    roster: &'a Path,
}

impl Filled<'_> {
    fn fill(&self, text: &[u8]) -> Vec<u8> {
        let (name, text) = (self.name.as_str(), String::from_utf8_lossy(text));
        let there = |skill: &&&str| self.roster.join(SHARED_DIR).join("skills").join(skill).is_dir();
        let skills: Vec<String> = SHARED_SKILLS.iter().filter(there).map(|skill| format!("\"{skill}\"")).collect();
        text.replace("@name@", name)
            .replace("@title@", &title(name))
            .replace("@port@", &self.port.to_string())
            .replace("@schema@", &name.replace('-', "_"))
            .replace("@shared_skills@", &skills.join(", "))
            .into_bytes()
    }
}

/// `wine-cellar` as a person writes it: `Wine cellar`.
fn title(name: &str) -> String {
    let words = name.replace(['-', '_'], " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().collect::<String>() + letters.as_str()).unwrap_or_default()
}
