//! What comes from outside the files: the process's environment and the command line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};

use base::Secret;

use super::check::{Checker, joined};
use super::daemon::CONFIG;
use super::node::{Node, Value};
use super::schema::{Key, Kind, Table};
use super::values::{Ports, Zone};

const PREFIX: &str = "BUTLERD_";

/// The part of the process's surroundings that configuration depends on, taken once.
#[derive(Clone, Default)]
pub struct Environment {
    /// `BUTLERD_…`, `HOME`, `STATE_DIRECTORY`, `XDG_DATA_HOME`.
    pub variables: BTreeMap<String, String>,
    /// Names of `BUTLERD_…` variables that are no UTF-8.
    pub unreadable: Vec<String>,
    /// Whether the process runs as root.
    pub root: bool,
    /// The machine's zone, if it has a name.
    pub zone: Option<Zone>,
    /// The working directory: where relative paths start.
    pub working_dir: PathBuf,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Values may be secrets; the names are enough to see what was set.
        f.debug_struct("Environment")
            .field("variables", &self.variables.keys().collect::<Vec<_>>())
            .field("unreadable", &self.unreadable)
            .field("root", &self.root)
            .field("zone", &self.zone)
            .field("working_dir", &self.working_dir)
            .finish()
    }
}

impl Environment {
    /// The surroundings of this process.
    pub fn of_process() -> Self {
        let mut found = Self {
            root: nix::unistd::geteuid().is_root(),
            zone: Zone::of_system(),
            working_dir: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            ..Self::default()
        };
        for (name, value) in std::env::vars_os() {
            let Some(name) = name.to_str() else { continue };
            let wanted = name.starts_with(PREFIX) || ["HOME", "STATE_DIRECTORY", "XDG_DATA_HOME"].contains(&name);
            match value.into_string() {
                Ok(value) if wanted => drop(found.variables.insert(name.to_owned(), value)),
                Err(_) if wanted => found.unreadable.push(name.to_owned()),
                _ => {}
            }
        }
        found
    }

    /// A variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|v| !v.is_empty())
    }

    /// The data directory where nothing else was said; `None` if there is not even a home.
    ///
    /// Root gets a directory of the system, because the unprivileged user that PostgreSQL runs as can't enter
    /// root's home.
    pub fn default_data_dir(&self) -> Option<PathBuf> {
        let absolute = |name| self.get(name).map(PathBuf::from).filter(|p| p.is_absolute());
        // systemd lists several directories with colons; the first is the unit's own.
        if let Some(list) = self.get("STATE_DIRECTORY")
            && let Some(first) = list.split(':').find(|p| Path::new(p).is_absolute())
        {
            return Some(first.into());
        }
        if self.root {
            return Some(base::local::SYSTEM_DATA_DIR.into());
        }
        if let Some(data) = absolute("XDG_DATA_HOME") {
            return Some(data.join("butlerd"));
        }
        absolute("HOME").map(|home| home.join(".local/share/butlerd"))
    }

    /// The path from the root: `~/` is the home, other relative paths start at the working directory. `None` if there
    /// is no home.
    pub(super) fn resolve(&self, path: &Path) -> Option<PathBuf> {
        match path.strip_prefix("~") {
            Ok(rest) => Some(Path::new(self.get("HOME")?).join(rest)),
            Err(_) => {
                let full = self.working_dir.join(path);
                Some(std::path::absolute(&full).unwrap_or(full))
            }
        }
    }
}

/// What the command line says; it wins over everything.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--config`: this file must exist; without it `config/butlerd.toml` may be absent.
    pub config_file: Option<PathBuf>,
    /// `--data-dir`
    pub data_dir: Option<PathBuf>,
    /// `--roster`
    pub roster: Option<PathBuf>,
    /// `--ports`
    pub ports: Option<Ports>,
    /// `--pg-bin`
    pub pg_bin: Option<PathBuf>,
    /// `--pg-bundle`
    pub pg_bundle: Option<PathBuf>,
    /// For callers inside the program: a password has no place on a command line.
    pub database_url: Option<Secret<String>>,
    /// `--listen`: the admin port's address.
    pub listen: Option<String>,
    /// `--log`: the log filter.
    pub log: Option<String>,
    /// Any other key (`spawner.endpoints.anthropic`) with its value as the environment would give it.
    pub set: Vec<(String, String)>,
}

/// A layer of values from outside the files, with the names that mistakes use for them.
pub(super) struct Layer {
    pub map: Map<String, Json>,
    /// Dotted key to the variable or flag that set it.
    pub names: BTreeMap<String, String>,
    checker: Checker<'static>,
}

impl Layer {
    fn new(origin: &str) -> Self {
        Self { map: Map::new(), names: BTreeMap::new(), checker: Checker::new(Path::new(origin), &CONFIG) }
    }

    pub fn into_mistakes(self) -> Vec<super::Mistake> {
        self.checker.mistakes
    }

    /// Checks one value given as text and puts it in its place.
    fn put(&mut self, path: &[&str], name: &str, text: &str, spelled: fn(&str) -> String) {
        let mut table: &'static Table = &CONFIG;
        let mut place: Vec<String> = Vec::new();
        for (i, segment) in path.iter().enumerate() {
            let Some((key, seconds)) = table.find(segment) else {
                let (problem, expected) = self.checker.unknown(table, segment);
                self.checker.note(None, name, problem, expected);
                return;
            };
            place.push(key.name.clone());
            match (&key.kind, &path[i + 1..]) {
                (Kind::Table(inner), [_, ..]) => table = inner,
                (Kind::Table(inner), []) => {
                    let first = inner.keys.first().map_or("", |k| &k.name);
                    let example = spelled(&joined(&place.join("."), first));
                    self.checker.note(
                        None,
                        name,
                        "found a text for a whole table",
                        format!("single keys, such as {example}"),
                    );
                    return;
                }
                (Kind::Map(..), [entry]) => {
                    let one = Node::bare(Value::Table(vec![super::node::Entry {
                        key: (*entry).to_owned(),
                        node: Node::bare(Value::Text(text.to_owned())),
                    }]));
                    return self.keep(key, false, &one, &place, name);
                }
                (_, []) => return self.keep(key, seconds, &Node::bare(typed(&key.kind, seconds, text)), &place, name),
                (_, [next, ..]) => {
                    let problem = format!("unknown key: `{}` has no `{next}`", place.join("."));
                    self.checker.note(None, name, problem, key.kind.expected());
                    return;
                }
            }
        }
    }

    fn keep(&mut self, key: &'static Key, seconds: bool, node: &Node, place: &[String], name: &str) {
        let dotted = place.join(".");
        if let Some(first) = self.names.get(&dotted)
            && !matches!(key.kind, Kind::Map(..))
        {
            let problem = format!("found beside {first}");
            return self.checker.note(None, name, problem, "only one of the two");
        }
        self.names.insert(dotted, name.to_owned());
        let before = self.checker.mistakes.len();
        if let Some(value) = self.checker.key(key, seconds, node, name) {
            insert(&mut self.map, place, value);
        }
        // The walk names what is inside a value (`NAME[0]`); people set the variable.
        for mistake in &mut self.checker.mistakes[before..] {
            name.clone_into(&mut mistake.key);
        }
    }
}

fn insert(map: &mut Map<String, Json>, place: &[String], value: Json) {
    match place {
        [] => {}
        [last] => match (map.get_mut(last), value) {
            (Some(Json::Object(there)), Json::Object(more)) => there.extend(more),
            (_, value) => drop(map.insert(last.clone(), value)),
        },
        [first, rest @ ..] => {
            let inner = map.entry(first.clone()).or_insert_with(|| Json::Object(Map::new()));
            if let Json::Object(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

/// A text as the value that the key wants; what can't be read as one stays a text, and the check says so.
fn typed(kind: &Kind, seconds: bool, text: &str) -> Value {
    let as_text = || Value::Text(text.to_owned());
    let trimmed = text.trim();
    match kind {
        _ if seconds => trimmed.parse().map_or_else(|_| as_text(), Value::Int),
        Kind::Int(..) => trimmed.parse().map_or_else(|_| as_text(), Value::Int),
        Kind::Bool => trimmed.parse().map_or_else(|_| as_text(), Value::Bool),
        Kind::List(_) if trimmed.starts_with('[') => Node::parse_value(trimmed).unwrap_or_else(as_text),
        Kind::List(_) => Value::List(
            trimmed
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(|item| Node::bare(Value::Text(item.to_owned())))
                .collect(),
        ),
        Kind::Map(..) if trimmed.starts_with('{') => Node::parse_value(trimmed).unwrap_or_else(as_text),
        _ => as_text(),
    }
}

fn variable(dotted: &str) -> String {
    format!("{PREFIX}{}", dotted.replace('.', "__").to_uppercase())
}

/// `BUTLERD_<SECTION>__<KEY>` of every section that exists. Others of that prefix are not configuration; an empty
/// value is as good as none.
pub(super) fn from_environment(environment: &Environment) -> Layer {
    let mut layer = Layer::new("environment");
    let path_of = |name: &str| -> Option<Vec<String>> {
        let path: Vec<String> = name.strip_prefix(PREFIX)?.to_lowercase().split("__").map(str::to_owned).collect();
        (path.len() > 1 && CONFIG.find(&path[0]).is_some()).then_some(path)
    };
    for (name, value) in &environment.variables {
        if let Some(path) = path_of(name)
            && !value.is_empty()
        {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            layer.put(&path, name, value, variable);
        }
    }
    for name in environment.unreadable.iter().filter(|name| path_of(name).is_some()) {
        layer.checker.note(None, name, "found bytes that are no UTF-8", "a text");
    }
    layer
}

/// What the command line says, but for paths, which need not be UTF-8 and are put in place later.
pub(super) fn from_command_line(overrides: &Overrides) -> Layer {
    let mut layer = Layer::new("command line");
    let flags = [
        ("daemon.ports", "--ports", overrides.ports.map(Into::into)),
        ("database.url", "database.url", overrides.database_url.as_ref().map(|url| url.expose().as_str())),
        ("admin.listen", "--listen", overrides.listen.as_deref()),
        ("telemetry.log", "--log", overrides.log.as_deref()),
    ];
    for (key, flag, value) in flags {
        if let Some(value) = value {
            layer.put(&key.split('.').collect::<Vec<_>>(), flag, value, str::to_owned);
        }
    }
    let paths = [
        ("daemon.data_dir", "--data-dir", &overrides.data_dir),
        ("daemon.roster", "--roster", &overrides.roster),
        ("database.pg_bin", "--pg-bin", &overrides.pg_bin),
        ("database.pg_bundle", "--pg-bundle", &overrides.pg_bundle),
    ];
    for (key, flag, path) in paths {
        let Some(path) = path else { continue };
        layer.names.insert(key.to_owned(), flag.to_owned());
        if path.as_os_str().is_empty() {
            layer.checker.note(None, flag, "found \"\"", "a path");
        }
    }
    for (key, value) in &overrides.set {
        layer.put(&key.split('.').collect::<Vec<_>>(), key, value, str::to_owned);
    }
    layer
}
