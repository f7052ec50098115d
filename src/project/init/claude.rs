//! Claude Code's own list of MCP servers, which its program changes.
//!
//! Seen with 2.1.329 and 2.1.197, and the reason for what stands here:
//!
//! * `claude mcp get` starts the server, so the list is read from its file.
//! * What is registered with scope `local` is kept under the top of the repository's main working tree: all of its
//!   worktrees share it.
//! * `claude mcp add` refuses a name that is there, and `claude mcp remove` one that several scopes have.
//! * A name comes before options that take several values.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::error::InitError;
use super::servers::{LEGACY, NAME, Server};
use super::{Change, InitOptions, files};
use crate::place::ProjectPlace;

/// It takes a fifth of a second; the rest is for a machine that is busy.
const LONGEST: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);

/// What Claude Code has registered.
#[derive(Debug)]
pub(super) struct Registered {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    name: &'static str,
    scope: &'static str,
    value: Value,
}

/// The file in which Claude Code keeps its list.
pub(super) fn list_file(options: &InitOptions) -> PathBuf {
    options.home.join(".claude.json")
}

/// The directory under which it keeps what is registered for a project: the top of the repository's main working tree.
pub(super) fn main_top(place: &ProjectPlace) -> PathBuf {
    // Of a worktree this is a file, and of a submodule as well, whose repository is called otherwise.
    let own = place.top.join(".git").is_dir();
    let shared = place.common_dir.as_ref().filter(|dir| !own && dir.ends_with(".git")).and_then(|dir| dir.parent());
    shared.unwrap_or(&place.top).to_owned()
}

impl Registered {
    /// Reads it for this project. A file that is missing has nothing.
    pub fn read(place: &ProjectPlace, options: &InitOptions) -> Result<Self, InitError> {
        let path = list_file(options);
        let text = files::read(&path).map_err(|source| InitError::Read { path: path.clone(), source })?;
        let list: Value = match text.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
            None => Value::Null,
            Some(text) => serde_json::from_str(text).map_err(|error| InitError::Syntax {
                path,
                line: error.line(),
                format: "JSON",
                what: error.to_string(),
            })?,
        };
        let tops = [main_top(place), place.top.clone()];
        let real = tops.iter().filter_map(|top| top.canonicalize().ok());
        let keys: BTreeSet<PathBuf> = tops.iter().cloned().chain(real).collect();
        let mut entries = Vec::new();
        for name in [LEGACY, NAME] {
            let local = keys.iter().find_map(|key| list["projects"][key.to_str()?]["mcpServers"].get(name));
            entries.extend(local.map(|value| Entry { name, scope: "local", value: value.clone() }));
            // One for all projects is somebody's wish, but for the one that nothing uses any more.
            let everywhere = list["mcpServers"].get(name).filter(|_| name == LEGACY);
            entries.extend(everywhere.map(|value| Entry { name, scope: "user", value: value.clone() }));
        }
        Ok(Self { entries })
    }

    /// The server under our name.
    pub fn server(&self) -> Option<Server> {
        Server::of(&self.entries.iter().find(|entry| entry.name == NAME)?.value)
    }

    /// What makes `server` the only registration. Nothing, where it is.
    pub fn calls_to_add(&self, server: &Server) -> Calls {
        let current = self.server().as_ref() == Some(server);
        let legacy = self.entries.iter().any(|entry| entry.name == LEGACY);
        let mut calls = Calls::default();
        if current && !legacy {
            return calls;
        }
        if !legacy {
            // It may be where it can't be seen from here.
            calls.push(&["mcp", "remove", LEGACY], false, None);
        }
        self.take_out(&mut calls, |entry| entry.name == LEGACY);
        if current {
            return calls;
        }
        match self.server() {
            Some(_) => self.take_out(&mut calls, |entry| entry.name == NAME),
            None => calls.push(&["mcp", "remove", NAME, "--scope", "local"], false, None),
        }
        let line = server.command_line();
        let mut args = vec!["mcp", "add", NAME, "--scope", "local", "--"];
        args.extend(line.iter().map(String::as_str));
        let undo = ["mcp", "remove", NAME, "--scope", "local"];
        calls.push(&args, true, Some(undo.map(str::to_owned).to_vec()));
        calls.diff.push_str(&format!("+{NAME}: {}\n", line.join(" ")));
        calls
    }

    /// What takes our registration away.
    pub fn calls_to_remove(&self, server: &Server) -> Calls {
        let mut calls = Calls::default();
        let ours = self.server().is_some_and(|found| found.is_ours(server));
        self.take_out(&mut calls, |entry| entry.name == NAME && ours);
        calls
    }

    fn take_out(&self, calls: &mut Calls, which: impl Fn(&Entry) -> bool) {
        for entry in self.entries.iter().filter(|entry| which(entry)) {
            let json = entry.value.to_string();
            let undo = ["mcp", "add-json", entry.name, "--scope", entry.scope, &json];
            let undo = undo.map(str::to_owned).to_vec();
            calls.push(&["mcp", "remove", entry.name, "--scope", entry.scope], true, Some(undo));
            // Its arguments may hold secrets, so a diff names the program only.
            let program = entry.value["command"].as_str().or(entry.value["url"].as_str()).unwrap_or("?");
            calls.diff.push_str(&format!("-{}: {program} …\n", entry.name));
        }
    }
}

/// Calls of Claude Code's program, in their order.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    diff: String,
}

#[derive(Debug)]
struct Call {
    args: Vec<String>,
    /// Whether it has to succeed.
    needed: bool,
    /// What takes it back.
    undo: Option<Vec<String>>,
}

impl Calls {
    fn push(&mut self, args: &[&str], needed: bool, undo: Option<Vec<String>>) {
        self.calls.push(Call { args: args.iter().map(|&arg| arg.to_owned()).collect(), needed, undo });
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The calls as somebody would type them.
    pub fn lines(&self) -> Vec<String> {
        self.calls.iter().map(|call| shown(&call.args)).collect()
    }

    pub fn change(&self, options: &InitOptions, done: bool) -> Change {
        let what = format!("MCP server {NAME} of Claude Code, by {}", self.lines().join(", "));
        Change { path: list_file(options), what, diff: self.diff.clone(), done }
    }

    /// Makes the calls in `directory`. Where one fails, those before it are taken back.
    pub fn run(&self, program: &Path, directory: &Path, options: &InitOptions) -> Result<(), InitError> {
        let run = |args: &[String]| run(program, args, directory, options);
        for (n, call) in self.calls.iter().enumerate() {
            let Err(error) = run(&call.args) else { continue };
            if !call.needed {
                continue;
            }
            let mut undone = self.calls[..n].iter().rev().filter_map(|call| call.undo.as_ref());
            return Err(match undone.find_map(|undo| run(undo).err()) {
                None => error,
                Some(why) => InitError::Restore {
                    first: Box::new(error),
                    what: "the list of MCP servers of Claude Code".to_owned(),
                    why: why.to_string(),
                },
            });
        }
        Ok(())
    }
}

fn shown(args: &[String]) -> String {
    let words: Vec<String> = args.iter().map(|arg| super::shell::quoted(arg)).collect();
    format!("`claude {}`", words.join(" "))
}

fn run(program: &Path, args: &[String], directory: &Path, options: &InitOptions) -> Result<(), InitError> {
    let failed = |output: String| InitError::Program {
        // What follows the name may hold secrets of a registration that is put back.
        command: format!("claude {}", args.iter().take(3).cloned().collect::<Vec<_>>().join(" ")),
        directory: directory.to_owned(),
        output,
    };
    let mut command = Command::new(program);
    command.args(args).current_dir(directory).env("HOME", &options.home).env("PATH", &options.path);
    // It would keep its list elsewhere than it is read. Who sets the variable gives that directory as `home`.
    if std::env::var_os("CLAUDE_CONFIG_DIR").is_some_and(|dir| Path::new(&dir) != options.home) {
        command.env_remove("CLAUDE_CONFIG_DIR");
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    // On a thread of its own: a child that fills the pipe would wait for ever, and so may one that leaves it open.
    let (sender, said) = std::sync::mpsc::channel();
    if let Some(mut pipe) = child.stderr.take() {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = pipe.read_to_end(&mut bytes);
            let _ = sender.send(String::from_utf8_lossy(&bytes).trim().to_owned());
        });
    }
    let start = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| failed(error.to_string()))? {
            Some(status) => break status,
            None if start.elapsed() < LONGEST => std::thread::sleep(POLL),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(format!("it did not end within {} seconds", LONGEST.as_secs())));
            }
        }
    };
    if status.success() {
        return Ok(());
    }
    let said = said.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
    Err(failed(if said.is_empty() { status.to_string() } else { said }))
}
