//! The MCP server as the assistants' configuration has it, and the JSON files that list servers.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::edit::{Document, Step};
use super::error::InitError;
use super::json::SyntaxError;
use super::shell;

use Step::Member;

/// The name of the MCP server, which wt-tools gave it: what assistants know of its tools stays true.
pub(super) const NAME: &str = "wt-tools";
/// The name of a server before that one, which is taken away.
pub(super) const LEGACY: &str = "wt-memory";

const LIST: &str = "mcpServers";

/// How an assistant starts the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Server {
    pub program: String,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
}

impl Server {
    /// The program and its arguments, with `env` before them where it needs an environment.
    pub fn command_line(&self) -> Vec<String> {
        let mut words = Vec::new();
        if !self.env.is_empty() {
            words.push("env".to_owned());
            words.extend(self.env.iter().map(|(name, value)| format!("{name}={value}")));
        }
        words.push(self.program.clone());
        words.extend(self.args.iter().cloned());
        words
    }

    /// A server of an assistant's configuration. It is the same whether its environment is a table or stands before
    /// the command.
    pub fn of(entry: &Value) -> Option<Self> {
        let args = entry["args"].as_array().map_or(&[][..], Vec::as_slice).iter().map(|arg| arg.as_str());
        let words = std::iter::once(entry["command"].as_str()).chain(args).map(|text| text.map(str::to_owned));
        let mut env = BTreeMap::new();
        for (name, value) in entry["env"].as_object().into_iter().flatten() {
            env.insert(name.clone(), value.as_str()?.to_owned());
        }
        let words = words.collect::<Option<Vec<String>>>()?;
        let (set, rest) = shell::without_environment(&words);
        env.extend(set);
        let (program, args) = rest.split_first()?;
        Some(Self { program: program.clone(), args: args.to_vec(), env })
    }

    /// Whether it is ours, from whatever place.
    pub fn is_ours(&self, now: &Self) -> bool {
        let named = Path::new(&self.program).file_name().is_some_and(|name| name == "butlerd");
        (named || self.program == now.program) && self.args == now.args
    }
}

/// A file that lists servers under `mcpServers`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListFile<'a> {
    pub path: &'a Path,
    /// Whether its program lets comments stand in it.
    pub comments: bool,
}

/// An entry of `.mcp.json`.
#[derive(Serialize)]
struct Shared<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    command: &'a str,
    args: &'a [String],
    env: &'a BTreeMap<String, String>,
}

/// An entry of Gemini's settings.
#[derive(Serialize)]
struct Gemini<'a> {
    command: &'a str,
    args: &'a [String],
    env: &'a BTreeMap<String, String>,
    /// Each call of a tool is shown to the developer first.
    trust: bool,
}

/// Which shape an entry has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    Shared,
    Gemini,
}

impl ListFile<'_> {
    /// The file with the server, and without the legacy one.
    pub fn with(self, text: Option<&str>, server: &Server, shape: Shape) -> Result<String, InitError> {
        let mut file = self.open(text)?;
        self.take_out(&mut file, &[LEGACY])?;
        if entry(&file, NAME).as_ref() == Some(server) {
            return Ok(file.text().to_owned());
        }
        let broken = |error| self.broken(error);
        if file.value(&[Member(LIST)]).is_none() {
            file.set(&[], LIST, &Value::Object(serde_json::Map::new())).map_err(broken)?;
        }
        let Server { program: command, args, env } = server;
        match shape {
            Shape::Shared => file.set(&[Member(LIST)], NAME, &Shared { kind: "stdio", command, args, env }),
            Shape::Gemini => file.set(&[Member(LIST)], NAME, &Gemini { command, args, env, trust: false }),
        }
        .map_err(broken)?;
        Ok(file.text().to_owned())
    }

    /// The file without these servers. `None`: it held nothing else.
    pub fn without(self, text: &str, names: &[&str]) -> Result<Option<String>, InitError> {
        let mut file = self.open(Some(text))?;
        let before = file.text().to_owned();
        self.take_out(&mut file, names)?;
        if file.text() == before {
            return Ok(Some(text.to_owned()));
        }
        let empty = file.value(&[]).is_some_and(|root| root.as_object().is_some_and(serde_json::Map::is_empty));
        // An empty file with a comment holds something.
        let bare = file.text().trim_matches(['{', '}', ' ', '\t', '\r', '\n']).is_empty();
        Ok((!empty || !bare).then(|| file.text().to_owned()))
    }

    /// The server of this name.
    pub fn server(self, text: &str, name: &str) -> Result<Option<Server>, InitError> {
        Ok(entry(&self.open(Some(text))?, name))
    }

    fn take_out(self, file: &mut Document, names: &[&str]) -> Result<(), InitError> {
        let mut dropped = false;
        for name in names {
            let path = [Member(LIST), Member(name)];
            if file.value(&path).is_some() {
                file.remove(&path).map_err(|error| self.broken(error))?;
                dropped = true;
            }
        }
        if dropped && file.names(&[Member(LIST)]).is_empty() {
            file.remove(&[Member(LIST)]).map_err(|error| self.broken(error))?;
        }
        Ok(())
    }

    fn open(self, text: Option<&str>) -> Result<Document, InitError> {
        let file = Document::read(text, self.comments).map_err(|error| self.broken(error))?;
        let root = file.value(&[]).unwrap_or_default();
        let wrong = match (root.as_object(), root.get(LIST)) {
            (None, _) => "the whole file",
            (_, Some(list)) if !list.is_object() => LIST,
            _ => return Ok(file),
        };
        Err(InitError::Shape { path: self.path.to_owned(), at: wrong.into(), expected: "an object" })
    }

    fn broken(self, SyntaxError { line, what }: SyntaxError) -> InitError {
        InitError::Syntax { path: self.path.to_owned(), line, format: "JSON", what }
    }
}

fn entry(file: &Document, name: &str) -> Option<Server> {
    Server::of(&file.value(&[Member(LIST), Member(name)])?)
}
