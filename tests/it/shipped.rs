//! What is said of the shipped roster is so.
//!
//! `AGENTS.md` of each butler lists its tools, a line each, as their headers describe them. The lists are for who reads
//! the roster: a session's prompt leaves them out (`sessions::prompt::TOOL_LIST` says why).

use std::path::Path;

use serde_json::Value;
use tools::sql::{Header, Use};

/// The lines between which the list stands: of the tools that are files, and of those that are compiled in.
const FILES: &str = "<!-- tools: made from their headers by `just tool-lists` -->";
const COMPILED: &str = "<!-- tools: made from docs/reference/tools.md by `just tool-lists` -->";
const END: &str = "<!-- /tools -->";

/// The first sentence.
fn first(description: &str) -> String {
    let text = description.split_whitespace().collect::<Vec<_>>().join(" ");
    text.split_once(". ").map_or(text.clone(), |(first, _)| format!("{first}."))
}

/// What a tool's header says that it is for; `None` for what is no tool.
fn described(file: &Path) -> Option<String> {
    let text = || std::fs::read_to_string(file).expect("a tool");
    match file.extension()?.to_str()? {
        "sql" => {
            let header = Header::parse(&text(), Use::Tool).unwrap_or_else(|e| panic!("{}: {e:?}", file.display()));
            Some(header.description)
        }
        "http" => {
            let yaml = text().split("---\n").nth(1).expect("a header").to_owned();
            let header: Value = serde_saphyr::from_str(&yaml).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            Some(header["description"].as_str().expect("a description").to_owned())
        }
        _ => None,
    }
}

/// A line for each file of a butler's tools.
fn listed(butler: &Path) -> Option<String> {
    let files = std::fs::read_dir(butler.join("tools")).ok()?.map(|file| file.expect("a file").path());
    let mut lines: Vec<String> = files
        .filter_map(|file| {
            let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
            Some(format!("- `{name}`: {}\n", first(&described(&file)?)))
        })
        .collect();
    lines.sort();
    Some(lines.concat())
}

/// A line for each tool that a butler has alone, of the page that is made from a running household.
fn compiled(butler: &str) -> Option<String> {
    let page = include_str!("../../docs/reference/tools.md");
    let (_, section) = page.split_once(&format!("\n## {butler}\n"))?;
    let rows = section.split("\n## ").next()?.lines().filter(|line| line.starts_with("| `"));
    let line = |row: &str| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let ([name, ..], [.., about]) = (&cells[..], &cells[..]) else { panic!("{row}") };
        format!("- {name}: {}\n", first(&about.replace("&lt;", "<").replace("\\|", "|")))
    };
    Some(rows.map(line).collect())
}

#[test]
fn each_butler_lists_its_tools() {
    let roster = Path::new(env!("CARGO_MANIFEST_DIR")).join("roster");
    let mut butlers = (0, 0);
    for dir in std::fs::read_dir(roster).expect("the roster").map(|dir| dir.expect("a directory").path()) {
        let name = dir.file_name().expect("a name").to_string_lossy().into_owned();
        // One that is off has its tools from a module alone.
        if !dir.join("butler.toml").exists() || name.starts_with('.') {
            continue;
        }
        let (begin, list) = match listed(&dir) {
            Some(list) => (FILES, list),
            None => (COMPILED, compiled(&name).unwrap_or_else(|| panic!("{name} has no tools of its own"))),
        };
        *if begin == FILES { &mut butlers.0 } else { &mut butlers.1 } += 1;
        assert!(list.lines().count() > 10, "{name}: {list}");
        let file = dir.join("AGENTS.md");
        let there = std::fs::read_to_string(&file).expect("who the butler is");
        let parts = there.split_once(begin).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
        let (before, after) = parts.unwrap_or_else(|| panic!("{}: no line {begin}, or no {END}", file.display()));
        let made = format!("{before}{begin}\n{list}{END}{after}");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&file, &made).expect("the list can be written");
        } else {
            assert!(there == made, "{}: the list is not what the tools say; run `just tool-lists`", file.display());
        }
    }
    assert_eq!(butlers, (5, 2), "those with a trade, and the two that serve the others");
}

#[test]
fn tools_of_both_sorts_are_listed_and_other_files_are_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let tools = dir.path().join("tools");
    std::fs::create_dir(&tools).expect("a directory");
    let sql = "/*---\ndescription: Count them. Slowly.\nreturns: row\nmeta: {effect: none}\n---*/\nSELECT 1 AS n;\n";
    let http = "---\ndescription: >-\n  Ask the\n  web. Politely.\nurl: https://example.org/\n---\n";
    for (file, text) in [("count.sql", sql), ("ask.http", http), ("notes.txt", "none")] {
        std::fs::write(tools.join(file), text).expect("a file");
    }
    assert_eq!(listed(dir.path()).as_deref(), Some("- `ask`: Ask the web.\n- `count`: Count them.\n"));
}

/// Specification 000: the skill on memory, which the butlers share, teaches tags.
#[test]
fn the_skill_on_memory_teaches_tags() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("roster");
    let skill = std::fs::read_to_string(root.join("shared/skills/butler-memory/SKILL.md")).expect("the skill");
    let keeping = skill.split("\n## ").find(|part| part.starts_with("Keep a fact")).expect("how a fact is kept");
    let keeping = keeping.split_whitespace().collect::<Vec<_>>().join(" ");
    for taught in
        ["`tags`: a JSON array of one to three words", "the same word each time", "`memory_search` finds it by them"]
    {
        assert!(keeping.contains(taught), "it says nothing like {taught:?}: {keeping}");
    }
}

#[test]
fn the_docs_say_which_butlers_remember() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut remember, mut forget) = (0, Vec::new());
    for dir in std::fs::read_dir(root.join("roster")).expect("the roster").map(|dir| dir.expect("a directory").path()) {
        let Ok(text) = std::fs::read_to_string(dir.join("butler.toml")) else { continue };
        if dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
            continue;
        }
        // The section, and in it the switch before any other section.
        let section =
            text.split_once("[modules.memory]").map_or("", |(_, rest)| rest.split("\n[").next().unwrap_or(""));
        if section.lines().any(|line| line.split_whitespace().collect::<String>() == "enabled=true") {
            remember += 1;
        } else {
            forget.push(dir.file_name().expect("a name").to_string_lossy().into_owned());
        }
    }
    forget.sort();
    assert_eq!((remember, forget), (5, vec!["messenger".to_owned(), "switchboard".to_owned()]));
    let page = std::fs::read_to_string(root.join("docs/memory.md")).expect("docs/memory.md").replace('\n', " ");
    assert!(
        page.contains("in the shipped roster, all but switchboard and messenger do"),
        "docs/memory.md says otherwise"
    );
}
