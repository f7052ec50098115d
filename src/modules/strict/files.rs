//! What stands in a butler's directory, and what its settings make of it.

use std::path::Path;

use super::{ButlerContents, finding, key};
use config::{Finding, Place};

/// The directories whose files have one ending, and what such a file is.
const OF_SQL: [(&str, &str); 3] = [("tools", "a tool"), ("jobs", "a job"), ("migrations", "a migration")];

pub(super) fn check(known: &ButlerContents<'_>) -> Vec<Finding> {
    let mut found = strays(known);
    found.extend(unloaded(known));
    found.extend(taken_names(known));
    found.extend(nameless(known));
    found
}

/// The names of the files of a directory, sorted; hidden ones are left out. No directory has no files.
pub(super) fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

/// The names of a directory's files with this ending, without it.
pub(super) fn stems(dir: &Path, ending: &str) -> Vec<String> {
    let stem = |name: String| name.strip_suffix(ending)?.strip_suffix('.').map(str::to_owned);
    names(dir).into_iter().filter_map(stem).collect()
}

/// A file that nobody reads is a slip of the pen.
fn strays(known: &ButlerContents<'_>) -> Vec<Finding> {
    let endings = OF_SQL.into_iter().map(|(dir, what)| (dir, "sql", what)).chain([("tests", "toml", "a test")]);
    let mut found = Vec::new();
    for (dir, ending, what) in endings {
        let dir = known.butler.dir.join(dir);
        for name in names(&dir).into_iter().filter(|name| !name.ends_with(".md")) {
            let path = dir.join(&name);
            if name.strip_suffix(ending).is_none_or(|stem| !stem.ends_with('.')) || !path.is_file() {
                let problem = "found what nobody reads";
                found.push(finding(Place::Line(path, 1), problem, format!("{what}, `NAME.{ending}`")));
            }
        }
    }
    found
}

/// Tools that no module loads.
fn unloaded(known: &ButlerContents<'_>) -> Option<Finding> {
    let (butler, name) = (known.butler, known.butler.name.as_str());
    let tools = stems(&butler.dir.join("tools"), "sql");
    if tools.is_empty() || butler.modules.contains_key(name) {
        return None;
    }
    let place = Place::Line(butler.dir.join(format!("tools/{}.sql", tools.first()?)), 1);
    let problem = format!("found tools that nothing loads ({} in all)", tools.len());
    Some(finding(place, problem, format!("the line `[modules.{name}]` in butler.toml")))
}

/// Tools that are called like others.
fn taken_names(known: &ButlerContents<'_>) -> Vec<Finding> {
    let Some(tools) = &known.tools else { return Vec::new() };
    let told = tools.own.iter().filter_map(|tool| {
        let whose = match tool {
            tool if tools.house.contains(tool) => "every butler has already",
            tool if tools.modules.contains(tool) => "another module has already",
            _ => return None,
        };
        let place = Place::Line(known.butler.dir.join(format!("tools/{tool}.sql")), 1);
        Some(finding(place, format!("found `{tool}`, a tool that {whose}"), "a name of its own"))
    });
    told.collect()
}

/// Whom messages go to is decided by the description.
fn nameless(known: &ButlerContents<'_>) -> Option<Finding> {
    let butler = known.butler;
    let wanted = butler.advertises() && butler.description.trim().is_empty();
    let expected = "what it is for, in a sentence: by it the switchboard decides which messages are its";
    wanted.then(|| finding(key(&["butler", "description"]), "missing", expected))
}
