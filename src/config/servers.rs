//! `[mcp.servers.<name>]` of `butler.toml`: MCP servers of others.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use strum::{Display, EnumString, IntoStaticStr};

use base::HumanDuration;

use super::schema::keys;
use super::section::KeyMistake;

/// What the name of a server's module begins with.
pub const SERVER_MODULES: &str = "mcp.";
/// The longest name of a tool that all vendors take.
const MOST_NAME: usize = 60;

/// MCP servers of others.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct McpSection {
    /// Servers whose tools the butler has besides its own, each under a name. Each is a module `mcp.<name>`.
    #[serde(default)]
    #[schemars(extend("propertyNames" = {"format": "server"}, "examples" = [{ "files": {} }]))]
    pub servers: BTreeMap<String, McpServer>,
}

/// One MCP server of somebody else's.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct McpServer {
    /// The program that is the server, with its arguments. It is started when a tool is called, in the sandbox of
    /// sessions, with a directory of its own that is gone afterwards. Either this or `url`.
    #[schemars(inner(length(min = 1)), extend("default" = [], "examples" = [["mcp-server-filesystem", "/srv/notes"]]))]
    pub command: Vec<String>,
    /// The address of a server that speaks MCP over HTTP.
    #[schemars(extend("format" = "url", "examples" = ["https://mcp.example.org/mcp"]))]
    pub url: Option<String>,
    /// Variables that the program gets. A stored secret of that name goes before the daemon's own environment.
    #[schemars(extend("items" = {"type": "string", "format": "variable"}, "default" = []))]
    pub env: Vec<String>,
    /// Headers that go to the address; `{secret.NAME}` in one stands for a stored secret or a variable of the daemon's.
    #[serde(default)]
    #[schemars(extend("propertyNames" = {"format": "filled"}, "examples" = [{ "Authorization": "Bearer {secret.EXAMPLE_TOKEN}" }]))]
    pub headers: BTreeMap<String, String>,
    /// Files and directories that the program reads, besides itself and the system's libraries.
    #[schemars(extend("items" = {"type": "string", "format": "absolute"}, "default" = []))]
    pub read: Vec<PathBuf>,
    /// Directories that it reads and writes.
    #[schemars(extend("items" = {"type": "string", "format": "absolute"}, "default" = []))]
    pub write: Vec<PathBuf>,
    /// TCP ports that it may connect to, on whatever host: 443 for the web.
    #[schemars(inner(range(min = 1, max = 65_535)), extend("default" = []))]
    pub connect: Vec<u16>,
    /// Its tools that the butler has, by the server's names. `butlerd mcp-servers show` tells which there are.
    #[schemars(inner(length(min = 1)), extend("default" = []))]
    pub tools: Vec<String>,
    /// What the butler calls them; if not set, the server's name and the tool's, with `_` between them.
    #[serde(default)]
    #[schemars(
        extend("propertyNames" = {"format": "filled"}, "additionalProperties" = {"type": "string", "format": "tool"}, "examples" = [{ "read_text_file": "note_read" }])
    )]
    pub rename: BTreeMap<String, String>,
    /// Those of `tools` that change nothing. Each call of another one is taken to change something, so that a session
    /// which others influenced has to ask before it.
    #[schemars(inner(length(min = 1)), extend("default" = []))]
    pub only_reads: Vec<String>,
    /// Whether results hold what is private to the household.
    #[schemars(extend("default" = true))]
    pub reads_private: bool,
    /// Whether what a call says leaves the household.
    #[schemars(extend("default" = true))]
    pub sends_out: bool,
    /// Whether what its tools change can't be brought back.
    #[schemars(extend("default" = false))]
    pub destructive: bool,
    /// How calls are taken back (`butlerd undo`): under the name of one of `tools` the tool of the same server that undoes
    /// its calls. One that is not among `tools` itself is for people alone: no session sees or calls it.
    #[serde(default)]
    #[schemars(extend("propertyNames" = {"format": "filled"}, "examples" = [{ "add_event": { "tool": "delete_event" } }]))]
    pub undo: BTreeMap<String, UndoTool>,
    /// Whose words its results are: a session that was shown a stranger's is trusted as little as the stranger.
    #[schemars(extend("default" = "stranger"))]
    pub trust: ResultTrust,
    /// How long one call may take.
    #[schemars(range(min = 1, max = 50), extend("default" = "30s"))]
    pub timeout: HumanDuration,
    /// After how long without a call the program is ended.
    #[schemars(range(min = 1, max = 86_400), extend("default" = "5m"))]
    pub idle: HumanDuration,
}

/// The call that takes another one back.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct UndoTool {
    /// The tool that does it, by the server's name.
    #[schemars(length(min = 1))]
    pub tool: String,
    /// Its arguments. A text that is `$arguments/…` or `$result/…` stands for the value that the first call's arguments or
    /// its result have there, by JSON pointer; a text that begins with `$$` for one that begins with `$`.
    #[serde(default)]
    #[schemars(extend("examples" = [{ "id": "$result/id", "calendar": "$arguments/calendar" }]))]
    pub arguments: Map<String, Json>,
}

/// How far a server's results are believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema, EnumString, Display, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ResultTrust {
    /// As anybody's words.
    Stranger,
    /// As those of people whom the owner knows.
    Known,
    /// As the owner's own: nobody else can have put words into them.
    Owner,
}

impl McpServer {
    /// What the butler calls one of the server's tools; `name`: the server's.
    pub fn tool_name(&self, name: &str, tool: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '_' };
        self.rename.get(tool).cloned().unwrap_or_else(|| format!("{name}_{tool}").chars().map(plain).collect())
    }

    /// All tools that the butler or its people have of it, each once with the key that names it.
    pub fn places(&self) -> impl Iterator<Item = (String, &String)> {
        let only_undo = self.undo.iter().filter(|(_, undo)| !self.tools.contains(&undo.tool));
        let only_undo: BTreeMap<_, _> = only_undo.map(|(of, undo)| (&undo.tool, format!("undo.{of}.tool"))).collect();
        let named = self.tools.iter().enumerate().map(|(n, tool)| (format!("tools.{n}"), tool));
        named.chain(only_undo.into_iter().map(|(tool, key)| (key, tool)))
    }

    /// What shows only where several keys are seen together. `name`: the server's.
    pub fn mistakes(&self, name: &str) -> Vec<KeyMistake> {
        let mut found = Vec::new();
        let mut note = |key: &str, problem: String, expected: &str| found.push(KeyMistake::new(key, problem, expected));
        match (&self.url, self.command.first()) {
            (Some(_), Some(_)) => note("url", "found beside command".to_owned(), "only one of command and url"),
            (None, None) => note("", "found neither command nor url".to_owned(), "one of them"),
            (None, Some(program)) if program.contains('/') && !program.starts_with('/') => {
                note("command", format!("found \"{program}\""), "a program's name, or its path from `/` on");
            }
            _ => {}
        }
        let (of_program, of_address) = (self.url.is_some(), self.url.is_none());
        for (key, given, wrong, other) in [
            ("env", !self.env.is_empty(), of_program, "command"),
            ("read", !self.read.is_empty(), of_program, "command"),
            ("write", !self.write.is_empty(), of_program, "command"),
            ("connect", !self.connect.is_empty(), of_program, "command"),
            ("headers", !self.headers.is_empty(), of_address, "url"),
        ] {
            if given && wrong {
                note(key, format!("found without {other}"), "it only where that is");
            }
        }
        for (n, tool) in self.tools.iter().enumerate().filter(|(n, tool)| self.tools[..*n].contains(tool)) {
            note(&format!("tools.{n}"), format!("found \"{tool}\" for the second time"), "each tool once");
        }
        for (key, tool) in self.places() {
            let ours = self.tool_name(name, tool);
            if ours.len() > MOST_NAME {
                let problem = format!("found \"{tool}\", which would be called {ours}");
                note(&key, problem, "a shorter name under `rename`");
            }
        }
        for (tool, undo) in &self.undo {
            if !self.tools.contains(tool) {
                note(&format!("undo.{tool}"), format!("found \"{tool}\", which is not among tools"), "one of them");
            }
            for (key, tool) in [(format!("undo.{tool}"), tool), (format!("undo.{tool}.tool"), &undo.tool)] {
                if self.only_reads.contains(tool) {
                    let problem = format!("found \"{tool}\", which changes nothing, as only_reads says");
                    note(&key, problem, "a tool that changes something");
                }
            }
        }
        let known = |tool: &String| self.places().any(|(_, own)| own == tool);
        let renamed = self.rename.keys().map(|tool| (format!("rename.{tool}"), tool));
        let reads = self.only_reads.iter().enumerate().map(|(n, tool)| (format!("only_reads.{n}"), tool));
        for (key, tool) in renamed.chain(reads).filter(|(_, tool)| !known(tool)) {
            note(&key, format!("found \"{tool}\", which is not among tools"), "one of them");
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Section;
    use serde_json::{Value, json};

    fn server(given: Value) -> McpServer {
        Section::of::<McpServer>().read(&given).unwrap()
    }

    #[test]
    fn tools_are_called_by_the_server_s_name_unless_they_are_renamed() {
        let files = server(json!({"command": ["x"], "tools": ["get-Sum", "b"], "rename": {"b": "note_read"}}));
        assert_eq!(files.tool_name("files", "get-Sum"), "files_get_sum");
        assert_eq!(files.tool_name("files", "b"), "note_read");
        assert!(files.mistakes("files").is_empty());
        assert!(files.sends_out && files.reads_private && files.trust == ResultTrust::Stranger);
    }

    #[test]
    fn what_does_not_go_together_is_told_with_its_key() {
        for (given, key, word) in [
            (json!({}), "", "neither"),
            (json!({"command": ["x"], "url": "http://h/"}), "url", "beside"),
            (json!({"command": ["bin/x"]}), "command", "found"),
            (json!({"url": "http://h/", "env": ["A"]}), "env", "without command"),
            (json!({"command": ["x"], "headers": {"A": "b"}}), "headers", "without url"),
            (json!({"command": ["x"], "tools": ["a", "a"]}), "tools.1", "second time"),
            (json!({"command": ["x"], "tools": ["a".repeat(60)]}), "tools.0", "called s_a"),
            (json!({"command": ["x"], "rename": {"a": "b"}}), "rename.a", "not among"),
            (json!({"command": ["x"], "only_reads": ["a"]}), "only_reads.0", "not among"),
            (json!({"command": ["x"], "undo": {"a": {"tool": "b"}}}), "undo.a", "not among"),
            (
                json!({"url": "http://h/", "tools": ["a"], "undo": {"a": {"tool": "b".repeat(60)}}}),
                "undo.a.tool",
                "s_b",
            ),
        ] {
            let found = server(given.clone()).mistakes("s");
            assert!(found.len() == 1 && found[0].key == key && found[0].problem.contains(word), "{given}: {found:?}");
        }
    }
}
