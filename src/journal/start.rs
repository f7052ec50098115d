//! What a session is told of the journal as it starts.

use crate::wire::Start;

/// Most of all of it, in characters or bytes: an assistant keeps no more of what a hook says in the context.
pub const MOST: usize = 10_000;
/// More unsummarized conversations than the threshold: so many are told.
pub const RECENT: usize = 6;
/// References leave so many characters to the conversations.
const FOR_CONVERSATIONS: usize = 2500;

const BEGIN: &str = "=== CORE MEMORY (always loaded) ===";
const END: &str = "=== END CORE MEMORY ===";
const END_REFERENCE: &str = "=== END REFERENCE ===";

/// What a limit counts: Claude Code counts characters, Codex bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    Characters,
    Bytes,
}

impl Measure {
    pub fn of(self, text: &str) -> usize {
        match self {
            Self::Characters => text.chars().count(),
            Self::Bytes => text.len(),
        }
    }
}

/// What there is to tell.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Material {
    /// Core memory without what others said; empty: there is none.
    pub core: String,
    /// The butler's notes to itself, a line each.
    pub notes: Vec<String>,
    /// Reference files with their texts, the most important first.
    pub references: Vec<(String, String)>,
    /// The summary of the last checkpoint.
    pub checkpoint: Option<String>,
    /// What was said since, the oldest first: its number and how it is told. At most as many as are to be told.
    pub conversations: Vec<(i64, String)>,
    /// The range that is to be summarized now.
    pub action: Option<(i64, i64)>,
}

/// The sentence that has a session summarize.
pub fn action(begin: i64, end: i64) -> String {
    format!("[Action Required] invoke /memory-sync --begin {begin} --end {end}")
}

/// Puts it together within [`MOST`]: core memory whole, then references that fit, the last checkpoint, what was said
/// last (chosen from the newest, told from the oldest), and what is to be done.
pub fn assemble(material: &Material, measure: Measure) -> Start {
    let length = |text: &str| measure.of(text);
    let core = core(material, measure);
    let mut left = MOST.saturating_sub(core.as_deref().map_or(0, length));
    let action = material.action.map(|(begin, end)| action(begin, end));
    let checkpoint =
        material.checkpoint.as_ref().map(|summary| format!("[Last Checkpoint Summary] {}", plain(summary).trim()));
    let mut take = |part: Option<String>| {
        let part = part.filter(|part| length(part) + 2 <= left)?;
        left -= length(&part) + 2;
        Some(part)
    };
    let action = take(action);
    let checkpoint = take(checkpoint);
    let said: Vec<(i64, String)> = material.conversations.iter().map(|(id, told)| (*id, plain(told))).collect();
    let wanted: usize = said.iter().map(|(_, told)| length(told) + 1).sum();
    let for_conversations = wanted.min(FOR_CONVERSATIONS);
    let mut parts = Vec::new();
    for (file, text) in &material.references {
        let text = plain(text);
        let text = text.trim();
        let part = format!("=== REFERENCE: {file} ===\n\n{text}\n\n{END_REFERENCE}");
        if !text.is_empty() && length(&part) + 2 + for_conversations <= left {
            left -= length(&part) + 2;
            parts.push(part);
        }
    }
    parts.extend(checkpoint.clone());
    match conversations(&said, left, measure) {
        Some(told) => parts.push(told),
        None if checkpoint.is_some() && said.is_empty() => {
            parts.push("[Recent Conversations] No new conversations.".to_owned());
        }
        None => {}
    }
    parts.extend(action);
    Start { core, rest: (!parts.is_empty()).then(|| parts.join("\n\n")) }
}

/// A text as every session is told it, whoever tells: lines without what a terminal would obey.
fn plain(text: &str) -> String {
    let line = |line: &str| line.chars().filter(|c| *c == '\t' || !c.is_control()).collect::<String>();
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn core(material: &Material, measure: Measure) -> Option<String> {
    let mut body = plain(&material.core).trim().to_owned();
    if body.is_empty() && material.notes.is_empty() {
        return None;
    }
    if !material.notes.is_empty() {
        body = format!("{body}\n\n## Notes to self\n{}", plain(&material.notes.join("\n")));
    }
    let frame = BEGIN.len() + END.len() + 4;
    Some(format!("{BEGIN}\n\n{}\n\n{END}", cut(body.trim(), MOST - frame, measure)))
}

/// The last of them that fit, whole.
fn conversations(said: &[(i64, String)], left: usize, measure: Measure) -> Option<String> {
    let head = |first: i64, last: i64| format!("[Recent Conversations] (id {first} ~ {last})");
    let (_, last) = (said.first()?, said.last()?.0);
    let mut room = left.checked_sub(head(last, last).len() + 22)?;
    let mut chosen = Vec::new();
    for (id, told) in said.iter().rev() {
        let cost = measure.of(told) + 1;
        if cost > room {
            break;
        }
        room -= cost;
        chosen.push((*id, told.as_str()));
    }
    let first = chosen.last()?.0;
    let lines: Vec<&str> = chosen.iter().rev().map(|(_, told)| *told).collect();
    Some(format!("{}\n{}", head(first, last), lines.join("\n")))
}

/// The first whole lines that have at most so much.
fn cut(text: &str, most: usize, measure: Measure) -> &str {
    let (mut end, mut used) = (0, 0);
    for line in text.split_inclusive('\n') {
        used += measure.of(line);
        if used > most {
            break;
        }
        end += line.len();
    }
    text[..end].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHARACTERS: Measure = Measure::Characters;

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(assemble(&Material::default(), CHARACTERS), Start::default());
    }

    #[test]
    fn the_order_and_the_marks_are_fixed() {
        let material = Material {
            core: "# Core Memory\n\nI am general.\n".to_owned(),
            notes: vec!["(1, 2026-02-07) be short".to_owned()],
            references: vec![
                ("reference/decisions.md".to_owned(), "### X\n".to_owned()),
                ("reference/ideas.md".to_owned(), "\n".to_owned()),
            ],
            checkpoint: Some("Decisions: X.".to_owned()),
            conversations: vec![
                (8, "[10:00] IN (chat:ada): hello".to_owned()),
                (9, "[10:01] OUT (chat:ada): hi".to_owned()),
            ],
            action: Some((8, 9)),
        };
        let start = assemble(&material, CHARACTERS);
        assert_eq!(
            start.core.as_deref(),
            Some(
                "=== CORE MEMORY (always loaded) ===\n\n# Core Memory\n\nI am general.\n\n## Notes to self\n(1, 2026-02-07) be short\n\n=== END CORE MEMORY ==="
            )
        );
        assert_eq!(
            start.rest.as_deref(),
            Some(
                "=== REFERENCE: reference/decisions.md ===\n\n### X\n\n=== END REFERENCE ===\n\n[Last Checkpoint Summary] Decisions: X.\n\n[Recent Conversations] (id 8 ~ 9)\n[10:00] IN (chat:ada): hello\n[10:01] OUT (chat:ada): hi\n\n[Action Required] invoke /memory-sync --begin 8 --end 9"
            )
        );
        let none = assemble(&Material { conversations: Vec::new(), action: None, ..material }, CHARACTERS);
        assert!(none.rest.unwrap().ends_with("[Recent Conversations] No new conversations."));
    }

    #[test]
    fn it_never_has_more_than_it_may() {
        for core in [0, 100, 3000, 9000, 20_000] {
            for reference in [0, 500, 5000, 20_000] {
                for said in [0, 1, 6, 30] {
                    for each in [10, 200, 4000] {
                        let material = Material {
                            core: "c".repeat(99).repeat(core / 99) + "\n",
                            references: vec![
                                ("reference/a.md".to_owned(), "r".repeat(reference)),
                                ("reference/b.md".to_owned(), "s".repeat(300)),
                            ],
                            checkpoint: Some("x".repeat(200)),
                            conversations: (0..said).map(|n| (n, "é".repeat(each))).collect(),
                            action: Some((1, 2)),
                            notes: Vec::new(),
                        };
                        let all_of = |start: &Start, measure: Measure| {
                            let of = |text: &Option<String>| text.as_deref().map_or(0, |text| measure.of(text));
                            of(&start.core) + of(&start.rest)
                        };
                        let bytes = all_of(&assemble(&material, Measure::Bytes), Measure::Bytes);
                        assert!(bytes <= MOST, "{core} {reference} {said} {each}: {bytes} bytes");
                        let start = assemble(&material, CHARACTERS);
                        let all = all_of(&start, CHARACTERS);
                        assert!(all <= MOST, "{core} {reference} {said} {each}: {all}");
                        if core <= 3000 {
                            let rest = start.rest.unwrap();
                            assert!(rest.contains("[Last Checkpoint Summary]") && rest.contains("[Action Required]"));
                            assert!(said == 0 || each > 200 || rest.contains("[Recent Conversations] (id"), "{rest}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_newest_are_told_where_not_all_fit() {
        let conversations = (0..30).map(|n| (n, format!("{n} {}", "x".repeat(900)))).collect();
        let rest = assemble(&Material { conversations, ..Material::default() }, CHARACTERS).rest.unwrap();
        assert!(rest.starts_with("[Recent Conversations] (id 20 ~ 29)\n20 "), "{}", &rest[..60]);
        assert!(rest.lines().last().unwrap().starts_with("29 "));
    }

    #[test]
    fn lines_are_told_as_every_session_gets_them() {
        let material = Material {
            core: "# Core\r\na\tb \u{1b}[2J\r\n".to_owned(),
            references: vec![("reference/a.md".to_owned(), "x\u{7}\r\ny\r\n".to_owned())],
            ..Material::default()
        };
        let start = assemble(&material, CHARACTERS);
        assert!(start.core.unwrap().contains("\n\n# Core\na\tb [2J\n\n"));
        assert!(start.rest.unwrap().contains("\n\nx\ny\n\n"));
    }
}
