//! `butlerd new mcp`: tools of others that are ready. They ship with butlerd, and no butler has them until it is given
//! them: as a section at the end of its `butler.toml`, or as a file in `tools/`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use self::Place::{Server, Tool};
use super::SetupError;
use super::butler::{mistakes, settings};
use super::place::{is_there, write_new};
use super::tool::{files_of, loads_tools};
use config::{Environment, Overrides};

/// Tools that are ready.
struct Ready {
    name: &'static str,
    place: Place,
    text: &'static str,
    /// What they need besides: a command.
    next: &'static str,
}

/// Where they are written.
enum Place {
    /// `[mcp.servers.<name>]`
    Server(&'static str),
    /// `tools/<name>.http`
    Tool(&'static str),
}

/// As docs/mcp-servers.md shows them.
const READY: [Ready; 5] = [
    ready("search", Tool("web_search"), include_str!("ready/search.http"), "butlerd secret set BRAVE_SEARCH_KEY"),
    ready(
        "fetch",
        Server("web"),
        include_str!("ready/fetch.toml"),
        "python3 -m venv /opt/fetch && /opt/fetch/bin/pip install mcp-server-fetch",
    ),
    ready(
        "home-assistant",
        Server("home"),
        include_str!("ready/home-assistant.toml"),
        "butlerd secret set HOME_ASSISTANT_TOKEN",
    ),
    ready("github", Server("github"), include_str!("ready/github.toml"), "butlerd secret set GITHUB_TOKEN"),
    ready(
        "files",
        Server("files"),
        include_str!("ready/files.toml"),
        "npm install --global @modelcontextprotocol/server-filesystem",
    ),
];

const fn ready(name: &'static str, place: Place, text: &'static str, next: &'static str) -> Ready {
    Ready { name, place, text, next }
}

/// The directory in the text of `files`.
const DIR: &str = "\"/srv/notes\"";

/// What a butler was given.
#[derive(Debug, Serialize)]
pub struct Added {
    pub butler: String,
    /// The section, or the tool.
    pub what: String,
    pub file: PathBuf,
    /// The command that comes next; then a reload takes all of it up.
    pub next: &'static str,
}

/// What [`add_ready`] knows.
pub fn ready_names() -> [&'static str; 5] {
    READY.map(|ready| ready.name)
}

/// Gives a butler tools that are ready. `dir`: what `files` reads.
pub fn add_ready(
    overrides: &Overrides,
    environment: &Environment,
    butler: &str,
    name: &str,
    dir: Option<&Path>,
) -> Result<Added, SetupError> {
    let ready = READY.into_iter().find(|ready| ready.name == name);
    let ready = ready.ok_or_else(|| SetupError::request(format!("There is no `{name}`."), ready_names().join(", ")))?;
    let text = with_directory(&ready, dir.map(|dir| environment.working_dir.join(dir)))?;
    let (home, before, document) = files_of(&settings(overrides, environment)?, butler)?;
    let there = |what: &str| SetupError::failed(format!("{what} exists already and is not changed."), "");
    let was_right = mistakes(overrides, environment, butler).is_none();
    let (what, file) = match ready.place {
        Place::Server(server) => (format!("[mcp.servers.{server}]"), home.join("butler.toml")),
        Place::Tool(tool) => (format!("the tool {tool}"), home.join(format!("tools/{tool}.http"))),
    };
    let written = match ready.place {
        Place::Server(server) => {
            let servers = document.get("mcp").and_then(|mcp| mcp.get("servers"));
            if servers.and_then(|servers| servers.get(server)).is_some() {
                return Err(there(&format!("{what} of {}", file.display())));
            }
            append(&file, &before, &text)
        }
        Place::Tool(_) => {
            loads_tools(&home, &document, butler)?;
            if is_there(&file) {
                return Err(there(&file.display().to_string()));
            }
            write_new(&file, &text, 0o644)
        }
    };
    written.map_err(|e| SetupError::failed(format!("{} can't be written: {e}.", file.display()), ""))?;
    if let (true, Some(why)) = (was_right, mistakes(overrides, environment, butler)) {
        let taken_back = match ready.place {
            Place::Server(_) => shorten(&file, &before),
            Place::Tool(_) => fs::remove_file(&file),
        };
        return Err(match taken_back {
            Ok(()) => SetupError::failed(format!("Nothing was added, because it would not pass the check: {why}"), ""),
            Err(e) => SetupError::failed(
                format!("{what} does not pass the check ({why}) and can't be taken back ({e})."),
                format!("Remove it from {} yourself.", file.display()),
            ),
        });
    }
    Ok(Added { butler: butler.to_owned(), what, file, next: ready.next })
}

/// The text, with the owner's directory where it has one.
fn with_directory(ready: &Ready, dir: Option<PathBuf>) -> Result<String, SetupError> {
    match (ready.text.contains(DIR), dir) {
        (false, None) => Ok(ready.text.to_owned()),
        (true, Some(dir)) if dir.is_dir() => {
            let dir = dir.canonicalize().unwrap_or(dir);
            let dir = dir.to_str().ok_or_else(|| SetupError::request("The directory's name is not UTF-8.", ""))?;
            Ok(ready.text.replace(DIR, &serde_json::Value::from(dir).to_string()))
        }
        (true, Some(dir)) => {
            Err(SetupError::request(format!("There is no directory {}.", dir.display()), "Make it first."))
        }
        (true, None) => {
            Err(SetupError::request("`files` needs the directory that the butler reads.", "Name it with --dir DIR."))
        }
        (false, Some(_)) => Err(SetupError::request(format!("`{}` reads no directory.", ready.name), "Omit --dir.")),
    }
}

/// Writes behind what is there, which stays as it is.
pub(super) fn append(file: &Path, before: &str, text: &str) -> io::Result<()> {
    let gap = if before.is_empty() || before.ends_with('\n') { "\n" } else { "\n\n" };
    let mut open = fs::OpenOptions::new().append(true).open(file)?;
    let written = open.write_all(format!("{gap}{text}").as_bytes()).and_then(|()| open.sync_all());
    written.inspect_err(|_| drop(shorten(file, before)))
}

/// Takes back what was appended.
pub(super) fn shorten(file: &Path, before: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(file)?.set_len(before.len() as u64)
}
