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
    REFERENCES.contains(&file.stem()) && text == reference(file.stem())
}

#[cfg(test)]
mod tests {
    use super::*;

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

    use crate::documents::Document;
}
