//! Rules that hold in most places already: the rest is counted in `baseline.txt` and may only become less.
//!
//! A line is `RULE WHAT COUNT`. A count that grew fails; one that shrank is to be written down, by
//! `TIDY_BLESS=1 cargo test --test it tidy`, which never writes a larger number.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

use super::root;

/// What was found: what it counts as, and where it stands.
pub struct Finding {
    pub counts_as: String,
    pub text: String,
}

/// One test at a time writes the file.
static FILE: Mutex<()> = Mutex::new(());

fn file() -> PathBuf {
    root().join("tests/it/tidy/baseline.txt")
}

/// Fails where there is more of something than the baseline has. With `TIDY_REPORT=DIR`, writes all findings to
/// `DIR/RULE.txt`.
pub fn demand_no_more(rule: &str, findings: &[Finding]) {
    report(rule, findings);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for finding in findings {
        *counts.entry(&finding.counts_as).or_default() += 1;
    }
    if std::env::var_os("TIDY_BLESS").is_some() {
        bless(rule, &counts);
    }
    let known = known(rule);
    let grown = |what: &str, count: usize| count > known.get(what).copied().unwrap_or(0);
    let mut said = String::new();
    for (what, count) in counts.iter().filter(|(what, count)| grown(what, **count)) {
        let _ = writeln!(said, "{rule} {what}: {count}, and the baseline has {}", known.get(*what).unwrap_or(&0));
        for finding in findings.iter().filter(|f| f.counts_as == **what) {
            let _ = writeln!(said, "    {}", finding.text);
        }
    }
    assert!(said.is_empty(), "\n{said}");
}

/// What the baseline has under a rule.
pub fn known(rule: &str) -> BTreeMap<String, usize> {
    let text = fs::read_to_string(file()).unwrap_or_default();
    text.lines().filter_map(|line| entry(rule, line)).collect()
}

fn entry(rule: &str, line: &str) -> Option<(String, usize)> {
    let (what, count) = line.strip_prefix(rule)?.strip_prefix(' ')?.rsplit_once(' ')?;
    Some((what.to_owned(), count.parse().expect("a count at the end of a baseline's line")))
}

fn bless(rule: &str, counts: &BTreeMap<&str, usize>) {
    let _one = FILE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let known = known(rule);
    let text = fs::read_to_string(file()).unwrap_or_default();
    let mut lines: Vec<String> = text.lines().filter(|line| entry(rule, line).is_none()).map(str::to_owned).collect();
    // A rule that has no line yet begins with what there is.
    for (what, count) in counts {
        let least = if known.is_empty() { *count } else { (*count).min(known.get(*what).copied().unwrap_or(0)) };
        if least > 0 {
            lines.push(format!("{rule} {what} {least}"));
        }
    }
    lines.sort();
    fs::write(file(), lines.join("\n") + "\n").expect("the baseline can be written");
}

fn report(rule: &str, findings: &[Finding]) {
    let Some(dir) = std::env::var_os("TIDY_REPORT") else { return };
    let mut text = format!("{} findings\n", findings.len());
    let mut counts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for finding in findings {
        counts.entry(&finding.counts_as).or_default().push(&finding.text);
    }
    for (what, places) in counts {
        let _ = writeln!(text, "\n{what}: {}", places.len());
        for place in places {
            let _ = writeln!(text, "    {place}");
        }
    }
    fs::write(PathBuf::from(dir).join(format!("{rule}.txt")), text).expect("the report can be written");
}
