//! What a butler is made of, as one value: a reload leaves alone whose files are as they were.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::SHARED_DIR;
use base::text::hex;

/// Scenario tests, which no running butler reads.
const TESTS_DIR: &str = "tests";
const SKILLS_DIR: &str = "skills";

/// Of everything in the butler's directory but its tests, of what all butlers share, of the shared skills that it names,
/// and of the household's settings that it takes over. Hidden files don't count: editors and version control keep theirs so.
pub(super) fn of(roster: &Path, dir: &Path, shared_skills: &[String], settings: &str) -> String {
    let mut state = Sha256::new();
    text(&mut state, settings);
    entries(&mut state, dir, &|name| name != TESTS_DIR);
    let shared = roster.join(SHARED_DIR);
    entries(&mut state, &shared, &|name| name != SKILLS_DIR);
    for skill in shared_skills {
        one(&mut state, &shared.join(SKILLS_DIR).join(skill), skill);
    }
    hex(&state.finalize())
}

/// Of that, and of more settings.
pub(super) fn with(digest: &str, settings: &str) -> String {
    let mut state = Sha256::new();
    text(&mut state, digest);
    text(&mut state, settings);
    hex(&state.finalize())
}

/// Of the files of a butler whose text a database runs.
pub(super) fn of_sql(dir: &Path) -> String {
    let mut state = Sha256::new();
    for part in ["migrations", "tools", "jobs", "api"] {
        entries(&mut state, &dir.join(part), &|name| name.ends_with(".sql"));
    }
    hex(&state.finalize())
}

/// What is in a directory, in the order of names.
fn entries(state: &mut Sha256, dir: &Path, wanted: &dyn Fn(&str) -> bool) {
    let mut names: Vec<String> = match fs::read_dir(dir) {
        Ok(list) => list.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect(),
        Err(e) => return text(state, &format!("{:?}", e.kind())),
    };
    names.sort();
    for name in names.iter().filter(|name| !name.starts_with('.') && wanted(name)) {
        one(state, &dir.join(name), name);
    }
    text(state, "end");
}

fn one(state: &mut Sha256, path: &Path, name: &str) {
    text(state, name);
    let kind = fs::symlink_metadata(path).map(|m| m.file_type());
    match kind {
        Ok(kind) if kind.is_dir() => entries(state, path, &|_| true),
        // A link to a file counts as what it leads to; one to a directory as where it leads, because it may lead round.
        Ok(kind) if kind.is_symlink() && !path.is_file() => {
            text(state, &fs::read_link(path).map(|to| to.display().to_string()).unwrap_or_default());
        }
        Ok(_) => match content(path) {
            Ok(digest) => state.update(digest),
            Err(e) => text(state, &format!("{:?}", e.kind())),
        },
        Err(e) => text(state, &format!("{:?}", e.kind())),
    }
}

fn content(path: &Path) -> io::Result<[u8; 32]> {
    if !path.is_file() {
        // Reading a pipe would wait for its writer.
        return Ok([0; 32]);
    }
    let mut state = Sha256::new();
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        match io::Read::read(&mut file, &mut buffer)? {
            0 => return Ok(state.finalize().into()),
            n => state.update(&buffer[..n]),
        }
    }
}

/// A text with its length, so that two never run together.
fn text(state: &mut Sha256, text: &str) {
    state.update((text.len() as u64).to_le_bytes());
    state.update(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_changes_with_what_the_butler_reads_and_with_nothing_else() {
        let top = tempfile::tempdir().unwrap();
        let (roster, dir) = (top.path(), top.path().join("garden"));
        let put = |path: &str, text: &str| {
            let file = roster.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        put("garden/butler.toml", "a");
        put("garden/skills/sow/SKILL.md", "s");
        put("shared/AGENTS.md", "all");
        put("shared/skills/one/SKILL.md", "1");
        let now = |skills: &[&str]| of(roster, &dir, &skills.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>(), "");
        let before = now(&[]);
        let named = now(&["one"]);
        for (path, text) in [
            ("garden/tests/sow.toml", "t"),
            ("garden/.butler.toml.swp", "x"),
            ("other/butler.toml", "o"),
            ("shared/skills/one/SKILL.md", "2"),
        ] {
            put(path, text);
            assert_eq!(now(&[]), before, "{path}");
        }
        assert_ne!(now(&["one"]), named, "a shared skill that it names");
        for (path, text) in [
            ("garden/butler.toml", "b"),
            ("garden/tools/sow.sql", ""),
            ("garden/skills/sow/SKILL.md", "t"),
            ("shared/AGENTS.md", "none"),
        ] {
            let last = now(&[]);
            put(path, text);
            assert_ne!(now(&[]), last, "{path}");
        }
        let last = now(&[]);
        fs::rename(dir.join("tools/sow.sql"), dir.join("tools/reap.sql")).unwrap();
        assert_ne!(now(&[]), last, "a name");
    }

    #[test]
    fn a_directory_that_leads_into_itself_has_an_end() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir(top.path().join("garden")).unwrap();
        std::os::unix::fs::symlink("..", top.path().join("garden/up")).unwrap();
        assert_eq!(of(top.path(), &top.path().join("garden"), &[], "").len(), 64);
    }
}
