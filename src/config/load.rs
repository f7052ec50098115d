//! Everything together: layers, cross-checks, the household.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use figment::Figment;
use figment::providers::Serialized;
use serde_json::{Map, Value as Json, json};

use base::ButlerName;

use super::butler::ButlerConfig;
use super::catalog::Catalog;
use super::check::Checker;
use super::daemon::{CONFIG, Config};
use super::effective::{EffectiveSetting, SettingSource, effective};
use super::environment::{Environment, Layer, Overrides, from_command_line, from_environment};
use super::mistake::{BrokenButler, Mistake, Refused};
use super::node::Node;
use super::pricing::Pricing;
use super::roster;
use super::values::Ports;

/// Where the settings are looked for when no flag names a file.
const DEFAULT_FILE: &str = "config/butlerd.toml";

/// A whole configuration, checked.
#[derive(Debug, Clone)]
pub struct Household {
    /// The settings of all layers; its paths are absolute.
    pub config: Config,
    /// What models cost.
    pub pricing: Pricing,
    /// The butlers without a mistake, by name.
    pub butlers: Vec<ButlerConfig>,
    /// The others, by name of their directory: they are parked, and say why.
    pub broken: Vec<BrokenButler>,
    /// The `butlerd.toml` that was read; `None` if there is none.
    pub config_file: Option<PathBuf>,
    /// Every file that was read, as given.
    pub sources: Vec<PathBuf>,
    /// From where it was read.
    pub origin: Origin,
}

/// From where a household was read, to read it again.
#[derive(Debug, Clone)]
pub struct Origin {
    overrides: Overrides,
    environment: Environment,
    settings: Arc<[EffectiveSetting]>,
}

impl Origin {
    /// Every setting as it was read.
    pub fn settings(&self) -> &[EffectiveSetting] {
        &self.settings
    }

    /// The flags by which commands find the same household, each behind a blank; none where it is the usual one.
    pub fn flags(&self) -> String {
        let named = [("--config", &self.overrides.config_file), ("--data-dir", &self.overrides.data_dir)];
        let given = named.iter().filter_map(|(flag, path)| Some(format!(" {flag} {}", path.as_ref()?.display())));
        given.collect()
    }

    /// Reads everything again as it is now, and the roster from where it was.
    pub fn read_again(&self, running: &Config, catalog: &dyn Catalog) -> Result<Household, Refused> {
        let now = load(&self.overrides, &self.environment, catalog)?;
        if now.config.daemon.roster == running.daemon.roster {
            return Ok(now);
        }
        let overrides = Overrides { roster: Some(running.daemon.roster.clone()), ..self.overrides.clone() };
        let config = now.config;
        Ok(Household { config, ..load(&overrides, &self.environment, catalog)? })
    }
}

impl Household {
    /// The tables of settings that differ from another household's.
    pub fn settings_that_differ(&self, other: &Config, prices: &Pricing) -> Vec<&'static str> {
        let url = |c: &Config| c.database.url.as_ref().map(|url| url.expose().clone());
        let (a, b) = (&self.config, other);
        // Their text is their value: they hold no secret but the one that is compared for itself.
        let same = |a: &dyn std::fmt::Debug, b: &dyn std::fmt::Debug| format!("{a:?}") == format!("{b:?}");
        let tables = [
            ("daemon", same(&a.daemon, &b.daemon)),
            ("owner", same(&a.owner, &b.owner)),
            ("database", same(&a.database, &b.database) && url(a) == url(b)),
            ("admin", same(&a.admin, &b.admin)),
            ("spawner", same(&a.spawner, &b.spawner)),
            ("schedules", same(&a.schedules, &b.schedules)),
            ("telemetry", same(&a.telemetry, &b.telemetry)),
            ("pricing", same(&self.pricing, prices)),
        ];
        tables.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
    }

    /// The butler of this name, if it has no mistake.
    pub fn butler(&self, name: &ButlerName) -> Option<&ButlerConfig> {
        self.butlers.iter().find(|b| b.name == *name)
    }

    /// The mistakes of all broken butlers.
    pub fn mistakes(&self) -> impl Iterator<Item = &Mistake> {
        self.broken.iter().flat_map(|b| &b.mistakes)
    }
}

/// Loads and checks settings and roster. Reads files, changes nothing.
///
/// `Err` if no household can be made: a mistake in the settings, no roster, no `switchboard` or `messenger`. A mistake
/// in one butler's directory only puts that butler into `broken`.
pub fn load(overrides: &Overrides, environment: &Environment, catalog: &dyn Catalog) -> Result<Household, Refused> {
    let mut settings = Settings::read(overrides, environment);
    let Some(config) = settings.config.take() else {
        return Err(Refused { fatal: settings.mistakes, broken: Vec::new() });
    };
    let shown = overrides.roster.clone().unwrap_or(settings.roster_shown);
    let read = roster::read(&shown, &config, catalog);
    let mut fatal = settings.mistakes;
    let (pricing, wrong_prices) = pricing_beside(overrides, environment);
    fatal.extend(wrong_prices);
    // A file that can't be read may have named another roster: nothing is said of one that isn't there.
    if settings.file_readable || read.found {
        fatal.extend(read.fatal);
    }
    if !fatal.is_empty() {
        return Err(Refused { fatal, broken: read.broken });
    }
    let mut sources: Vec<PathBuf> = settings.config_file.iter().cloned().collect();
    sources.extend(read.sources);
    Ok(Household {
        config,
        pricing,
        butlers: read.butlers,
        broken: read.broken,
        config_file: settings.config_file,
        sources,
        origin: Origin {
            overrides: overrides.clone(),
            environment: environment.clone(),
            settings: settings.effective.into(),
        },
    })
}

/// The price list, with the owner's file beside the settings, whether or not there are settings.
fn pricing_beside(overrides: &Overrides, environment: &Environment) -> (Pricing, Vec<Mistake>) {
    let settings = overrides.config_file.as_deref().unwrap_or(Path::new(DEFAULT_FILE));
    let shown = settings.parent().unwrap_or(Path::new(""));
    Pricing::load(&environment.working_dir.join(shown), shown)
}

/// Loads and checks the settings alone: for commands that only talk to a running daemon.
pub fn load_config(overrides: &Overrides, environment: &Environment) -> Result<Config, Refused> {
    let settings = Settings::read(overrides, environment);
    match settings.config {
        Some(config) if settings.mistakes.is_empty() => Ok(config),
        _ => Err(Refused { fatal: settings.mistakes, broken: Vec::new() }),
    }
}

/// The settings of all layers. With mistakes, `config` has defaults in their place, so that checking can go on.
struct Settings {
    config: Option<Config>,
    mistakes: Vec<Mistake>,
    roster_shown: PathBuf,
    config_file: Option<PathBuf>,
    /// Whether the file's content is known (also if there is no file).
    file_readable: bool,
    effective: Vec<EffectiveSetting>,
}

impl Settings {
    fn read(overrides: &Overrides, environment: &Environment) -> Self {
        let shown = overrides.config_file.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_FILE));
        let mut checker = Checker::new(&shown, &CONFIG);
        let (node, config_file, file_readable) = read_file(overrides, environment, &shown, &mut checker);
        let layers = Layers {
            file: checker.file(&node),
            node,
            environment: from_environment(environment),
            command_line: from_command_line(overrides),
        };
        let (config, merged) = layers.settle(environment, &mut checker);
        let source = |key: &str| layers.source(key, &shown);
        let effective = effective(&CONFIG, &merged, &source);
        let roster_shown = config.as_ref().map(|c| c.daemon.roster.clone()).unwrap_or_default();
        let config = config.map(|config| layers.finish(config, overrides, environment, &mut checker));
        let mut mistakes = checker.mistakes;
        mistakes.extend(layers.environment.into_mistakes());
        mistakes.extend(layers.command_line.into_mistakes());
        Self { config, mistakes, roster_shown, config_file, file_readable, effective }
    }
}

/// The file's tree (empty without a file), its path if it was read, and whether its content is known.
fn read_file(
    overrides: &Overrides,
    environment: &Environment,
    shown: &Path,
    checker: &mut Checker<'_>,
) -> (Node, Option<PathBuf>, bool) {
    let text = match std::fs::read(environment.working_dir.join(shown)) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && overrides.config_file.is_none() => {
            return (Node::nothing(), None, true);
        }
        Err(e) => {
            checker.note(None, "", format!("can't be read: {e}"), "a readable file of settings");
            return (Node::nothing(), None, false);
        }
    };
    match roster::parse(&text, checker) {
        Some(node) => (node, Some(shown.to_owned()), true),
        None => (Node::nothing(), Some(shown.to_owned()), false),
    }
}

struct Layers {
    file: Map<String, Json>,
    node: Node,
    environment: Layer,
    command_line: Layer,
}

impl Layers {
    /// Merges the layers, the lowest first: the settings, and as which values they were read.
    fn settle(&self, environment: &Environment, checker: &mut Checker<'_>) -> (Option<Config>, Map<String, Json>) {
        let layer = |map: &Map<String, Json>| Serialized::defaults(Json::Object(map.clone()));
        let layers =
            Figment::from(layer(&self.file)).merge(layer(&self.environment.map)).merge(layer(&self.command_line.map));
        let mut merged: Map<String, Json> = match layers.extract() {
            Ok(merged) => merged,
            Err(e) => {
                checker.note(None, &e.path.join("."), format!("can't be taken over: {e}"), "");
                return (None, Map::new());
            }
        };
        CONFIG.fill(&mut merged);
        let zone = environment.zone.as_ref().map_or("UTC", |zone| zone.name());
        let found_out =
            [("daemon", "data_dir", json!(self.data_dir(environment, checker))), ("owner", "time_zone", json!(zone))];
        for (table, key, value) in found_out {
            if let Some(Json::Object(table)) = merged.get_mut(table) {
                table.entry(key).or_insert(value);
            }
        }
        let config = match serde_json::from_value::<Config>(Json::Object(merged.clone())) {
            Ok(mut config) => {
                // An address that somebody set holds, wherever butlers listen.
                if self.origin("admin.listen").is_none() {
                    config.admin.listen.set_port(match config.daemon.ports {
                        Ports::Auto => 0,
                        Ports::Roster => config.daemon.moved(config.admin.listen.port()).unwrap_or_default(),
                    });
                }
                Some(config)
            }
            // The walk has checked every value; this is for a table that contradicts its struct.
            Err(e) => {
                checker.note(None, "", format!("can't be taken over: {e}"), "");
                None
            }
        };
        (config, merged)
    }

    /// Who set this key, as people are shown it.
    fn source(&self, key: &str, file: &Path) -> Option<SettingSource> {
        let (place, line, name) = self.origin(key)?;
        let place = place.map_or_else(|| file.display().to_string(), str::to_owned);
        Some(SettingSource { place, line, name })
    }

    fn data_dir(&self, environment: &Environment, checker: &mut Checker<'_>) -> PathBuf {
        if let Some(found) = environment.default_data_dir() {
            return found;
        }
        if self.origin("daemon.data_dir").is_none() {
            checker.note(
                None,
                "daemon.data_dir",
                "not set, and the environment has no HOME",
                "a path here, in BUTLERD_DAEMON__DATA_DIR or after --data-dir",
            );
        }
        environment.working_dir.clone()
    }

    /// Who set this key last: file (or what stands for it), line and name.
    fn origin(&self, key: &str) -> Option<(Option<&'static str>, Option<usize>, String)> {
        if let Some(name) = self.command_line.names.get(key) {
            return Some((Some("command line"), None, name.clone()));
        }
        if let Some(name) = self.environment.names.get(key) {
            return Some((Some("environment"), None, name.clone()));
        }
        let path: Vec<&str> = key.split('.').collect();
        self.node.at(&path)?;
        Some((None, self.node.line_of(&path), key.to_owned()))
    }

    /// Puts in the command line's paths, makes all paths absolute and looks at values that concern each other.
    fn finish(
        &self,
        mut config: Config,
        overrides: &Overrides,
        environment: &Environment,
        checker: &mut Checker<'_>,
    ) -> Config {
        let flags =
            [(&overrides.data_dir, &mut config.daemon.data_dir), (&overrides.roster, &mut config.daemon.roster)];
        for (flag, path) in flags {
            if let Some(given) = flag {
                path.clone_from(given);
            }
        }
        for (flag, path) in
            [(&overrides.pg_bin, &mut config.database.pg_bin), (&overrides.pg_bundle, &mut config.database.pg_bundle)]
        {
            if flag.is_some() {
                path.clone_from(flag);
            }
        }
        let paths = [
            ("daemon.data_dir", Some(&mut config.daemon.data_dir)),
            ("daemon.roster", Some(&mut config.daemon.roster)),
            ("database.pg_bin", config.database.pg_bin.as_mut()),
            ("database.pg_bundle", config.database.pg_bundle.as_mut()),
            ("spawner.clis.claude", config.spawner.clis.claude.as_mut()),
            ("spawner.clis.codex", config.spawner.clis.codex.as_mut()),
            ("spawner.clis.gemini", config.spawner.clis.gemini.as_mut()),
        ];
        for (key, path) in paths {
            let Some(path) = path else { continue };
            match environment.resolve(path) {
                Some(full) => *path = full,
                None => {
                    let found = format!("found \"{}\", but the environment has no HOME", path.display());
                    self.note(checker, key, found, "an absolute path");
                }
            }
        }
        if let Some(channel) = &config.owner.notice_channel
            && !config.owner.identities.contains_key(channel)
        {
            let found = format!("found \"{channel}\", on which the owner has no identity");
            self.note(checker, "owner.notice_channel", found, "a channel of owner.identities");
        }
        for (key, problem, expected) in config.runtime.mistakes() {
            self.note(checker, key, problem, expected);
        }
        let (pool, server) = (config.database.pool_size, config.database.max_connections);
        if config.database.url.is_none() && pool > server {
            let found = format!("found {pool}, more than the {server} of database.max_connections");
            self.note(checker, "database.pool_size", found, "fewer connections than the server accepts");
        }
        config
    }

    fn note(&self, checker: &mut Checker<'_>, key: &str, problem: String, expected: &str) {
        match self.origin(key) {
            Some((Some(origin), line, name)) => {
                let mistake = Mistake { file: origin.into(), line, key: name, problem, expected: expected.to_owned() };
                checker.mistakes.push(mistake);
            }
            Some((None, line, name)) => checker.note(line, &name, problem, expected),
            None => checker.note(None, key, problem, expected),
        }
    }
}
