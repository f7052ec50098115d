//! Our hooks in Claude Code's settings, merged with those that the developer has.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::edit::{Document, Step};
use super::error::InitError;
use super::json::SyntaxError;
use super::shell;
use crate::connection::SOCKET_VARIABLE;
use crate::hook::{ASSISTANT_VARIABLE, CODEX};

use Step::{Item, Member};

/// Where they stand, from a project's top.
pub(super) const FILE: &str = ".claude/settings.json";

/// An event: of which tools, and how many seconds its hook may take.
type EventHook = (&'static str, Option<&'static str>, u32);

/// Each event that project memory listens to. Stop reads the session's whole transcript.
const PROJECT_EVENTS: &[EventHook] = &[
    ("SessionStart", None, 5),
    ("UserPromptSubmit", None, 5),
    ("PreToolUse", Some("Skill"), 5),
    ("PostToolUse", Some("Read|Bash"), 5),
    ("PostToolUseFailure", Some("Bash"), 5),
    ("SubagentStart", None, 5),
    ("SubagentStop", None, 5),
    ("Stop", None, 30),
    ("PreCompact", None, 5),
];

/// Each event that the journal listens to. The same command serves both.
const JOURNAL_EVENTS: &[EventHook] = &[("SessionStart", None, 10), ("UserPromptSubmit", None, 5)];

/// An item of an event's list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Group {
    #[serde(skip_serializing_if = "Option::is_none")]
    matcher: Option<&'static str>,
    hooks: [Hook; 1],
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Hook {
    #[serde(rename = "type")]
    kind: &'static str,
    command: String,
    timeout: u32,
}

/// What runs at hooks: `NAME=VALUE… <program> hook <Event>`.
#[derive(Clone, Debug)]
pub(super) struct HookCommand {
    program: String,
    /// What is set in its environment.
    set: BTreeMap<&'static str, String>,
    /// Those that may be set there by another registration, which shares the hook: they stay as they are.
    others: &'static [&'static str],
    events: &'static [EventHook],
    /// Whether it stands before all hooks of the developer's, not behind them.
    first: bool,
}

impl HookCommand {
    /// The hooks of project memory. `program` and `socket`, where it is none of the usual ones, as they are.
    pub fn of_project(program: &str, socket: Option<&str>) -> Self {
        let set = socket.map(|socket| (SOCKET_VARIABLE, socket.to_owned())).into_iter().collect();
        let others = &[journal::client::SOCKET_VARIABLE, ASSISTANT_VARIABLE];
        Self { program: program.to_owned(), set, others, events: PROJECT_EVENTS, first: false }
    }

    /// The hooks of the journal: what a session is told first is who it is.
    pub fn of_journal(program: &str, socket: Option<&str>) -> Self {
        let set = socket.map(|socket| (journal::client::SOCKET_VARIABLE, socket.to_owned())).into_iter().collect();
        let others = &[SOCKET_VARIABLE];
        Self { program: program.to_owned(), set, others, events: JOURNAL_EVENTS, first: true }
    }

    /// The same in the hooks of Codex.
    pub fn of_codex(mut self) -> Self {
        self.set.insert(ASSISTANT_VARIABLE, CODEX.to_owned());
        self
    }

    /// The hook of an event in these settings, with what another registration set in its environment.
    fn group(&self, settings: &Value, (event, matcher, timeout): EventHook) -> Group {
        let own = commands(&settings["hooks"][event]).filter(|command| self.is_own(command, event));
        let set_there = own.filter_map(shell::words).flat_map(|words| shell::without_environment(&words).0);
        let mut set: BTreeMap<&str, String> = set_there
            .filter_map(|(name, value)| Some((*self.others.iter().find(|other| **other == name)?, value)))
            .collect();
        set.extend(self.set.iter().map(|(name, value)| (*name, value.clone())));
        let command = shell::command_line(set, &[&self.program, "hook", event]);
        Group { matcher, hooks: [Hook { kind: "command", command, timeout }] }
    }

    fn listens_to(&self, event: &str) -> bool {
        self.events.iter().any(|(name, ..)| *name == event)
    }

    fn is_own(&self, command: &str, event: &str) -> bool {
        // A program of another name is known by its path.
        let words = shell::words(command).unwrap_or_default();
        shell::without_environment(&words).1 == [self.program.as_str(), "hook", event] || is_ours(command, event)
    }
}

/// The commands of an event's hooks.
fn commands(groups: &Value) -> impl Iterator<Item = &str> {
    let hooks = groups.as_array().into_iter().flatten().filter_map(|group| group["hooks"].as_array()).flatten();
    hooks.filter_map(|hook| hook["command"].as_str())
}

/// Whether a hook's command is one of ours, from whatever place, or the one of wt-tools that ours replaces.
fn is_ours(command: &str, event: &str) -> bool {
    let Some(words) = shell::words(command) else { return false };
    let (_, words) = shell::without_environment(&words);
    let name = words.first().and_then(|program| Path::new(program).file_name()?.to_str());
    match (name, &words[1.min(words.len())..]) {
        (Some("butlerd"), [hook, of]) => hook == "hook" && of == event,
        (Some("wt-hook-memory"), [of]) => of == event,
        _ => false,
    }
}

/// The settings with our hooks: each once, at the end of its event's list or at its beginning.
pub(super) fn with(path: &Path, text: Option<&str>, hook: &HookCommand) -> Result<String, InitError> {
    let mut file = open(path, text)?;
    let broken = |error| broken(path, error);
    let now = file.value(&[]).unwrap_or_default();
    for event in shared_events(&now, hook) {
        // It stays where the journal put it.
        let command = hook.group(&now, (event, None, 0)).hooks[0].command.clone();
        rewrite(&mut file, hook, event, |_, _| command.clone()).map_err(broken)?;
    }
    let now = file.value(&[]).unwrap_or_default();
    take_out(&mut file, hook, |event| present(&now, hook, event)).map_err(broken)?;
    if file.value(&[Member("hooks")]).is_none() {
        file.set(&[], "hooks", &Value::Object(serde_json::Map::new())).map_err(broken)?;
    }
    for event in hook.events {
        let list = [Member("hooks"), Member(event.0)];
        let group = hook.group(&now, *event);
        match file.value(&list) {
            Some(groups) if holds(&groups, &group) => {}
            Some(_) if hook.first => file.push_first(&list, &group).map_err(broken)?,
            Some(_) => file.push(&list, &group).map_err(broken)?,
            None => file.set(&list[..1], event.0, &[group]).map_err(broken)?,
        }
    }
    Ok(file.text().to_owned())
}

/// The settings without our hooks. `None`: they held nothing else.
pub(super) fn without(path: &Path, text: &str, hook: &HookCommand) -> Result<Option<String>, InitError> {
    let mut file = open(path, Some(text))?;
    let before = file.text().to_owned();
    let shared = shared_events(&settings(text), hook);
    // What this registration set in the environment goes.
    let left = |set: &[(String, String)], rest: &[String]| {
        let others = set.iter().filter(|(name, _)| hook.others.contains(&name.as_str()));
        shell::command_line(others.map(|(name, value)| (name.as_str(), value.clone())), rest)
    };
    take_out(&mut file, hook, |event| shared.contains(&event))
        .and_then(|()| shared.iter().try_for_each(|event| rewrite(&mut file, hook, event, left)))
        .map_err(|error| broken(path, error))?;
    if file.text() == before {
        return Ok(Some(text.to_owned()));
    }
    let empty = file.value(&[]).is_some_and(|root| root.as_object().is_some_and(serde_json::Map::is_empty));
    Ok((!empty).then(|| file.text().to_owned()))
}

/// Whether all of our hooks are there as they are to be.
pub(super) fn are_all(text: &str, hook: &HookCommand) -> bool {
    let value = settings(text);
    hook.events.iter().all(|(event, ..)| present(&value, hook, event))
}

/// Whether hooks of ours stand there for events that this command does not listen to: they are another's, who listens
/// to these events as well.
pub(super) fn has_others(text: &str, hook: &HookCommand) -> bool {
    let value = settings(text);
    let events = value["hooks"].as_object().into_iter().flatten().map(|(event, groups)| (event.as_str(), groups));
    events.filter(|(event, _)| !hook.listens_to(event)).any(|(event, groups)| own(groups, hook, event) > 0)
}

/// The events whose hooks are the journal's as well as project memory's, where `hook` is project memory's: the journal gives
/// them more time.
fn shared_events(settings: &Value, hook: &HookCommand) -> Vec<&'static str> {
    let is_journals = |(event, _, timeout): &EventHook| {
        let all =
            settings["hooks"][event].as_array().into_iter().flatten().filter_map(|group| group["hooks"].as_array());
        all.flatten().any(|one| {
            one["timeout"].as_u64().is_some_and(|seconds| seconds >= u64::from(*timeout))
                && one["command"].as_str().is_some_and(|command| hook.is_own(command, event))
        })
    };
    let shared = !hook.first && JOURNAL_EVENTS.iter().all(is_journals);
    JOURNAL_EVENTS.iter().map(|event| event.0).filter(|_| shared).collect()
}

/// Gives our hooks of an event another command, which is made of what is set in the environment and the words of theirs.
fn rewrite(
    file: &mut Document,
    hook: &HookCommand,
    event: &str,
    command_of: impl Fn(&[(String, String)], &[String]) -> String,
) -> Result<(), SyntaxError> {
    let groups = file.value(&[Member("hooks"), Member(event)]).unwrap_or_default();
    for (n, group) in groups.as_array().into_iter().flatten().enumerate() {
        for (at, one) in group["hooks"].as_array().into_iter().flatten().enumerate() {
            let Some(command) = one["command"].as_str().filter(|command| hook.is_own(command, event)) else { continue };
            let words = shell::words(command).unwrap_or_default();
            let (set, rest) = shell::without_environment(&words);
            let other = command_of(&set, rest);
            if other != command {
                let place = [Member("hooks"), Member(event), Item(n), Member("hooks"), Item(at)];
                file.set(&place, "command", &other)?;
            }
        }
    }
    Ok(())
}

/// Whether these settings keep all hooks from running.
pub(super) fn are_off(text: &str) -> bool {
    settings(text).get("disableAllHooks") == Some(&Value::Bool(true))
}

fn settings(text: &str) -> Value {
    Document::read(Some(text), false).ok().and_then(|file| file.value(&[])).unwrap_or_default()
}

/// Whether an event has our hook, only once and as it is to be.
fn present(settings: &Value, hook: &HookCommand, event: &str) -> bool {
    let Some(wanted) = hook.events.iter().find(|(name, ..)| *name == event) else { return false };
    let groups = &settings["hooks"][event];
    let group = hook.group(settings, *wanted);
    // Another of ours may have put it first already.
    let place = if hook.first {
        groups.get(0).map_or(Value::Null, |first| Value::from(vec![first.clone()]))
    } else {
        groups.clone()
    };
    own(groups, hook, event) == 1 && holds(&place, &group)
}

/// How many hooks of an event are ours.
fn own(groups: &Value, hook: &HookCommand, event: &str) -> usize {
    commands(groups).filter(|command| hook.is_own(command, event)).count()
}

fn holds(groups: &Value, group: &Group) -> bool {
    let wanted = &group.hooks[0];
    // The journal gives the hook that both need more time than project memory does.
    let is_it = |found: &Value| {
        found["type"] == wanted.kind
            && found["command"] == wanted.command.as_str()
            && found["timeout"].as_u64().is_some_and(|seconds| seconds >= u64::from(wanted.timeout))
    };
    groups.as_array().into_iter().flatten().any(|found| {
        // The developer may have put hooks of theirs beside ours.
        found.get("matcher") == group.matcher.map(Value::from).as_ref()
            && found["hooks"].as_array().is_some_and(|all| all.iter().any(is_it))
    })
}

/// Takes our hooks out of each event but those that `keep` names, and what is empty after that. What another of ours
/// listens to alone stays.
fn take_out(file: &mut Document, hook: &HookCommand, keep: impl Fn(&str) -> bool) -> Result<(), SyntaxError> {
    let mut taken = false;
    for event in file.names(&[Member("hooks")]) {
        let others = hook.first && !hook.listens_to(&event);
        if others || keep(&event) {
            continue;
        }
        let list = [Member("hooks"), Member(&event)];
        let before = file.text().len();
        let groups = file.value(&list).unwrap_or_default();
        let groups = groups.as_array().map_or(&[][..], Vec::as_slice);
        // From the end, so that the numbers before stay what they are.
        for (n, group) in groups.iter().enumerate().rev() {
            let hooks = group["hooks"].as_array().map_or(&[][..], Vec::as_slice);
            let own = |one: &Value| one["command"].as_str().is_some_and(|command| hook.is_own(command, &event));
            if !hooks.is_empty() && hooks.iter().all(own) {
                file.remove(&[list[0], list[1], Item(n)])?;
                continue;
            }
            for (at, _) in hooks.iter().enumerate().rev().filter(|(_, one)| own(one)) {
                file.remove(&[list[0], list[1], Item(n), Member("hooks"), Item(at)])?;
            }
        }
        if file.text().len() == before {
            continue;
        }
        taken = true;
        if file.value(&list) == Some(Value::Array(Vec::new())) {
            file.remove(&list)?;
        }
    }
    if taken && file.names(&[Member("hooks")]).is_empty() {
        file.remove(&[Member("hooks")])?;
    }
    Ok(())
}

/// Reads settings, and refuses those whose hooks are not lists of an object: they would be lost.
fn open(path: &Path, text: Option<&str>) -> Result<Document, InitError> {
    let file = Document::read(text, false).map_err(|error| broken(path, error))?;
    let shape = |at: String, expected| InitError::Shape { path: path.to_owned(), at, expected };
    let root = file.value(&[]).unwrap_or_default();
    let Some(root) = root.as_object() else { return Err(shape("the whole file".into(), "an object")) };
    let Some(hooks) = root.get("hooks") else { return Ok(file) };
    let Some(hooks) = hooks.as_object() else { return Err(shape("hooks".into(), "an object")) };
    match hooks.iter().find(|(_, groups)| !groups.is_array()) {
        Some((event, _)) => Err(shape(format!("hooks.{event}"), "a list")),
        None => Ok(file),
    }
}

fn broken(path: &Path, SyntaxError { line, what }: SyntaxError) -> InitError {
    InitError::Syntax { path: path.to_owned(), line, format: "JSON", what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_hooks_are_known_wherever_they_lie() {
        let ours = [
            "/usr/bin/butlerd hook Stop",
            "'/opt/my tools/butlerd' hook Stop",
            "butlerd hook Stop",
            "BUTLERD_PROJECT_SOCKET=/run/x.sock /usr/bin/butlerd hook Stop",
            "env A=b butlerd hook Stop",
            "wt-hook-memory Stop",
            "/home/a/.local/bin/wt-hook-memory Stop",
        ];
        for command in ours {
            assert!(is_ours(command, "Stop"), "{command}");
        }
        let theirs = [
            "butlerd hook Start",
            "notbutlerd hook Stop",
            "butlerd hook Stop --verbose",
            "wt-hook-stop",
            "",
            "env",
            "say 'butlerd hook Stop'",
            "/usr/bin/butlerd",
            "make && butlerd hook Stop",
            "butlerd 'hook Stop",
        ];
        for command in theirs {
            assert!(!is_ours(command, "Stop"), "{command}");
        }
    }
}
