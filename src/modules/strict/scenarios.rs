//! A butler's scenario tests: whether they can be run at all.

use std::path::Path;

use super::{Known, Tools, files, finding};
use crate::base::text::truncate;
use crate::config::{Finding, Node, NodeValue, Place};

/// What a scenario can be evidence for.
const PROVES: [&str; 3] = ["success", "refusal", "tenant"];
/// What a step does: one of these.
const DOES: [&str; 3] = ["call", "rows", "job"];

pub(super) fn check(known: &Known<'_>) -> Vec<Finding> {
    let dir = known.butler.dir.join("tests");
    let files = files::stems(&dir, "toml").into_iter().map(|stem| dir.join(format!("{stem}.toml")));
    files.flat_map(|file| File { known, file: &file, found: Vec::new() }.checked()).collect()
}

struct File<'a> {
    known: &'a Known<'a>,
    file: &'a Path,
    found: Vec<Finding>,
}

impl File<'_> {
    fn say(&mut self, line: Option<usize>, problem: impl Into<String>, expected: impl Into<String>) {
        self.found.push(finding(Place::Line(self.file.to_owned(), line.unwrap_or(1)), problem, expected));
    }

    fn checked(mut self) -> Vec<Finding> {
        match std::fs::read_to_string(self.file) {
            Err(e) => self.say(None, format!("can't be read: {e}"), "a TOML file"),
            Ok(text) => match Node::parse(text.trim_start_matches('\u{feff}')) {
                Err(e) => self.say(e.line, format!("no valid TOML: {}", e.reason), ""),
                Ok(node) => self.scenarios(&node),
            },
        }
        self.found
    }

    fn scenarios(&mut self, node: &Node) {
        match tables(node, "scenario") {
            Some(scenarios) if !scenarios.is_empty() => {
                for scenario in scenarios {
                    self.scenario(scenario);
                }
            }
            _ => self.say(
                None,
                "found no scenario",
                "`[[scenario]]`, each with its name, what it proves, tools and steps",
            ),
        }
    }

    fn scenario(&mut self, scenario: &Node) {
        let text = |key: &str| scenario.at(&[key]).and_then(text_of);
        if text("name").is_none_or(|name| name.trim().is_empty()) {
            self.say(
                scenario.line_of(&["name"]),
                "found a scenario without a name",
                "name: what it shows, in a sentence",
            );
        }
        if text("proves").is_none_or(|proves| !PROVES.contains(&proves)) {
            let problem = match scenario.at(&["proves"]) {
                Some(given) => format!("proves: found {}", given.shown()),
                None => "proves: missing".to_owned(),
            };
            self.say(scenario.line_of(&["proves"]), problem, format!("one of {}", PROVES.join(", ")));
        }
        let steps = tables(scenario, "step").unwrap_or_default();
        if steps.is_empty() {
            self.say(
                scenario.line,
                "found a scenario without steps",
                "`[[scenario.step]]`, each with call, rows or job",
            );
        }
        let called: Vec<&str> = steps.iter().filter_map(|step| step.at(&["call"]).and_then(text_of)).collect();
        let named: Vec<(Option<usize>, String)> = match scenario.at(&["tools"]).map(|node| &node.value) {
            Some(NodeValue::List(items)) => {
                items.iter().filter_map(|item| Some((item.line, text_of(item)?.to_owned()))).collect()
            }
            _ => Vec::new(),
        };
        if named.is_empty() {
            let at = scenario.line_of(&["tools"]);
            self.say(at, "found a scenario that names no tool", "tools: those that it is the evidence for");
        }
        for (line, tool) in named {
            let line = line.or_else(|| scenario.line_of(&["tools"]));
            if !self.is_tool(line, &tool) {
                continue;
            }
            if !called.contains(&tool.as_str()) && !steps.is_empty() {
                let problem = format!("tools: found `{tool}`, which no step calls");
                self.say(line, problem, "only tools that the scenario calls");
            }
        }
        for step in steps {
            self.step(step);
        }
    }

    fn step(&mut self, step: &Node) {
        let given: Vec<&str> = DOES.into_iter().filter(|key| step.at(&[key]).is_some()).collect();
        if given.len() != 1 {
            let found = if given.is_empty() { "nothing to do".to_owned() } else { given.join(" and ") };
            self.say(step.line, format!("found a step with {found}"), format!("one of {}", DOES.join(", ")));
        }
        if let Some(tool) = step.at(&["call"]).and_then(text_of) {
            self.is_tool(step.line_of(&["call"]), &tool.to_owned());
        }
        if let Some(job) = step.at(&["job"]).and_then(text_of)
            && !self.known.butler.dir.join(format!("jobs/{job}.sql")).is_file()
        {
            let problem = format!("job: found \"{}\", and there is no such file in jobs/", truncate(job, 60));
            self.say(step.line_of(&["job"]), problem, "the name of a file in jobs/, without `.sql`");
        }
    }

    /// Whether the butler has the tool, which is told where it hasn't.
    fn is_tool(&mut self, line: Option<usize>, tool: &String) -> bool {
        let tools: Option<&Tools> = self.known.tools.as_ref();
        let there = tools.is_none_or(|tools| tools.has(tool));
        if !there {
            let problem = format!("found `{}`, which is no tool of `{}`", truncate(tool, 60), self.known.butler.name);
            self.say(line, problem, "a tool that it has");
        }
        there
    }
}

fn text_of(node: &Node) -> Option<&str> {
    match &node.value {
        NodeValue::Text(text) => Some(text),
        _ => None,
    }
}

/// The tables of a list, `[[key]]`.
fn tables<'n>(node: &'n Node, key: &str) -> Option<Vec<&'n Node>> {
    match &node.at(&[key])?.value {
        NodeValue::List(items) => Some(items.iter().filter(|item| matches!(item.value, NodeValue::Table(_))).collect()),
        _ => None,
    }
}
