//! Memories of a project, as people read them. Programs get the daemon's answer as it is.

use serde_json::{Map, Value};
use uuid::Uuid;

use super::super::out::{Out, Tone};
use super::super::text::{brief, one_line, words};

/// So much of a memory is shown in a list.
const PREVIEW: usize = 100;

fn rows(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn id(record: &Value) -> Option<Uuid> {
    record["id"].as_str()?.parse().ok()
}

fn text<'a>(record: &'a Value, name: &str) -> &'a str {
    record[name].as_str().unwrap_or_default()
}

/// The day of a moment as it is written.
fn day(record: &Value) -> String {
    text(record, "created_at").chars().take(10).collect()
}

fn tags(record: &Value) -> String {
    let tags: Vec<&str> = rows(&record["tags"]).iter().filter_map(Value::as_str).collect();
    one_line(&tags.join(", "), 40)
}

fn share(value: &Value) -> Option<String> {
    value.as_f64().map(|n| format!("{n:.2}"))
}

/// `1 memory`, `2 memories`.
pub fn memories_of(count: u64) -> String {
    if count == 1 { "1 memory".to_owned() } else { format!("{count} memories") }
}

/// A list of memories.
pub fn memories(out: &Out, found: &Value) {
    out.table(rows(found))
        .ids("MEMORY", id)
        .column("TYPE", |m| text(m, "experience_type"))
        .column("SINCE", day)
        .column("TAGS", tags)
        .column("WHAT", |m| one_line(text(m, "content"), PREVIEW))
        .print("No memories");
}

/// Memories with their relevance, and why.
pub fn relevant(out: &Out, found: &Value) {
    out.table(rows(found))
        .ids("MEMORY", id)
        .column("TYPE", |m| text(m, "memory_type"))
        .column("FITS", |m| share(&m["relevance_score"]))
        .column("WHY", |m| one_line(text(m, "relevance_reason"), 40))
        .column("WHAT", |m| one_line(text(m, "content"), PREVIEW))
        .print("Nothing bears on that");
}

/// What is left to do.
pub fn todos(out: &Out, found: &Value) {
    out.table(rows(found))
        .ids("TODO", id)
        .column("SINCE", day)
        .column("WHAT", |m| one_line(text(m, "content"), PREVIEW))
        .print("Nothing is left to do");
}

/// One memory, whole.
pub fn memory(out: &Out, found: &Value) {
    let yes = |name: &str| found[name].as_bool().unwrap_or(false).then(|| "yes".to_owned());
    let metadata: Vec<String> =
        found["metadata"].as_object().into_iter().flatten().map(|(k, v)| format!("{k}={}", brief(v, 100))).collect();
    out.fields()
        .field("memory", text(found, "id"))
        .field("type", text(found, "experience_type"))
        .field("tags", tags(found))
        .field("since", text(found, "created_at"))
        .field("used", found["access_count"].as_i64().filter(|n| *n > 0).map(|n| format!("{n} times")))
        .field("importance", share(&found["importance"]))
        .field("failure", yes("is_failure"))
        .field("anomaly", yes("is_anomaly"))
        .field("metadata", metadata.join(", "))
        .print();
    out.section("what", text(found, "content"));
}

/// Projects with what they hold.
pub fn projects(out: &Out, found: &Value) {
    out.table(rows(found))
        .column("PROJECT", |p| text(p, "name"))
        .column("FROM", |p| text(p, "origin"))
        .column("FIRST COMMIT", |p| text(p, "root_commit").chars().take(12).collect::<String>())
        .column("MEMORIES", |p| p["memories"].as_u64())
        .print("No project has memories yet");
}

/// Groups of memories that say the same.
pub fn audit(out: &Out, found: &Value) {
    let number = |name: &str| found[name].as_u64();
    out.fields()
        .field("memories", number("total"))
        .field("groups", number("clusters"))
        .field("said twice", number("redundant"))
        .field("different", number("unique"))
        .print();
    let groups = rows(&found["top_clusters"]);
    if groups.is_empty() {
        return out.line("No two memories say the same");
    }
    out.line("");
    out.table(groups)
        .column("TIMES", |g| g["count"].as_u64())
        .column("STAYS", |g| text(g, "survivor_id"))
        .column("WHAT", |g| one_line(text(g, "preview"), PREVIEW))
        .print("");
    out.aside("To make each group one: butlerd project dedup");
}

/// What a run forgot, merged, or would.
pub fn changed(out: &Out, done: &Value) {
    if done["dry_run"] == true {
        let count = done["would_delete"].as_u64().unwrap_or_default();
        out.line(&format!("Would forget {}; nothing was changed.", memories_of(count)));
    } else {
        let count = done["deleted_count"].as_u64().unwrap_or_default();
        let merged = done["merged_count"].as_u64().filter(|n| *n > 0);
        let merged = merged.map(|n| format!(" {} got the tags of others.", memories_of(n))).unwrap_or_default();
        out.line(&format!("Forgot {}.{merged}", memories_of(count)));
    }
    if let Some(run) = done["run"].as_str() {
        out.line(&format!("To take it back: butlerd project undo {run}"));
    }
}

/// What was taken back.
pub fn undone(out: &Out, done: &Value) {
    match done["undone"].as_u64() {
        Some(0) => out.line("There was nothing to take back."),
        Some(count) => out.line(&format!("Took it back: {}.", memories_of(count))),
        None => fields(out, done),
    }
}

/// An object: each value under its name, objects below it.
pub fn fields(out: &Out, shown: &Value) {
    let Some(shown) = shown.as_object() else { return out.line(&brief(shown, 1000)) };
    let (deep, flat): (Vec<_>, Vec<_>) = shown.iter().partition(|(_, value)| value.is_object() || value.is_array());
    let mut fields = out.fields();
    for (name, value) in flat {
        let value = match value {
            Value::Null => String::new(),
            Value::Number(n) if n.is_f64() => share(value).unwrap_or_default(),
            other => brief(other, 500),
        };
        fields = fields.field(words(name), value);
    }
    fields.print();
    for (name, value) in deep {
        let lines: Vec<String> = match value {
            Value::Object(all) => all.iter().map(|(name, value)| format!("{name}  {}", brief(value, 200))).collect(),
            other => rows(other).iter().map(|value| brief(value, 200)).collect(),
        };
        out.section(&words(name), &lines.join("\n"));
    }
}

/// Lists of memories under their names, then what is counted.
pub fn sections(out: &Out, shown: &Value) {
    let mut rest = Map::new();
    let mut said = false;
    for (name, value) in shown.as_object().into_iter().flatten() {
        let Some(all) = value.as_array() else {
            rest.insert(name.clone(), value.clone());
            continue;
        };
        if all.is_empty() {
            continue;
        }
        said = true;
        out.line(&out.paint(Tone::Head, &words(name)));
        for one in all {
            // A neuron's is a preview.
            let content = [text(one, "content"), text(one, "preview"), text(one, "content_preview")];
            let content = content.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
            let id: String = text(one, "id").chars().take(13).collect();
            out.line(&format!("  {}  {}", out.paint(Tone::Faint, &id), one_line(content, 200)));
        }
        out.line("");
    }
    if !said {
        out.line("No memories yet");
    }
    fields(out, &Value::Object(rest));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::out::tests;
    use super::*;

    fn printed(print: fn(&Out, &Value), value: &Value) -> String {
        tests::printed(|out| print(out, value))
    }

    fn record() -> Value {
        json!({"id": "0190f3a2-7c41-7000-8000-00000000000a", "content": "use\ntabs\u{1b}[2J", "experience_type": "Decision",
               "tags": ["style", "branch:main"], "metadata": {"k": "v"}, "importance": 0.5, "access_count": 2,
               "created_at": "2026-11-26T07:00:00Z", "is_failure": true})
    }

    #[test]
    fn lists_are_tables() {
        let text = printed(memories, &json!([record()]));
        assert_eq!(
            text,
            "MEMORY         TYPE      SINCE       TAGS                WHAT\n\
             0190f3a2-7c41  Decision  2026-11-26  style, branch:main  use tabs[2J\n"
        );
        assert_eq!(printed(memories, &json!([])), "No memories\n");
        assert_eq!(printed(todos, &json!([])), "Nothing is left to do\n");
        let relevant_one =
            json!([{"id": record()["id"], "content": "x", "relevance_score": 0.875, "relevance_reason": "words"}]);
        assert!(printed(relevant, &relevant_one).contains("0.88  words  x"));
        assert!(printed(projects, &json!([{"name": "api", "memories": 3}])).contains("api"));
    }

    #[test]
    fn one_memory_is_whole() {
        let text = printed(memory, &record());
        for part in ["0190f3a2-7c41-7000-8000-00000000000a", "2 times", "0.50", "failure", "k=v", "use\ntabs"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("anomaly") && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn runs_say_what_they_did_and_how_to_take_it_back() {
        let done = json!({"deleted_count": 1, "merged_count": 2, "run": "77"});
        let text = printed(changed, &done);
        assert_eq!(
            text,
            "Forgot 1 memory. 2 memories got the tags of others.\nTo take it back: butlerd project undo 77\n"
        );
        assert!(printed(changed, &json!({"dry_run": true, "would_delete": 3})).contains("Would forget 3 memories"));
        assert_eq!(printed(undone, &json!({"undone": 0, "run": "77"})), "There was nothing to take back.\n");
        let groups = json!({"total": 3, "clusters": 1, "redundant": 1, "unique": 2,
                            "top_clusters": [{"count": 2, "survivor_id": "a", "preview": "x"}]});
        assert!(printed(audit, &groups).contains("2  a      x"), "{}", printed(audit, &groups));
    }

    #[test]
    fn objects_are_fields_and_sections() {
        let text = printed(fields, &json!({"total": 3, "noise_ratio": 0.25, "types": {"Decision": 3}, "none": null}));
        assert!(text.contains("total        3") && text.contains("Decision  3") && !text.contains("none"), "{text}");
        let text = printed(sections, &json!({"total_memories": 1, "decisions": [record()], "errors": []}));
        assert!(text.contains("decisions\n  0190f3a2-7c41  use tabs") && !text.contains("errors"), "{text}");
        assert!(text.contains("total memories  1"), "{text}");
    }
}
