//! What is done with the developer's own rights: git, and files that are named.

use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::client::ProjectClient;
use super::error::ProjectError;
use project::record::{Export, Record};
use project::sync::{self, SyncReport};
use project::tool::{Place, ProjectTool};

/// About so many bytes of memories go to the daemon at once.
const CHUNK: usize = 4 << 20;

/// And so many memories: each part is one transaction, for which other writers wait.
const MOST_RECORDS: usize = 500;

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
        "sync_pull" => sync::pull(&place, client, text("from_source")),
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
    for part in parts(export, CHUNK) {
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

/// An export in parts. The first says what was deleted; there is always one.
fn parts(export: Export, most: usize) -> Vec<Export> {
    let Export { records, deleted, .. } = export;
    let head = Export { records: Vec::new(), deleted: Vec::new(), count: 0, ..export };
    let mut parts = vec![Export { deleted, ..head.clone() }];
    let mut size = 0;
    for record in records {
        let own = bytes(&record);
        let full = parts.last().is_some_and(|part| part.records.len() >= MOST_RECORDS);
        if size > 0 && (size + own > most || full) {
            parts.push(head.clone());
            size = 0;
        }
        size += own;
        if let Some(part) = parts.last_mut() {
            part.records.push(record);
            part.count += 1;
        }
    }
    parts
}

fn bytes(record: &Record) -> usize {
    serde_json::to_vec(record).map_or(0, |text| text.len())
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
        Exchange::Pull { from } => sync::pull(place, &mut daemon, from),
    }?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use project::tool;

    fn export(ids: &[&str]) -> Export {
        let record = |id: &&str| Record { id: (*id).to_owned(), content: "x".repeat(100), ..Record::default() };
        Export {
            version: 1,
            format: project::record::FORMAT.to_owned(),
            project: "api".to_owned(),
            exported_at: String::new(),
            count: ids.len(),
            records: ids.iter().map(record).collect(),
            deleted: vec!["gone".to_owned()],
        }
    }

    #[test]
    fn a_large_export_goes_in_parts() {
        for (most, count) in [(1, 3), (450, 2), (1 << 20, 1)] {
            let parts = parts(export(&["1", "2", "3"]), most);
            assert_eq!(parts.len(), count, "{most}");
            let ids: Vec<_> = parts.iter().flat_map(|part| part.records.iter().map(|r| r.id.as_str())).collect();
            assert_eq!(ids, ["1", "2", "3"]);
            assert_eq!(parts.iter().map(|part| part.deleted.len()).sum::<usize>(), 1);
        }
        assert_eq!(parts(export(&[]), 1).len(), 1);
    }

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
