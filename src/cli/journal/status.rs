//! `butlerd journal status`: the files with their sizes, and how far conversations are summarized.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::super::local::variable;
use super::super::out::{Out, Tone};
use super::super::problem::Problem;
use super::super::text::{block, one_line};
use super::super::{Outcome, Place};
use super::client::JournalClient;
use base::Trust;
use journal::documents::{Document, Documents};
use journal::file::{FileName, REFERENCES};
use journal::state;
use journal::wire::{FileState, Level, Op, Status};

/// Labels have so much room before what belongs to them.
const LABEL: usize = 18;
/// So much of a summary is shown.
const SUMMARY: usize = 60;

pub fn show(place: &Place, client: &JournalClient) -> Outcome {
    match client.ask::<Status>(Op::Status) {
        Ok(status) => place.out.answer(&status, people),
        Err(error) => without_daemon(place, client, Problem::from(error)),
    }
}

fn people(out: &Out, status: &Status) {
    let home = variable("HOME").map(PathBuf::from);
    files(status, home.as_deref()).iter().for_each(|line| out.line(line));
    out.line("");
    sync(status).iter().for_each(|line| out.line(line));
    if !status.edited.is_empty() {
        out.line("");
        let edited = one_line(&status.edited.join(", "), 500);
        out.toned(Tone::Warn, &format!("Edited, not yet accepted: {edited}. Take it in: butlerd journal accept"));
    }
    if !status.troubles.is_empty() {
        out.line("");
        status.troubles.iter().for_each(|trouble| out.toned(Tone::Bad, &block(trouble)));
    }
}

/// The files that can be seen, and why there is no more.
fn without_daemon(place: &Place, client: &JournalClient, problem: Problem) -> Outcome {
    let out = &place.out;
    let data_dir = client.data_dir().map(Path::to_owned).or_else(|| place.environment.default_data_dir());
    let mut seen = data_dir.map(|data_dir| on_disk(&data_dir.join("journal"))).unwrap_or_default();
    seen.retain(|seen| client.butler().is_none_or(|butler| seen.butler == butler));
    if out.json {
        let journals: Vec<_> = seen
            .iter()
            .map(|s| json!({"dir": s.dir, "files": s.files, "sessions": s.sessions, "archive": s.archive}))
            .collect();
        let mut shown = problem.to_json();
        shown["journals"] = json!(journals);
        out.value(&shown);
        return Ok(problem.exit);
    }
    let home = variable("HOME").map(PathBuf::from);
    for status in &seen {
        files(status, home.as_deref()).iter().for_each(|line| out.line(line));
        out.line("");
        out.line("C4 Sync Status:");
        out.line("  unknown, because the daemon does not answer");
        out.line("");
    }
    Err(problem)
}

/// The journals below a directory, as far as this user may read them: one for each tenant and butler.
fn on_disk(journals: &Path) -> Vec<Status> {
    let below = |directory: &Path| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        all.sort();
        all
    };
    let all = below(journals).into_iter().flat_map(|tenant| below(&tenant));
    all.filter(|dir| dir.join("core.md").is_file() || dir.join("sessions").is_dir()).map(|dir| of_files(&dir)).collect()
}

fn of_files(dir: &Path) -> Status {
    let markdown = |directory: &str| {
        let names =
            std::fs::read_dir(dir.join(directory)).into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".md") && name != "today.md").count() as u64
    };
    Status {
        butler: dir.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        dir: dir.display().to_string(),
        files: state::files(&documents(dir)),
        sessions: markdown("sessions"),
        archive: markdown("archive"),
        ..Status::default()
    }
}

/// The files of a journal, as far as they can be read.
fn documents(dir: &Path) -> Documents {
    let names = std::iter::once(FileName::core()).chain(REFERENCES.map(FileName::reference)).chain([FileName::today()]);
    let read = |name: FileName| {
        let text = String::from_utf8_lossy(&std::fs::read(dir.join(name.as_str())).ok()?).into_owned();
        Some((name, Document::of(&text, Trust::Owner)))
    };
    Documents::new(names.filter_map(read))
}

fn files(status: &Status, home: Option<&Path>) -> Vec<String> {
    let dir = below_home(&status.dir, home);
    let line = |label: &str, text: String| format!("{:LABEL$}{text}", format!("{label}:"));
    let mut lines = vec!["Memory System Status".to_owned(), "====================".to_owned()];
    for file in &status.files {
        lines.push(line(&file.label, format!("{dir}/{} ({})", file.file, size_of(file))));
    }
    lines.push(line("Session archive", format!("{} files in {dir}/sessions/", status.sessions)));
    lines.push(line("Archive", format!("{} files in {dir}/archive/", status.archive)));
    // Without what a terminal would obey, and with the blanks that align it.
    lines.iter().map(|line| block(line).replace('\n', " ")).collect()
}

/// `2.4 KB`, `3.1 KB, 12 entries`, `1.2 KB, 2026-02-07`.
fn size_of(file: &FileState) -> String {
    if file.level == Level::Missing {
        return "missing".to_owned();
    }
    let mut parts = vec![kilobytes(file.bytes)];
    parts
        .extend(file.entries.map(|entries| if entries == 1 { "1 entry".into() } else { format!("{entries} entries") }));
    parts.extend(file.date.clone());
    parts.extend(match file.level {
        Level::Warn => Some(format!("WARN{}", budget(file))),
        Level::Over => Some(format!("OVER{}", budget(file))),
        Level::Ok | Level::Missing => None,
    });
    parts.join(", ")
}

fn budget(file: &FileState) -> String {
    file.budget.map(|most| format!(": budget {}", kilobytes(most))).unwrap_or_default()
}

/// KB with one decimal.
pub fn kilobytes(bytes: u64) -> String {
    format!("{:.1} KB", bytes as f64 / 1024.0)
}

fn below_home(dir: &str, home: Option<&Path>) -> String {
    let rest = home.filter(|home| home.parent().is_some()).and_then(|home| Path::new(dir).strip_prefix(home).ok());
    rest.map_or_else(|| dir.trim_end_matches('/').to_owned(), |rest| format!("~/{}", rest.display()))
}

fn sync(status: &Status) -> Vec<String> {
    let mut lines = vec!["C4 Sync Status:".to_owned()];
    let Some(sync) = &status.sync else {
        lines.push("  unknown, because the log of conversations can't be read now".to_owned());
        return lines;
    };
    let mut line = |label: &str, text: String| lines.push(format!("  {:20}{text}", format!("{label}:")));
    let last = status
        .last_checkpoint
        .as_ref()
        .map(|last| format!("#{} (conv {}-{}, \"{}\")", last.id, last.start_id, last.end_id, brief(&last.summary)));
    line("Last checkpoint", last.unwrap_or_else(|| "none".to_owned()));
    let ids = sync.begin_id.zip(sync.end_id).map(|(begin, end)| format!(" (id {begin}-{end})")).unwrap_or_default();
    let conversations = if sync.unsummarized_count == 1 { "conversation" } else { "conversations" };
    line("Unsummarized", format!("{} {conversations}{ids}", sync.unsummarized_count));
    let triggered = if sync.unsummarized_count > i64::from(status.threshold) { "triggered" } else { "not triggered" };
    line("Threshold", format!("{} ({triggered})", status.threshold));
    lines
}

fn brief(summary: &str) -> String {
    one_line(summary, SUMMARY).replace('…', "...")
}

#[cfg(test)]
mod tests {
    use super::*;
    use journal::wire::{Checkpoint, SyncStatus};

    fn file(label: &str, file: &str, bytes: u64, entries: Option<u64>, date: Option<&str>) -> FileState {
        let date = date.map(str::to_owned);
        FileState { label: label.into(), file: file.into(), bytes, entries, date, budget: None, level: Level::Ok }
    }

    fn status() -> Status {
        Status {
            butler: "general".into(),
            dir: "/home/ada/zylos/memory".into(),
            files: vec![
                file("Core memory", "core.md", 2458, None, None),
                file("Decisions", "reference/decisions.md", 3174, Some(12), None),
                file("Projects", "reference/projects.md", 1843, Some(5), None),
                file("Preferences", "reference/preferences.md", 922, Some(8), None),
                file("Session log", "sessions/today.md", 1229, None, Some("2026-02-07")),
            ],
            sessions: 3,
            sync: Some(SyncStatus {
                unsummarized_count: 12,
                last_checkpoint_summary: None,
                last_checkpoint_id: Some(5),
                begin_id: Some(144),
                end_id: Some(155),
            }),
            last_checkpoint: Some(Checkpoint {
                id: 5,
                start_id: 108,
                end_id: 143,
                count: 36,
                summary: "Decisions: Agent Teams".into(),
                made_at: "2026-02-07T10:00:00Z".parse().unwrap(),
            }),
            threshold: 30,
            ..Status::default()
        }
    }

    #[test]
    fn it_is_printed_as_the_specification_has_it() {
        let want = "\
Memory System Status
====================
Core memory:      ~/zylos/memory/core.md (2.4 KB)
Decisions:        ~/zylos/memory/reference/decisions.md (3.1 KB, 12 entries)
Projects:         ~/zylos/memory/reference/projects.md (1.8 KB, 5 entries)
Preferences:      ~/zylos/memory/reference/preferences.md (0.9 KB, 8 entries)
Session log:      ~/zylos/memory/sessions/today.md (1.2 KB, 2026-02-07)
Session archive:  3 files in ~/zylos/memory/sessions/
Archive:          0 files in ~/zylos/memory/archive/";
        assert_eq!(files(&status(), Some(Path::new("/home/ada"))).join("\n"), want);
        let want = "\
C4 Sync Status:
  Last checkpoint:    #5 (conv 108-143, \"Decisions: Agent Teams\")
  Unsummarized:       12 conversations (id 144-155)
  Threshold:          30 (not triggered)";
        assert_eq!(sync(&status()).join("\n"), want);
    }

    #[test]
    fn what_is_not_as_it_should_be_is_seen() {
        let mut status = status();
        status.files[0].level = Level::Missing;
        status.files[1] =
            FileState { level: Level::Over, bytes: 30 << 10, budget: Some(20 << 10), ..status.files[1].clone() };
        let lines = files(&status, None);
        assert_eq!(lines[2], "Core memory:      /home/ada/zylos/memory/core.md (missing)");
        assert!(lines[3].ends_with("(30.0 KB, 12 entries, OVER: budget 20.0 KB)"), "{}", lines[3]);
        status.sync = Some(SyncStatus { unsummarized_count: 31, ..status.sync.unwrap() });
        assert_eq!(sync(&status)[3], "  Threshold:          30 (triggered)");
        status.sync = Some(SyncStatus { unsummarized_count: 0, begin_id: None, end_id: None, ..status.sync.unwrap() });
        status.last_checkpoint = None;
        assert_eq!(sync(&status)[1..3], ["  Last checkpoint:    none", "  Unsummarized:       0 conversations"]);
        status.sync = None;
        assert_eq!(sync(&status).len(), 2);
    }

    #[test]
    fn files_are_seen_without_the_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let journal = dir.path().join("t/general");
        for (file, text) in [
            ("core.md", "# Core Memory\n"),
            ("reference/decisions.md", "# D\n### [2026-01-01] A\n### [2026-01-02] B\n"),
            ("sessions/today.md", "# Session Log: 2026-02-07\n"),
            ("sessions/2026-02-06.md", "x"),
        ] {
            std::fs::create_dir_all(journal.join(file).parent().unwrap()).unwrap();
            std::fs::write(journal.join(file), text).unwrap();
        }
        std::fs::create_dir_all(dir.path().join("t/other")).unwrap();
        let seen = on_disk(dir.path());
        assert_eq!((seen.len(), seen[0].butler.as_str(), seen[0].sessions), (1, "general", 1));
        let lines = files(&seen[0], None).join("\n");
        for part in ["core.md (0.0 KB)", "decisions.md (0.0 KB, 2 entries)", "projects.md (missing)", "2026-02-07)"] {
            assert!(lines.contains(part), "{part}: {lines}");
        }
        assert_eq!(on_disk(&dir.path().join("none")), []);
    }
}
