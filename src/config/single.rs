//! One `butler.toml`: the checks that look at more than one value.

use std::path::Path;

use serde_json::{Map, Value as Json};

use base::HumanDuration;

use super::catalog::Catalog;
use super::check::{Checker, joined, spelled};
use super::cron::CronExpression;
use super::daemon::Config;
use super::node::{Node, Value};
use super::rules;
use super::section::KeyMistake;
use super::skills::{SharedSkillRef, Skill};
use super::values::{DispatchMode, Ports, RuntimeKind};
use super::{CHANNEL_MODULES, CORE_BUTLERS};

/// Something that only one butler can have.
#[derive(Clone)]
pub(super) struct Claim {
    pub value: String,
    pub key: &'static str,
    pub line: Option<usize>,
}

/// One `butler.toml` after the walk: its tree, and what was right in it.
pub(super) struct Single<'a> {
    /// The name of the directory.
    pub dir: String,
    pub node: Node,
    pub map: Map<String, Json>,
    pub checker: &'a mut Checker<'static>,
    pub catalog: &'a dyn Catalog,
}

const SCHEMA_KEY: &str = "butler.db.schema";

impl Single<'_> {
    /// Notes every mistake that the walk over single values can't see.
    pub fn check(&mut self, config: &Config) {
        self.check_name();
        self.check_port(config);
        self.check_schema();
        self.check_runtime(config);
        self.check_environment();
        self.check_schedule(config);
        self.check_switchboard();
        self.check_modules();
    }

    /// Reads the butler's skills; a mistake in one is a mistake of the butler. `shown` is the roster's path as given.
    pub fn skills(&mut self, roster: &Path, shown: &Path) -> Vec<Skill> {
        const KEY: &str = "butler.shared_skills";
        let mut wanted: Vec<SharedSkillRef> = Vec::new();
        for (path, name) in self.texts(KEY) {
            if wanted.iter().any(|w| w.name == name) {
                self.note(&path, format!("found \"{name}\" for the second time"), "each skill once");
            } else if super::skills::is_name(&name) {
                let (file, line) = (self.checker.file.clone(), self.line(&path));
                wanted.push(SharedSkillRef { name, file, line, key: KEY.to_owned() });
            }
        }
        let (skills, mistakes) = super::skills::load(roster, shown, &self.dir, &wanted);
        self.checker.mistakes.extend(mistakes);
        skills
    }

    /// The switchboard that the butler names.
    pub fn switchboard(&self) -> Option<Claim> {
        const KEY: &str = "butler.switchboard.url";
        let url = self.get(KEY)?.as_str()?;
        Some(Claim { value: url.to_owned(), key: KEY, line: self.line(KEY) })
    }

    /// The port that the butler claims.
    pub fn port(&self) -> Option<Claim> {
        const KEY: &str = "butler.port";
        let port = self.get(KEY)?.as_u64()?;
        Some(Claim { value: port.to_string(), key: KEY, line: self.line(KEY) })
    }

    /// The schema that the butler claims: the given one, else made of its name.
    pub fn schema(&self) -> Option<Claim> {
        if let Some(given) = self.text(SCHEMA_KEY) {
            return Some(Claim { value: given, key: SCHEMA_KEY, line: self.line(SCHEMA_KEY) });
        }
        // Where one was given and is wrong, there is no default either.
        if self.given(SCHEMA_KEY) {
            return None;
        }
        let value = self.text("butler.name")?.replace('-', "_");
        Some(Claim { value, key: SCHEMA_KEY, line: self.line("butler.name") })
    }

    /// The value at a dotted path, if it stood the walk.
    fn get(&self, path: &str) -> Option<&Json> {
        let mut segments = path.split('.');
        let mut at = self.map.get(segments.next()?)?;
        for segment in segments {
            at = match at {
                Json::Array(items) => items.get(segment.parse::<usize>().ok()?)?,
                other => other.get(segment)?,
            };
        }
        Some(at)
    }

    fn text(&self, path: &str) -> Option<String> {
        self.get(path).and_then(Json::as_str).map(str::to_owned)
    }

    /// Whether the file says anything there, right or wrong.
    fn given(&self, path: &str) -> bool {
        self.node.at(&path.split('.').collect::<Vec<_>>()).is_some()
    }

    /// The texts of a list with their places in the file.
    fn texts(&self, path: &str) -> Vec<(String, String)> {
        let Some(Value::List(items)) = self.node.at(&path.split('.').collect::<Vec<_>>()).map(|n| &n.value) else {
            return Vec::new();
        };
        let texts = items.iter().enumerate().filter_map(|(i, item)| match &item.value {
            Value::Text(text) => Some((format!("{path}.{i}"), text.clone())),
            _ => None,
        });
        texts.collect()
    }

    fn line(&self, path: &str) -> Option<usize> {
        self.node.line_of(&path.split('.').collect::<Vec<_>>())
    }

    /// Notes a mistake at a dotted path; numbers in it are places in a list.
    fn note(&mut self, path: &str, problem: impl Into<String>, expected: impl Into<String>) {
        let line = self.line(path);
        self.checker.note(line, &spelled(path.split('.')), problem, expected);
    }

    fn check_name(&mut self) {
        if let Some(name) = self.text("butler.name")
            && name != self.dir
        {
            let expected = format!("the name of the directory, \"{}\"", self.dir);
            self.note("butler.name", format!("found \"{name}\""), expected);
        }
    }

    fn check_port(&mut self, config: &Config) {
        let Some(port) = self.get("butler.port").and_then(|port| u16::try_from(port.as_u64()?).ok()) else { return };
        match config.daemon.moved(port) {
            _ if config.daemon.ports == Ports::Auto => {}
            Some(moved) if moved == config.admin.listen.port() => {
                self.note(
                    "butler.port",
                    format!("found {port}, the port of admin.listen"),
                    "a port of the butler's own",
                );
            }
            Some(_) => {}
            None => {
                let problem =
                    format!("found {port}, which daemon.port_base = {} moves out of range", config.daemon.port_base);
                self.note("butler.port", problem, "a port that is one with another base, too");
            }
        }
    }

    fn check_schema(&mut self) {
        if let Some(claim) = self.schema()
            && !self.given(SCHEMA_KEY)
            && let rule = rules::find(Some("schema"))
            && (rule.check)(&claim.value).is_err()
        {
            let found = format!("missing, and the schema made of the name, \"{}\", is reserved", claim.value);
            self.checker.note(claim.line, SCHEMA_KEY, found, rule.expected);
        }
    }

    fn check_runtime(&mut self, config: &Config) {
        let own = match self.text("runtime.type") {
            // A wrong type was told; what depends on it can't be judged.
            None if self.given("runtime.type") => return,
            given => given.unwrap_or_else(|| config.runtime.kind.into_str().to_owned()),
        };
        let mut wanted = vec![("runtime.type".to_owned(), own.clone())];
        wanted
            .extend(self.texts("runtime.fallback").into_iter().filter(|(_, kind)| kind.parse::<RuntimeKind>().is_ok()));
        for (n, (path, kind)) in wanted.iter().enumerate() {
            if wanted[..n].iter().any(|(_, earlier)| earlier == kind) {
                self.note(path, format!("found \"{kind}\" for the second time"), "each runtime once");
            }
        }
        let household = !self.given("runtime.fallback")
            && own == config.runtime.kind.into_str()
            && config.runtime.fallback.contains(&RuntimeKind::Native);
        let native = household || wanted.iter().any(|(_, kind)| kind == RuntimeKind::Native.into_str());
        for path in ["runtime.api", "runtime.endpoint"] {
            if !native && self.given(path) {
                let expected = "it only where \"native\" is the type or a fallback";
                self.note(path, format!("found with type \"{own}\""), expected);
            }
        }
    }

    fn check_environment(&mut self) {
        let mut seen: Vec<String> = Vec::new();
        for (path, name) in [self.texts("butler.env.required"), self.texts("butler.env.optional")].concat() {
            if seen.contains(&name) {
                self.note(&path, format!("found \"{name}\" for the second time"), "each variable once");
            }
            seen.push(name);
        }
    }

    fn check_schedule(&mut self, config: &Config) {
        let entries = self.get("butler.schedule").and_then(Json::as_array).map_or(0, Vec::len);
        let mut names: Vec<String> = Vec::new();
        for i in 0..entries {
            let at = |key: &str| format!("butler.schedule.{i}.{key}");
            // What is no table was told.
            if self.node.at(&["butler", "schedule", &i.to_string()]).is_none_or(|n| !matches!(n.value, Value::Table(_)))
            {
                continue;
            }
            if let Some(name) = self.text(&at("name")) {
                if names.contains(&name) {
                    self.note(
                        &at("name"),
                        format!("found \"{name}\" for the second time"),
                        "a name of the entry's own",
                    );
                }
                names.push(name);
            }
            let times: Vec<&str> = ["cron", "every", "at"].into_iter().filter(|key| self.given(&at(key))).collect();
            match times.as_slice() {
                [_] => {}
                [] => self.note(&at("cron"), "missing", "one of cron, every and at"),
                [first, others @ ..] => {
                    for other in others {
                        self.note(&at(other), format!("found beside {first}"), "only one of cron, every and at");
                    }
                }
            }
            self.check_interval(&at, config);
            let mode = match self.text(&at("dispatch_mode")).map(|mode| mode.parse()) {
                Some(Ok(mode)) => mode,
                // A wrong mode was told; what depends on it can't be judged.
                None if self.given(&at("dispatch_mode")) => continue,
                _ => DispatchMode::Prompt,
            };
            let (needed, foreign, other): (_, &[&str], _) = match mode {
                DispatchMode::Prompt => ("prompt", &["job_name", "job_args"], DispatchMode::Job),
                DispatchMode::Job => ("job_name", &["prompt"], DispatchMode::Prompt),
            };
            if !self.given(&at(needed)) {
                self.note(&at(needed), "missing", format!("it where dispatch_mode is \"{mode}\""));
            }
            for key in foreign.iter().filter(|key| self.given(&at(key))).collect::<Vec<_>>() {
                let expected = format!("it only where dispatch_mode is \"{other}\"");
                self.note(&at(key), format!("found with dispatch_mode \"{mode}\""), expected);
            }
        }
    }

    /// No entry comes more often than the household lets schedules come.
    fn check_interval(&mut self, at: &dyn Fn(&str) -> String, config: &Config) {
        let cron = self.text(&at("cron")).and_then(|text| CronExpression::parse(&text).ok()).map(|c| c.shortest_gap());
        let every = self.text(&at("every")).and_then(|text| HumanDuration::parse(&text).ok()).map(|every| every.0);
        for (key, gap) in [("cron", cron), ("every", every)] {
            if let (Some(text), Some(why)) = (self.text(&at(key)), gap.and_then(|gap| config.schedules.refusal(gap))) {
                self.note(&at(key), format!("found \"{text}\" ({why})"), "a time that comes less often");
            }
        }
    }

    fn check_switchboard(&mut self) {
        const SECTION: &str = "butler.switchboard";
        let is_switchboard = self.dir == CORE_BUTLERS[0];
        let declined = self.get("butler.switchboard.advertise") == Some(&Json::Bool(false));
        if is_switchboard && self.given(SECTION) && !declined {
            self.note(SECTION, "found in the switchboard itself", "it in the other butlers only");
        }
        if !is_switchboard && self.given("buffer") {
            self.note("buffer", format!("found in `{}`", self.dir), "it in the switchboard only");
        }
        let bound = |key: &str| self.get(key).and_then(Json::as_u64).unwrap_or(1);
        let min_key = "butler.switchboard.route_contract_min";
        let (min, max) = (bound(min_key), bound("butler.switchboard.route_contract_max"));
        if min > max {
            let found = format!("found {min}, above route_contract_max ({max})");
            self.note(min_key, found, "at most route_contract_max");
        }
    }

    fn check_modules(&mut self) {
        let Some(Json::Object(modules)) = self.get("modules").cloned() else { return };
        for (name, table) in &modules {
            let path = format!("modules.{name}");
            // A module's name may hold a dot in quotes: the line is looked for by segments.
            let line_of = |one: &Self, key: &str| {
                let inside = key.split('.').filter(|segment| !segment.is_empty());
                let segments: Vec<&str> = ["modules", name.as_str()].into_iter().chain(inside).collect();
                one.node.line_of(&segments)
            };
            if !table.is_object() {
                let at = line_of(self, "");
                self.checker.note(at, &path, format!("found {table}"), "a table");
            } else if *name != self.dir && !self.catalog.module(name) {
                let at = line_of(self, "");
                let expected = format!("a module of this build, or `{}` for the butler's own tools", self.dir);
                self.checker.note(at, &path, "a module that this build does not have", expected);
            } else if CHANNEL_MODULES.contains(&name.as_str()) && self.dir != CORE_BUTLERS[0] {
                let at = line_of(self, "");
                let expected = format!("it in {}/butler.toml, whose settings count for sending, too", CORE_BUTLERS[0]);
                self.checker.note(at, &path, format!("found in `{}`", self.dir), expected);
            } else {
                for KeyMistake { key, problem, expected } in self.catalog.check_module(&self.dir, name, table) {
                    let at = line_of(self, &key);
                    self.checker.note(at, &joined(&path, &key), problem, expected);
                }
            }
        }
    }
}
