//! Memories, as people read them. What a field of an answer is not there for stays unsaid.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::super::out::{Out, Tone};
use super::super::text::{block, brief, one_line, words};

/// What a memory speaks of.
#[derive(Deserialize)]
struct About {
    speaker: Option<String>,
    subject: Option<String>,
    predicate: Option<String>,
}

impl About {
    fn told(&self) -> String {
        let who = self.speaker.as_deref().or(self.subject.as_deref()).unwrap_or_default();
        one_line(format!("{who} {}", words(self.predicate.as_deref().unwrap_or_default())).trim(), 40)
    }
}

/// One of what `memory_search` answers, and whose it is.
#[derive(Deserialize)]
pub struct Hit {
    id: Uuid,
    butler: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(alias = "occurred_at")]
    since: Option<Timestamp>,
    #[serde(flatten)]
    about: About,
    content: Option<String>,
    score: Option<f64>,
    trust: Option<String>,
}

pub fn found(out: &Out, hits: &[Hit]) {
    let day = |at: Timestamp| at.to_zoned(out.zone.clone()).strftime("%Y-%m-%d").to_string();
    let trust = |hit: &Hit| {
        let trust = hit.trust.clone().unwrap_or_default();
        (if trust == "stranger" { Tone::Warn } else { Tone::Plain }, trust)
    };
    out.table(hits)
        .ids("MEMORY", |m| m.id)
        .column("BUTLER", |m| &m.butler)
        .column("KIND", |m| &m.kind)
        .column("SINCE", |m| m.since.map(day))
        .column("ABOUT", |m| m.about.told())
        .column("WHAT", |m| m.content.as_deref().map(|c| one_line(c, 100)))
        .column("SCORE", |m| m.score.map(|n| format!("{n:.2}")))
        .column("FROM", trust)
        .print("No memory matches");
}

/// A value as it stands, a moment in the owner's zone.
pub fn readable(out: &Out, value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => match text.parse::<Timestamp>() {
            Ok(at) if text.len() >= 20 => out.moment(at),
            _ => one_line(text, 500),
        },
        Value::Array(all) if all.is_empty() => String::new(),
        Value::Object(all) if all.is_empty() => String::new(),
        other => brief(other, 500),
    }
}

/// What `memory_get` answers, with its kind.
#[derive(Deserialize)]
pub struct Shown {
    memory_type: String,
    /// Its row, whose columns are those of its kind.
    memory: Map<String, Value>,
}

pub fn shown(out: &Out, Shown { memory_type, memory }: &Shown) {
    let text = |name: &str| memory.get(name).and_then(Value::as_str);
    let mut fields = out.fields().field(memory_type.clone(), text("id"));
    if let Ok(about) = About::deserialize(&Value::Object(memory.clone())) {
        fields = fields.field("about", about.told());
    }
    let told = ["id", "content", "subject", "predicate", "speaker", "tenant_id"];
    for (name, value) in memory.iter().filter(|(name, _)| !told.contains(&name.as_str())) {
        fields = fields.field(words(name), readable(out, value));
    }
    fields.print();
    if let Some(content) = text("content") {
        out.line(&format!("\n{}", block(content)));
    }
}

/// What changed a memory: which one, and the event by which it can be taken back.
#[derive(Deserialize)]
pub struct Done {
    #[serde(default)]
    id: String,
    #[serde(default)]
    memory_type: String,
    status: Option<String>,
    #[serde(default)]
    event: String,
}

pub fn added(out: &Out, done: &Done) {
    let what = match done.status.as_deref() {
        Some("stored") => "is remembered",
        Some("confirmed") => "was known, and is believed the more for it",
        Some("repeated") => "was stored by the same call before",
        _ => "is known",
    };
    out.line(&format!("The {} {} {what}.", done.memory_type, done.id));
}

pub fn changed(out: &Out, done: &Done) {
    out.line(&format!("The {} {} is changed.", done.memory_type, done.id));
    back(out, done);
}

pub fn forgotten(out: &Out, done: &Done) {
    out.line(&format!("{} is forgotten and does not come back by itself.", done.id));
    back(out, done);
}

fn back(out: &Out, done: &Done) {
    out.line(&format!("To take that back: butlerd memory undo {}", done.event));
}

pub fn undone(out: &Out, done: &Done) {
    out.line(&format!("{} is taken back.", done.event));
}

/// What `memory_purge` answers.
#[derive(Deserialize)]
pub struct Purged {
    id: String,
    memory_type: String,
    /// Rows by table.
    #[serde(default)]
    cleaned: BTreeMap<String, Value>,
    #[serde(default)]
    kept: BTreeMap<String, Value>,
    #[serde(default)]
    sources: Vec<Other>,
    #[serde(default)]
    derived: Vec<Other>,
    #[serde(default)]
    notes: Vec<String>,
}

#[derive(Deserialize)]
struct Other {
    memory_type: String,
    memory_id: String,
}

pub fn purged(out: &Out, done: &Purged) {
    out.line(&format!("The {} {} is gone for good.", done.memory_type, done.id));
    let places = |of: &BTreeMap<String, Value>| of.iter().map(|(table, n)| format!("{table} ({n})")).collect();
    let others = |of: &[Other]| of.iter().map(|m| format!("{} {}", m.memory_type, m.memory_id)).collect();
    let lists: [(&str, Vec<String>); 4] = [
        ("its words were removed from", places(&done.cleaned)),
        ("its words still stand in", places(&done.kept)),
        ("sources", others(&done.sources)),
        ("derived", others(&done.derived)),
    ];
    for (title, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
        out.line(&format!("{title}: {}", list.join(", ")));
    }
    done.notes.iter().for_each(|note| out.line(&one_line(note, 400)));
}

/// What `memory_retry` answers.
#[derive(Deserialize)]
pub struct Retried {
    again: u64,
    run: Option<String>,
}

pub fn retried(out: &Out, answer: &Retried) {
    let memories = if answer.again == 1 { "1 memory is".to_owned() } else { format!("{} memories are", answer.again) };
    out.line(&match (answer.again, &answer.run) {
        (0, _) => "Nothing was given up, so nothing is taken up.".to_owned(),
        (_, Some(_)) => format!("{memories} taken up again; a run is under way."),
        (_, None) => format!("{memories} taken up again, with the next run."),
    });
}

pub fn stats(out: &Out, stats: &Map<String, Value>) {
    let butler = stats.get("butler").and_then(Value::as_str);
    let mut fields = out.fields().field("butler", butler);
    for (name, value) in stats.iter().filter(|(name, _)| *name != "butler") {
        let Some(parts) = value.as_object() else {
            fields = fields.field(name.clone(), readable(out, value));
            continue;
        };
        // One line for each job; for everything else the counts in one.
        for (part, of) in parts.iter().filter_map(|(part, value)| Some((part, value.as_object()?))) {
            fields = fields.field(part.clone(), counts(out, of));
        }
        fields = fields.field(name.clone(), counts(out, parts));
    }
    fields.print();
}

fn counts(out: &Out, of: &Map<String, Value>) -> String {
    let told = of.iter().filter(|(_, value)| !value.is_object()).map(|(part, value)| (part, readable(out, value)));
    let told = told.filter(|(_, value)| !value.is_empty()).map(|(part, value)| format!("{} {value}", words(part)));
    told.collect::<Vec<_>>().join(", ")
}
