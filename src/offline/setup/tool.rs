//! `butlerd new tool`: a file of SQL with its header, and scenarios that hold already.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use toml_edit::DocumentMut;

use super::SetupError;
use super::butler::{mistakes, settings};
use super::place::{is_there, write_new};
use crate::sql::NEW_TOOL;
use butler::own_tools;
use config::{Config, Environment, Overrides};
use tools::http::RECORDINGS;

/// A tool that was made.
#[derive(Debug, Serialize)]
pub struct NewTool {
    pub butler: String,
    pub tool: String,
    /// The table that it reads; `None`: it asks a web service.
    pub table: Option<String>,
    pub files: Vec<PathBuf>,
}

const TESTS: &str = r#"# Run by `butlerd test @butler@`, each scenario as a tenant of its own that has nothing yet. Fill the table first, with the
# butler's own tools, and compare what comes back.
now = "2026-03-02T08:00:00+01:00"

[[scenario]]
name = "@tool@ counts what is there"
proves = "success"
tools = ["@tool@"]

[[scenario.step]]
call = "@tool@"
args = { since = "2026-03-01" }
expect = { since = "2026-03-01", found = 0 }

[[scenario]]
name = "@tool@ asks back for a day that is yet to come"
proves = "refusal"
tools = ["@tool@"]

[[scenario.step]]
call = "@tool@"
args = { since = "2026-03-03" }
refused = "since 2026-03-03 is yet to come"

[[scenario]]
name = "@tool@ counts nothing of another tenant"
proves = "tenant"
tools = ["@tool@"]

[[scenario.step]]
as = "other"
call = "@tool@"
expect = { found = 0 }
"#;

/// A tool that asks a web service which needs no key.
const HTTP_TOOL: &str = r#"---
description: >-
  The temperature and the wind at a place right now. Say here for a model what the tool does, when to use it, and what
  comes back.
examples:
  - Is it cold outside?
  - Do I need a jacket this morning?
args:
  latitude: {type: number, required: true, minimum: -90, maximum: 90, description: "Degrees north."}
  longitude: {type: number, required: true, minimum: -180, maximum: 180, description: "Degrees east."}
# Arguments stand in braces. Where it leads is fixed: redirects go to no other host, unless `allow_hosts` names it.
url: https://api.open-meteo.com/v1/forecast?latitude={latitude}&longitude={longitude}&current=temperature_2m,wind_speed_10m
# method: POST, headers: {Authorization: "Bearer {secret.NAME}"}, secrets: [NAME] and body: {...} are there as well.
returns: {celsius: /current/temperature_2m, wind_kmh: /current/wind_speed_10m}
timeout: 10s
cache: 10m
---
"#;

const HTTP_TESTS: &str = r#"# Run by `butlerd test @butler@`, with the answers in http/@tool@.json; `butlerd test @butler@ --record` adds what is missing.

[[scenario]]
name = "@tool@ tells the temperature"
proves = "success"
tools = ["@tool@"]

[[scenario.step]]
call = "@tool@"
args = { latitude = 52.5, longitude = 13.4 }
expect = { celsius = 3.4, wind_kmh = 11.2 }

[[scenario]]
name = "@tool@ tells what the service says of a wrong request"
proves = "refusal"
tools = ["@tool@"]

[[scenario.step]]
call = "@tool@"
args = { latitude = 89.5, longitude = 179.5 }
refused = "answered 400 Bad Request"
"#;

const HTTP_RECORDING: &str = r#"[
  {
    "method": "GET",
    "url": "https://api.open-meteo.com/v1/forecast?latitude=52.5&longitude=13.4&current=temperature_2m,wind_speed_10m",
    "content_type": "application/json; charset=utf-8",
    "json": { "current": { "temperature_2m": 3.4, "wind_speed_10m": 11.2 } }
  },
  {
    "method": "GET",
    "url": "https://api.open-meteo.com/v1/forecast?latitude=89.5&longitude=179.5&current=temperature_2m,wind_speed_10m",
    "failed": "api.open-meteo.com answered 400 Bad Request: this is made up, to show how a refusal looks"
  }
]
"#;

/// Makes a tool of a butler that is there, with its scenarios. `http`: one that asks a web service.
pub fn new_tool(
    overrides: &Overrides,
    environment: &Environment,
    butler: &str,
    tool: &str,
    http: bool,
) -> Result<NewTool, SetupError> {
    let right = tool.bytes().next().is_some_and(|b| b.is_ascii_lowercase())
        && tool.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && tool.len() <= 60;
    if !right {
        return Err(SetupError::request(
            format!("`{tool}` can't be a tool's name."),
            "A name is a lower-case letter, then a-z, 0-9 and `_`, such as plant_list.",
        ));
    }
    let (dir, _, document) = files_of(&settings(overrides, environment)?, butler)?;
    loads_tools(&dir, &document, butler)?;
    if own_tools(butler).contains(&tool) {
        let sentence = format!("Every butler, or {butler} itself, has a tool `{tool}` that is built in.");
        return Err(SetupError::request(sentence, "Choose another name."));
    }
    let (tools, tests) = (dir.join("tools"), dir.join("tests"));
    let mut files = vec![tools.join(format!("{tool}.sql")), tests.join(format!("{tool}.toml"))];
    let mut contents = vec![NEW_TOOL, TESTS];
    if http {
        files = vec![
            tools.join(format!("{tool}.http")),
            files.remove(1),
            tests.join(RECORDINGS).join(format!("{tool}.json")),
        ];
        contents = vec![HTTP_TOOL, HTTP_TESTS, HTTP_RECORDING];
    }
    if let Some(there) = files.iter().find(|file| is_there(file)) {
        let sentence = format!("{} exists already and is not changed.", there.display());
        return Err(SetupError::failed(sentence, "Choose another name."));
    }
    let own = own_table(&dir.join("migrations")).filter(|_| !http);
    if own.is_none() && !http {
        let sentence = format!("{butler} has no table yet, and a tool reads or writes tables.");
        let next = format!("Make one in {}/migrations/, with SELECT shared.tenant_table('…').", dir.display());
        return Err(SetupError::failed(sentence, next));
    }
    let (table, dated) = own.map_or((None, false), |(table, dated)| (Some(table), dated));
    let join = match dated {
        true => "t.created_at >= shared.bound('since', :since::text, false)",
        false => "true",
    };
    let since_said = if dated { ", all or those since a day" } else { "" };
    let fill = |text: &str| {
        let text = text
            .replace("@tool@", tool)
            .replace("@butler@", butler)
            .replace("@table@", table.as_deref().unwrap_or_default());
        text.replace("@join@", join).replace("@since_said@", since_said)
    };
    let before = mistakes(overrides, environment, butler);
    for (file, text) in files.iter().zip(contents) {
        if let Err(e) = write_new(file, &fill(text), 0o644) {
            take_back(&files, file);
            return Err(SetupError::failed(format!("{} can't be written: {e}.", file.display()), ""));
        }
    }
    if let (None, Some(why)) = (before, mistakes(overrides, environment, butler)) {
        files.iter().for_each(|file| drop(fs::remove_file(file)));
        return Err(SetupError::failed(format!("No tool was made, because it would not pass the check: {why}"), ""));
    }
    Ok(NewTool { butler: butler.to_owned(), tool: tool.to_owned(), table, files })
}

/// A butler's directory, and its `butler.toml` as text and read.
pub(super) fn files_of(config: &Config, butler: &str) -> Result<(PathBuf, String, DocumentMut), SetupError> {
    let dir = config.daemon.roster.join(butler);
    let file = dir.join("butler.toml");
    let failed = |why: String, next: String| SetupError::failed(format!("{} {why}.", file.display()), next);
    let text = fs::read_to_string(&file)
        .map_err(|e| failed(format!("can't be read: {e}"), format!("Make it: butlerd new butler {butler}")))?;
    let document = text.parse::<DocumentMut>();
    let document = document.map_err(|_| failed("is not valid TOML".to_owned(), "See: butlerd check".to_owned()))?;
    Ok((dir, text, document))
}

/// Refuses a butler that has no tools in files.
pub(super) fn loads_tools(dir: &Path, document: &DocumentMut, butler: &str) -> Result<(), SetupError> {
    if document.get("modules").and_then(|modules| modules.get(butler)).is_some() {
        return Ok(());
    }
    let file = dir.join("butler.toml");
    let sentence = format!("{} has no [modules.{butler}], so no tool would be loaded.", file.display());
    Err(SetupError::failed(sentence, format!("Add the line [modules.{butler}] to it first.")))
}

/// Removes what was written before `failed`, which may be somebody else's.
fn take_back(files: &[PathBuf], failed: &Path) {
    for file in files.iter().take_while(|file| *file != failed) {
        let _ = fs::remove_file(file);
    }
}

/// The first table that the butler's migrations make, and whether it says when its rows were made.
fn own_table(migrations: &Path) -> Option<(String, bool)> {
    let mut files: Vec<PathBuf> = fs::read_dir(migrations).ok()?.flatten().map(|e| e.path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "sql"));
    files.sort();
    let made = regex::Regex::new(r"(?is)CREATE TABLE (?:IF NOT EXISTS )?([a-z_][a-z0-9_]*)\s*\((.*?)\n\)").ok()?;
    files.iter().find_map(|file| {
        let text = fs::read_to_string(file).ok()?;
        let found = made.captures(&text)?;
        let dated = found[2].lines().any(|line| line.trim_start().starts_with("created_at "));
        Some((found[1].to_owned(), dated))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_table_is_found() {
        let top = tempfile::tempdir().unwrap();
        assert_eq!(own_table(top.path()), None);
        fs::write(top.path().join("002_b.sql"), "CREATE TABLE later (\n    id int\n);\n").unwrap();
        assert_eq!(own_table(top.path()), Some(("later".to_owned(), false)));
        let sql = "-- words\nCREATE TABLE things (\n    id uuid DEFAULT f(),\n    created_at timestamptz\n);\n";
        fs::write(top.path().join("001_a.sql"), sql).unwrap();
        assert_eq!(own_table(top.path()), Some(("things".to_owned(), true)));
    }
}
