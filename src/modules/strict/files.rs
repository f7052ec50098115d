//! What stands in a butler's directory, and what its settings make of it.

use std::path::Path;

use super::{ButlerContents, finding, key};
use config::{Finding, Place};
use tools::http::RECORDINGS;

/// The directories whose files are read by their endings, and what such a file is.
const READ: [(&str, &[&str], &str); 5] = [
    ("tools", &["sql", "http"], "a tool"),
    ("jobs", &["sql"], "a job"),
    ("api", &["sql"], "a page"),
    ("migrations", &["sql"], "a migration"),
    ("tests", &["toml"], "a test"),
];

pub(super) fn check(known: &ButlerContents<'_>) -> Vec<Finding> {
    let mut found = strays(known);
    found.extend(unloaded(known));
    found.extend(taken_names(known));
    found.extend(nameless(known));
    found.extend(forgetful(known));
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
    names(dir).iter().filter_map(|name| stem(name, ending).map(str::to_owned)).collect()
}

fn stem<'a>(name: &'a str, ending: &str) -> Option<&'a str> {
    name.strip_suffix(ending)?.strip_suffix('.')
}

/// The names of the tools in a butler's directory, and the ending of each one's file.
pub(super) fn tool_files(butler: &Path) -> Vec<(String, &'static str)> {
    let dir = butler.join("tools");
    let of = |ending: &'static str| stems(&dir, ending).into_iter().map(move |stem| (stem, ending));
    of("sql").chain(of("http")).collect()
}

/// A file that nobody reads is a slip of the pen.
fn strays(known: &ButlerContents<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (dir, endings, what) in READ {
        let within = known.butler.dir.join(dir);
        for name in names(&within).into_iter().filter(|name| !name.ends_with(".md")) {
            let path = within.join(&name);
            let ends = endings.iter().any(|ending| stem(&name, ending).is_some());
            // What HTTP tools are answered with in scenarios.
            let recorded = dir == "tests" && name == RECORDINGS && path.is_dir();
            // Rosters of the Python daemon have their routes there.
            let foreign = dir == "api" && (name.ends_with(".py") || name == "__pycache__");
            if !(ends && path.is_file() || recorded || foreign) {
                let forms: Vec<String> = endings.iter().map(|ending| format!("`NAME.{ending}`")).collect();
                let expected = format!("{what}, {}", forms.join(" or "));
                found.push(finding(Place::Line(path, 1), "found what nobody reads", expected));
            }
        }
    }
    found
}

/// A section of memory that does not say whether there is one.
fn forgetful(known: &ButlerContents<'_>) -> Option<Finding> {
    const MEMORY: &str = "memory";
    let section = known.butler.modules.get(MEMORY)?;
    let expected = "the line `enabled = true`, or no such section";
    section.get("enabled").is_none().then(|| {
        finding(key(&["modules", MEMORY]), "found without `enabled`, so the butler does not remember", expected)
    })
}

/// Tools that no module loads.
fn unloaded(known: &ButlerContents<'_>) -> Option<Finding> {
    let (butler, name) = (known.butler, known.butler.name.as_str());
    let tools = tool_files(&butler.dir);
    if tools.is_empty() || butler.modules.contains_key(name) {
        return None;
    }
    let (tool, ending) = tools.first()?;
    let place = Place::Line(butler.dir.join(format!("tools/{tool}.{ending}")), 1);
    let problem = format!("found tools that nothing loads ({} in all)", tools.len());
    Some(finding(place, problem, format!("the line `[modules.{name}]` in butler.toml")))
}

/// Tools that are called like others.
fn taken_names(known: &ButlerContents<'_>) -> Vec<Finding> {
    let Some(tools) = &known.tools else { return Vec::new() };
    let mut files = tool_files(&known.butler.dir);
    files.sort();
    let twice: Vec<String> = files.windows(2).filter(|two| two[0].0 == two[1].0).map(|two| two[0].0.clone()).collect();
    let told = files.iter().filter_map(|(tool, ending)| {
        let whose = match tool {
            tool if tools.house.contains(tool) => "every butler has already",
            tool if tools.modules.contains(tool) => "another module has already",
            tool if *ending == "http" && twice.contains(tool) => "a file of SQL makes already",
            _ => return None,
        };
        let place = Place::Line(known.butler.dir.join(format!("tools/{tool}.{ending}")), 1);
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
