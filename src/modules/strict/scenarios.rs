//! A butler's scenario tests: whether they can be read, and what they name is there.

use super::{ButlerContents, files, finding};
use config::{Finding, Place};

/// A scenario, as far as it names what its butler has.
#[derive(Debug, Default)]
pub struct Mentions {
    /// Where it stands in its file.
    pub line: usize,
    /// Those for which it is the evidence.
    pub tools: Vec<String>,
    /// The tools that its steps call, and where.
    pub calls: Vec<(usize, String)>,
    /// The jobs that they run.
    pub jobs: Vec<(usize, String)>,
}

/// Reads the scenarios of a file's text. A mistake is its line and a sentence.
pub type ReadScenarios = fn(&str) -> Result<Vec<Mentions>, (usize, String)>;

pub(super) fn check(known: &ButlerContents<'_>) -> Vec<Finding> {
    let dir = known.butler.dir.join("tests");
    let mut found = Vec::new();
    for stem in files::stems(&dir, "toml") {
        let file = dir.join(format!("{stem}.toml"));
        let read = std::fs::read_to_string(&file).map_err(|e| (1, format!("can't be read: {e}")));
        let told = match read.and_then(|text| (known.scenarios)(&text)) {
            Ok(scenarios) => scenarios.iter().flat_map(|scenario| wrong(known, scenario)).collect(),
            Err((line, why)) => vec![(line, why, String::new())],
        };
        let place = |(line, problem, expected)| finding(Place::Line(file.clone(), line), problem, expected);
        found.extend(told.into_iter().map(place));
    }
    found
}

fn wrong(known: &ButlerContents<'_>, scenario: &Mentions) -> Vec<(usize, String, String)> {
    let there = |tool: &str| known.tools.as_ref().is_none_or(|tools| tools.has(tool));
    let butler = &known.butler.name;
    let mut told = Vec::new();
    let no_tool = |line: usize, tool: &str| {
        let expected = format!("one of those that `butlerd tool list {butler}` shows");
        (line, format!("found `{tool}`, which is not a tool of `{butler}`"), expected)
    };
    for tool in &scenario.tools {
        if !there(tool) {
            told.push(no_tool(scenario.line, tool));
        } else if !scenario.calls.iter().any(|(_, called)| called == tool) {
            let problem = format!("found evidence for `{tool}`, which no step calls");
            told.push((scenario.line, problem, "only tools that the scenario calls".to_owned()));
        }
    }
    let unknown = |(_, tool): &&(usize, String)| !there(tool) && !scenario.tools.contains(tool);
    told.extend(scenario.calls.iter().filter(unknown).map(|(line, tool)| no_tool(*line, tool)));
    for (line, job) in &scenario.jobs {
        let file = format!("jobs/{job}.sql");
        if !known.butler.dir.join(&file).is_file() {
            let problem = format!("found the job \"{job}\", and there is no {file}");
            told.push((*line, problem, "the name of a file in jobs/, without `.sql`".to_owned()));
        }
    }
    if scenario.calls.is_empty() && scenario.jobs.is_empty() {
        let problem = "found a scenario that names no tool and no job".to_owned();
        told.push((scenario.line, problem, "a step with `call` or `job`".to_owned()));
    }
    told
}
