//! What `butlerd project` does: each command is one question to the daemon, or is done here.

use serde_json::{Value, json};

use super::super::out::Out;
use super::super::problem::{FAILED, Problem};
use super::super::{Outcome, Place};
use super::args::{Forget, Project, Recall, Remember, Rules, SyncArgs, SyncPart, Todo, TypeName};
use super::client::ProjectClient;
use super::developer::{self, Exchange, read_input, texts, write_export};
use super::error::ProjectError;
use super::{print, register, status};
use project::record::ExperienceType;
use project::{rules, sync};

pub fn run(household: &Place, client: &ProjectClient, what: Project) -> Outcome {
    let out = &household.out;
    let tell =
        |op: &str, args: Value, people: fn(&Out, &Value)| -> Outcome { out.answer(&client.ask(op, args)?, people) };
    match what {
        Project::Init(args) => register::init(household, client, out, &args),
        Project::Remove(args) => register::remove(client, out, &args),
        Project::Status => status::show(client, out),
        Project::Remember(args) => remember(client, out, args),
        Project::Recall(args) => recall(client, out, args),
        Project::Proactive { text, most } => {
            tell("proactive_context", json!({"context": text, "limit": most.limit}), print::relevant)
        }
        Project::List { kind, limit } => {
            let kind = kind.map(|kind| meant(out, &kind));
            let args = json!({"type": kind.map(ExperienceType::as_str), "limit": limit});
            tell("list_memories", args, print::memories)
        }
        Project::Get { id } => get(client, out, &id),
        Project::Forget(args) => forget(client, out, args),
        Project::Context { topic } => tell("context_summary", json!({"topic": topic}), print::sections),
        Project::Brain => tell("brain", json!({}), print::sections),
        Project::Stats => tell("memory_stats", json!({}), print::fields),
        Project::Projects => tell("projects", json!({}), print::projects),
        Project::Health { index } => tell("health", json!({"index": index.then_some(true)}), print::fields),
        Project::Audit(args) => tell("audit", json!({"threshold": args.threshold}), print::audit),
        Project::Dedup(args) => {
            let args = json!({"threshold": args.alike.threshold, "dry_run": args.dry_run});
            tell("dedup", args, print::changed)
        }
        Project::Cleanup(args) => {
            let args = json!({"threshold": args.threshold, "min_length": args.min_length, "dry_run": args.dry_run});
            tell("cleanup", args, print::changed)
        }
        Project::Undo { run } => tell("undo", json!({"run": run}), print::undone),
        Project::Export { output } => export(client, out, output.as_deref()),
        Project::Import { file, dry_run } => {
            let export = developer::read_export(&file)?;
            out.answer(&developer::import(client, export, dry_run)?, print::fields)
        }
        Project::Sync(args) => exchange(client, out, args),
        Project::Todo(what) => todo(client, out, what),
        Project::Rules(what) => rules(client, out, what),
        Project::Metrics { since } => tell("metrics", json!({"since_days": since}), print::fields),
    }
}

/// The type that is meant, with a word on an older name.
fn meant(out: &Out, kind: &TypeName) -> ExperienceType {
    if let Some(older) = &kind.older {
        out.aside(&format!("{older} is {} here.", kind.meant.as_str()));
    }
    kind.meant
}

/// What was typed, or else what standard input has; without white space around it.
fn content(typed: Option<String>) -> Result<String, Problem> {
    let text = match typed {
        Some(text) if text != "-" => text,
        _ => read_input()?,
    };
    match text.trim() {
        "" => Err(ProjectError::Usage("there is no text: write it as an argument, or pipe it in".to_owned()).into()),
        text => Ok(text.to_owned()),
    }
}

fn remember(client: &ProjectClient, out: &Out, args: Remember) -> Outcome {
    let Remember { content: typed, kind, tags, metadata, failure, anomaly } = args;
    let kind = meant(out, &kind).as_str();
    let told = client.ask(
        "remember",
        json!({"content": content(typed)?, "type": kind, "tags": tags, "metadata": metadata.map(texts),
               "failure": failure.then_some(true), "anomaly": anomaly.then_some(true)}),
    )?;
    out.answer(&told, |out, told| {
        out.line(told["id"].as_str().unwrap_or_default());
        if told["status"] != "stored" {
            out.aside("It was known already; nothing was added.");
        }
    })
}

fn recall(client: &ProjectClient, out: &Out, args: Recall) -> Outcome {
    let Recall { query, most, mode, tags, tags_only, min_importance, since, until, legacy_order } = args;
    let limit = most.limit;
    let found = match query {
        None if !tags_only => client.ask("recall_by_date", json!({"since": since, "until": until, "limit": limit}))?,
        query => client.ask(
            "recall",
            json!({"query": query.unwrap_or_default(), "limit": limit, "mode": mode, "tags": tags,
                   "tags_only": tags_only.then_some(true), "min_importance": min_importance, "since": since,
                   "until": until, "legacy_order": legacy_order.then_some(true)}),
        )?,
    };
    out.answer(&found, print::memories)
}

fn get(client: &ProjectClient, out: &Out, id: &str) -> Outcome {
    let found = client.ask("get_memory", json!({"id": id}))?;
    if found.as_object().is_none_or(serde_json::Map::is_empty) {
        return Err(unknown(id));
    }
    out.answer(&found, print::memory)
}

fn unknown(id: &str) -> Problem {
    let message = format!("This project has no memory whose id is {id} or begins so.");
    Problem::new(FAILED, "not_found", message, "See: butlerd project list")
}

fn forget(client: &ProjectClient, out: &Out, args: Forget) -> Outcome {
    let Forget { id, all, older_than, tags, pattern, since, until, confirm: _ } = args;
    if let Some(id) = id {
        let told = client.ask("forget", json!({"id": id}))?;
        if told["deleted"] != true {
            return Err(unknown(&id));
        }
        return out.answer(&told, |out, told| {
            out.line(&format!("Forgot {}.", told["id"].as_str().unwrap_or(&id)));
        });
    }
    let told = match tags {
        Some(tags) => client.ask("forget_by_tags", json!({"tags": tags}))?,
        None => client.ask(
            "forget_matching",
            json!({"all": all.then_some(true), "older_than_days": older_than, "pattern": pattern, "since": since,
                   "until": until}),
        )?,
    };
    out.answer(&told, print::changed)
}

fn export(client: &ProjectClient, out: &Out, output: Option<&std::path::Path>) -> Outcome {
    let export = client.ask("export_memories", json!({}))?;
    let Some(path) = output else {
        out.value(&export);
        return Ok(0);
    };
    write_export(&export, path)?;
    let count = export["count"].as_u64().unwrap_or_default();
    out.answer(&json!({"file": path, "count": count}), |out, _| {
        out.line(&format!("Wrote {} to {}.", print::memories_of(count), path.display()));
    })
}

fn exchange(client: &ProjectClient, out: &Out, args: SyncArgs) -> Outcome {
    let (what, force) = match &args.what {
        Some(SyncPart::Status) => {
            let status = sync::status(&client.place).map_err(ProjectError::from)?;
            return out.answer(&status, |out, status| status.lines.iter().for_each(|line| out.line(line)));
        }
        None => (Exchange::Both, args.force),
        Some(SyncPart::Push { force }) => (Exchange::Push, *force),
        Some(SyncPart::Pull { from, force }) => (Exchange::Pull { from: from.as_deref() }, *force),
    };
    let report = developer::exchange(client, what, force).inspect_err(|error| {
        // What was taken in stays, though not all was done.
        if let ProjectError::Sync(sync::SyncError::Push { pulled, .. }) = error {
            pulled.lines.iter().for_each(|line| out.aside(line));
        }
    })?;
    out.answer(&report, |out, report| report.lines.iter().for_each(|line| out.line(line)))
}

fn todo(client: &ProjectClient, out: &Out, what: Todo) -> Outcome {
    match what {
        Todo::Add { content: typed, tags } => {
            let told = client.ask("add_todo", json!({"content": content(typed)?, "tags": tags}))?;
            out.answer(&told, |out, told| out.line(told["id"].as_str().unwrap_or_default()))
        }
        Todo::List => out.answer(&client.ask("list_todos", json!({}))?, print::todos),
        Todo::Done { id } => {
            let told = client.ask("complete_todo", json!({"todo_id": id}))?;
            if told["deleted"] != true {
                let message = format!("Nothing that is left to do has the id {id} or one that begins so.");
                return Err(Problem::new(FAILED, "not_found", message, "See: butlerd project todo list"));
            }
            out.answer(&told, |out, told| out.line(&format!("Done: {}", told["id"].as_str().unwrap_or(&id))))
        }
        Todo::Clear { confirm: false } => Err(Problem::usage(
            "This forgets everything that is left to do here.",
            "Confirm it: butlerd project todo clear --confirm",
        )),
        Todo::Clear { confirm: true } => out.answer(&client.ask("clear_todos", json!({}))?, print::changed),
    }
}

fn rules(client: &ProjectClient, out: &Out, what: Rules) -> Outcome {
    let top = &client.place.top;
    let failed = ProjectError::from;
    match what {
        Rules::Add { topics, text } => {
            let id = rules::add(top, &topics, &text).map_err(failed)?;
            out.answer(&json!({"id": id}), |out, _| out.line(&format!("Added {id} to {}.", rules::FILE)))
        }
        Rules::List => {
            let all = rules::load(top).map_err(failed)?;
            if out.json {
                let all = all.iter().map(|r| json!({"id": r.id, "topics": r.topics, "content": r.content}));
                out.value(&all.collect::<Vec<_>>());
                return Ok(0);
            }
            out.table(&all)
                .column("RULE", |r| &r.id)
                .column("TOPICS", |r| r.topics.join(", "))
                .column("WHAT", |r| &r.content)
                .print("No rules yet");
            Ok(0)
        }
        Rules::Remove { id } => {
            rules::remove(top, &id).map_err(failed)?;
            out.answer(&json!({"removed": true, "id": id}), |out, _| out.line(&format!("Removed {id}.")))
        }
    }
}
