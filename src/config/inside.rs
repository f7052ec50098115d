//! What a roster may be made of: files and directories of its own, of bounded size.
//!
//! A roster may come from somebody else, and `check` looks at it before anybody trusts it. A link that leads out of it
//! would have butlerd read, print and tell a model what stands elsewhere, the master key for one; a pipe would have it
//! wait for ever; a file without end would fill its memory. So this walk comes before anything is read, in `check`, at
//! the start and at a reload alike, and nothing of what it refuses is read afterwards.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use super::mistake::Mistake;

/// Of a file that is read whole: settings, prompts, SQL.
const MOST_TEXT: u64 = 1 << 20;
/// Of any other file.
const MOST_OTHER: u64 = 64 << 20;
/// Files and directories of a butler.
const MOST_ENTRIES: usize = 20_000;
/// What is read whole ends so.
const TEXTS: [&str; 6] = ["http", "json", "md", "sql", "toml", "yaml"];
/// Its own walk takes no links at all and counts what skills hold (`skills/files.rs`).
const SKILLS_DIR: &str = "skills";
const VERSION_CONTROL: &str = ".git";

/// The mistakes of a directory of the roster, of a butler or of what all share. `shown`: its path as given.
pub(super) fn mistakes(roster: &Path, dir: &Path, shown: &Path) -> Vec<Mistake> {
    // Whoever reads the roster says why it can't be read.
    let (Ok(roster), Some(name)) = (roster.canonicalize(), dir.file_name()) else { return Vec::new() };
    let dir = roster.join(name);
    let mut walk = Walk { roster, seen: HashSet::new(), open: Vec::new(), entries: 0, found: Vec::new() };
    walk.entry(&dir, shown);
    while let Some((dir, shown, top)) = walk.open.pop() {
        walk.directory(&dir, &shown, top);
    }
    walk.found
}

struct Walk {
    roster: PathBuf,
    /// Directories that were or will be looked into, resolved.
    seen: HashSet<PathBuf>,
    /// Directories to look into: path, path as shown, and whether it is the first.
    open: Vec<(PathBuf, PathBuf, bool)>,
    entries: usize,
    found: Vec<Mistake>,
}

impl Walk {
    fn note(&mut self, shown: &Path, problem: impl Into<String>, expected: &str) {
        self.found.push(Mistake::at(shown, None, "", problem, expected));
    }

    fn directory(&mut self, dir: &Path, shown: &Path, top: bool) {
        let mut names: Vec<_> = fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.file_name()).collect();
        names.sort();
        for name in names {
            let skipped = name == VERSION_CONTROL || top && name == SKILLS_DIR;
            if self.entries >= MOST_ENTRIES {
                return;
            }
            if !skipped {
                self.entry(&dir.join(&name), &shown.join(&name));
            }
        }
    }

    fn entry(&mut self, path: &Path, shown: &Path) {
        self.entries += 1;
        if self.entries == MOST_ENTRIES {
            self.note(shown, format!("found more than {MOST_ENTRIES} files with this one"), "a butler's files alone");
        }
        let top = self.entries == 1;
        let Ok(own) = path.symlink_metadata() else { return };
        if !own.is_symlink() {
            return self.found_there(path, shown, &own, top);
        }
        match path.canonicalize() {
            Ok(real) if real.starts_with(&self.roster) => {
                if let Ok(meta) = real.symlink_metadata() {
                    self.found_there(&real, shown, &meta, top);
                }
            }
            // An editor's lock; nobody reads it, and it leads nowhere.
            Err(_) if is_hidden(path) => {}
            // Whether something exists out there is nobody's business.
            Ok(_) | Err(_) => {
                self.note(
                    shown,
                    "found a link that leads out of the roster, or nowhere",
                    "a file of the roster itself",
                );
            }
        }
    }

    fn found_there(&mut self, path: &Path, shown: &Path, meta: &Metadata, top: bool) {
        if meta.is_dir() && !self.seen.insert(path.to_owned()) {
            return;
        }
        if meta.is_dir() {
            self.open.push((path.to_owned(), shown.to_owned(), top));
            return;
        }
        if !meta.is_file() {
            return self.note(shown, "found neither a file nor a directory", "a file that can be read to its end");
        }
        let text = |p: &Path| p.extension().is_some_and(|e| TEXTS.iter().any(|text| e == *text));
        let most = if text(path) || text(shown) { MOST_TEXT } else { MOST_OTHER };
        if meta.len() > most {
            let expected = format!("at most {} MiB", most >> 20);
            self.note(shown, format!("found {} bytes", meta.len()), &expected);
        }
    }
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A roster with `garden`, and a secret beside it.
    fn roster() -> (tempfile::TempDir, PathBuf) {
        let top = tempfile::tempdir().unwrap();
        fs::write(top.path().join("master.key"), "secret").unwrap();
        let roster = top.path().join("roster");
        fs::create_dir_all(roster.join("garden/tools")).unwrap();
        fs::create_dir_all(roster.join("shared")).unwrap();
        fs::write(roster.join("garden/CLAUDE.md"), "@AGENTS.md").unwrap();
        fs::write(roster.join("shared/AGENTS.md"), "all").unwrap();
        (top, roster)
    }

    fn told(roster: &Path) -> Vec<String> {
        let found = mistakes(roster, &roster.join("garden"), Path::new("garden"));
        found.into_iter().map(|m| format!("{}: {}", m.file.display(), m.problem)).collect()
    }

    const OUT: &str = "found a link that leads out of the roster, or nowhere";

    #[test]
    fn links_stay_inside() {
        let (top, roster) = roster();
        symlink("../shared/AGENTS.md", roster.join("garden/AGENTS.md")).unwrap();
        symlink("..", roster.join("garden/up")).unwrap();
        symlink("nobody@nowhere.1", roster.join("garden/.#CLAUDE.md")).unwrap();
        assert_eq!(told(&roster), [""; 0]);
        symlink(top.path().join("master.key"), roster.join("garden/tools/a.sql")).unwrap();
        symlink("/nothing/there", roster.join("garden/tools/b.sql")).unwrap();
        symlink("../../../master.key", roster.join("garden/tools/.c.sql")).unwrap();
        let all = [".c.sql", "a.sql", "b.sql"].map(|name| format!("garden/tools/{name}: {OUT}"));
        assert_eq!(told(&roster), all);
    }

    #[test]
    fn a_link_to_another_butler_is_followed_to_its_end() {
        let (top, roster) = roster();
        fs::create_dir_all(roster.join("other/tools")).unwrap();
        symlink(top.path().join("master.key"), roster.join("other/tools/a.sql")).unwrap();
        symlink("../other/tools", roster.join("garden/jobs")).unwrap();
        assert_eq!(told(&roster), [format!("garden/jobs/a.sql: {OUT}")]);
    }

    #[test]
    fn a_directory_that_is_a_link_out_is_not_looked_into() {
        let (top, roster) = roster();
        let away = top.path().join("away");
        fs::rename(roster.join("garden"), &away).unwrap();
        symlink(&away, roster.join("garden")).unwrap();
        assert_eq!(told(&roster), [format!("garden: {OUT}")]);
    }

    #[test]
    fn what_has_no_end_is_not_read() {
        let (_top, roster) = roster();
        let huge = fs::File::create(roster.join("garden/MANIFESTO.md")).unwrap();
        huge.set_len(1 << 40).unwrap();
        fs::File::create(roster.join("garden/picture")).unwrap().set_len(2 << 20).unwrap();
        nix::unistd::mkfifo(&roster.join("garden/tools/p.sql"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        symlink("MANIFESTO.md", roster.join("garden/link")).unwrap();
        let found = told(&roster);
        let [manifesto, link, pipe] = &found[..] else { panic!("{found:?}") };
        assert_eq!(manifesto, "garden/MANIFESTO.md: found 1099511627776 bytes");
        assert_eq!(link, "garden/link: found 1099511627776 bytes");
        assert_eq!(pipe, "garden/tools/p.sql: found neither a file nor a directory");
    }
}
