//! What is said of the shipped roster is so.
//!
//! `AGENTS.md` of each butler with a trade lists its tools, a line each, as their headers describe them. The lists are for who
//! reads the roster: a session's prompt leaves them out (`sessions::prompt::TOOL_LIST` says why).

use std::path::Path;

use tools::sql::{Header, Use};

/// The lines between which the list stands.
const BEGIN: &str = "<!-- tools: made from their headers by `just tool-lists` -->";
const END: &str = "<!-- /tools -->";

/// The first sentence.
fn first(description: &str) -> String {
    let text = description.split_whitespace().collect::<Vec<_>>().join(" ");
    text.split_once(". ").map_or(text.clone(), |(first, _)| format!("{first}."))
}

/// A line for each `.sql` of a butler's tools.
fn listed(butler: &Path) -> Option<String> {
    let files = std::fs::read_dir(butler.join("tools")).ok()?.map(|file| file.expect("a file").path());
    let mut lines: Vec<String> = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "sql"))
        .map(|file| {
            let text = std::fs::read_to_string(&file).expect("a tool");
            let header = Header::parse(&text, Use::Tool).unwrap_or_else(|e| panic!("{}: {e:?}", file.display()));
            let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
            format!("- `{name}`: {}\n", first(&header.description))
        })
        .collect();
    lines.sort();
    Some(lines.concat())
}

#[test]
fn each_butler_lists_its_tools() {
    let roster = Path::new(env!("CARGO_MANIFEST_DIR")).join("roster");
    let mut butlers = 0;
    for dir in std::fs::read_dir(roster).expect("the roster").map(|dir| dir.expect("a directory").path()) {
        let (file, Some(list)) = (dir.join("AGENTS.md"), listed(&dir)) else { continue };
        butlers += 1;
        let there = std::fs::read_to_string(&file).expect("who the butler is");
        let parts = there.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
        let (before, after) = parts.unwrap_or_else(|| panic!("{}: no line {BEGIN}, or no {END}", file.display()));
        let made = format!("{before}{BEGIN}\n{list}{END}{after}");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&file, &made).expect("the list can be written");
        } else {
            assert!(there == made, "{}: the list is not what the headers say; run `just tool-lists`", file.display());
        }
    }
    assert_eq!(butlers, 5, "those with a trade");
}

#[test]
fn the_docs_say_which_butlers_remember() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut remember, mut forget) = (0, Vec::new());
    for dir in std::fs::read_dir(root.join("roster")).expect("the roster").map(|dir| dir.expect("a directory").path()) {
        let Ok(text) = std::fs::read_to_string(dir.join("butler.toml")) else { continue };
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
