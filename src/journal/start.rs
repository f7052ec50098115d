//! What a session is told of the journal as it starts.

use crate::pack::{Measure, Message, Part, pack};
use crate::wire::Start;

/// Most of all of it, in characters or bytes: an assistant keeps no more of what a hook says in the context.
pub const MOST: usize = 10_000;
/// More unsummarized conversations than the threshold: so many are told.
pub const RECENT: usize = 6;

const BEGIN: &str = "=== CORE MEMORY (always loaded) ===";
const END: &str = "=== END CORE MEMORY ===";
const END_REFERENCE: &str = "=== END REFERENCE ===";

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

/// Puts it together within [`MOST`], as if nobody else told anything: core memory whole, what is to be done, the last
/// checkpoint, what was said last (whole messages, chosen from the newest), then references that fit. They are shown in
/// another order: references, checkpoint, conversations, what is to be done.
pub fn assemble(material: &Material, measure: Measure) -> Start {
    let core = core(material, measure);
    let mut parts = Vec::new();
    for (file, text) in &material.references {
        let text = plain(text);
        let text = text.trim();
        if !text.is_empty() {
            parts.push(Part::Reference(format!("=== REFERENCE: {file} ===\n\n{text}\n\n{END_REFERENCE}")));
        }
    }
    let checkpoint = material.checkpoint.as_ref();
    parts.extend(checkpoint.map(|of| Part::Checkpoint(format!("[Last Checkpoint Summary] {}", plain(of).trim()))));
    if checkpoint.is_some() || !material.conversations.is_empty() {
        let said = material.conversations.iter().map(|(id, told)| Message::new(*id, plain(told)));
        parts.push(Part::Said(said.collect()));
    }
    parts.extend(material.action.map(|(begin, end)| Part::Action(action(begin, end))));
    let room = MOST.saturating_sub(core.as_deref().map_or(0, |core| measure.of(core)));
    let parts = pack(&parts, MOST, room, measure).into_iter().filter_map(|packed| packed.part).collect();
    Start { core, parts }
}

/// A text as every session is told it, whoever tells: lines without what a terminal would obey.
pub fn plain(text: &str) -> String {
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
            start.rest().as_deref(),
            Some(
                "=== REFERENCE: reference/decisions.md ===\n\n### X\n\n=== END REFERENCE ===\n\n[Last Checkpoint Summary] Decisions: X.\n\n[Recent Conversations] (id 8 ~ 9)\n[10:00] IN (chat:ada): hello\n[10:01] OUT (chat:ada): hi\n\n[Action Required] invoke /memory-sync --begin 8 --end 9"
            )
        );
        let none = assemble(&Material { conversations: Vec::new(), action: None, ..material }, CHARACTERS);
        assert!(none.rest().unwrap().ends_with("[Recent Conversations] No new conversations."));
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
                            let of = |text: Option<&str>| text.map_or(0, |text| measure.of(text));
                            of(start.core.as_deref()) + of(start.rest().as_deref())
                        };
                        let bytes = all_of(&assemble(&material, Measure::Bytes), Measure::Bytes);
                        assert!(bytes <= MOST, "{core} {reference} {said} {each}: {bytes} bytes");
                        let start = assemble(&material, CHARACTERS);
                        let all = all_of(&start, CHARACTERS);
                        assert!(all <= MOST, "{core} {reference} {said} {each}: {all}");
                        if core <= 3000 {
                            let rest = start.rest().unwrap();
                            assert!(rest.contains("[Last Checkpoint Summary]") && rest.contains("[Action Required]"));
                            assert!(said == 0 || rest.contains("[Recent Conversations] (id"), "{rest}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_newest_are_told_where_not_all_fit() {
        let conversations = (0..30).map(|n| (n, format!("{n} {}", "x".repeat(900)))).collect();
        let rest = assemble(&Material { conversations, ..Material::default() }, CHARACTERS).rest().unwrap();
        assert!(rest.starts_with("[Recent Conversations] (id 19 ~ 29)\n19 "), "{}", &rest[..60]);
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
        assert!(start.core.as_deref().unwrap().contains("\n\n# Core\na\tb [2J\n\n"));
        assert!(start.rest().unwrap().contains("\n\nx\ny\n\n"));
    }
}
