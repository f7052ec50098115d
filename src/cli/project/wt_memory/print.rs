//! What `wt-memory` prints as text where it prints no JSON.

use serde_json::Value;

use super::super::super::text::one_line;
use super::Reply;
use project::rules::Rule;

fn number(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_default()
}

fn counts(of: &Value, title: &str, reply: &mut Reply) {
    reply.say("");
    reply.say(format!("{title}:"));
    for (name, count) in of.as_object().into_iter().flatten() {
        reply.say(format!("  {}: {count}", one_line(name, 100)));
    }
}

pub fn stats(of: &Value, reply: &mut Reply) {
    reply.say(format!("Total memories: {}", number(of, "total")));
    let noise = of["noise_ratio"].as_f64().unwrap_or_default() * 100.0;
    reply.say(format!("Noise ratio: {noise:.0}% (importance below 0.3)"));
    counts(&of["type_distribution"], "Types", reply);
    counts(&of["tag_distribution"], "Tags", reply);
    counts(&of["importance_histogram"], "Importance", reply);
}

pub fn status(of: &Value, reply: &mut Reply) {
    let text = |name: &str| of[name].as_str().unwrap_or_default().to_owned();
    reply.say(format!("Project: {}", one_line(&text("project"), 200)));
    reply.say(format!("Storage: {}", text("storage_path")));
    reply.say(format!("Health: {}", if of["available"] == true { "available" } else { "not available" }));
    reply.say(format!("Memories: {}", number(of, "count")));
}

pub fn projects(of: &Value, reply: &mut Reply) {
    let all = of.as_array().map(Vec::as_slice).unwrap_or_default();
    if all.is_empty() {
        reply.say("No projects with memories found.");
    }
    for project in all {
        let name = one_line(project["name"].as_str().unwrap_or_default(), 200);
        // Namesakes are told apart by where they come from.
        let twins = all.iter().filter(|other| other["name"] == project["name"]).count() > 1;
        let origin = project["origin"].as_str().filter(|_| twins);
        let origin = origin.map(|origin| format!(" ({})", one_line(origin, 200))).unwrap_or_default();
        reply.say(format!("  {name}: {} memories{origin}", number(project, "memories")));
    }
}

pub fn audit(of: &Value, reply: &mut Reply) {
    reply.say(format!("Total memories: {}", number(of, "total")));
    reply.say(format!("Duplicate clusters: {}", number(of, "clusters")));
    reply.say(format!("Redundant entries: {}", number(of, "redundant")));
    reply.say(format!("Unique: {}", number(of, "unique")));
    reply.say(format!("Dedup ratio: {}%", of["dedup_ratio"].as_f64().unwrap_or_default()));
    for cluster in of["top_clusters"].as_array().into_iter().flatten() {
        let preview = one_line(cluster["preview"].as_str().unwrap_or_default(), 120);
        reply.say(format!("  [{}x] {preview}", number(cluster, "count")));
    }
    match number(of, "redundant") {
        0 => reply.say("No duplicates found."),
        _ => reply.say("To see what would go: wt-memory dedup --dry-run"),
    }
}

pub fn todos(of: &Value, reply: &mut Reply) {
    let all = of.as_array().map(Vec::as_slice).unwrap_or_default();
    if all.is_empty() {
        return reply.say("No open todos.");
    }
    let start = |value: &Value, most: usize| value.as_str().unwrap_or_default().chars().take(most).collect::<String>();
    for todo in all {
        let tags = todo["tags"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let tags: Vec<&str> = tags.filter(|tag| !matches!(*tag, "todo" | "backlog")).collect();
        let tags = if tags.is_empty() { String::new() } else { format!(" [{}]", one_line(&tags.join(", "), 200)) };
        let content = one_line(todo["content"].as_str().unwrap_or_default(), 72);
        // Ids of one millisecond differ behind their time.
        reply.say(format!("  {}  {content}{tags}  ({})", start(&todo["id"], 36), start(&todo["created_at"], 10)));
    }
    reply.say("");
    reply.say(format!("{} open", all.len()));
}

pub fn rules(all: &[Rule], reply: &mut Reply) {
    if all.is_empty() {
        return reply.say("No rules defined. To add one: wt-memory rules add --topics \"a,b\" \"text\"");
    }
    reply.say(format!("Rules ({}):", all.len()));
    for rule in all {
        reply.say(format!("\n  [{}]", one_line(&rule.id, 100)));
        reply.say(format!("    topics:  {}", one_line(&rule.topics.join(", "), 200)));
        reply.say(format!("    content: {}", one_line(&rule.content, 120)));
    }
}

/// An object's values under their names.
pub fn fields(of: &Value, reply: &mut Reply) {
    for (name, value) in of.as_object().into_iter().flatten() {
        match value {
            Value::Object(_) => counts(value, name, reply),
            other => reply.say(format!("{name}: {other}")),
        }
    }
}
