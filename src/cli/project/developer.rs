//! What is done with the developer's own rights: git, and files that are named.

use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::client::ProjectClient;
use super::error::ProjectError;
use project::record::Export;
use project::sync::{self, SyncReport};
use project::tool::{Place, ProjectTool};

/// The longest text that is read from standard input.
const MOST: u64 = 16 << 20;

/// Calls a tool, wherever its work is done. `directory` is where a file's relative name begins.
pub fn call(
    client: &mut ProjectClient,
    tool: &ProjectTool,
    args: &Map<String, Value>,
    directory: &Path,
) -> Result<Value, ProjectError> {
    if tool.place == Place::Daemon {
        return Ok(client.ask(tool.name, with_defaults(tool, args))?);
    }
    if let Some(name) = args.keys().find(|name| tool.properties.get(name.as_str()).is_none()) {
        return Err(ProjectError::Usage(format!("{} has no argument `{name}`", tool.name)));
    }
    let place = client.place.clone();
    let text = |name: &str| args.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let done = match tool.name {
        "sync" => sync::sync(&place, client, false),
        "sync_push" => sync::push(&place, client, false),
        "sync_pull" => sync::pull(&place, client, text("from_source"), false),
        "sync_status" => return json_of("sync_status", &sync::status(&place)?),
        "import_memories" => {
            let Some(file) = text("file_path") else {
                return Err(ProjectError::Usage("import_memories needs `file_path`, a file of yours".to_owned()));
            };
            let dry_run = args.get("dry_run").and_then(Value::as_bool).unwrap_or(false);
            let export = read_export(&directory.join(file))?;
            return import(client, export, dry_run);
        }
        name => return Err(ProjectError::Usage(format!("nothing here does {name}"))),
    };
    json_of("sync", &done?)
}

/// A tool's arguments with what its schema says of those that were left out.
fn with_defaults(tool: &ProjectTool, args: &Map<String, Value>) -> Value {
    let mut args = args.clone();
    for (name, schema) in tool.properties.as_object().into_iter().flatten() {
        let default = schema.get("default").filter(|default| *default != "");
        if let Some(default) = default.filter(|_| !args.contains_key(name)) {
            args.insert(name.clone(), default.clone());
        }
    }
    Value::Object(args)
}

fn json_of(op: &'static str, value: &impl serde::Serialize) -> Result<Value, ProjectError> {
    serde_json::to_value(value).map_err(|e| ProjectError::Answer { op, why: e.to_string() })
}

/// Reads an export.
pub fn read_export(path: &Path) -> Result<Export, ProjectError> {
    let text = std::fs::read_to_string(path).map_err(|source| ProjectError::Read { path: path.to_owned(), source })?;
    Export::read(&text).map_err(|source| ProjectError::Format { path: path.to_owned(), source })
}

/// Gives an export to the daemon, in parts that it takes, and adds up what came of them.
pub fn import(client: &ProjectClient, export: Export, dry_run: bool) -> Result<Value, ProjectError> {
    let mut all = Map::new();
    for part in export.parts() {
        let args = json!({"export": part, "dry_run": dry_run.then_some(true)});
        let Value::Object(answer) = client.ask("import_memories", args)? else {
            return Err(ProjectError::Answer { op: "import_memories", why: "it is not an object".to_owned() });
        };
        for (name, value) in answer {
            add(&mut all, name, value);
        }
    }
    Ok(Value::Object(all))
}

fn add(all: &mut Map<String, Value>, name: String, value: Value) {
    let sum = match (all.get_mut(&name), &value) {
        (Some(Value::Number(so_far)), Value::Number(more)) => {
            Some(json!(so_far.as_u64().unwrap_or(0) + more.as_u64().unwrap_or(0)))
        }
        (Some(Value::Array(so_far)), Value::Array(more)) => {
            so_far.extend(more.iter().cloned());
            return;
        }
        _ => None,
    };
    all.insert(name, sum.unwrap_or(value));
}

/// All of standard input. What is no UTF-8 in it becomes replacement characters.
pub fn read_input() -> Result<String, ProjectError> {
    let mut text = Vec::new();
    std::io::stdin().lock().take(MOST).read_to_end(&mut text).map_err(ProjectError::Input)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Metadata whose values are texts.
pub fn texts(metadata: Map<String, Value>) -> Value {
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Value::Object(metadata.into_iter().map(|(name, value)| (name, Value::String(text(value)))).collect())
}

/// Writes an export.
pub fn write_export(export: &Value, path: &Path) -> Result<(), ProjectError> {
    let text = serde_json::to_string_pretty(export)
        .map_err(|e| ProjectError::Answer { op: "export_memories", why: e.to_string() })?;
    std::fs::write(path, text + "\n").map_err(|source| ProjectError::Write { path: path.to_owned(), source })
}

/// `sync push`, `sync pull` and both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exchange<'a> {
    Both,
    Push,
    Pull { from: Option<&'a str> },
}

/// Exchanges memories by git.
pub fn exchange(client: &ProjectClient, what: Exchange<'_>, force: bool) -> Result<SyncReport, ProjectError> {
    let (place, mut daemon) = (&client.place, client.clone());
    Ok(match what {
        Exchange::Both => sync::sync(place, &mut daemon, force),
        Exchange::Push => sync::push(place, &mut daemon, force),
        Exchange::Pull { from } => sync::pull(place, &mut daemon, from, force),
    }?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use project::tool;

    #[test]
    fn what_came_of_parts_is_added_up() {
        let mut all = Map::new();
        for value in [json!({"imported": 2, "dry_run": true, "errors": ["a"]}), json!({"imported": 3, "errors": ["b"]})]
        {
            for (name, value) in value.as_object().unwrap().clone() {
                add(&mut all, name, value);
            }
        }
        assert_eq!(Value::Object(all), json!({"imported": 5, "dry_run": true, "errors": ["a", "b"]}));
    }

    #[test]
    fn what_a_tool_is_not_told_its_schema_says() {
        let of = |name: &str, args: Value| {
            let tool = tool::all().into_iter().find(|tool| tool.name == name).unwrap();
            with_defaults(&tool, args.as_object().unwrap())
        };
        assert_eq!(of("remember", json!({"content": "x"})), json!({"content": "x", "type": tool::DEFAULT_TYPE}));
        assert_eq!(of("list_memories", json!({"limit": 3})), json!({"limit": 3}));
        assert_eq!(of("list_memories", json!({})), json!({"limit": 20}));
    }
}
