//! `butlerd check` as the roster's compiler: one broken roster for each of its rules.
//!
//! `tests/data/rosters/good` is a household without a mistake. Every other directory there breaks one rule: its files
//! are laid over the good ones, and `expected` says what `check` has to tell, and nothing else: `file:line: words`. A
//! line `without PATH` takes something away first. Those that say `database` can't be told apart without one; each
//! breaks a butler of its own, so that one database serves for all.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use serde_json::Value;

use crate::support::butlerd;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/rosters")
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory").map(|entry| entry.expect("an entry").path()) {
        let name = entry.file_name().expect("a name");
        if entry.is_dir() {
            copy(&entry, &to.join(name));
        } else if name != "expected" {
            std::fs::copy(&entry, to.join(name)).expect("a copy");
        }
    }
}

/// A broken roster, and what is to be told of it.
struct Case {
    name: String,
    database: bool,
    without: Vec<String>,
    expected: Vec<String>,
}

fn cases() -> Vec<Case> {
    let mut found = Vec::new();
    for dir in std::fs::read_dir(data()).expect("the rosters").map(|entry| entry.expect("an entry")) {
        let name = dir.file_name().to_string_lossy().into_owned();
        if name == "good" {
            continue;
        }
        let text = std::fs::read_to_string(dir.path().join("expected")).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut case = Case { name, database: false, without: Vec::new(), expected: Vec::new() };
        for line in text.lines() {
            match line.strip_prefix("without ") {
                Some(path) => case.without.push(path.to_owned()),
                None if line == "database" => case.database = true,
                None => case.expected.push(line.to_owned()),
            }
        }
        assert!(!case.expected.is_empty(), "{} expects nothing", case.name);
        found.push(case);
    }
    found
}

/// The mistakes that `check` tells of these cases together, as people read them.
fn told(cases: &[&Case]) -> (i32, Vec<String>) {
    let home = tempfile::tempdir().expect("a directory");
    let roster = home.path().join("roster");
    copy(&data().join("good"), &roster);
    for case in cases {
        copy(&data().join(&case.name), &roster);
        for path in case.without.iter().map(|path| roster.join(path)) {
            let gone = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            gone.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        }
    }
    let mut command = Command::new(butlerd());
    command.current_dir(home.path()).args(["--roster", "roster", "check", "--json"]);
    if !cases.iter().any(|case| case.database) {
        command.arg("--offline");
    }
    let out = command.output().expect("butlerd check runs");
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    let shown: Value =
        serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}{}", String::from_utf8_lossy(&out.stderr)));
    assert_eq!(shown.get("untried"), None, "{said}");
    let text = |m: &Value, key: &str| m[key].as_str().unwrap_or_default().to_owned();
    let line = |m: &Value| {
        let file = text(m, "file");
        let file = file.strip_prefix("roster").unwrap_or(&file).trim_start_matches('/');
        let at = m["line"].as_u64().map(|line| format!(":{line}")).unwrap_or_default();
        let key = Some(text(m, "key")).filter(|key| !key.is_empty()).map(|key| format!("{key}: ")).unwrap_or_default();
        let file = if file.is_empty() { "." } else { file };
        format!("{file}{at}: {key}{}, expected {}", text(m, "problem"), text(m, "expected"))
    };
    let mistakes = shown["mistakes"].as_array().expect("mistakes").iter().map(line).collect();
    (out.status.code().unwrap_or(-1), mistakes)
}

/// What is not as it should be with these cases; `None`: all is.
fn differs(cases: &[&Case]) -> Option<String> {
    let (code, told) = told(cases);
    let expected: Vec<&String> = cases.iter().flat_map(|case| &case.expected).collect();
    let tells = |wanted: &&String| {
        let (place, words) = wanted.split_once(": ").unwrap_or((wanted, ""));
        told.iter().any(|m| m.split_once(": ").is_some_and(|(at, said)| at == place && said.contains(words)))
    };
    let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    let right = code == 2 && told.len() == expected.len() && expected.iter().all(tells);
    (!right).then(|| format!("{}: exit {code}\n  wanted {expected:#?}\n  told {told:#?}", names.join(", ")))
}

#[test]
fn each_broken_rule_is_told_with_its_file_and_line() {
    let cases = cases();
    assert!(cases.len() >= 80, "{} rosters", cases.len());
    let (with_database, without): (Vec<&Case>, Vec<&Case>) = cases.iter().partition(|case| case.database);
    let left = Mutex::new(without.into_iter());
    let wrong: Mutex<Vec<String>> = Mutex::default();
    let say = |differing: Option<String>| wrong.lock().expect("a lock").extend(differing);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let next = left.lock().expect("a lock").next();
                    let Some(case) = next else { return };
                    say(differs(&[case]));
                }
            });
        }
        say(differs(&with_database));
    });
    let wrong = wrong.into_inner().expect("a lock");
    assert!(wrong.is_empty(), "{} of {} rosters:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn there_is_no_false_alarm() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("roster");
    for roster in [shipped, data().join("good")] {
        let home = tempfile::tempdir().expect("a directory");
        let mut command = Command::new(butlerd());
        let out = command.current_dir(home.path()).arg("--roster").arg(&roster).arg("check").output();
        let out = out.expect("butlerd check runs");
        let said = String::from_utf8_lossy(&out.stdout);
        assert_eq!(out.status.code(), Some(0), "{said}");
        assert!(said.starts_with("All is well: ") && said.lines().count() == 1, "{said}");
    }
}
