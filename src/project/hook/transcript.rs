//! The assistant's transcript: a file of JSON lines that grows while a session goes on.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde_json::Value;

use super::json::json;

/// At most so much of a transcript's end is read.
pub const MOST: u64 = 4 << 20;
/// A subagent's task stands near the end.
const MOST_FOR_TASK: u64 = 256 << 10;
/// Ends of the names of tools that tell memories.
const MEMORY_TOOLS: &[&str] = &[
    "recall",
    "recall_by_date",
    "proactive_context",
    "get_memory",
    "list_memories",
    "list_todos",
    "context_summary",
    "remember",
];
/// Commands that tell them.
const MEMORY_COMMANDS: &[&str] = &["wt-memory ", "butlerd project "];
/// A line that a hook injected begins so; eight characters and `] ` follow.
const INJECTED: &str = "- [";

/// What is new in a transcript.
#[derive(Debug, Default)]
pub struct Excerpt {
    /// What the assistant wrote to the developer.
    pub texts: Vec<String>,
    /// What it was shown of memories, and what it had remembered: nothing of it is news.
    pub known: Vec<String>,
    /// Up to which byte the file was read: behind its last whole line.
    pub end: u64,
}

/// Reads what was written behind the byte `from`, and of that at most the last [`MOST`] bytes.
pub fn read(path: &Path, from: u64) -> io::Result<Excerpt> {
    let mut file = open(path)?;
    let length = file.metadata()?.len();
    // A shorter file is another one.
    let from = if from > length { 0 } else { from };
    let start = from.max(length.saturating_sub(MOST));
    let mut bytes = read_from(&mut file, start, MOST)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    bytes.truncate(whole);
    let mut excerpt = Excerpt { end: start + whole as u64, ..Excerpt::default() };
    // The first line was cut, unless it begins where the last excerpt ended.
    let skipped =
        if start > from { bytes.iter().position(|byte| *byte == b'\n').map_or(whole, |at| at + 1) } else { 0 };
    let mut tools = HashSet::new();
    for line in bytes[skipped..].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        if let Ok(entry) = json(&String::from_utf8_lossy(line)) {
            take_in(&entry, &mut tools, &mut excerpt);
        }
    }
    Ok(excerpt)
}

/// The task of the subagent of this type that was started last; of any type, where `agent_type` is empty.
pub fn last_task(path: &Path, agent_type: &str) -> Option<String> {
    let mut file = open(path).ok()?;
    let start = file.metadata().ok()?.len().saturating_sub(MOST_FOR_TASK);
    let bytes = read_from(&mut file, start, MOST_FOR_TASK).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let entries = text.lines().rev().filter(|line| line.contains("\"tool_use\"")).filter_map(|line| json(line).ok());
    entries.filter(is_assistants).find_map(|entry| {
        let uses = blocks(&entry).iter().rev().filter(|block| block["type"] == "tool_use");
        let tasks = uses.filter(|block| block["name"] == "Task" || block["name"] == "Agent");
        let mut fitting = tasks.filter(|task| agent_type.is_empty() || is_for(task, agent_type));
        fitting.find_map(|task| task["input"]["prompt"].as_str().map(str::to_owned))
    })
}

/// Whether a task is for an agent of this type. One without a type is for any.
fn is_for(task: &Value, agent_type: &str) -> bool {
    task["input"]["subagent_type"].as_str().is_none_or(|own| own == agent_type)
}

fn open(path: &Path) -> io::Result<File> {
    // A pipe in its place must not make the hook wait.
    let file = OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other(format!("{} is no file", path.display()))) }
}

fn read_from(file: &mut File, start: u64, most: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    // It may have grown since its length was asked.
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether the entry is what the assistant itself wrote in the session: no subagent's, no message of the program's.
fn is_assistants(entry: &Value) -> bool {
    let is = |name: &str| entry[name].as_bool().unwrap_or_default();
    let is_programs = entry["message"]["model"] == "<synthetic>" || is("isApiErrorMessage") || is("isMeta");
    entry["type"] == "assistant" && !is_programs && !is("isSidechain")
}

fn blocks(entry: &Value) -> &[Value] {
    entry["message"]["content"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Takes in one entry. `tools` are the ids of calls that tell memories.
fn take_in(entry: &Value, tools: &mut HashSet<String>, excerpt: &mut Excerpt) {
    if entry["type"] != "assistant" {
        let mut texts = Vec::new();
        strings(entry, &mut texts);
        excerpt.known.extend(texts.into_iter().flat_map(str::lines).filter_map(injected).map(str::to_owned));
        for result in blocks(entry).iter().filter(|block| block["type"] == "tool_result") {
            if result["tool_use_id"].as_str().is_some_and(|id| tools.contains(id)) {
                memories_of(&result["content"], &mut excerpt.known);
            }
        }
        return;
    }
    for block in blocks(entry) {
        if block["type"] == "tool_use" && tells_memories(block) {
            tools.extend(block["id"].as_str().map(str::to_owned));
            excerpt.known.extend(block["input"]["content"].as_str().map(str::to_owned));
        }
    }
    if is_assistants(entry) {
        let texts = blocks(entry).iter().filter(|block| block["type"] == "text");
        excerpt.texts.extend(texts.filter_map(|block| block["text"].as_str()).map(str::to_owned));
        // Older versions write a plain text.
        excerpt.texts.extend(entry["message"]["content"].as_str().map(str::to_owned));
    }
}

fn tells_memories(call: &Value) -> bool {
    let name = call["name"].as_str().unwrap_or_default();
    let is_tool = name.contains("wt-tools")
        || name
            .strip_prefix("mcp__")
            .and_then(|name| name.rsplit("__").next())
            .is_some_and(|own| MEMORY_TOOLS.contains(&own));
    let command = call["input"]["command"].as_str().unwrap_or_default();
    is_tool || MEMORY_COMMANDS.iter().any(|own| command.contains(own))
}

/// The memory in a line that a hook injected.
pub fn injected(line: &str) -> Option<&str> {
    let (id, content) = line.trim_start().strip_prefix(INJECTED)?.split_once("] ")?;
    (id.len() == 8 && id.chars().all(|c| c.is_ascii_alphanumeric())).then_some(content)
}

/// The contents of memories in what a tool answered: JSON, in a text or as it is, or plain lines.
fn memories_of(answer: &Value, known: &mut Vec<String>) {
    match answer {
        Value::String(text) => match json(text) {
            Ok(inner) if inner.is_object() || inner.is_array() => memories_of(&inner, known),
            _ => known.extend(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned)),
        },
        Value::Array(parts) => parts.iter().for_each(|part| memories_of(part, known)),
        Value::Object(fields) => {
            fields
                .values()
                .filter(|field| field.is_object() || field.is_array())
                .for_each(|field| memories_of(field, known));
            let texts = ["content", "text"].iter().filter_map(|name| fields.get(*name)).filter(|text| text.is_string());
            texts.for_each(|text| memories_of(text, known));
        }
        _ => {}
    }
}

fn strings<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(parts) => parts.iter().for_each(|part| strings(part, found)),
        Value::Object(fields) => fields.values().for_each(|field| strings(field, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        serde_json::json!({"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}}).to_string()
            + "\n"
    }

    #[test]
    fn only_whole_new_lines_are_read() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.jsonl");
        std::fs::write(&path, said("one") + &said("two") + "{\"type\": \"assi").unwrap();
        let first = read(&path, 0).unwrap();
        assert_eq!(first.texts, ["one", "two"]);
        assert_eq!(first.end, (said("one") + &said("two")).len() as u64);
        assert_eq!(read(&path, first.end).unwrap().texts, [] as [&str; 0]);
        std::fs::write(&path, said("one") + &said("two") + &said("dré")).unwrap();
        assert_eq!(read(&path, first.end).unwrap().texts, ["dré"]);
        // A file that is shorter than what was read of it was begun anew.
        std::fs::write(&path, said("new")).unwrap();
        let anew = read(&path, first.end).unwrap();
        assert_eq!((anew.texts, anew.end), (vec!["new".to_owned()], said("new").len() as u64));
        std::fs::write(&path, "").unwrap();
        assert_eq!(read(&path, 0).unwrap().end, 0);
    }

    #[test]
    fn of_a_long_transcript_the_end_is_read() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.jsonl");
        let long = said(&"ü".repeat(300_000));
        std::fs::write(&path, long.repeat(9) + &said("last")).unwrap();
        let excerpt = read(&path, 5).unwrap();
        assert!(excerpt.texts.len() < 9 && excerpt.texts.len() > 3, "{}", excerpt.texts.len());
        assert_eq!(excerpt.texts.last().unwrap(), "last");
        assert_eq!(excerpt.end, std::fs::metadata(&path).unwrap().len());
        // A line that is longer than all that is read leaves nothing.
        std::fs::write(&path, said(&"x".repeat(5 << 20))).unwrap();
        assert_eq!(read(&path, 0).unwrap().texts, [] as [&str; 0]);
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let home = tempfile::tempdir().unwrap();
        let pipe = home.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(read(&pipe, 0).is_err());
        assert!(read(home.path(), 0).is_err());
        assert!(read(&home.path().join("gone"), 0).is_err());
    }

    #[test]
    fn the_task_of_a_subagent_is_found() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.jsonl");
        let task = |kind: &str, prompt: &str| {
            serde_json::json!({"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "t", "name": "Task",
                "input": {"subagent_type": kind, "prompt": prompt}}]}})
            .to_string()
        };
        std::fs::write(&path, [task("Explore", "Find the pool"), task("Plan", "Plan it"), said("x")].join("\n"))
            .unwrap();
        assert_eq!(last_task(&path, "Explore").as_deref(), Some("Find the pool"));
        assert_eq!(last_task(&path, "").as_deref(), Some("Plan it"));
        assert_eq!(last_task(&path, "other"), None);
        assert_eq!(last_task(home.path(), ""), None);
    }
}
