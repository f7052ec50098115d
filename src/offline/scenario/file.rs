//! The files that hold scenarios.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_spanned::Spanned;
use strum::{IntoStaticStr, VariantArray};

use modules::Mentions;

/// What a scenario is evidence of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize, Serialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Proves {
    /// The tool does what it is for, and the rows afterwards are right.
    Success,
    /// A mistake of the trade is refused with a sentence.
    Refusal,
    /// Another tenant finds nothing.
    Tenant,
}

base::named!(Proves);

impl Proves {
    pub const ALL: &'static [Self] = Self::VARIANTS;
}

/// One file.
#[derive(Debug)]
pub struct ScenarioFile {
    pub path: PathBuf,
    pub scenarios: Vec<Scenario>,
}

/// A piece of a butler's work, with what has to come of it.
#[derive(Debug)]
pub struct Scenario {
    pub name: String,
    /// Where it stands in its file, from 1.
    pub line: usize,
    pub proves: Option<Proves>,
    pub tools: Vec<String>,
    /// The clock shows this, unless a step says another moment.
    pub now: Option<Timestamp>,
    pub steps: Vec<Step>,
}

/// What a step does.
#[derive(Debug, Clone)]
pub enum Act {
    /// Calls a tool.
    Call { tool: String, args: Map<String, Value> },
    /// Reads rows as the butler's role.
    Rows(String),
    /// Puts there what a scenario begins with and no tool brings about: as the butler's role, or with `by_household` as
    /// the daemon's own.
    Given { sql: String, by_household: bool },
    /// Runs a job's statement.
    Job { job: String, args: Map<String, Value> },
}

/// One step.
#[derive(Debug)]
pub struct Step {
    pub line: usize,
    pub act: Act,
    /// Another tenant than the scenario's.
    pub tenant: Option<String>,
    pub now: Option<Timestamp>,
    /// Names for parts of the result: `$name` stands for them from here on.
    pub keep: BTreeMap<String, String>,
    pub expect: Option<Value>,
    /// A part of the sentence with which the call is refused.
    pub refused: Option<String>,
    /// The result is that there is nothing.
    pub nothing: bool,
    /// It comes to be by itself: looked at until it is so, for a while.
    pub eventually: bool,
    /// Called by a session that deals with this request, not by a person.
    pub session_of: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    now: Option<String>,
    #[serde(default)]
    scenario: Vec<Spanned<RawScenario>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScenario {
    name: String,
    proves: Option<Proves>,
    #[serde(default)]
    tools: Vec<String>,
    now: Option<String>,
    step: Vec<Spanned<RawStep>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    call: Option<String>,
    rows: Option<String>,
    given: Option<String>,
    #[serde(default)]
    by_household: bool,
    job: Option<String>,
    #[serde(default)]
    args: Map<String, Value>,
    #[serde(rename = "as")]
    tenant: Option<String>,
    now: Option<String>,
    #[serde(default)]
    keep: BTreeMap<String, String>,
    expect: Option<Value>,
    refused: Option<String>,
    #[serde(default)]
    nothing: bool,
    #[serde(default)]
    eventually: bool,
    session_of: Option<String>,
}

/// A mistake in a file of scenarios: a line from 1, and a sentence.
pub type Mistake = (usize, String);

/// Reads a file's text.
pub fn parse(text: &str) -> Result<Vec<Scenario>, Mistake> {
    let line_at = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let raw: RawFile = toml_edit::de::from_str(text)
        .map_err(|e| (e.span().map_or(1, |span| line_at(span.start)), e.message().trim().to_owned()))?;
    let moment = |given: &Option<String>, line: usize| {
        let read = |s: &String| {
            s.parse::<Timestamp>().map_err(|_| {
                (line, format!("now: \"{s}\" is not a moment; write one such as 2026-03-31T08:00:00+02:00"))
            })
        };
        given.as_ref().map(read).transpose()
    };
    let start = moment(&raw.now, 1)?;
    let mut found = Vec::new();
    for scenario in raw.scenario {
        let line = line_at(scenario.span().start);
        let scenario = scenario.into_inner();
        if scenario.step.is_empty() {
            return Err((line, format!("the scenario \"{}\" has no step", scenario.name)));
        }
        if scenario.proves.is_some() == scenario.tools.is_empty() {
            let why = "`proves` and `tools` come together: what it is evidence of, and for which tools";
            return Err((line, format!("the scenario \"{}\": {why}", scenario.name)));
        }
        let mut steps = Vec::new();
        for step in scenario.step {
            let line = line_at(step.span().start);
            steps.push(step_of(step.into_inner(), line, &moment)?);
        }
        let now = moment(&scenario.now, line)?.or(start);
        found.push(Scenario { name: scenario.name, line, proves: scenario.proves, tools: scenario.tools, now, steps });
    }
    Ok(found)
}

fn step_of(
    raw: RawStep,
    line: usize,
    moment: &impl Fn(&Option<String>, usize) -> Result<Option<Timestamp>, Mistake>,
) -> Result<Step, Mistake> {
    let fail = |what: &str| Err((line, what.to_owned()));
    let act = match (raw.call, raw.rows, raw.given, raw.job) {
        (Some(tool), None, None, None) => Act::Call { tool, args: raw.args },
        (None, Some(sql), None, None) if raw.args.is_empty() => Act::Rows(sql),
        (None, None, Some(sql), None) if raw.args.is_empty() => Act::Given { sql, by_household: raw.by_household },
        (None, None, None, Some(job)) => Act::Job { job, args: raw.args },
        _ => return fail("a step has one of `call` (with `args`), `rows`, `given` (both without) and `job`"),
    };
    let said = [raw.expect.is_some(), raw.refused.is_some(), raw.nothing].iter().filter(|said| **said).count();
    match act {
        Act::Call { .. } | Act::Rows(_) | Act::Job { .. } if raw.by_household => {
            fail("`by_household` goes with `given`")
        }
        _ if said > 1 => fail("a step has one of `expect`, `refused` and `nothing`"),
        Act::Rows(_) | Act::Job { .. } if raw.expect.is_none() => fail("`rows` and `job` need `expect`, a list"),
        Act::Given { .. } if said > 0 => fail("`given` expects nothing; look at it with `rows`"),
        Act::Given { .. } | Act::Job { .. } if raw.eventually => {
            fail("`eventually` is for `rows` and for a `call` that reads")
        }
        act => Ok(Step {
            line,
            act,
            tenant: raw.tenant,
            now: moment(&raw.now, line)?,
            keep: raw.keep,
            expect: raw.expect,
            refused: raw.refused,
            nothing: raw.nothing,
            eventually: raw.eventually,
            session_of: raw.session_of,
        }),
    }
}

/// What the scenarios of a file's text name.
pub fn mentions(text: &str) -> Result<Vec<Mentions>, Mistake> {
    let of = |scenario: Scenario| {
        let mut found = Mentions { line: scenario.line, tools: scenario.tools, ..Mentions::default() };
        for step in scenario.steps {
            match step.act {
                Act::Call { tool, .. } => found.calls.push((step.line, tool)),
                Act::Job { job, .. } => found.jobs.push((step.line, job)),
                Act::Rows(_) | Act::Given { .. } => {}
            }
        }
        found
    };
    Ok(parse(text)?.into_iter().map(of).collect())
}

/// Reads `tests/*.toml` of a butler's directory, in the order of the names. Every mistake is told, as
/// `file:line: sentence`.
pub fn read_dir(butler: &Path) -> Result<Vec<ScenarioFile>, Vec<String>> {
    let dir = butler.join("tests");
    let mut files: Vec<PathBuf> = match std::fs::read_dir(&dir) {
        Ok(entries) => entries.filter_map(|e| e.ok().map(|e| e.path())).collect(),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(vec![format!("{}: {e}", dir.display())]),
    };
    files.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    files.sort();
    let (mut read, mut wrong) = (Vec::new(), Vec::new());
    for path in files {
        let text = std::fs::read_to_string(&path).map_err(|e| (1, e.to_string()));
        match text.and_then(|text| parse(&text)) {
            Ok(scenarios) => read.push(ScenarioFile { path, scenarios }),
            Err((line, why)) => wrong.push(format!("{}:{line}: {why}", path.display())),
        }
    }
    if wrong.is_empty() { Ok(read) } else { Err(wrong) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_with_its_lines() {
        let text = "now = \"2026-03-02T08:00:00+01:00\"\n\n[[scenario]]\nname = \"x\"\nproves = \"success\"\n\
                    tools = [\"t\"]\n[[scenario.step]]\ncall = \"t\"\nargs = { a = 1, b = { c = [\"d\"] } }\n\
                    keep = { id = \"id\" }\n[[scenario.step]]\nrows = \"SELECT 1\"\nexpect = [ { a = 1 } ]\n";
        let scenarios = parse(text).unwrap();
        assert_eq!((scenarios.len(), scenarios[0].line, scenarios[0].steps[1].line), (1, 3, 11));
        let Act::Call { args, .. } = &scenarios[0].steps[0].act else { panic!("a call") };
        assert_eq!(Value::Object(args.clone()), serde_json::json!({"a": 1, "b": {"c": ["d"]}}));
    }

    #[test]
    fn mistakes_have_their_line() {
        let step = "[[scenario]]\nname = \"x\"\n[[scenario.step]]\n";
        for (text, line, word) in [
            ("x = 1\n", 1, "unknown field"),
            ("now = \"yesterday\"\n", 1, "not a moment"),
            (&format!("{step}call = \"a\"\nrows = \"b\"\n"), 3, "a step has one of"),
            (&format!("{step}rows = \"b\"\n"), 3, "need `expect`"),
            (&format!("{step}call = \"b\"\nnothing = true\nrefused = \"x\"\n"), 3, "one of `expect`"),
            ("[[scenario]]\nname = \"x\"\nproves = \"success\"\nstep = [{call = \"a\"}]\n", 1, "come together"),
            ("[[scenario]]\nname = \"x\"\nstep = []\n", 1, "no step"),
        ] {
            let (at, why) = parse(text).unwrap_err();
            assert!(at == line && why.contains(word), "{text}: {at} {why}");
        }
    }
}
