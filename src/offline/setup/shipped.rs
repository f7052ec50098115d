//! The roster that this build ships, as files.

use std::io;
use std::path::Path;

use include_dir::{Dir, include_dir};

use config::SHARED_DIR;

static ROSTER: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../roster");

/// The butlers in it, by name, but for those that are off until somebody wants them: their directories are hidden.
pub fn names() -> Vec<&'static str> {
    let names = ROSTER.dirs().filter_map(|d| d.path().to_str());
    let mut names: Vec<&str> = names.filter(|n| *n != SHARED_DIR && !n.starts_with('.')).collect();
    names.sort_unstable();
    names
}

/// Writes those butlers that are `wanted`, and what all share, into a directory that is there.
pub fn unpack(into: &Path, wanted: impl Fn(&str) -> bool) -> io::Result<()> {
    for dir in ROSTER.dirs() {
        let name = dir.path().to_str().unwrap_or_default();
        if name == SHARED_DIR || !name.starts_with('.') && wanted(name) {
            std::fs::create_dir(into.join(name))?;
            dir.extract(into)?;
        }
    }
    Ok(())
}

/// Writes the files of a butler that is off (`.name`) into a directory that is there.
pub(super) fn unpack_hidden(name: &str, into: &Path) -> io::Result<()> {
    let hidden = format!(".{name}");
    let dir = ROSTER
        .get_dir(&hidden)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "this build ships no such butler"))?;
    write_files(dir, Path::new(&hidden), into, &<[u8]>::to_vec)
}

/// Writes the files of a directory, each as `made` has it; `top` is no part of their paths.
pub(super) fn write_files(dir: &Dir<'_>, top: &Path, into: &Path, made: &impl Fn(&[u8]) -> Vec<u8>) -> io::Result<()> {
    for file in dir.files() {
        let below = file.path().strip_prefix(top).unwrap_or(file.path());
        std::fs::write(into.join(below), made(file.contents()))?;
    }
    for dir in dir.dirs() {
        std::fs::create_dir(into.join(dir.path().strip_prefix(top).unwrap_or(dir.path())))?;
        write_files(dir, top, into, made)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_or_a_part_is_written() {
        let top = tempfile::tempdir().unwrap();
        unpack(top.path(), |name| name == "health").unwrap();
        let mut there: Vec<_> = std::fs::read_dir(top.path()).unwrap().flatten().map(|e| e.file_name()).collect();
        there.sort();
        assert_eq!(there, ["health", "shared"]);
        assert!(top.path().join("health/tools/measurement_log.sql").is_file());
        assert!(names().contains(&"switchboard") && !names().contains(&"shared") && !names().contains(&".workshop"));
        let off = top.path().join("workshop");
        std::fs::create_dir(&off).unwrap();
        unpack_hidden("workshop", &off).unwrap();
        assert!(off.join("butler.toml").is_file());
    }
}
