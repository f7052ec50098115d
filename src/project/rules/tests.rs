//! Rules in files as people and programs write them.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::{FILE, Rule, RulesError, add, load, matching, remove};

fn tree(text: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    if !text.is_empty() {
        fs::create_dir(dir.path().join(".claude")).unwrap();
        fs::write(dir.path().join(FILE), text).unwrap();
    }
    dir
}

fn text(top: &Path) -> String {
    fs::read_to_string(top.join(FILE)).unwrap()
}

fn topics(topics: &[&str]) -> Vec<String> {
    topics.iter().map(|topic| (*topic).to_owned()).collect()
}

fn ids(top: &Path) -> Vec<String> {
    load(top).unwrap().into_iter().map(|rule| rule.id).collect()
}

#[test]
fn rules_are_added_listed_and_removed() {
    let dir = tree("");
    assert_eq!(load(dir.path()).unwrap(), []);
    let said = "Use customer_ro / XYZ123 for the \"customer\" table: #1";
    let id = add(dir.path(), &topics(&["customer", " sql ", ""]), said).unwrap();
    assert_eq!(id, "use-customer-ro-xyz123-for-the-customer");
    let want = Rule { id: id.clone(), topics: topics(&["customer", "sql"]), content: said.to_owned() };
    assert_eq!(load(dir.path()).unwrap(), [want]);
    let second = add(dir.path(), &topics(&["x"]), said).unwrap();
    let third = add(dir.path(), &topics(&["x"]), said).unwrap();
    assert_eq!((second, third), (format!("{id}-2"), format!("{id}-3")));
    assert_eq!(add(dir.path(), &topics(&["tábla"]), "Ügyfél").unwrap(), "gyf-l");
    assert_eq!(add(dir.path(), &topics(&["表"]), "表").unwrap(), "rule");
    for id in ids(dir.path()) {
        remove(dir.path(), &id).unwrap();
    }
    assert_eq!(load(dir.path()).unwrap(), []);
    let error = remove(dir.path(), "none").unwrap_err();
    assert!(matches!(error, RulesError::Unknown { .. }), "{error}");
    add(dir.path(), &topics(&["x"]), "again").unwrap();
    assert_eq!(ids(dir.path()), ["again"]);
}

#[test]
fn a_rule_needs_text_and_topics() {
    let dir = tree("");
    assert!(matches!(add(dir.path(), &topics(&["x"]), " "), Err(RulesError::NoText)));
    assert!(matches!(add(dir.path(), &topics(&[" "]), "x"), Err(RulesError::NoTopics)));
    assert!(!dir.path().join(FILE).exists());
}

#[test]
fn comments_and_other_keys_stay() {
    let before = "# ours\nversion: 1\nrules:\n# about one\n- id: one\n  topics: [a, b]\n  content: |\n    first\n    - second\n\
                  \n# about two\n- id: two\n  topics: [c]\n  content: two # really\n\n# the rest\nmore: {x: 1}\n";
    let dir = tree(before);
    add(dir.path(), &topics(&["d"]), "three").unwrap();
    let item = "- id: \"three\"\n  topics: [\"d\"]\n  content: \"three\"\n";
    assert_eq!(text(dir.path()), before.replace("# really\n", &format!("# really\n{item}")));
    remove(dir.path(), "one").unwrap();
    let after = text(dir.path());
    assert!(after.contains("# about two\n- id: two") && after.contains("more: {x: 1}"), "{after}");
    assert!(!after.contains("second"), "{after}");
    assert_eq!(ids(dir.path()), ["two", "three"]);
}

#[test]
fn other_ways_of_writing_keep_their_rules() {
    for before in [
        "rules: [{id: one, topics: [a], content: one}]\nmore: x\n",
        "{\"more\": \"x\", \"rules\": [{\"id\": \"one\", \"topics\": [\"a\"], \"content\": \"one\"}]}",
        "more: x\nrules:\n    - id: one\n      topics: a, b\n      content: one",
        "more: x\nrules:\n  -\n    id: one\n    topics:\n    - a\n    content: one\n",
        "\"rules\":\n- id: one\n  topics: [a]\n  content: one\nmore: x\n",
    ] {
        let dir = tree(before);
        add(dir.path(), &topics(&["d"]), "two").unwrap();
        assert_eq!(ids(dir.path()), ["one", "two"], "{before}");
        remove(dir.path(), "one").unwrap();
        assert_eq!(ids(dir.path()), ["two"], "{before}");
        remove(dir.path(), "two").unwrap();
        assert_eq!(ids(dir.path()), Vec::<String>::new(), "{before}");
        let after = text(dir.path());
        assert!(after.contains("more"), "{before} became {after}");
    }
}

#[test]
fn what_can_not_be_read_is_told_with_its_line_and_never_overwritten() {
    for (before, line) in [
        ("rules: [this is: {invalid yaml: : :", None),
        ("rules:\n- id: a\n  content: x\n bad\n", None),
        ("rules:\n  - id: one\n    topics: [a]\n    content: x\n  - two\n", Some(5)),
        ("- a\n", Some(1)),
        ("- []\n", Some(1)),
    ] {
        let dir = tree(before);
        let error = load(dir.path()).unwrap_err();
        let RulesError::Malformed { line: found, .. } = &error else { panic!("{before}: {error}") };
        assert!(line.is_none_or(|line| line == *found), "{before}: {error}");
        assert!(error.to_string().contains("rules.yaml, line "), "{error}");
        assert!(add(dir.path(), &topics(&["d"]), "two").is_err());
        assert_eq!(text(dir.path()), before);
    }
    for empty in ["# nothing yet\n", "rules:\n", "other: 1\n", "---\n"] {
        let dir = tree(empty);
        assert_eq!(load(dir.path()).unwrap(), [], "{empty}");
        add(dir.path(), &topics(&["d"]), "two").unwrap();
        assert_eq!(ids(dir.path()), ["two"], "{empty}");
    }
}

#[test]
fn a_topic_in_the_prompt_is_enough() {
    let rule = |id: &str, named: &[&str]| Rule { id: id.to_owned(), topics: topics(named), content: id.to_owned() };
    let rules = [rule("one", &["Customer", "sql"]), rule("two", &["deploy to"]), rule("three", &[" ", ""])];
    let found = |prompt| matching(&rules, prompt).into_iter().map(|rule| rule.id.as_str()).collect::<Vec<_>>();
    assert_eq!(found("mi a CUSTOMER tábla tartalma?"), ["one"]);
    assert_eq!(found("Deploy to MySQL"), ["one", "two"]);
    assert_eq!(found("what is the weather today?"), Vec::<&str>::new());
    let written = tree("rules:\n- topics: [42, ÜGY]\n  content: x\n- id: 7\n  topics: a, b\n  content: 8\n");
    let rules = load(written.path()).unwrap();
    assert_eq!(matching(&rules, "ügyfél 42").len(), 1);
    assert_eq!((rules[1].id.as_str(), rules[1].content.as_str()), ("7", "8"));
}
