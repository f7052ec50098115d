//! `butlerd journal migrate`: files of another layout, read with the person's rights and given to the daemon.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::super::Outcome;
use super::super::out::Out;
use super::args::Migrate;
use super::client::{JournalClient, JournalError};
use super::print;
use journal::wire::{FileText, Migrated, Op};

/// Larger files are left out.
const MOST: u64 = 1 << 20;
/// Archives nest no deeper.
const DEEPEST: usize = 6;

/// Files of the flat layout, and those at the top of a memory folder of zylos.
const AT_TOP: [&str; 9] = [
    "core.md",
    "identity.md",
    "state.md",
    "references.md",
    "context.md",
    "decisions.md",
    "projects.md",
    "preferences.md",
    "building-ideas.md",
];
/// Directories of which all Markdown files are taken.
const OF_MARKDOWN: [&str; 2] = ["reference", "sessions"];
/// Directories of which everything is taken.
const OF_ALL: [&str; 2] = ["archive", "_archive"];
/// One directory for each person.
const USERS: &str = "users";
const PROFILE: &str = "profile.md";

pub fn run(client: &JournalClient, out: &Out, args: &Migrate) -> Outcome {
    let Some(dir) = &args.dir else {
        let back: Migrated = client.ask(Op::MigrateBack)?;
        return out.answer(&back, |out, back| print::migrated(out, back, "Taken back"));
    };
    // An error says where it looked.
    let dir = std::path::absolute(dir).map_err(|source| JournalError::Read { path: dir.clone(), source })?;
    let found = read(&dir)?;
    if found.files.is_empty() {
        return Err(JournalError::NothingToTake { path: dir }.into());
    }
    let mut done: Migrated = client.ask(Op::Migrate { files: found.files, dry_run: args.dry_run })?;
    done.left.extend(found.left);
    let did = if args.dry_run { "Would be taken" } else { "Taken" };
    out.answer(&done, |out, done| print::migrated(out, done, did))
}

/// What a directory has for the journal.
#[derive(Debug, Default)]
struct Found {
    files: Vec<FileText>,
    /// What was left out, with the reason.
    left: Vec<String>,
}

fn read(dir: &Path) -> Result<Found, JournalError> {
    let failed = |source| JournalError::Read { path: dir.to_owned(), source };
    // Links are allowed as long as they stay inside.
    let top = dir.canonicalize().map_err(failed)?;
    std::fs::read_dir(&top).map_err(failed)?;
    let mut found = Found::default();
    for name in OF_MARKDOWN.iter().chain(&OF_ALL).chain(&[USERS]) {
        if let Some(target) = top.join(name).canonicalize().ok().filter(|target| !target.starts_with(&top)) {
            found.left.push(leads_out(name, &target));
        }
    }
    for name in wanted(&top) {
        match text_of(&top, &name) {
            Ok(Some(text)) => found.files.push(FileText { file: name, text }),
            Ok(None) => {}
            Err(why) => found.left.push(why),
        }
    }
    Ok(found)
}

/// The names of all files that may be of interest, from the top; each is there, or is a link.
fn wanted(top: &Path) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = AT_TOP.iter().map(|name| (*name).to_owned()).collect();
    for directory in OF_MARKDOWN {
        names.extend(below(top, directory, 1).into_iter().filter(|name| name.ends_with(".md")));
    }
    for directory in OF_ALL {
        names.extend(below(top, directory, DEEPEST));
    }
    names.extend(entries(top, USERS).into_iter().map(|user| format!("{user}/{PROFILE}")));
    names.retain(|name| top.join(name).symlink_metadata().is_ok());
    names
}

/// The files below a directory. Links to directories are not followed: they may lead round.
fn below(top: &Path, directory: &str, deep: usize) -> Vec<String> {
    let mut names = Vec::new();
    for name in entries(top, directory) {
        match top.join(&name).symlink_metadata() {
            Ok(found) if found.is_dir() && deep > 1 => names.extend(below(top, &name, deep - 1)),
            Ok(found) if found.is_dir() => {}
            _ => names.push(name),
        }
    }
    names
}

/// What stands in a directory, from the top, unless the directory itself is outside.
fn entries(top: &Path, directory: &str) -> Vec<String> {
    let inside = |path: &PathBuf| path.starts_with(top);
    let Some(path) = top.join(directory).canonicalize().ok().filter(inside) else { return Vec::new() };
    let names = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| Some(format!("{directory}/{}", name.to_str()?))).collect()
}

fn leads_out(name: &str, target: &Path) -> String {
    format!("{name}: it leads to {}, outside of the directory", target.display())
}

/// A file's text, or why it is left out. None: it is a directory.
fn text_of(top: &Path, name: &str) -> Result<Option<String>, String> {
    let unread = |e| format!("{name}: it can't be read: {e}");
    let path = top.join(name).canonicalize().map_err(unread)?;
    if !path.starts_with(top) {
        return Err(leads_out(name, &path));
    }
    let found = path.metadata().map_err(unread)?;
    if found.is_dir() {
        return Ok(None);
    }
    // A pipe would be waited for.
    if !found.is_file() {
        return Err(format!("{name}: it is no file"));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(&path).map_err(unread)?;
    // It may grow meanwhile.
    file.take(MOST + 1).read_to_end(&mut bytes).map_err(unread)?;
    if bytes.len() as u64 > MOST {
        return Err(format!("{name}: it is larger than 1 MiB"));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| format!("{name}: it is not text in UTF-8"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn put(top: &Path, name: &str, text: impl AsRef<[u8]>) {
        std::fs::create_dir_all(top.join(name).parent().unwrap()).unwrap();
        std::fs::write(top.join(name), text).unwrap();
    }

    fn names(found: &Found) -> Vec<&str> {
        found.files.iter().map(|file| file.file.as_str()).collect()
    }

    #[test]
    fn both_layouts_are_read() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["context.md", "decisions.md", "building-ideas.md", "_archive/old/a.md", "notes.md", "src/main.rs"]
        {
            put(dir.path(), name, name);
        }
        let found = read(dir.path()).unwrap();
        assert_eq!(names(&found), ["_archive/old/a.md", "building-ideas.md", "context.md", "decisions.md"]);
        assert_eq!((found.files[2].text.as_str(), found.left.len()), ("context.md", 0));

        let dir = tempfile::tempdir().unwrap();
        let all = [
            "archive/a.txt",
            "identity.md",
            "reference/decisions.md",
            "references.md",
            "sessions/2026-02-06.md",
            "sessions/current.md",
            "state.md",
            "users/ada/profile.md",
        ];
        for name in all.iter().chain(&["users/ada/other.md", "reference/x.json", ".git/config"]) {
            put(dir.path(), name, "x");
        }
        assert_eq!(names(&read(dir.path()).unwrap()), all);
    }

    #[test]
    fn what_leads_out_or_is_too_large_is_named() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        put(other.path(), "secret.md", "secret");
        put(dir.path(), "core.md", "x".repeat(1 << 20));
        put(dir.path(), "state.md", "x".repeat((1 << 20) + 1));
        put(dir.path(), "identity.md", [0xff, 0xfe]);
        symlink(other.path().join("secret.md"), dir.path().join("context.md")).unwrap();
        symlink("gone", dir.path().join("projects.md")).unwrap();
        symlink("core.md", dir.path().join("preferences.md")).unwrap();
        symlink(other.path(), dir.path().join("archive")).unwrap();
        let found = read(dir.path()).unwrap();
        assert_eq!(names(&found), ["core.md", "preferences.md"]);
        let left = found.left.join("\n");
        for part in [
            "context.md: it leads to",
            "identity.md: it is not text",
            "projects.md: it can't",
            "state.md: it is larger",
        ] {
            assert!(left.contains(part), "{part}: {left}");
        }
        assert!(matches!(read(Path::new("/does/not/exist")), Err(JournalError::Read { .. })));
    }
}
