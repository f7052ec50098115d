//! The black-box tests of the original program `wt-memory` (wt-tools), retold as data in `tests/data/project`: what was
//! given to it there and what it answered holds for butlerd's name `wt-memory` and for its hooks. A case with `differs`
//! says why butlerd does otherwise, and expects what butlerd does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::support::developer::{Developer, with_workshop};
use crate::support::{Daemon, Household, butlerd};

/// A file of cases.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Suite {
    about: String,
    /// Words that stand before each command of `wt-memory`.
    #[serde(default)]
    before: Vec<String>,
    /// Steps that come before those of each case.
    setup: Vec<Value>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// Why butlerd does otherwise than the original.
    differs: Option<String>,
    steps: Vec<Value>,
}

/// A step, which does one thing and says what must come of it. In all of its texts `$name` stands for what is known by
/// that name: `dir` is the case's directory, `project` a project's name of its own, others were kept by steps before.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Step {
    /// Runs `wt-memory` with these words.
    wt: Option<Vec<String>>,
    /// Runs a hook for this event, with `input` on its standard input.
    hook: Option<String>,
    /// Runs git with these words.
    git: Option<Vec<String>>,
    /// Makes a directory.
    mkdir: Option<PathBuf>,
    /// Writes a file with `text` or `value`.
    write: Option<PathBuf>,
    /// Reads a file.
    file: Option<PathBuf>,
    before: Option<Vec<String>>,
    input: Value,
    text: String,
    value: Value,
    /// The machine; none: `a`.
    on: Option<String>,
    /// The working directory, below the case's own.
    dir: PathBuf,
    code: i32,
    out: Texts,
    err: Texts,
    json: Vec<Check>,
    /// What a pointer into the JSON of standard output finds, by name.
    keep: BTreeMap<String, String>,
    /// What stands behind the beginning of a line of standard output, by name.
    keep_line: BTreeMap<String, String>,
}

/// What holds for a text.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Texts {
    is: Option<String>,
    has: Vec<String>,
    lacks: Vec<String>,
    /// These are there, one behind the other.
    order: Vec<String>,
    once: Vec<String>,
}

/// What holds for the values at a JSON pointer, in which `*` means each element.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Check {
    at: String,
    is: Option<Value>,
    /// Arrays of so many elements.
    length: Option<usize>,
    /// Arrays of so many elements or more.
    least: Option<usize>,
    /// Objects that have these keys.
    keys: Vec<String>,
    /// Only texts that start so are looked at.
    starting: String,
    /// These in any order.
    are: Option<Vec<Value>>,
    include: Vec<Value>,
    exclude: Vec<Value>,
}

/// A machine of its own.
type Machine = (Household, Daemon);

/// What a step printed.
#[derive(Default)]
struct Printed {
    code: i32,
    out: String,
    err: String,
}

/// Runs all cases of a file, and fails with all that do not hold.
async fn all_hold(file: &str, count: usize, machines: &[&'static str]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/project").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let suite: Suite = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{file}: {e}"));
    let mut house = BTreeMap::new();
    for name in machines {
        let household = with_workshop();
        let daemon = household.start().await;
        house.insert(*name, (household, daemon));
    }
    let mut failed = Vec::new();
    for (n, case) in suite.cases.iter().enumerate() {
        if let Err(why) = Run::new(&suite, &house, n).case(case) {
            failed.push(format!("- {}{}: {why}", case.name, if case.differs.is_some() { " (differs)" } else { "" }));
        }
    }
    let (ran, differ) = (suite.cases.len(), suite.cases.iter().filter(|case| case.differs.is_some()).count());
    println!("{file}: {ran} cases ran, {differ} of them differ from the original on purpose, {} failed", failed.len());
    assert!(failed.is_empty(), "{file}: {}\n{}", suite.about, failed.join("\n"));
    assert_eq!(ran, count, "as many as the original has");
}

/// A case that runs.
struct Run<'a> {
    suite: &'a Suite,
    machines: &'a BTreeMap<&'static str, Machine>,
    dir: PathBuf,
    known: Map<String, Value>,
}

impl<'a> Run<'a> {
    fn new(suite: &'a Suite, machines: &'a BTreeMap<&'static str, Machine>, n: usize) -> Self {
        let project = format!("case-{n}");
        let dir = machines["a"].0.path().join(&project);
        std::fs::create_dir_all(&dir).expect("the directory");
        std::os::unix::fs::symlink(butlerd(), dir.join("wt-memory")).expect("the name");
        let known = [("dir", dir.display().to_string()), ("project", project)];
        let known = known.into_iter().map(|(name, value)| (name.to_owned(), Value::String(value))).collect();
        Self { suite, machines, dir, known }
    }

    fn case(mut self, case: &Case) -> Result<(), String> {
        for step in self.suite.setup.iter().chain(&case.steps) {
            let step = self.put_in(step);
            self.step(&step).map_err(|why| format!("{why}\n    at {step}"))?;
        }
        Ok(())
    }

    fn step(&mut self, written: &Value) -> Result<(), String> {
        let step = Step::deserialize(written).map_err(|e| format!("no step: {e}"))?;
        let printed = self.perform(&step)?;
        let all = || format!("exit code {}, printed {:?}, and {:?} as errors", printed.code, printed.out, printed.err);
        let checked = || {
            if printed.code != step.code {
                return Err(format!("exit code {} is expected", step.code));
            }
            step.out.hold(&printed.out)?;
            step.err.hold(&printed.err)?;
            if step.json.is_empty() && step.keep.is_empty() {
                return Ok(Value::Null);
            }
            let json = serde_json::from_str(&printed.out).map_err(|e| format!("no JSON: {e}"))?;
            step.json.iter().try_for_each(|check| check.holds(&json)).map(|()| json)
        };
        let json = checked().map_err(|why| format!("{why}; {}", all()))?;
        for (name, at) in &step.keep {
            let found = json.pointer(at).ok_or_else(|| format!("nothing at {at}"))?;
            self.known.insert(name.clone(), found.clone());
        }
        for (name, start) in &step.keep_line {
            let found = printed.out.lines().find_map(|line| line.strip_prefix(start.as_str()));
            let found = found.ok_or_else(|| format!("no line starts with {start:?}; {}", all()))?;
            self.known.insert(name.clone(), Value::String(found.trim().to_owned()));
        }
        Ok(())
    }

    fn perform(&self, step: &Step) -> Result<Printed, String> {
        let on = step.on.as_deref().unwrap_or("a");
        let (household, _) = self.machines.get(on).ok_or_else(|| format!("there is no machine {on}"))?;
        let developer = Developer::at(household, self.dir.join(&step.dir));
        let run = |program: &Path, words: &[String], input: &str| {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let done = developer.run(program, &words, input);
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
            Printed { code: done.status.code().unwrap_or(-1), out: text(&done.stdout), err: text(&done.stderr) }
        };
        if let Some(words) = &step.wt {
            let before = step.before.clone().unwrap_or_else(|| self.put_in_all(&self.suite.before));
            return Ok(run(&self.dir.join("wt-memory"), &[before, words.clone()].concat(), &step.text));
        }
        if let Some(event) = &step.hook {
            let hook = || run(butlerd(), &["hook".to_owned(), event.clone()], &step.input.to_string());
            return context(event, developer.in_time(hook));
        }
        if let Some(words) = &step.git {
            return Ok(run(Path::new("git"), words, ""));
        }
        let fail = |e: std::io::Error| e.to_string();
        if let Some(path) = &step.mkdir {
            std::fs::create_dir_all(self.dir.join(path)).map_err(fail)?;
        } else if let Some(path) = &step.write {
            let path = self.dir.join(path);
            let text = if step.value.is_null() { step.text.clone() } else { step.value.to_string() };
            std::fs::create_dir_all(path.parent().unwrap_or(&self.dir)).map_err(fail)?;
            std::fs::write(path, text).map_err(fail)?;
        } else if let Some(path) = &step.file {
            let out = std::fs::read_to_string(self.dir.join(path)).map_err(|e| format!("{}: {e}", path.display()))?;
            return Ok(Printed { out, ..Printed::default() });
        } else {
            return Err("it does nothing".to_owned());
        }
        Ok(Printed::default())
    }

    fn put_in_all(&self, texts: &[String]) -> Vec<String> {
        texts.iter().map(|text| self.put_in_text(text)).collect()
    }

    fn put_in_text(&self, text: &str) -> String {
        self.known.iter().fold(text.to_owned(), |text, (name, value)| match value {
            Value::String(value) => text.replace(&format!("${name}"), value),
            _ => text,
        })
    }

    /// A value with what is known in place of its names.
    fn put_in(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let whole = text.strip_prefix('$').and_then(|name| self.known.get(name));
                whole.cloned().unwrap_or_else(|| Value::String(self.put_in_text(text)))
            }
            Value::Array(all) => all.iter().map(|value| self.put_in(value)).collect(),
            Value::Object(all) => all.iter().map(|(name, value)| (name.clone(), self.put_in(value))).collect(),
            other => other.clone(),
        }
    }
}

/// What a hook tells the assistant, in place of the JSON that it printed.
fn context(event: &str, printed: Printed) -> Result<Printed, String> {
    if printed.out.is_empty() {
        return Ok(printed);
    }
    let said: Value = serde_json::from_str(&printed.out).map_err(|e| format!("no JSON: {e}: {}", printed.out))?;
    let said = &said["hookSpecificOutput"];
    match (said["hookEventName"].as_str(), said["additionalContext"].as_str()) {
        (Some(name), Some(text)) if name == event => Ok(Printed { out: text.to_owned(), ..printed }),
        _ => Err(format!("a hook does not speak so: {said}")),
    }
}

impl Texts {
    fn hold(&self, text: &str) -> Result<(), String> {
        if let Some(is) = self.is.as_ref().filter(|is| *is != text) {
            return Err(format!("{is:?} alone is expected"));
        }
        let mut from = 0;
        for part in &self.order {
            let found =
                text[from..].find(part.as_str()).ok_or_else(|| format!("{part:?} is not there, or too early"))?;
            from += found + part.len();
        }
        let counted = |part: &String| text.matches(part.as_str()).count();
        let none = self.has.iter().find(|part| counted(part) == 0).map(|part| format!("{part:?} is not there"));
        let some = self.lacks.iter().find(|part| counted(part) > 0).map(|part| format!("{part:?} is there"));
        let twice = self.once.iter().find(|part| counted(part) != 1).map(|part| format!("{part:?} is not there once"));
        none.or(some).or(twice).map_or(Ok(()), Err)
    }
}

impl Check {
    fn holds(&self, json: &Value) -> Result<(), String> {
        let mut found = vec![json];
        for part in self.at.split('/').skip(1) {
            found = found.into_iter().flat_map(|value| below(value, part)).collect();
        }
        found.retain(|value| self.starting.is_empty() || value.as_str().is_some_and(|v| v.starts_with(&self.starting)));
        let each = |holds: &dyn Fn(&Value) -> bool| !found.is_empty() && found.iter().all(|value| holds(value));
        let length = |value: &Value| value.as_array().map(Vec::len);
        let sorted = |mut texts: Vec<String>| {
            texts.sort_unstable();
            texts
        };
        let is_same = |all: &Vec<Value>| {
            sorted(all.iter().map(Value::to_string).collect())
                == sorted(found.iter().map(|v| (*v).to_string()).collect())
        };
        let fine = self.is.as_ref().is_none_or(|is| each(&|value| value == is))
            && self.length.is_none_or(|count| each(&|value| length(value) == Some(count)))
            && self.least.is_none_or(|count| each(&|value| length(value) >= Some(count)))
            && (self.keys.is_empty() || each(&|value| self.keys.iter().all(|key| value.get(key).is_some())))
            && self.are.as_ref().is_none_or(is_same)
            && self.include.iter().all(|value| found.contains(&value))
            && self.exclude.iter().all(|value| !found.contains(&value));
        if fine { Ok(()) } else { Err(format!("what stands at {:?} is not as expected", self.at)) }
    }
}

fn below<'v>(value: &'v Value, part: &str) -> Vec<&'v Value> {
    match part {
        "*" => value.as_array().into_iter().flatten().collect(),
        part => value.pointer(&format!("/{part}")).into_iter().collect(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn branches_become_tags_as_they_did() {
    all_hold("branch_tags.json", 11, &["a"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exports_and_imports_are_as_they_were() {
    all_hold("export_import.json", 15, &["a", "b", "c"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memories_are_exchanged_as_they_were() {
    all_hold("sync.json", 22, &["a", "b", "c"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_are_kept_and_told_as_they_were() {
    all_hold("rules.json", 13, &["a"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cheat_sheets_are_told_as_they_were() {
    all_hold("cheat_sheet.json", 9, &["a"]).await;
}
