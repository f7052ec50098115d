//! How large the files are, and what the weekly check does about it.

use crate::documents::{Document, Documents};
use crate::file::{FileName, Kind, REFERENCES};
use crate::ops::put_into_archive;
use crate::rotate::day_of;
use crate::section::Section;
use crate::wire::{FileState, Level};

/// The files that `status` lists: those that every journal has, and further reference files.
pub fn files(journal: &Documents) -> Vec<FileState> {
    let further = journal.iter().map(|(file, _)| file.clone()).filter(|file| {
        matches!(file.kind(), Kind::Reference | Kind::Users)
            && !(file.kind() == Kind::Reference && REFERENCES.contains(&file.stem()))
    });
    let own = std::iter::once(FileName::core()).chain(REFERENCES.map(FileName::reference)).chain(further);
    own.chain([FileName::today()]).map(|file| state(journal, &file)).collect()
}

fn state(journal: &Documents, file: &FileName) -> FileState {
    let document = journal.get(file);
    let text = journal.text(file);
    let reference = matches!(file.kind(), Kind::Reference | Kind::Users);
    FileState {
        label: label(file),
        file: file.to_string(),
        bytes: text.len() as u64,
        entries: document.filter(|_| reference).map(|document| document.entries() as u64),
        date: (file.kind() == Kind::Today).then(|| day_of(&text).map(|day| day.to_string())).flatten(),
        budget: file.budget().map(|budget| budget as u64),
        level: level(file, document, text.len()),
    }
}

fn level(file: &FileName, document: Option<&Document>, bytes: usize) -> Level {
    let over = |most: Option<usize>| most.is_some_and(|most| bytes > most);
    match document {
        None => Level::Missing,
        // Core memory may be a little over what the program itself writes.
        Some(_) if file.kind() == Kind::Core && over(file.warning()) => Level::Over,
        Some(_) if file.kind() == Kind::Core && over(file.budget()) => Level::Warn,
        Some(_) if over(file.budget()) => Level::Over,
        Some(_) if over(file.budget().map(|most| most * 4 / 5)) => Level::Warn,
        Some(_) => Level::Ok,
    }
}

fn label(file: &FileName) -> String {
    match file.as_str() {
        "core.md" => "Core memory".to_owned(),
        "sessions/today.md" => "Session log".to_owned(),
        _ => base::text::capital(&file.stem().replace(['-', '_'], " ")),
    }
}

/// The weekly check: moves what is settled out of files that are too large into their archives, the oldest first. Never
/// deletes. Returns what was done and what is left for a person, a sentence each.
pub fn check(journal: &mut Documents) -> Vec<String> {
    let mut found = Vec::new();
    let names: Vec<FileName> = journal.iter().map(|(file, _)| file.clone()).collect();
    for file in [FileName::core(), FileName::today()].into_iter().chain(REFERENCES.map(FileName::reference)) {
        if !names.contains(&file) {
            found.push(format!("{file} is missing: `butlerd journal init` makes it."));
        }
    }
    for file in names {
        let bytes = journal.text(&file).len();
        match (file.kind(), file.warning()) {
            (Kind::Core, Some(most)) if bytes > most => found.push(format!(
                "{file} has {bytes} bytes, and every session is told it: shorten its section Active Working State."
            )),
            (Kind::Reference | Kind::Users, Some(most)) if bytes > most => {
                found.push(archive_settled(journal, &file, most))
            }
            _ => {}
        }
    }
    found
}

fn archive_settled(journal: &mut Documents, file: &FileName, most: usize) -> String {
    let mut moved = 0;
    while journal.text(file).len() > most {
        let document = journal.open(file);
        let Some(at) = document.sections.iter().position(is_settled) else { break };
        let section = document.sections.remove(at);
        put_into_archive(journal, file, section);
        moved += 1;
    }
    let left = journal.text(file).len();
    let archive = file.archived(0);
    match (moved, left > most) {
        (0, _) => {
            format!("{file} has {left} bytes and may have {most}, and nothing in it is settled: archive what is old.")
        }
        (_, true) => format!(
            "{file} was too large: {moved} settled entries are in {archive}. It still has {left} bytes and may have {most}."
        ),
        (_, false) => format!("{file} was too large: {moved} settled entries are in {archive}."),
    }
}

/// Whether an entry says of itself that it is not so any more.
fn is_settled(section: &Section) -> bool {
    let status = |line: &str| line.strip_prefix("- **Status:**").map(|status| status.trim().to_ascii_lowercase());
    section.text.starts_with("### ")
        && section.text.lines().find_map(status).is_some_and(|s| ["superseded", "archived", "completed"].contains(&&*s))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::templates::fill;
    use base::Trust;

    #[test]
    fn a_file_that_is_too_large_loses_what_is_settled_to_its_archive() {
        let mut journal = Documents::default();
        fill(&mut journal, "general", "2026-02-07".parse().unwrap());
        assert_eq!(check(&mut journal), Vec::<String>::new());
        assert!(files(&journal).iter().all(|file| file.level == Level::Ok), "{:?}", files(&journal));
        let decisions = FileName::reference("decisions");
        for n in 0..100 {
            let status = if n % 2 == 0 { "superseded" } else { "active" };
            let text =
                format!("### [2026-02-07] D{n}\n- **Decision:** {}\n- **Status:** {status}\n\n", "x".repeat(250));
            journal.open(&decisions).sections.push(Section::new(text, Trust::System));
        }
        let lines: usize = journal.iter().map(|(_, document)| document.text().lines().count()).sum();
        let found = check(&mut journal);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(journal.text(&decisions).len() <= crate::file::REFERENCE_BUDGET);
        assert!(journal.text(&decisions).contains("D99") && journal.text(&decisions.archived(0)).contains("D0\n"));
        let after: usize = journal.iter().map(|(_, document)| document.text().lines().count()).sum();
        assert_eq!(after, lines + 2, "the archive's heading came, and nothing went");
        assert_eq!(check(&mut journal), Vec::<String>::new());
    }

    #[test]
    fn states_are_told_as_the_specification_calls_them() {
        let mut journal = Documents::default();
        fill(&mut journal, "general", "2026-02-07".parse().unwrap());
        let labels: Vec<String> = files(&journal).into_iter().map(|file| file.label).collect();
        assert_eq!(labels, ["Core memory", "Decisions", "Projects", "Preferences", "Ideas", "Session log"]);
        journal.set(FileName::core(), Document::of(&"x".repeat(3500), Trust::Owner));
        assert_eq!(files(&journal)[0].level, Level::Warn);
        journal.set(FileName::core(), Document::of(&"x".repeat(5000), Trust::Owner));
        assert_eq!((files(&journal)[0].level, check(&mut journal).len()), (Level::Over, 1));
        journal.set(FileName::core(), Document::default());
        assert_eq!(files(&journal)[0].level, Level::Missing);
    }
}
