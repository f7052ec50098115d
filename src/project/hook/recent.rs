//! What was worked on lately, by the times of files. Running git would take half of a hook's time.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Instant, SystemTime};

/// So many entries of directories are looked at.
const ENTRIES: usize = 2000;
/// Directories below this depth are left out.
const DEPTH: usize = 5;
/// Directories of what is built or fetched.
const MADE: &[&str] = &["node_modules", "target", "dist", "build", "out", "vendor", "venv", "coverage", "__pycache__"];
/// Endings of what nobody writes by hand.
const ENDINGS: &[&str] = &[
    "log", "lock", "tmp", "bak", "swp", "orig", "pyc", "o", "so", "a", "class", "jar", "png", "jpg", "jpeg", "gif",
    "ico", "pdf", "zip", "gz", "db", "sqlite", "map", "min.js",
];

/// The names of the files that were changed last, the newest first.
pub fn names(top: &Path, most: usize, until: Instant) -> Vec<String> {
    let mut found: Vec<(SystemTime, String)> = Vec::new();
    let mut open = VecDeque::from([(top.to_owned(), 0)]);
    let mut left = ENTRIES;
    // What lies near the top is looked at first.
    while let Some((directory, depth)) = open.pop_front() {
        let Ok(entries) = std::fs::read_dir(directory) else { continue };
        for entry in entries.flatten() {
            if left == 0 || (left.is_multiple_of(64) && Instant::now() >= until) {
                return newest(found, most);
            }
            left -= 1;
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth < DEPTH && !name.starts_with('.') && !MADE.contains(&name.as_str()) {
                open.push_back((entry.path(), depth + 1));
            } else if kind.is_file() && is_written(&name) {
                let changed = entry.metadata().and_then(|of| of.modified());
                found.extend(changed.ok().map(|changed| (changed, name)));
            }
        }
    }
    newest(found, most)
}

fn is_written(name: &str) -> bool {
    let is_made = |ending: &&str| name.strip_suffix(*ending).is_some_and(|stem| stem.ends_with('.'));
    !name.starts_with('.') && !name.ends_with('~') && !ENDINGS.iter().any(is_made)
}

fn newest(mut found: Vec<(SystemTime, String)>, most: usize) -> Vec<String> {
    found.sort_by(|a, b| b.cmp(a));
    let mut names: Vec<String> = Vec::new();
    for (_, name) in found {
        if names.len() < most && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_newest_files_that_people_write_are_named() {
        let top = tempfile::tempdir().unwrap();
        let write = |path: &str, age: u64| {
            let path = top.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let file = std::fs::File::create(path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000_000 - age)).unwrap();
        };
        for (n, path) in ["src/pool.rs", "README.md", "src/a/tenant.rs", "Makefile", "old.rs"].into_iter().enumerate() {
            write(path, n as u64 * 60);
        }
        for made in [".git/HEAD", "node_modules/x/index.js", "target/debug/x.d", "a.log", ".env", "x.png", "Cargo.lock"]
        {
            write(made, 0);
        }
        std::os::unix::fs::symlink("/etc", top.path().join("etc")).unwrap();
        let soon = Instant::now() + Duration::from_secs(60);
        assert_eq!(names(top.path(), 4, soon), ["pool.rs", "README.md", "tenant.rs", "Makefile"]);
        assert_eq!(names(&top.path().join("gone"), 4, soon), [] as [&str; 0]);
    }

    #[test]
    fn a_large_directory_is_not_read_to_its_end() {
        let top = tempfile::tempdir().unwrap();
        for n in 0..ENTRIES + 100 {
            std::fs::File::create(top.path().join(format!("{n}.rs"))).unwrap();
        }
        assert_eq!(names(top.path(), 10, Instant::now() + Duration::from_secs(60)).len(), 10);
        // Where there is no time, there is nothing.
        assert!(names(top.path(), 10, Instant::now()).len() <= 10);
    }
}
