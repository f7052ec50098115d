//! Graphiti's MCP server for tests: one that only has the real one's tools, and fails as a test asks
//! (tests/clients/graphiti/plain.py says how), and the real graphiti_core behind the same tools.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use mcp::{RemoteConnection, RemoteServer};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::model::ScriptedModel;
use what_was_left_out::left_out;

use super::{eventually, http};

/// The server. It runs until it is dropped, and no longer than this process.
pub struct Graphiti {
    /// Its endpoint, such as `http://127.0.0.1:12000/mcp`. The same after [`Graphiti::start_again`].
    pub url: String,
    running: Option<Running>,
    command: Vec<String>,
    port: u16,
    dir: TempDir,
    http: reqwest::Client,
}

struct Running {
    child: Child,
    input: Option<ChildStdin>,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn script(name: &str) -> String {
    format!("{}/tests/clients/graphiti/{name}", env!("CARGO_MANIFEST_DIR"))
}

impl Graphiti {
    /// The one without a model. `None`: this machine has no Python, and that was told.
    pub async fn plain() -> Option<Self> {
        let python = std::env::var("BUTLERD_TEST_MCP_PY").unwrap_or_else(|_| "python3".to_owned());
        if Command::new(&python).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            let test = std::thread::current().name().unwrap_or("a test").to_owned();
            left_out(&format!("{test}, with a stand-in of Graphiti"), "there is no python3");
            return None;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let log = dir.path().join("episodes.jsonl").to_string_lossy().into_owned();
        Some(Self::begin(vec![python, script("plain.py"), "--log".to_owned(), log], dir).await)
    }

    /// The real graphiti_core, whose model is this one; [`extraction`] says what it must be able to say. `None`: it is not
    /// installed here, and that was told.
    pub async fn start(model: &ScriptedModel) -> Option<Self> {
        let Ok(python) = std::env::var("BUTLERD_TEST_GRAPHITI") else {
            let test = std::thread::current().name().unwrap_or("a test").to_owned();
            let why = "BUTLERD_TEST_GRAPHITI is not set; `eval \"$(.ci/run clients)\"` installs graphiti_core";
            left_out(&format!("{test}, with graphiti_core"), why);
            return None;
        };
        let dir = tempfile::tempdir().expect("a directory");
        let store = dir.path().join("graph").to_string_lossy().into_owned();
        let command =
            [python, script("core.py"), "--model".to_owned(), model.openai_base_url(), "--store".to_owned(), store];
        Some(Self::begin(command.into(), dir).await)
    }

    /// As [`Graphiti::plain`], but nobody listens at its address until [`Graphiti::start_again`].
    pub async fn plain_later() -> Option<Self> {
        let mut made = Self::plain().await?;
        made.kill().await;
        Some(made)
    }

    async fn begin(command: Vec<String>, dir: TempDir) -> Self {
        let port = super::ports::free(1)[0];
        let url = format!("http://127.0.0.1:{port}/mcp");
        let mut made = Self { url, running: None, command, port, dir, http: http() };
        made.start_again().await;
        made
    }

    /// Starts it where it was, with all that it has stored.
    pub async fn start_again(&mut self) {
        self.running = None;
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).arg("--port").arg(self.port.to_string());
        command.env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        // In a group of its own: who interrupts the tests ends it by its input.
        command.process_group(0);
        let errors = std::fs::File::options().create(true).append(true).open(self.log_path()).expect("a log");
        command.stderr(errors);
        let log = self.log_path();
        let started = tokio::task::spawn_blocking(move || {
            let mut child = command.spawn().expect("python runs");
            let (input, output) = (child.stdin.take(), child.stdout.take().expect("its output"));
            let mut line = String::new();
            BufReader::new(output).read_line(&mut line).expect("its first line");
            let wrong = |e| {
                let log = std::fs::read_to_string(&log).unwrap_or_default();
                panic!("the Graphiti server does not start: {e}: {line:?}\n{log}")
            };
            let _: Value = serde_json::from_str(&line).unwrap_or_else(wrong);
            Running { child, input }
        });
        self.running = Some(started.await.expect("it starts"));
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("stderr")
    }

    /// What it wrote to standard error.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Where it keeps things.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Kills it with SIGKILL; what waits in its memory is lost, what it has stored is not.
    pub async fn kill(&mut self) {
        if let Some(mut running) = self.running.take() {
            let _ = running.child.kill();
            let _ = tokio::task::spawn_blocking(move || drop(running)).await;
        }
    }

    /// Ends it as it ends by itself.
    pub async fn stop(&mut self) {
        if let Some(mut running) = self.running.take() {
            drop(running.input.take());
            eventually("the Graphiti server ends", || {
                let ended = running.child.try_wait().expect("a child");
                std::future::ready(ended.map(drop).ok_or_else(|| "it runs".to_owned()))
            })
            .await;
        }
    }

    /// Has the stand-in do something: the keys of plain.py.
    pub async fn control(&self, with: Value) {
        let answer = self.http.post(self.at("control")).json(&with).send().await.expect("it answers");
        let (status, text) = (answer.status(), answer.text().await.unwrap_or_default());
        assert!(status.is_success(), "{with}: {text}");
    }

    /// The next calls of this tool, so many, go wrong in this way; `-1`: all of them.
    pub async fn fail(&self, kind: &str, tool: &str, times: i32) {
        self.control(json!({"fault": {"kind": kind, "tool": tool, "times": times}})).await;
    }

    /// What has happened at the stand-in.
    pub async fn state(&self) -> Value {
        let answer = self.http.get(self.at("control")).send().await.expect("it answers");
        answer.json().await.expect("JSON")
    }

    /// The episodes of a group that are stored: at the stand-in in the order in which they came, at the real one by uuid.
    pub async fn episodes(&self, group: &str) -> Vec<Value> {
        let state = self.state().await;
        if let Some(all) = state["episodes"].as_array() {
            return all.iter().filter(|episode| episode["group_id"] == group).cloned().collect();
        }
        let connection = self.connect().await;
        let asked = json!({"group_ids": group, "max_episodes": 10_000});
        let found = call(&connection, "get_episodes", asked).await;
        connection.close().await;
        found["episodes"].as_array().expect("a list").clone()
    }

    /// Waits until the stand-in has so many episodes of a group, for as long as there come more; gives them.
    pub async fn has(&self, group: &str, count: usize) -> Vec<Value> {
        let mut seen = 0;
        loop {
            let found = eventually("episodes at Graphiti", || async {
                let state = self.http.get(self.at("control")).send().await.map_err(|e| e.to_string())?;
                let state: Value = state.json().await.map_err(|e| e.to_string())?;
                let all = state["episodes"].as_array().cloned().unwrap_or_default();
                let found: Vec<Value> = all.into_iter().filter(|episode| episode["group_id"] == group).collect();
                match found.len() {
                    n if n >= count || n > seen => Ok(found),
                    n => Err(format!("{n} of {count}; {} lost", state["lost"])),
                }
            })
            .await;
            seen = found.len();
            if seen >= count {
                return found;
            }
        }
    }

    /// Waits until the real one has read, or lost, so many episodes in all; what it has lost.
    pub async fn has_read(&self, count: u64) -> Vec<Value> {
        eventually("episodes that graphiti_core has read", || async {
            let state = self.state().await;
            let lost = state["lost"].as_array().cloned().unwrap_or_default();
            let read = state["done"].as_u64().unwrap_or_default() + lost.len() as u64;
            if read >= count { Ok(lost) } else { Err(format!("{state}\n{}", self.log())) }
        })
        .await
    }

    /// A connection of the daemon's own client.
    pub async fn connect(&self) -> RemoteConnection {
        let server = RemoteServer {
            name: "graphiti".to_owned(),
            url: self.url.clone(),
            token: None,
            headers: Vec::new(),
            call_within: Duration::from_secs(30),
        };
        RemoteConnection::open(server).await.expect("the daemon's client speaks with it")
    }

    fn at(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }
}

/// Calls a tool; gives its result without what the library of the real server wraps around it.
pub async fn call(connection: &RemoteConnection, tool: &str, arguments: Value) -> Value {
    let arguments = arguments.as_object().expect("arguments").clone();
    let answer = connection.call(tool, arguments).await.expect("it answers");
    assert!(!answer.is_error, "{tool}: {}", answer.text);
    let structured = answer.structured.expect("structured content");
    let text: Value = serde_json::from_str(&answer.text).expect("the same as text");
    let result = structured.get("result").cloned().unwrap_or(structured);
    assert_eq!(text, result, "{tool}");
    result
}

/// What a scripted model says when graphiti_core asks it of an episode with `of` in it: entities, and one fact between the
/// first two. `relation` and `fact` are the fact's; `valid_at` is a time or null. Put those of later episodes first.
pub fn extraction(of: &str, entities: [&str; 2], relation: &str, fact: &str, valid_at: Value) -> Vec<Value> {
    let found = entities.map(|name| json!({"name": name, "entity_type_id": 0, "episode_indices": [0]}));
    let edge = json!({"source_entity_name": entities[0], "target_entity_name": entities[1], "relation_type": relation,
        "fact": fact, "valid_at": valid_at, "invalid_at": null, "episode_indices": [0]});
    let says = |form: &str, said: Value| {
        // The episode stands before the form of the answer, and episodes before it stand in tags of their own.
        let when = format!("(?s)<(CURRENT[ _]MESSAGE|TEXT|JSON)>[^<]*?{of}.*\"title\": \"{form}\"");
        json!({"when": when, "steps": [{"say": said.to_string()}]})
    };
    vec![
        says("ExtractedEntities", json!({"extracted_entities": found})),
        says("ExtractedEdges", json!({"edges": [edge]})),
    ]
}

/// What a scripted model says to the rest of what graphiti_core asks: nothing is the same as before, and nothing is against
/// it. Put it behind the episodes.
pub fn no_duplicates() -> Vec<Value> {
    let says = |form: &str, said: Value| json!({"when": format!("\"title\": \"{form}\""), "steps": [{"say": said.to_string()}]});
    vec![
        says("NodeResolutions", json!({"entity_resolutions": []})),
        says("EdgeDuplicate", json!({"duplicate_facts": [], "contradicted_facts": []})),
        says("SummarizedEntities", json!({"summaries": []})),
        says("ExtractedEntities", json!({"extracted_entities": []})),
        says("ExtractedEdges", json!({"edges": []})),
    ]
}
