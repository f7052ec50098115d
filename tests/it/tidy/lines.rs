//! How much there is to read: lines of `src/`, the median file, and functions that are allowed to be long.

use std::fmt::Write as _;

use super::baseline::known;
use super::demand_nothing;
use super::root;
use super::source::{Source, rust_files};

/// All lines of Rust below `src/`, those of tests among them.
const LIMIT_ALL: usize = 86_000;
const LIMIT_MEDIAN: usize = 150;
/// Functions over the limit in clippy.toml, each with its reason beside `allow(clippy::too_many_lines)`.
const LIMIT_LONG_FUNCTIONS: usize = 10;

fn all() -> Vec<Source> {
    rust_files(&root().join("src")).iter().map(|file| Source::read(root(), file)).collect()
}

/// What the baseline lets a figure be while it is still above its limit.
fn at_most(what: &str, limit: usize) -> usize {
    known("lines").get(what).copied().unwrap_or(limit).max(limit)
}

#[test]
fn the_house_stays_of_a_size_that_can_be_known() {
    let mut files: Vec<(usize, String)> = all().into_iter().map(|source| (source.lines, source.path)).collect();
    files.sort_unstable();
    let sum: usize = files.iter().map(|(lines, _)| lines).sum();
    let median = files[files.len() / 2].0;
    if let Some(dir) = std::env::var_os("TIDY_REPORT") {
        let mut text = format!(
            "{sum} lines (limit {LIMIT_ALL}), {} files, median {median} (limit {LIMIT_MEDIAN})\n\n",
            files.len()
        );
        for (lines, path) in files.iter().rev() {
            let _ = writeln!(text, "{lines:5} {path}");
        }
        std::fs::write(std::path::PathBuf::from(dir).join("lines.txt"), text).expect("the report can be written");
    }
    let mut found = Vec::new();
    let (all, middle) = (at_most("all", LIMIT_ALL), at_most("median", LIMIT_MEDIAN));
    if sum > all {
        found.push(format!("src/ has {sum} lines; it stays under {all}, by mechanism and not by density"));
    }
    if median > middle {
        found.push(format!("half of the files of src/ have more than {median} lines; the median stays under {middle}"));
    }
    demand_nothing(found);
}

#[test]
fn few_functions_are_long_and_each_says_why() {
    let mut found = Vec::new();
    for source in all() {
        let long = source.find(&["clippy", "::", "too_many_lines"]);
        found.extend(long.iter().map(|line| format!("{}:{line}", source.path)));
        let unexplained = source.find(&["clippy", "::", "too_many_lines", ")"]);
        assert!(
            unexplained.is_empty(),
            "{}:{unexplained:?}: say why the function is long: reason = \"…\"",
            source.path
        );
    }
    let limit = at_most("long-functions", LIMIT_LONG_FUNCTIONS);
    assert!(
        found.len() <= limit,
        "{} long functions; the house has at most {limit}:\n{}",
        found.len(),
        found.join("\n")
    );
}
