//! Hooks against a daemon that is played.

mod deadline;
mod events;
mod extract;
mod hostile;
mod journal;
mod stop;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::events::{Event, Hook, work};
use super::injection::{Injection, ProjectPart};
use super::input::Input;
use super::state::StateDirectory;
use super::worker::{Report, Worker};
use super::{Daemon, HookError, Surroundings, block, missed};
use crate::connection::ConnectionError;
use crate::wire::Refusal;

/// Answers `inject` with its lines, and everything else as if it were done.
#[derive(Default)]
struct Played {
    lines: Vec<Value>,
    /// What it fails with instead, one question after the other; `None`: it answers.
    failures: VecDeque<Option<ConnectionError>>,
    asked: Vec<(String, Value)>,
}

impl Daemon for Played {
    fn ask(&mut self, op: &str, args: Value) -> Result<Value, ConnectionError> {
        self.asked.push((op.to_owned(), args));
        if let Some(Some(error)) = self.failures.pop_front() {
            return Err(error);
        }
        Ok(match op {
            "inject" => json!({"lines": self.lines}),
            "remember" => json!({"id": "0193c5a1-0000-7000-8000-000000000000", "status": "stored"}),
            _ => json!({"cleared": 1}),
        })
    }
}

impl Played {
    fn with(lines: Vec<Value>) -> Self {
        Self { lines, ..Self::default() }
    }

    fn ops(&self) -> Vec<&str> {
        self.asked.iter().map(|(op, _)| op.as_str()).collect()
    }

    /// The arguments of the only question of this kind.
    fn args(&self, op: &str) -> &Value {
        let all: Vec<_> = self.asked.iter().filter(|(own, _)| own == op).collect();
        assert_eq!(all.len(), 1, "{op} in {:?}", self.asked);
        &all[0].1
    }

    fn remembered(&self) -> Vec<String> {
        let all = self.asked.iter().filter(|(op, _)| op == "remember");
        all.map(|(_, args)| args["content"].as_str().unwrap().to_owned()).collect()
    }
}

fn away() -> ConnectionError {
    ConnectionError::Away { tried: vec!["/run/butlerd/project.sock".into()] }
}

fn refused(code: &str) -> ConnectionError {
    ConnectionError::Refused(Refusal { code: code.to_owned(), message: "no".to_owned() })
}

fn memory(id: &str, content: &str, tags: &[&str]) -> Value {
    json!({"id": format!("{id}-7e22-7000-8000-000000000000"), "content": content, "experience_type": "Learning",
           "relevance": 0.71, "tags": tags, "created_at": "2026-11-03T10:00:00Z"})
}

/// What a hook did.
struct HookRun {
    /// The line that is printed, and which memories stand in it.
    line: Option<String>,
    told: Injection,
    missed: Vec<String>,
    outcome: Result<(), HookError>,
}

impl HookRun {
    /// What the assistant reads of it.
    fn text(&self) -> String {
        let line = self.line.as_deref().expect("something was said");
        assert_eq!(line.lines().count(), 1, "{line}");
        let value: Value = serde_json::from_str(line).unwrap();
        value["hookSpecificOutput"]["additionalContext"].as_str().unwrap().to_owned()
    }
}

fn no_rules(_: &str) -> Result<Vec<String>, String> {
    Ok(Vec::new())
}

/// Runs a hook in a project called `api`.
fn hook_in(
    top: &Path,
    event: &str,
    input: &str,
    rules: &dyn Fn(&str) -> Result<Vec<String>, String>,
    daemon: &mut Played,
) -> HookRun {
    let event = Event::from_name(event).unwrap();
    let input = Input::read(input).unwrap();
    let state = StateDirectory::at(&top.join("state"));
    let until = Instant::now() + Duration::from_secs(600);
    let around = Surroundings { top, name: "api", rules, until, state: Some(&state) };
    let (sender, reports) = channel();
    let hook = Hook { event, input: &input, around: &around, daemon, reports: &sender };
    let outcome = hook.perform(work(event, &input));
    drop(sender);
    let (mut line, mut told, mut missed) = (None, Injection::default(), Vec::new());
    for report in reports {
        match report {
            Report::Text(part) => (line, told) = (Some(block::output(event.as_str(), &part.text)), part.told),
            Report::Missed(why) => missed.push(why),
            Report::AwaitsInput | Report::HasInput | Report::Done => {}
        }
    }
    HookRun { line, told, missed, outcome }
}

fn hook(event: &str, input: &str, daemon: &mut Played) -> HookRun {
    let top = tempfile::tempdir().unwrap();
    hook_in(top.path(), event, input, &no_rules, daemon)
}
