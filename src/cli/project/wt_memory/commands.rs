//! What each command of `wt-memory` does.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::super::developer::{Exchange, read_export, texts, write_export};
use super::super::error::ProjectError;
use super::words::Words;
use super::{FAILED, Reply, World, WtError, print};
use project::connection::ConnectionError;
use project::record::{ExperienceType, FormatError};
use project::rules as project_rules;
use project::tool::{DEFAULT_ALIKE, DEFAULT_LEAST_IMPORTANCE, DEFAULT_LEAST_LENGTH, DEFAULT_LIMIT};

type Done = Result<(), WtError>;

/// Where a project's seeds are.
const SEEDS: &str = "wt/knowledge/memory-seed.yaml";

fn refused(why: impl Into<String>) -> WtError {
    WtError::Refused(why.into())
}

/// Asks for one thing and prints what comes.
fn tell(world: &dyn World, reply: &mut Reply, op: &str, args: Value) -> Done {
    reply.json(&world.ask(op, args)?);
    Ok(())
}

/// Commands that ask for one thing and print what comes.
macro_rules! telling {
    ($($name:ident($words:ident) = $op:literal, $args:tt;)+) => {$(
        pub fn $name(world: &dyn World, $words: &Words, reply: &mut Reply) -> Done {
            tell(world, reply, $op, json!($args))
        }
    )+};
}

telling! {
    context(words) = "context_summary", {"topic": words.first()};
    brain(_words) = "brain", {};
    verify(_words) = "verify_index", {};
    graph_stats(_words) = "graph_stats", {};
    consolidation(words) = "consolidation_report", {"since": words.value("--since")};
    undo(words) = "undo", {"run": words.first()};
}

/// A text of standard input without the line ends behind it; none: there is none.
fn piped(world: &dyn World) -> Result<Option<String>, WtError> {
    let text = world.input()?;
    let text = text.trim_end_matches(['\n', '\r']);
    Ok((!text.trim().is_empty()).then(|| text.to_owned()))
}

fn limit(words: &Words) -> Result<Option<u64>, WtError> {
    Ok(words.number("--limit", "a number")?)
}

pub fn health(world: &dyn World, words: &Words, reply: &mut Reply) -> Done {
    if !words.has("--index") {
        world.ask("health", json!({}))?;
        reply.say("ok");
        return Ok(());
    }
    let health = world.ask("health", json!({"index": true}))?;
    if health.get("index_health").is_some() && health.get("verify").is_some() {
        reply.json(&health);
        return Ok(());
    }
    let verify = world.ask("verify_index", json!({}))?;
    reply.json(&json!({"index_health": health, "verify": verify}));
    Ok(())
}

pub fn remember(world: &dyn World, words: &Words, reply: &mut Reply) -> Done {
    let Some(named) = words.value("--type") else { return Err(refused("--type is required")) };
    let metadata: Option<Map<String, Value>> = match words.value("--metadata").map(serde_json::from_str) {
        Some(Ok(metadata)) => Some(metadata),
        Some(Err(_)) => return Err(refused("--metadata must be a valid JSON object, as in '{\"key\": \"value\"}'")),
        None => None,
    };
    let kind = kind(named, reply);
    let Some(content) = piped(world)? else { return Ok(()) };
    let flag = |name: &str| words.has(name).then_some(true);
    let told = world.ask(
        "remember",
        json!({"content": content, "type": kind.as_str(), "tags": words.value("--tags"),
               "metadata": metadata.map(texts), "failure": flag("--failure"), "anomaly": flag("--anomaly")}),
    )?;
    match told["id"].as_str() {
        Some(id) => reply.say(id),
        None => {
            let why = "it names no id".to_owned();
            return Err(ProjectError::Answer { op: "remember", why }.into());
        }
    }
    Ok(())
}

/// The type that a name means. An older one is noted, and one that nobody knows is context.
fn kind(name: &str, reply: &mut Reply) -> ExperienceType {
    let (kind, as_it_is) = match ExperienceType::read(name) {
        Some((kind, older)) => (kind, !older),
        None => (ExperienceType::Context, false),
    };
    if !as_it_is {
        reply.note(format!("Note: type '{name}' mapped to '{}'", kind.as_str()));
    }
    kind
}

pub fn recall(world: &dyn World, words: &Words, reply: &mut Reply) -> Done {
    let (since, until) = (words.value("--since"), words.value("--until"));
    let (tags, tags_only) = (words.value("--tags"), words.has("--tags-only"));
    let limit = limit(words)?.unwrap_or(DEFAULT_LIMIT);
    if since.is_some() || until.is_some() {
        return tell(world, reply, "recall_by_date", json!({"since": since, "until": until, "limit": limit}));
    }
    if tags_only && tags.is_none() {
        return Err(refused("--tags-only requires --tags"));
    }
    let query = words.first();
    if query.is_none() && !tags_only {
        reply.json(&json!([]));
        return Ok(());
    }
    let args = json!({
        "query": query.unwrap_or_default(), "limit": limit, "mode": words.value("--mode"), "tags": tags,
        "tags_only": tags_only.then_some(true),
        "min_importance": words.number::<f64>("--min-importance", "a number from 0 to 1")?,
        "legacy_order": words.has("--legacy-order").then_some(true),
    });
    tell(world, reply, "recall", args)
}

pub fn proactive(world: &dyn World, words: &Words, reply: &mut Reply) -> Done {
    let limit = limit(words)?.unwrap_or(DEFAULT_LIMIT);
    match words.first() {
        None => reply.json(&json!([])),
        Some(text) => tell(world, reply, "proactive_context", json!({"context": text, "limit": limit}))?,
    }
    Ok(())
}

pub fn list(world: &dyn World, words: &Words, reply: &mut Reply) -> Done {
    let kind = words.value("--type").map(|name| ExperienceType::read(name).map_or(name, |(kind, _)| kind.as_str()));
    tell(world, reply, "list_memories", json!({"type": kind, "limit": limit(words)?}))
}

/// What the daemon does not know is nothing.
fn or_nothing(asked: Result<Value, ConnectionError>, nothing: Value) -> Result<Value, ConnectionError> {
    match asked {
        Err(ConnectionError::Refused(refusal)) if refusal.code == "not_found" => Ok(nothing),
        asked => asked,
    }
}

pub fn get(world: &dyn World, words: &Words, reply: &mut Reply) -> Done {
    let Some(id) = words.first() else { return Err(refused("memory ID required")) };
    reply.json(&or_nothing(world.ask("get_memory", json!({"id": id})), json!({}))?);
    Ok(())
}

pub fn forget(world: &dyn World, words: &Words, reply: &mut Reply) -> Done {
    let confirmed = words.has("--confirm");
    let (since, until) = (words.value("--since"), words.value("--until"));
    let told = if words.has("--all") {
        if !confirmed {
            return Err(refused("--all requires --confirm, because it forgets everything"));
        }
        world.ask("forget_matching", json!({"all": true}))?
    } else if let Some(days) = words.number::<u32>("--older-than", "a number of days")? {
        world.ask("forget_matching", json!({"older_than_days": days}))?
    } else if let Some(tags) = words.value("--tags") {
        world.ask("forget_by_tags", json!({"tags": tags}))?
    } else if let Some(pattern) = words.value("--pattern") {
        world.ask("forget_matching", json!({"pattern": pattern}))?
    } else if since.is_some() || until.is_some() {
        if !confirmed {
            return Err(refused("forgetting by date requires --confirm"));
        }
        world.ask("forget_matching", json!({"since": since, "until": until}))?
    } else if let Some(id) = words.first() {
        or_nothing(world.ask("forget", json!({"id": id})), json!({"deleted": false, "id": id}))?
    } else {
        return Err(refused("give a memory ID, --all, --older-than, --tags, --pattern, or --since and --until"));
    };
    reply.json(&told);
    Ok(())
}

/// Prints an answer as JSON, or as text where that was not asked for.
fn shown(words: &Words, reply: &mut Reply, answer: &Value, text: fn(&Value, &mut Reply)) -> Done {
    match words.has("--json") {
        true => reply.json(answer),
        false => text(answer, reply),
    }
    Ok(())
}

pub fn stats(world: &dyn World, words: &Words, reply: &mut Reply) -> Done {
    shown(words, reply, &world.ask("memory_stats", json!({}))?, print::stats)
}

pub fn status(world: &dyn World, words: &Words, reply: &mut Reply) -> Done {
    shown(words, reply, &world.ask("status", json!({}))?, print::status)
}

pub fn projects(world: &dyn World, _: &Words, reply: &mut Reply) -> Done {
    print::projects(&world.ask("projects", json!({}))?, reply);
    Ok(())
}

fn threshold(words: &Words, default: f64) -> Result<f64, WtError> {
    Ok(words.number("--threshold", "a number from 0 to 1")?.unwrap_or(default))
}

pub fn audit(world: &dyn World, words: &Words, reply: &mut Reply) -> Done {
    let threshold = threshold(words, DEFAULT_ALIKE)?;
    shown(words, reply, &world.ask("audit", json!({"threshold": threshold}))?, print::audit)
}

pub fn dedup(world: &dyn World, words: &Words, reply: &mut Reply) -> Done {
    let asks = words.has("--interactive") || words.has("-i");
    if asks {
        reply.note("dedup does not ask; this is what it would do. Any run of it can be taken back: wt-memory undo");
    }
    let dry_run = asks || words.has("--dry-run");
    tell(world, reply, "dedup", json!({"threshold": threshold(words, DEFAULT_ALIKE)?, "dry_run": dry_run}))
}

pub fn cleanup(world: &dyn World, words: &Words, reply: &mut Reply) -> Done {
    let args = json!({
        "threshold": threshold(words, DEFAULT_LEAST_IMPORTANCE)?,
        "min_length": words.number::<u64>("--min-length", "a number")?.unwrap_or(DEFAULT_LEAST_LENGTH),
        "dry_run": words.has("--dry-run"),
    });
    tell(world, reply, "cleanup", args)
}

pub fn export(world: &dyn World, words: &Words, reply: &mut Reply) -> Done {
    let export = world.ask("export_memories", json!({}))?;
    match words.value("--output") {
        Some(file) => write_export(&export, Path::new(file))?,
        // It is kept in files that people compare.
        None => match serde_json::to_string_pretty(&export) {
            Ok(text) => reply.say(text),
            Err(e) => return Err(ProjectError::Answer { op: "export_memories", why: e.to_string() }.into()),
        },
    }
    Ok(())
}

pub fn import(world: &dyn World, words: &Words, reply: &mut Reply) -> Done {
    let Some(file) = words.first() else { return Err(refused("import file path required")) };
    if !Path::new(file).is_file() {
        return Err(refused(format!("file not found: {file}")));
    }
    let export = match read_export(Path::new(file)) {
        Err(ProjectError::Format { source, .. }) => {
            reply.json(&json!({"error": format_error(&source)}));
            reply.code = FAILED;
            return Ok(());
        }
        read => read?,
    };
    reply.json(&world.import(export, words.has("--dry-run"))?);
    Ok(())
}

fn format_error(error: &FormatError) -> String {
    match error {
        FormatError::Json(why) => format!("Invalid JSON: {why}"),
        FormatError::Version(_) => format!("Unsupported version: {error}"),
        FormatError::Format(_) | FormatError::Records(_) => format!("Invalid file: {error}"),
    }
}

pub fn sync(world: &dyn World, words: &Words, reply: &mut Reply) -> Done {
    let (from, force) = (words.value("--from"), words.has("--force"));
    let lines = match words.first() {
        None => match &words.unknown {
            // Whoever wanted to see what would happen must not have it happen.
            Some(flag) => return Err(super::words::WordsError::Unknown(flag.clone()).into()),
            None => world.exchange(Exchange::Both, force)?.lines,
        },
        Some("push") => world.exchange(Exchange::Push, force)?.lines,
        Some("pull") => world.exchange(Exchange::Pull { from }, force)?.lines,
        Some("status") => world.sync_status()?.lines,
        Some(other) => return Err(refused(format!("unknown sync subcommand '{other}': push, pull or status"))),
    };
    lines.iter().for_each(|line| reply.say(line));
    Ok(())
}

pub fn todo(world: &dyn World, words: &Words, reply: &mut Reply) -> Done {
    match words.first() {
        Some("add") => {
            let Some(content) = piped(world)? else {
                return Err(refused("No todo text provided. Pipe it in: echo \"text\" | wt-memory todo add"));
            };
            let told = world.ask("add_todo", json!({"content": content, "tags": words.value("--tags")}))?;
            let preview: String = content.chars().take(80).collect();
            reply.say(format!("Todo saved: \"{preview}\""));
            reply.say(format!("  id: {}", told["id"].as_str().unwrap_or_default()));
            Ok(())
        }
        Some("list") => shown(words, reply, &world.ask("list_todos", json!({}))?, print::todos),
        Some("done") => {
            let Some(id) = words.plain.get(1) else {
                return Err(refused("specify a todo ID; `wt-memory todo list` shows them"));
            };
            let told = world.ask("complete_todo", json!({"todo_id": id}))?;
            if told["deleted"] != true {
                return Err(refused(format!("Todo not found: {id}")));
            }
            reply.say(format!("Todo done: {}", told["id"].as_str().unwrap_or(id)));
            Ok(())
        }
        Some("clear") if !words.has("--confirm") => Err(refused("Use --confirm to clear all todos")),
        Some("clear") => {
            let told = world.ask("clear_todos", json!({}))?;
            reply.say(format!("Cleared {} todos.", told["deleted_count"].as_u64().unwrap_or_default()));
            Ok(())
        }
        Some(other) => Err(refused(format!("Unknown todo subcommand '{other}': add, list, done or clear"))),
        None => Err(refused("usage: wt-memory todo add|list|done|clear")),
    }
}

pub fn rules(world: &dyn World, words: &Words, reply: &mut Reply) -> Done {
    let top = &world.place().top;
    let failed = |error| WtError::Project(ProjectError::Rules(error));
    match words.first() {
        Some("add") => {
            let Some(text) = words.plain.last().filter(|_| words.plain.len() > 1) else {
                return Err(refused("content required: wt-memory rules add --topics \"sql\" \"text\""));
            };
            let Some(topics) = words.value("--topics") else {
                return Err(refused("--topics required, separated by commas"));
            };
            let topics: Vec<String> = topics.split(',').map(|topic| topic.trim().to_owned()).collect();
            let id = project_rules::add(top, &topics, text).map_err(failed)?;
            reply.say(format!("Rule added: {id}"));
            reply.say(format!("  topics: {}", topics.join(", ")));
            reply.say(format!("  file:   {}", top.join(project_rules::FILE).display()));
            Ok(())
        }
        Some("list") => {
            print::rules(&project_rules::load(top).map_err(failed)?, reply);
            Ok(())
        }
        Some("remove") => {
            let Some(id) = words.plain.get(1) else {
                return Err(refused("rule id required; `wt-memory rules list` shows them"));
            };
            project_rules::remove(top, id).map_err(failed)?;
            reply.say(format!("Rule removed: {id}"));
            Ok(())
        }
        Some(other) => Err(refused(format!("Unknown rules subcommand '{other}': add, list or remove"))),
        None => Err(refused("usage: wt-memory rules add|list|remove")),
    }
}

/// One seed of a project's file.
#[derive(serde::Deserialize)]
struct Seed {
    content: String,
    #[serde(default, rename = "type")]
    kind: Option<String>,
    /// A list, or one text with commas.
    #[serde(default)]
    tags: Value,
}

#[derive(serde::Deserialize)]
struct Seeds {
    #[serde(default)]
    seeds: Vec<Seed>,
}

pub fn seed(world: &dyn World, words: &Words, reply: &mut Reply) -> Done {
    let path = words.value("--file").map_or_else(|| world.place().top.join(SEEDS), PathBuf::from);
    if !path.is_file() {
        return Err(refused(format!("seed file not found: {}", path.display())));
    }
    let text = std::fs::read_to_string(&path).map_err(|source| ProjectError::Read { path: path.clone(), source })?;
    let seeds: Seeds =
        serde_saphyr::from_str(&text).map_err(|e| refused(format!("{} is not valid: {e}", path.display())))?;
    let dry_run = words.has("--dry-run");
    let (mut imported, mut known) = (0, 0);
    for Seed { content, kind: named, tags } in seeds.seeds {
        let kind = kind(named.as_deref().unwrap_or("Context"), reply);
        let mut tags: Vec<String> = match tags {
            Value::Array(tags) => tags.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            Value::String(tags) => tags.split(',').map(|tag| tag.trim().to_owned()).collect(),
            _ => Vec::new(),
        };
        tags.push("source:seed".to_owned());
        tags.retain(|tag| !tag.is_empty());
        if dry_run {
            reply.say(format!("Would import: [{}] {content}", kind.as_str()));
            continue;
        }
        let told = world.ask("remember", json!({"content": content, "type": kind.as_str(), "tags": tags}))?;
        if told["status"] == "stored" { imported += 1 } else { known += 1 }
    }
    if !dry_run {
        reply.say(format!("Seeded: {imported} imported, {known} known already"));
    }
    Ok(())
}

pub fn metrics(world: &dyn World, words: &Words, reply: &mut Reply) -> Done {
    if words.has("--enable") || words.has("--disable") {
        reply.note("Nothing was changed: butlerd always counts what hooks tell, in its own database.");
        return Ok(());
    }
    let days = words.value("--since").map(super::super::args::days).transpose();
    let days = days.map_err(|e| refused(e.to_string()))?;
    shown(words, reply, &world.ask("metrics", json!({"since_days": days}))?, print::fields)
}

pub fn not_needed(_: &dyn World, _: &Words, reply: &mut Reply) -> Done {
    reply.note("Nothing is needed: butlerd keeps its database and index whole by itself.");
    Ok(())
}

pub fn migrate(_: &dyn World, words: &Words, reply: &mut Reply) -> Done {
    match words.has("--status") {
        true => reply.say("001 branch tags: applied"),
        false => reply.note("Nothing is needed: butlerd has no memories of an older shape."),
    }
    Ok(())
}

pub fn tui(_: &dyn World, _: &Words, _: &mut Reply) -> Done {
    Err(refused("tui is left out. `butlerd project status` and `butlerd project stats` show the same"))
}

pub fn dashboard(_: &dyn World, _: &Words, _: &mut Reply) -> Done {
    Err(refused("dashboard is left out. `butlerd project metrics --json` has the numbers"))
}
