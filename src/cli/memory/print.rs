//! Memories, as people read them.

use jiff::tz::TimeZone;
use serde_json::Value;

use super::super::out::{Out, Table, Tone, block, brief, moment, moment_of, one_line, text};

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn trust_tone(trust: &str) -> Tone {
    if trust == "stranger" { Tone::Warn } else { Tone::Plain }
}

fn number(value: &Value) -> String {
    value.as_f64().map(|n| format!("{:.2}", n)).unwrap_or_default()
}

/// Of whom or what a memory speaks, and what it says of that.
fn about(memory: &Value) -> String {
    let who = if memory["speaker"].is_string() { text(memory, "speaker") } else { text(memory, "subject") };
    one_line(format!("{who} {}", text(memory, "predicate").replace('_', " ")).trim(), 40)
}

pub fn found(out: Out, answer: &Value, zone: &TimeZone) {
    let results = list(answer, "results");
    if results.is_empty() {
        return out.line("Nothing that is remembered fits.");
    }
    let mut table = Table::new(&["MEMORY", "KIND", "SINCE", "ABOUT", "WHAT", "SCORE", "FROM"]);
    for memory in results {
        let at = if memory["occurred_at"].is_string() { "occurred_at" } else { "since" };
        let trust = text(memory, "trust");
        table.row(vec![
            (Tone::Faint, text(memory, "id").to_owned()),
            (Tone::Plain, text(memory, "type").to_owned()),
            (Tone::Plain, moment_of(memory, at, zone).chars().take(10).collect()),
            (Tone::Plain, about(memory)),
            (Tone::Plain, one_line(text(memory, "content"), 100)),
            (Tone::Plain, number(&memory["score"])),
            (trust_tone(trust), trust.to_owned()),
        ]);
    }
    out.table(&table);
    if answer["answered_by"] == "full_text" {
        out.aside("The index is being made; this is what the words alone find.");
    }
}

fn field(out: Out, name: &str, value: &str) {
    if !value.is_empty() {
        out.line(&format!("{}  {value}", out.paint(Tone::Head, &format!("{name:<11}"))));
    }
}

/// A value as it stands, a moment in the owner's zone.
fn readable(value: &Value, zone: &TimeZone) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => match text.parse::<jiff::Timestamp>() {
            Ok(at) if text.len() >= 20 => moment(at, zone),
            _ => one_line(text, 500),
        },
        Value::Array(all) if all.is_empty() => String::new(),
        Value::Object(all) if all.is_empty() => String::new(),
        other => brief(other, 500),
    }
}

pub fn shown(out: Out, answer: &Value, zone: &TimeZone) {
    memory(out, text(answer, "memory_type"), &answer["memory"], zone);
}

fn memory(out: Out, kind: &str, row: &Value, zone: &TimeZone) {
    field(out, kind, text(row, "id"));
    field(out, "about", &about(row));
    for (name, value) in row.as_object().into_iter().flatten() {
        if !["id", "content", "subject", "predicate", "speaker", "tenant_id"].contains(&name.as_str()) {
            field(out, &name.replace('_', " "), &readable(value, zone));
        }
    }
    if let Some(content) = row["content"].as_str() {
        out.line(&format!("\n{}", block(content)));
    }
}

pub fn why(out: Out, story: &Value, zone: &TimeZone) {
    memory(out, text(story, "memory_type"), &story["memory"], zone);
    let source = &story["source"];
    if source.is_object() {
        out.line(&format!("\n{}", out.paint(Tone::Head, "It comes from")));
        let when = moment_of(source, "occurred_at", zone);
        let said = if source["content"].is_string() { text(source, "content") } else { "it was forgotten" };
        out.line(&format!(
            "episode {}, {when}, {}: {}",
            text(source, "episode_id"),
            text(source, "trust"),
            one_line(said, 500)
        ));
    }
    let session = &story["session"];
    if session.is_object() {
        out.line(&format!("\n{}", out.paint(Tone::Head, "It was learned in")));
        out.line(&format!(
            "session {} ({}, {}), which was asked: {}",
            text(session, "session_id"),
            moment_of(session, "started_at", zone),
            text(session, "trigger_source"),
            one_line(text(session, "prompt"), 300)
        ));
    }
    for (name, title) in [("supersedes", "It took the place of"), ("superseded_by", "Its place was taken by")] {
        let other = &story[name];
        if other.is_object() {
            out.line(&format!("\n{}", out.paint(Tone::Head, title)));
            let said = if other["content"].is_string() { text(other, "content") } else { "what was forgotten" };
            out.line(&format!("{}: {}", text(other, "id"), one_line(said, 300)));
        }
    }
    let mut also = list(story, "also_put").iter().peekable();
    if also.peek().is_some() {
        out.line(&format!("\n{}", out.paint(Tone::Head, "It was also put as")));
        for wording in also {
            out.line(&format!("{}: {}", text(wording, "id"), one_line(text(wording, "content"), 300)));
        }
    }
    let mut links = list(story, "links").iter().peekable();
    if links.peek().is_some() {
        out.line(&format!("\n{}", out.paint(Tone::Head, "How it hangs together")));
        for link in links {
            let end = |kind: &str, id: &str| format!("{} {}", text(link, kind), text(link, id));
            out.line(&format!(
                "{} {} {}",
                end("from", "from_id"),
                text(link, "relation").replace('_', " "),
                end("to", "to_id")
            ));
        }
    }
    out.line("");
    let mut table = Table::new(&["EVENT", "WHEN", "WHAT", "BY", "WHY"]);
    for event in list(story, "events") {
        let undone = if event["undone"] == true { " (taken back)" } else { "" };
        table.row(vec![
            (Tone::Faint, text(event, "event").to_owned()),
            (Tone::Plain, moment_of(event, "at", zone)),
            (Tone::Plain, format!("{}{undone}", text(event, "what"))),
            (Tone::Plain, one_line(text(event, "by"), 60)),
            (Tone::Plain, one_line(text(event, "reason"), 120)),
        ]);
    }
    out.table(&table);
}

pub fn added(out: Out, done: &Value, _: &TimeZone) {
    let what = match text(done, "status") {
        "stored" => "is remembered",
        "confirmed" => "was known, and is believed the more for it",
        "repeated" => "was stored by the same call before",
        _ => "is known",
    };
    out.line(&format!("The {} {} {what}.", text(done, "memory_type"), text(done, "id")));
}

pub fn changed(out: Out, done: &Value, _: &TimeZone) {
    out.line(&format!("The {} {} is changed.", text(done, "memory_type"), text(done, "id")));
    back(out, done);
}

pub fn forgotten(out: Out, done: &Value, _: &TimeZone) {
    out.line(&format!("{} is forgotten, and does not come back by itself.", text(done, "id")));
    back(out, done);
}

fn back(out: Out, done: &Value) {
    out.line(&format!("To take that back: butlerd memory undo {}", text(done, "event")));
}

pub fn undone(out: Out, done: &Value, _: &TimeZone) {
    out.line(&format!("{} is taken back.", text(done, "event")));
}

pub fn purged(out: Out, done: &Value, _: &TimeZone) {
    out.line(&format!("The {} {} is gone for good.", text(done, "memory_type"), text(done, "id")));
    for (name, title) in [("cleaned", "its words were taken out of"), ("kept", "it stands still in")] {
        let places: Vec<String> =
            done[name].as_object().into_iter().flatten().map(|(table, n)| format!("{table} ({n})")).collect();
        if !places.is_empty() {
            out.line(&format!("{title}: {}", places.join(", ")));
        }
    }
    for name in ["sources", "derived"] {
        let ids: Vec<String> =
            list(done, name).iter().map(|m| format!("{} {}", text(m, "memory_type"), text(m, "memory_id"))).collect();
        if !ids.is_empty() {
            out.line(&format!("{name}: {}", ids.join(", ")));
        }
    }
    for note in list(done, "notes") {
        out.line(&one_line(note.as_str().unwrap_or_default(), 400));
    }
}

pub fn history(out: Out, answer: &Value, zone: &TimeZone) {
    let events = list(answer, "events");
    if events.is_empty() {
        return out.line("Nothing was done yet.");
    }
    let mut table = Table::new(&["EVENT", "WHEN", "WHAT", "MEMORY", "BY", "WHY", "CHANGED"]);
    for event in events {
        let undone = if event["undone"] == true { " (taken back)" } else { "" };
        let changes: Vec<String> =
            list(event, "changed").iter().map(|c| changes(c, zone)).filter(|c| !c.is_empty()).collect();
        table.row(vec![
            (Tone::Faint, text(event, "event").to_owned()),
            (Tone::Plain, moment_of(event, "at", zone)),
            (Tone::Plain, format!("{}{undone}", text(event, "what"))),
            (Tone::Plain, format!("{} {}", text(event, "memory_type"), text(event, "memory_id"))),
            (Tone::Plain, one_line(text(event, "by"), 40)),
            (Tone::Plain, one_line(text(event, "reason"), 80)),
            (Tone::Plain, one_line(&changes.join("; "), 200)),
        ]);
    }
    out.table(&table);
    if let Some(before) = answer["next_before"].as_i64() {
        out.aside(&format!("What came before: butlerd memory history --before {before}"));
    }
}

fn changes(of: &Value, zone: &TimeZone) -> String {
    let parts = of["parts"].as_object();
    let told: Vec<String> = parts
        .into_iter()
        .flatten()
        .map(|(name, change)| {
            let or = |value: &Value| {
                Some(readable(value, zone)).filter(|v| !v.is_empty()).unwrap_or_else(|| "nothing".to_owned())
            };
            match of["made"] == true {
                true => format!("{name}: {}", one_line(&or(&change["to"]), 60)),
                false => {
                    format!("{name}: {} → {}", one_line(&or(&change["from"]), 60), one_line(&or(&change["to"]), 60))
                }
            }
        })
        .collect();
    told.join(", ")
}

pub fn retried(out: Out, answer: &Value, _: &TimeZone) {
    let again = answer["again"].as_u64().unwrap_or_default();
    out.line(&match (again, answer["run"].is_string()) {
        (0, _) => "Nothing was given up, so nothing is taken up.".to_owned(),
        (n, true) => format!("{} taken up again; a run is under way.", count_of(n)),
        (n, false) => format!("{} taken up again, with the next run.", count_of(n)),
    });
}

fn count_of(memories: u64) -> String {
    if memories == 1 { "1 memory is".to_owned() } else { format!("{memories} memories are") }
}

pub fn stats(out: Out, stats: &Value, zone: &TimeZone) {
    field(out, "butler", text(stats, "butler"));
    for (name, value) in stats.as_object().into_iter().flatten().filter(|(name, _)| *name != "butler") {
        let Some(parts) = value.as_object() else {
            field(out, name, &readable(value, zone));
            continue;
        };
        // One line for each job; for everything else the counts in one.
        for (part, value) in parts.iter().filter(|(_, value)| value.is_object()) {
            field(out, part, &counts(value, zone));
        }
        field(out, name, &counts(value, zone));
    }
}

fn counts(of: &Value, zone: &TimeZone) -> String {
    let told: Vec<String> = of
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_object())
        .map(|(part, value)| (part, readable(value, zone)))
        .filter(|(_, value)| !value.is_empty())
        .map(|(part, value)| format!("{} {value}", part.replace('_', " ")))
        .collect();
    told.join(", ")
}
