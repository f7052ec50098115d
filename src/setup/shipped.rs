//! The roster that this build ships, as files.

use std::io;
use std::path::Path;

use include_dir::{Dir, include_dir};

use config::SHARED_DIR;

static ROSTER: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../roster");

/// The butlers in it, by name.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = ROSTER.dirs().filter_map(|d| d.path().to_str()).filter(|n| *n != SHARED_DIR).collect();
    names.sort_unstable();
    names
}

/// Writes those butlers that are `wanted`, and what all share, into a directory that is there.
pub fn unpack(into: &Path, wanted: impl Fn(&str) -> bool) -> io::Result<()> {
    for dir in ROSTER.dirs() {
        let name = dir.path().to_str().unwrap_or_default();
        if name == SHARED_DIR || wanted(name) {
            std::fs::create_dir(into.join(name))?;
            dir.extract(into)?;
        }
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
        assert!(names().contains(&"switchboard") && !names().contains(&"shared"));
    }
}
