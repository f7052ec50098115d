//! Editing the text of the rules, so that comments stay. What comes out is read again and taken only if it means what it
//! should; so the ways of writing that this does not know cost comments and never a rule.

use serde_json::{Value, json};

/// What a text means; null where it is empty.
pub fn value_of(text: &str) -> Result<Value, serde_saphyr::Error> {
    Ok(serde_saphyr::from_str::<Option<Value>>(text)?.unwrap_or_default())
}

/// The text with one rule more, if that can be done so that it means `wanted`.
pub fn with(text: &str, rule: &Value, wanted: &Value) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let found = Block::find(&lines);
    let (at, before) = match &found {
        Some(block) => (block.end, ""),
        None => (lines.len(), "rules:\n"),
    };
    let indents = found.iter().filter_map(|block| block.items.first().map(|item| indent_of(lines[*item])));
    let indents: Vec<usize> = indents.chain([2, 0, 4]).collect();
    let mut tries = indents.into_iter().map(|indent| {
        let item = item(rule, indent);
        let above = lines[..at].iter().map(|line| format!("{line}\n"));
        let below = lines[at..].iter().map(|line| format!("{line}\n"));
        above.chain([before.to_owned(), item]).chain(below).collect::<String>()
    });
    tries.find(|edited| means(edited, wanted))
}

/// The text without the rules at these positions, if that can be done so that it means `wanted`.
pub fn without(text: &str, positions: &[usize], wanted: &Value) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let block = Block::find(&lines)?;
    let range = |position: &usize| {
        let start = *block.items.get(*position)?;
        let next = block.items.get(position + 1).copied().unwrap_or(block.end);
        // A comment above the next rule is about that one.
        let own = (start..next).rev().find(|n| !is_beside(lines[*n])).unwrap_or(start);
        Some(start..own + 1)
    };
    let gone = positions.iter().map(range).collect::<Option<Vec<_>>>()?;
    let kept = lines.iter().enumerate().filter(|(n, _)| !gone.iter().any(|range| range.contains(n)));
    let edited: String = kept.map(|(_, line)| format!("{line}\n")).collect();
    means(&edited, wanted).then_some(edited)
}

/// A rule as an item of a list. JSON's texts are texts of YAML as well.
fn item(rule: &Value, indent: usize) -> String {
    let space = " ".repeat(indent);
    let (id, topics, content) = (&rule["id"], &rule["topics"], &rule["content"]);
    let topics = topics.as_array().into_iter().flatten().map(Value::to_string).collect::<Vec<_>>().join(", ");
    format!("{space}- id: {id}\n{space}  topics: [{topics}]\n{space}  content: {content}\n")
}

fn means(text: &str, wanted: &Value) -> bool {
    let Ok(mut found) = value_of(text) else { return false };
    // A list that lost its last item is nothing.
    if found["rules"].is_null() && found.is_object() {
        found["rules"] = json!([]);
    }
    found == *wanted
}

/// The lines of the list of rules.
struct Block {
    /// The first line of each item.
    items: Vec<usize>,
    /// The line behind its last one.
    end: usize,
}

impl Block {
    fn find(lines: &[&str]) -> Option<Self> {
        let head = lines.iter().position(|line| line.starts_with("rules:"))?;
        let is_in = |line: &&str| line.starts_with([' ', '\t']) || line.starts_with("- ") || **line == *"-";
        let after = |n: &usize| !is_beside(lines[*n]) && !is_in(&lines[*n]);
        let limit = (head + 1..lines.len()).find(after).unwrap_or(lines.len());
        let end = (head..limit).rev().find(|n| !is_beside(lines[*n])).unwrap_or(head) + 1;
        let is_item = |line: &str| line.trim_start().starts_with("- ") || line.trim() == "-";
        let first = (head + 1..end).find(|n| is_item(lines[*n]));
        let indent = first.map(|n| indent_of(lines[n]));
        let items = (head + 1..end).filter(|n| is_item(lines[*n]) && Some(indent_of(lines[*n])) == indent).collect();
        Some(Self { items, end })
    }
}

/// Whether a line says nothing to the program.
fn is_beside(line: &str) -> bool {
    line.trim().is_empty() || line.trim_start().starts_with('#')
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}
