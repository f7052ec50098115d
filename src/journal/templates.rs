//! What a journal begins with.

use base::Trust;
use jiff::civil::Date;

use crate::documents::{Document, Documents};
use crate::file::{FileName, REFERENCES};
use crate::rotate;

const CORE: &str = include_str!("templates/core.md");

fn reference(name: &str) -> &'static str {
    match name {
        "decisions" => include_str!("templates/decisions.md"),
        "projects" => include_str!("templates/projects.md"),
        "preferences" => include_str!("templates/preferences.md"),
        _ => include_str!("templates/ideas.md"),
    }
}

/// What a reference file began with in an earlier version: households have files of it.
fn earlier(name: &str) -> Option<&'static str> {
    (name == "decisions").then_some(include_str!("templates/decisions-earlier.md"))
}

/// Fills the files that are missing or empty. Returns those that were made, and those that were there.
pub fn fill(journal: &mut Documents, butler: &str, today: Date) -> (Vec<FileName>, Vec<FileName>) {
    let (mut made, mut there) = (Vec::new(), Vec::new());
    let core = (FileName::core(), Document::of(&CORE.replace("{{BUTLER}}", butler), Trust::System));
    let references = REFERENCES.map(|name| (FileName::reference(name), Document::of(reference(name), Trust::System)));
    let log = (FileName::today(), rotate::fresh(today));
    for (file, document) in std::iter::once(core).chain(references).chain([log]) {
        if journal.text(&file).trim().is_empty() {
            journal.set(file.clone(), document);
            made.push(file);
        } else {
            there.push(file);
        }
    }
    (made, there)
}

/// Whether a reference file is as it began: it says nothing yet.
pub fn is_untouched(file: &FileName, text: &str) -> bool {
    // An entry that came and went leaves an empty line.
    let is = |template: &str| text.trim_end() == template.trim_end();
    REFERENCES.contains(&file.stem()) && (is(reference(file.stem())) || earlier(file.stem()).is_some_and(is))
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;
    use crate::ops::{By, Op, apply};
    use crate::section::{Section, split};

    #[test]
    fn what_is_there_is_left_alone() {
        let (mut journal, today) = (Documents::default(), "2026-02-07".parse().unwrap());
        let (made, there) = fill(&mut journal, "general", today);
        assert_eq!((made.len(), there.len()), (6, 0));
        assert!(journal.text(&FileName::core()).contains("I am general,"));
        assert!(journal.text(&FileName::core()).len() < crate::file::CORE_BUDGET);
        assert_eq!(journal.get(&FileName::reference("decisions")).map(Document::entries), Some(0));
        let before = journal.clone();
        assert_eq!(fill(&mut journal, "general", today).0, []);
        assert_eq!(journal, before);
    }

    /// Section 7 of the specification.
    const DECISIONS: &str = "# Decisions Log

Key decisions made during operation.

## Format

Each entry follows this structure:
### [YYYY-MM-DD] Decision Title
- **Decision:** What was decided
- **Context:** Why (1 sentence)
- **Status:** active | superseded | archived
";

    #[test]
    fn decisions_begin_as_the_specification_has_it() {
        assert_eq!(reference("decisions"), DECISIONS);
        let old = earlier("decisions").unwrap();
        assert_eq!(old.replace("    ", "").replace("\n## Entries\n\n", ""), DECISIONS);
        let file = FileName::reference("decisions");
        for template in [DECISIONS, old] {
            assert_eq!(Document::of(template, Trust::System).entries(), 0, "the format is no entry");
            assert!(is_untouched(&file, template) && is_untouched(&file, &format!("{template}\n")));
            assert!(!is_untouched(&file, &format!("{template}\n### [2026-02-07] Tea\n")));
        }
    }

    const BY: By = By { trust: Trust::System, now: date(2026, 2, 7).at(9, 0, 0, 0), migrates: false };

    fn written(file: &str, title: &str, status: Option<&str>) -> Op {
        let (file, title, text) = (file.to_owned(), title.to_owned(), "x".to_owned());
        Op::Write { file, title, text, context: None, status: status.map(str::to_owned), source: None }
    }

    /// A journal as it begins.
    fn begun() -> Documents {
        let mut journal = Documents::default();
        fill(&mut journal, "general", date(2026, 2, 7));
        journal
    }

    /// Whether one empty line stands above each heading but the format's own, and the file ends with one.
    fn is_spaced(text: &str) -> bool {
        let lines: Vec<&str> = text.lines().collect();
        let spaced = |at: usize| lines[at - 1].is_empty() && (at < 2 || !lines[at - 2].is_empty());
        let is_heading = |line: &str| line.starts_with('#') && !line.contains("YYYY-MM-DD");
        (1..lines.len()).filter(|at| is_heading(lines[*at])).all(spaced) && text.ends_with("\n\n")
    }

    #[test]
    fn entries_stand_apart_and_below_no_word_that_there_is_none() {
        let mut journal = begun();
        let was = |name: &str| begun().text(&FileName::reference(name));
        for (file, title, status) in [
            ("projects", "Fence", None),
            ("projects", "Shed", Some("completed")),
            ("decisions", "Oak", None),
            ("decisions", "Larch", None),
            ("preferences", "Tea", None),
            ("ideas", "Pond", None),
            ("ideas", "Hedge", None),
            ("users/bea", "Mint", None),
            ("users/bea", "Sage", None),
        ] {
            apply(&mut journal, &written(file, title, status), BY).unwrap();
        }
        let text = |name: &str| journal.text(&FileName::read(name).unwrap());
        let project = |title: &str, status: &str| {
            format!("### {title}\n- **Status:** {status}\n- **Updated:** 2026-02-07\n- **Notes:** x\n\n")
        };
        let (fence, shed) = (project("Fence", "active"), project("Shed", "completed"));
        let head = "# Projects\n\nActive and planned projects.\n\n";
        assert_eq!(
            text("projects"),
            format!("{head}## Active\n\n{fence}## Planned\n\nNone yet.\n\n## Completed\n\n{shed}")
        );
        let oak = "\n### [2026-02-07] Oak\n- **Decision:** x\n- **Status:** active\n\n";
        assert!(text("decisions").starts_with(&format!("{}{oak}### [2026-02-07] Larch\n", was("decisions"))));
        assert_eq!(journal.get(&FileName::reference("decisions")).map(Document::entries), Some(2));
        assert!(text("preferences").starts_with(&format!("{}\n### Tea\n", was("preferences"))));
        for name in ["projects", "decisions", "preferences", "ideas", "users/bea"] {
            assert!(is_spaced(&text(name)), "{name}: {}", text(name));
            // A person's edit is compared with these parts.
            let document = journal.get(&FileName::read(name).unwrap()).unwrap();
            let shown: Vec<String> = document.sections.iter().map(Section::shown).collect();
            assert_eq!(split(&text(name)), shown, "{name}");
        }
        for (file, title) in [("decisions", "Oak"), ("decisions", "Larch"), ("users/bea", "Mint")] {
            let op = Op::Archive { file: file.to_owned(), title: title.to_owned() };
            apply(&mut journal, &op, BY).unwrap();
        }
        for name in ["archive/decisions", "archive/bea", "decisions", "users/bea"] {
            let text = journal.text(&FileName::read(name).unwrap());
            assert!(is_spaced(&text), "{name}: {text}");
        }
        assert!(is_untouched(&FileName::reference("decisions"), &journal.text(&FileName::reference("decisions"))));
    }

    #[test]
    fn what_was_glued_before_comes_apart_with_the_next_entry() {
        let old = "# Projects\n\n## Active\n\nNone yet.\n\n### Fence\nx\n\n## Completed\n\nNone yet.\n### Shed\nx\n\n";
        let file = FileName::reference("projects");
        let mut journal = Documents::new([(file.clone(), Document::of(old, Trust::System))]);
        apply(&mut journal, &written("projects", "Gate", None), BY).unwrap();
        apply(&mut journal, &written("projects", "Gate", Some("completed")), BY).unwrap();
        let text = journal.text(&file);
        assert!(is_spaced(&text) && !text.contains("None yet."), "{text}");
        // Who is believed less changes nothing of the house's, and what a person wrote stays as it is.
        for (written_by, trust) in [(Trust::System, Trust::Known), (Trust::Owner, Trust::System)] {
            let mut journal = Documents::new([(file.clone(), Document::of(old, written_by))]);
            let before = journal.get(&file).unwrap().sections.clone();
            apply(&mut journal, &written("projects", "Gate", Some("completed")), By { trust, ..BY }).unwrap();
            assert_eq!(journal.get(&file).unwrap().sections[..before.len()], before[..]);
        }
    }
}
