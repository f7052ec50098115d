//! A developer at a repository, and what they start: commands, hooks, the server over standard input and output.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use super::{Household, butlerd};

/// So often a busy machine may be too slow for a hook.
const ROUNDS: usize = 10;

/// A household with the butler `workshop`.
pub fn with_workshop() -> Household {
    Household::few().and_workshop()
}

impl Household {
    /// The same with the butler `workshop`.
    pub fn and_workshop(self) -> Self {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("roster/.workshop");
        for file in std::fs::read_dir(shipped).expect("the shipped butler").flatten() {
            let to = self.roster().join("workshop").join(file.file_name());
            std::fs::create_dir_all(to.parent().expect("a parent")).expect("the directory");
            std::fs::copy(file.path(), to).expect("the file");
        }
        self
    }
}

/// A developer at a directory, with a household's daemon.
pub struct Developer<'a> {
    pub household: &'a Household,
    pub at: PathBuf,
}

impl<'a> Developer<'a> {
    /// In a new repository with one commit.
    pub fn in_repository(household: &'a Household, path: &str) -> Self {
        let at = household.path().join(path);
        std::fs::create_dir_all(&at).expect("the directory");
        git(&at, &["init", "-q", "-b", "main"]);
        git(&at, &["commit", "-q", "--allow-empty", "-m", path]);
        Self { household, at }
    }

    pub fn at(household: &'a Household, at: PathBuf) -> Self {
        Self { household, at }
    }

    pub fn command(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap_or_default())
            .env("HOME", self.household.path())
            .env("BUTLERD_PROJECT_SOCKET", self.household.data().join("run/project.sock"))
            .current_dir(&self.at)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn run(&self, program: &Path, args: &[&str], input: &str) -> Output {
        let mut child = self.command(program, args).spawn().expect("it runs");
        // One that reads nothing has left already.
        drop(child.stdin.take().expect("its input").write_all(input.as_bytes()));
        child.wait_with_output().expect("its output")
    }

    /// What `butlerd project … --json` answers.
    pub fn project(&self, args: &[&str]) -> Value {
        let mut words = vec!["project"];
        words.extend(args);
        words.push("--json");
        let out = self.run(butlerd(), &words, "");
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success(), "{args:?}: {text}{}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{args:?}: {e}: {text}"))
    }

    pub fn remember(&self, kind: &str, tags: &str, text: &str) -> String {
        let kept = self.project(&["remember", "--type", kind, "--tags", tags, text]);
        kept["id"].as_str().unwrap_or_else(|| panic!("no id: {kept}")).to_owned()
    }

    pub fn is_gone(&self, id: &str) -> bool {
        let out = self.run(butlerd(), &["project", "get", id, "--json"], "");
        out.status.code() == Some(1) && String::from_utf8_lossy(&out.stdout).contains("not_found")
    }

    pub fn recalled(&self, query: &str) -> Vec<String> {
        contents(&self.project(&["recall", query]))
    }

    /// How many hooks came too late or failed so far. `None`: nobody can say.
    fn missed(&self) -> Option<u64> {
        let out = self.run(butlerd(), &["project", "status", "--json"], "");
        let status: Value = serde_json::from_slice(&out.stdout).ok()?;
        out.status.success().then(|| status["missed_hooks"]["missed"].as_u64().unwrap_or_default())
    }

    /// Runs a hook, and again for as long as it comes too late: it gives up after a tenth of a second and says nothing
    /// then, and a busy machine is no mistake of butlerd's.
    pub fn in_time<T>(&self, hook: impl Fn() -> T) -> T {
        for _ in 1..ROUNDS {
            let (before, told) = (self.missed(), hook());
            if before.is_none() || self.missed() == before {
                return told;
            }
        }
        hook()
    }

    /// What a hook tells, as a text; empty: nothing.
    pub fn hook(&self, event: &str, input: &Value) -> String {
        let out = self.in_time(|| self.run(butlerd(), &["hook", event], &input.to_string()));
        assert!(out.status.success() && out.stderr.is_empty(), "{event}: {}", String::from_utf8_lossy(&out.stderr));
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        if text.trim().is_empty() {
            return String::new();
        }
        let told: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{event}: {e}: {text}"));
        assert_eq!(told["hookSpecificOutput"]["hookEventName"], event, "{told}");
        told["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_owned()
    }

    pub fn prompt(&self, session: &str, prompt: &str) -> String {
        let at = self.at.display().to_string();
        let input = json!({"session_id": session, "cwd": at, "hook_event_name": "UserPromptSubmit", "prompt": prompt});
        self.hook("UserPromptSubmit", &input)
    }
}

pub fn git(at: &Path, args: &[&str]) {
    let identity = ["-c", "user.name=Ada Coder", "-c", "user.email=ada@example.org"];
    let done = Command::new("git").args(identity).args(args).current_dir(at).output().expect("git runs");
    assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

pub fn contents(records: &Value) -> Vec<String> {
    let records = records.as_array().unwrap_or_else(|| panic!("no list: {records}"));
    records.iter().map(|r| r["content"].as_str().unwrap_or_default().to_owned()).collect()
}

/// `butlerd mcp`, asked line by line.
pub struct McpServer {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    asked: u64,
}

impl McpServer {
    pub fn start(developer: &Developer<'_>) -> Self {
        let mut child = developer.command(butlerd(), &["mcp"]).spawn().expect("the server runs");
        let lines = BufReader::new(child.stdout.take().expect("its output"));
        let mut server = Self { child, lines, asked: 0 };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        server.ask("initialize", &hello);
        server.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    pub fn say(&mut self, message: &Value) {
        let input = self.child.stdin.as_mut().expect("its input");
        writeln!(input, "{message}").and_then(|()| input.flush()).expect("it listens");
    }

    pub fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert!(
                self.lines.read_line(&mut line).expect("a line") > 0,
                "the server left before {method} was answered"
            );
            let answer: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
            if answer["id"] == id {
                return answer;
            }
        }
    }

    /// What a tool answers: whether it failed, and its text.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> (bool, String) {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{tool}: {answer}"));
        (result["isError"] == true, text.to_owned())
    }
}

impl Drop for McpServer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
