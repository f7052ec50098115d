//! How a memory came to be, and what was done to it, as people read it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::super::out::Out;
use super::super::text::{one_line, words};
use super::print::{Shown, readable, shown};
use admin::MemoryLink;

/// What `memory_why` answers.
#[derive(Deserialize)]
pub struct Story {
    #[serde(flatten)]
    shown: Shown,
    source: Option<Source>,
    session: Option<Session>,
    supersedes: Option<Said>,
    superseded_by: Option<Said>,
    #[serde(default)]
    also_put: Vec<Said>,
    #[serde(default)]
    links: Vec<MemoryLink>,
    #[serde(default)]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Source {
    episode_id: String,
    occurred_at: Timestamp,
    trust: String,
    content: Option<String>,
}

#[derive(Deserialize)]
struct Session {
    session_id: String,
    started_at: Option<Timestamp>,
    trigger_source: String,
    prompt: String,
}

/// Another memory. Without content it was forgotten.
#[derive(Deserialize)]
struct Said {
    id: String,
    content: Option<String>,
}

/// Something that was done to a memory.
#[derive(Deserialize)]
pub struct Event {
    event: Uuid,
    at: Timestamp,
    what: String,
    by: String,
    reason: Option<String>,
    undone: bool,
    memory_type: Option<String>,
    memory_id: Option<String>,
    #[serde(default)]
    changed: Vec<Changed>,
}

impl Event {
    fn done(&self) -> String {
        format!("{}{}", self.what, if self.undone { " (taken back)" } else { "" })
    }
}

pub fn why(out: &Out, story: &Story) {
    shown(out, &story.shown);
    if let Some(s) = &story.source {
        let said = s.content.as_deref().map_or_else(|| "it was forgotten".to_owned(), |said| one_line(said, 500));
        let text = format!("episode {}, {}, {}: {said}", s.episode_id, out.moment(s.occurred_at), s.trust);
        out.section("It comes from", &text);
    }
    if let Some(s) = &story.session {
        let began = s.started_at.map(|at| out.moment(at)).unwrap_or_default();
        let asked = one_line(&s.prompt, 300);
        let text = format!("session {} ({began}, {}), which was asked: {asked}", s.session_id, s.trigger_source);
        out.section("It was learned in", &text);
    }
    let said = |said: &Said| {
        let content = said.content.as_deref().map_or_else(|| "forgotten".to_owned(), |text| one_line(text, 300));
        format!("{}: {content}", said.id)
    };
    out.section("It replaced", &story.supersedes.as_ref().map(said).unwrap_or_default());
    out.section("It was replaced by", &story.superseded_by.as_ref().map(said).unwrap_or_default());
    out.section("It was also put as", &story.also_put.iter().map(said).collect::<Vec<_>>().join("\n"));
    let link = |l: &MemoryLink| format!("{} {} {} {} {}", l.from, l.from_id, words(&l.relation), l.to, l.to_id);
    out.section("Its links", &story.links.iter().map(link).collect::<Vec<_>>().join("\n"));
    out.line("");
    out.table(&story.events)
        .ids("EVENT", |e| e.event)
        .column("WHEN", |e| out.moment(e.at))
        .column("WHAT", Event::done)
        .column("BY", |e| one_line(&e.by, 60))
        .column("WHY", |e| e.reason.as_deref().map(|r| one_line(r, 120)))
        .print("No events");
}

/// What an event made of one memory.
#[derive(Deserialize)]
struct Changed {
    /// It was made by that.
    made: bool,
    parts: BTreeMap<String, Change>,
}

#[derive(Deserialize)]
struct Change {
    #[serde(default)]
    from: Value,
    to: Value,
}

impl Changed {
    fn told(&self, out: &Out) -> String {
        let or = |value: &Value| match readable(out, value) {
            text if text.is_empty() => "nothing".to_owned(),
            text => one_line(&text, 60),
        };
        let told = self.parts.iter().map(|(name, change)| match self.made {
            true => format!("{name}: {}", or(&change.to)),
            false => format!("{name}: {} → {}", or(&change.from), or(&change.to)),
        });
        told.collect::<Vec<_>>().join(", ")
    }
}

pub fn history(out: &Out, events: &[Event]) {
    let changes = |event: &Event| {
        let told = event.changed.iter().map(|c| c.told(out)).filter(|told| !told.is_empty());
        told.collect::<Vec<_>>().join("; ")
    };
    let memory = |e: &Event| {
        let (kind, id) = (e.memory_type.as_deref().unwrap_or_default(), e.memory_id.as_deref().unwrap_or_default());
        format!("{kind} {id}")
    };
    out.table(events)
        .ids("EVENT", |e| e.event)
        .column("WHEN", |e| out.moment(e.at))
        .column("WHAT", Event::done)
        .column("MEMORY", memory)
        .column("BY", |e| one_line(&e.by, 40))
        .column("WHY", |e| e.reason.as_deref().map(|r| one_line(r, 80)))
        .column("CHANGED", changes)
        .print("No events yet");
}
