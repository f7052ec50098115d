//! The modules that this build has.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::contract::{Factory, Module};
use super::roster::RosterFactory;
use crate::approvals::Settings;
use crate::config::{self, ButlerConfig, Finding, Place};
use crate::scheduler::is_built_in;
use crate::tools::skill_tools;
use crate::tools::sql::{self, SqlToolError};

/// All factories. A module named like its butler is the roster's own: its tools in SQL.
pub struct Catalog {
    factories: Vec<Box<dyn Factory>>,
}

impl Default for Catalog {
    fn default() -> Self {
        let factories: Vec<Box<dyn Factory>> = vec![
            Box::new(super::approvals::ApprovalsFactory),
            Box::new(super::log::LogFactory),
            Box::new(super::memory::MemoryFactory),
            Box::new(super::file::FileFactory),
            Box::new(super::vcard::VcardFactory),
            Box::new(super::webhook::WebhookFactory),
        ];
        #[cfg(debug_assertions)]
        let factories = factories.into_iter().chain(super::probe::factories()).collect();
        Self { factories }
    }
}

impl Catalog {
    /// The factory behind `[modules.<name>]` of a butler.
    pub fn find(&self, butler: &str, name: &str) -> Option<&dyn Factory> {
        if name == butler {
            return Some(&RosterFactory);
        }
        self.factories.iter().find(|f| f.name() == name).map(AsRef::as_ref)
    }
}

/// For serving: a module with wrong settings fails alone, in its phase, and its butler stays up.
impl config::Catalog for Catalog {
    fn module(&self, name: &str) -> bool {
        self.find("", name).is_some()
    }
    fn check_module(&self, _: &str, _: &str, _: &Value) -> Vec<String> {
        Vec::new()
    }
}

/// For looking at a roster without serving it: every mistake of a module's settings is told, and of the files that they
/// speak of.
pub struct StrictCatalog {
    catalog: Catalog,
    /// The tools that every butler has, and those that the one of this name has besides.
    own_tools: fn(&str) -> Vec<&'static str>,
}

impl StrictCatalog {
    pub fn new(own_tools: fn(&str) -> Vec<&'static str>) -> Self {
        Self { catalog: Catalog::default(), own_tools }
    }

    /// The butler's modules; `None`: one of them can't be made, so what it brings isn't known.
    fn modules(&self, butler: &ButlerConfig) -> Option<Vec<Box<dyn Module>>> {
        let module = |(name, table): (&String, &Value)| {
            self.catalog.find(butler.name.as_str(), name)?.build(table, &butler.name, &butler.dir).ok()
        };
        butler.modules.iter().map(module).collect()
    }

    fn check_gates(&self, butler: &ButlerConfig, modules: &[Box<dyn Module>]) -> Vec<Finding> {
        let Ok(settings) = Settings::read(butler.modules.get("approvals")) else { return Vec::new() };
        let Ok(manifests) = modules.iter().map(|m| m.manifest()).collect::<Result<Vec<_>, _>>() else {
            return Vec::new();
        };
        if !settings.enabled {
            return Vec::new();
        }
        let declared: Vec<String> = manifests.into_iter().flat_map(|m| m.tools).collect();
        let own = (self.own_tools)(butler.name.as_str());
        let skills = skill_tools(&butler.skills);
        let there = |tool: &str| {
            own.contains(&tool) || declared.iter().any(|d| d == tool) || skills.iter().any(|s| s.def.name == tool)
        };
        let missing = settings.gated_tools.keys().filter(|tool| !there(tool));
        let finding = |tool: &String| Finding {
            place: Place::Key(["modules", "approvals", "gated_tools", tool].map(str::to_owned).to_vec()),
            problem: format!("`{}` has no tool of this name", butler.name),
            expected: format!("one of its tools, which `butlerd tool list {}` shows", butler.name),
        };
        missing.map(finding).collect()
    }
}

fn in_file(e: SqlToolError) -> Finding {
    Finding { place: Place::Line(e.file, e.line), problem: e.problem, expected: String::new() }
}

/// The files in `jobs/`, and the schedules that name them. `modules`: `None`, where their jobs are not known.
fn check_jobs(butler: &ButlerConfig, modules: Option<&[Box<dyn Module>]>) -> Vec<Finding> {
    let of_module = |job: &str| {
        let mut own = modules.into_iter().flatten().flat_map(|m| m.schedules());
        modules.is_none() || own.any(|schedule| schedule.job.contains(&job))
    };
    let dir = butler.dir.join("jobs");
    let (jobs, mut found) = match sql::check_jobs(&dir) {
        Ok(jobs) => (jobs, Vec::new()),
        Err(wrong) => (BTreeMap::new(), wrong.into_iter().map(in_file).collect()),
    };
    for (i, entry) in butler.schedules.iter().enumerate() {
        let Some(job) = entry.job_name.as_deref() else { continue };
        let at = |key: &str| Place::Key(["butler", "schedule", &i.to_string(), key].map(str::to_owned).to_vec());
        let file = format!("jobs/{job}.sql");
        if !is_built_in(job) && !of_module(job) && !butler.dir.join(&file).is_file() {
            let problem = format!("found \"{job}\", and there is no {file}");
            let expected = "a built-in job, or the name of a file in the butler's `jobs/` without `.sql`".to_owned();
            found.push(Finding { place: at("job_name"), problem, expected });
        } else if let Some(arguments) = jobs.get(job)
            && let Err(problem) = arguments.validate(&mut given(entry.job_args.as_ref()))
        {
            found.push(Finding { place: at("job_args"), problem, expected: format!("what {file} declares as args") });
        }
    }
    found
}

fn given(args: Option<&Value>) -> Map<String, Value> {
    args.and_then(Value::as_object).cloned().unwrap_or_default()
}

impl config::Catalog for StrictCatalog {
    fn module(&self, name: &str) -> bool {
        self.catalog.module(name)
    }
    fn check_module(&self, butler: &str, name: &str, table: &Value) -> Vec<String> {
        self.catalog.find(butler, name).map(|f| f.check(table)).unwrap_or_default()
    }
    fn check_butler(&self, butler: &ButlerConfig) -> Vec<Finding> {
        let modules = self.modules(butler);
        let mut found = check_jobs(butler, modules.as_deref());
        if butler.modules.contains_key(butler.name.as_str()) {
            let wrong = sql::load_dir(&butler.dir.join("tools"), sql::Use::Tool).err();
            found.extend(wrong.into_iter().flatten().map(in_file));
        }
        found.extend(modules.iter().flat_map(|modules| self.check_gates(butler, modules)));
        found
    }
}
