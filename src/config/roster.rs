//! The roster: one directory for each butler, checked each by itself and then against each other.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value as Json, json};
use toml_edit::{DocumentMut, Item};

use super::butler::{BUTLER, ButlerConfig, ButlerFile};
use super::catalog::{Catalog, Finding, Place};
use super::check::{Checker, spelled};
use super::daemon::Config;
use super::inside;
use super::mistake::{BrokenButler, Mistake};
use super::node::Node;
use super::single::{Claim, Single};
use super::values::Ports;
use super::{CHANNEL_MODULES, CORE_BUTLERS, SHARED_DIR};

const BUTLER_FILE: &str = "butler.toml";

/// What each butler's directory must have, and what it is for.
const REQUIRED_FILES: [(&str, &str); 4] = [
    (BUTLER_FILE, "the butler's configuration"),
    ("CLAUDE.md", "the start of the system prompt"),
    ("AGENTS.md", "the butler's identity and rules"),
    ("MANIFESTO.md", "what the butler is for"),
];

/// What was found in the roster.
#[derive(Default)]
pub(super) struct Roster {
    /// Whether there is such a directory at all.
    pub found: bool,
    pub fatal: Vec<Mistake>,
    pub butlers: Vec<ButlerConfig>,
    pub broken: Vec<BrokenButler>,
    pub sources: Vec<PathBuf>,
}

/// One directory, checked by itself.
struct Candidate {
    name: String,
    dir: PathBuf,
    file: PathBuf,
    port: Option<Claim>,
    schema: Option<Claim>,
    /// The switchboard that it names.
    switchboard: Option<Claim>,
    mistakes: Vec<Mistake>,
    config: Option<ButlerConfig>,
    read: bool,
}

/// Reads the roster; `shown` is its path as given, for mistakes.
pub(super) fn read(shown: &Path, config: &Config, catalog: &dyn Catalog) -> Roster {
    let mut roster = Roster::default();
    let fatal = |problem: String, expected: &str| Mistake::at(shown, None, "", problem, expected);
    let names = match directories(&config.daemon.roster) {
        Ok(names) => names,
        Err(e) => {
            let problem = format!("can't be read: {e}");
            roster.fatal.push(fatal(problem, "the roster, a directory (daemon.roster or --roster says which)"));
            return roster;
        }
    };
    roster.found = true;
    if names.is_empty() {
        roster.fatal.push(fatal("no butler in it".to_owned(), "the roster, with one directory for each butler"));
        return roster;
    }
    for core in CORE_BUTLERS {
        if !names.iter().any(|name| name == core) {
            let expected = "the butlers without which no message comes in or goes out";
            roster.fatal.push(fatal(format!("no `{core}` in it"), expected));
        }
    }
    let shared = config.daemon.roster.join(SHARED_DIR);
    roster.fatal.extend(inside::mistakes(&config.daemon.roster, &shared, &shown.join(SHARED_DIR)));
    let mut candidates: Vec<Candidate> =
        names.into_iter().map(|name| Candidate::read(name, shown, config, catalog)).collect();
    settle_claims(&mut candidates, |c| c.port.as_ref());
    settle_claims(&mut candidates, |c| c.schema.as_ref());
    if config.daemon.ports == Ports::Roster {
        check_switchboards(&mut candidates);
    }
    share_channels(&mut candidates);
    for candidate in candidates {
        if candidate.read {
            roster.sources.push(candidate.file);
        }
        match candidate.config {
            Some(butler) if candidate.mistakes.is_empty() => roster.butlers.push(butler),
            _ => roster.broken.push(BrokenButler {
                name: candidate.name,
                dir: candidate.dir,
                mistakes: candidate.mistakes,
            }),
        }
    }
    roster
}

/// Whether a butler of a roster has the settings of a module and the module is not switched off, as far as its file can be
/// read.
pub fn has_module(roster: &Path, butler: &str, module: &str) -> bool {
    let text = std::fs::read_to_string(roster.join(butler).join(BUTLER_FILE)).unwrap_or_default();
    let Ok(file) = text.parse::<DocumentMut>() else { return false };
    let settings = file.get("modules").and_then(|modules| modules.get(module));
    settings.is_some_and(|settings| settings.get("enabled").and_then(Item::as_bool) != Some(false))
}

/// Names of the butlers' directories, in order. Hidden ones and plain files are no butlers.
fn directories(roster: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(roster)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() && name != SHARED_DIR && !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Where two want the same, the later one is broken, and its mistakes name both places. Butlers without another
/// mistake come first, then the core ones, then the order of names.
fn settle_claims(candidates: &mut [Candidate], claim: fn(&Candidate) -> Option<&Claim>) {
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by_key(|&i| {
        let c = &candidates[i];
        (!c.mistakes.is_empty(), !CORE_BUTLERS.contains(&c.name.as_str()), c.name.clone())
    });
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    for i in order {
        let Some(mine) = claim(&candidates[i]).cloned() else { continue };
        let Some(&winner) = taken.get(&mine.value) else {
            taken.insert(mine.value, i);
            continue;
        };
        let Some(theirs) = claim(&candidates[winner]).cloned() else { continue };
        let told = |at: &Candidate, claim: &Claim, other: &Candidate| {
            let problem = format!("found {}, which `{}` has too", claim.value, other.name);
            Mistake::at(&at.file, claim.line, claim.key, problem, "a value of the butler's own")
        };
        let both =
            [told(&candidates[i], &mine, &candidates[winner]), told(&candidates[winner], &theirs, &candidates[i])];
        candidates[i].mistakes.extend(both);
    }
}

/// A butler serves the switchboard of its own household; one that names another is broken.
fn check_switchboards(candidates: &mut [Candidate]) {
    let own = candidates.iter().find(|c| c.name == CORE_BUTLERS[0]).and_then(|c| c.port.as_ref());
    let Some(port) = own.map(|port| port.value.clone()) else { return };
    for candidate in candidates {
        let Some(named) = &candidate.switchboard else { continue };
        let is = |host: &&str| named.value.trim_end_matches('/') == format!("http://{host}:{port}/mcp");
        if !["127.0.0.1", "localhost", "[::1]"].iter().any(is) {
            let expected =
                format!("this household's switchboard, http://127.0.0.1:{port}/mcp, or nothing: it is taken anyway");
            let problem = format!("found \"{}\"", named.value);
            candidate.mistakes.push(Mistake::at(&candidate.file, named.line, named.key, problem, expected));
        }
    }
}

/// The channel whose way in stands in the switchboard's file, and whose ways out stand in the messenger's.
const TWO_SIDED: &str = "webhook";

/// The webhooks that name a butler, and which.
fn switchboard_webhooks(switchboard: &Candidate) -> Vec<(String, String)> {
    let inbound =
        switchboard.config.as_ref().and_then(|config| config.modules.get(TWO_SIDED)?.get("inbound")?.as_object());
    let named =
        inbound.into_iter().flatten().filter_map(|(name, one)| Some((name.clone(), one.get("butler")?.as_str()?)));
    named.map(|(name, butler)| (name, butler.to_owned())).collect()
}

/// A channel has one place for its settings: the switchboard's file. By them its connector takes in what people write, and
/// the messenger sends; butlers that it names as `readers` may look into what lies there. Of a channel with two sides the
/// messenger has its own, or none: but it has the channel, so that an answer to what came in comes to an end.
fn share_channels(candidates: &mut [Candidate]) {
    let config = |name: &str| candidates.iter().position(|c| c.name == name && c.config.is_some());
    let (Some(from), Some(to)) = (config(CORE_BUTLERS[0]), config(CORE_BUTLERS[1])) else { return };
    // Also those with mistakes of their own: these are theirs alone.
    let others = candidates.iter().enumerate().filter(|(at, _)| ![from, to].contains(at));
    let others: Vec<(usize, String)> = others.map(|(at, c)| (at, c.name.clone())).collect();
    let Some(switchboard) = candidates[from].config.as_ref() else { return };
    let channels = switchboard.modules.iter().filter(|(name, _)| CHANNEL_MODULES.contains(&name.as_str()));
    let mut channels: Vec<(String, Json)> = channels.map(|(name, table)| (name.clone(), table.clone())).collect();
    let has = |at: usize| candidates[at].config.as_ref().is_some_and(|c| c.modules.contains_key(TWO_SIDED));
    if has(from) && !has(to) {
        channels.push((TWO_SIDED.to_owned(), json!({"endpoints": {}})));
    }
    let mut hand = |to: usize, channels: &[(String, Json)]| {
        if let Some(butler) = candidates[to].config.as_mut().filter(|_| !channels.is_empty()) {
            butler.digest = super::digest::with(&butler.digest, &format!("{channels:?}"));
            butler.modules.extend(channels.iter().cloned());
        }
    };
    hand(to, &channels);
    let mut unknown = Vec::new();
    for channel in &channels {
        let named = channel.1.get("readers").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str);
        for reader in named {
            match others.iter().find(|(_, name)| name == reader) {
                Some((at, _)) => hand(*at, std::slice::from_ref(channel)),
                None => unknown.push((format!("{}.readers", channel.0), reader.to_owned())),
            }
        }
    }
    let inbound = switchboard_webhooks(&candidates[from]);
    for (name, butler) in inbound.into_iter().filter(|(_, butler)| !others.iter().any(|(_, known)| known == butler)) {
        unknown.push((format!("{TWO_SIDED}.inbound.{name}.butler"), butler));
    }
    let names = others.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(", ");
    for (key, reader) in unknown {
        let key = format!("modules.{key}");
        let expected = format!("butlers of the roster beside the two that serve the channel: {names}");
        let file = candidates[from].file.clone();
        candidates[from].mistakes.push(Mistake::at(&file, None, &key, format!("found \"{reader}\""), expected));
    }
}

/// The tree of a file's text; `None` with a mistake if it is no TOML.
pub(super) fn parse(bytes: &[u8], checker: &mut Checker<'_>) -> Option<Node> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        checker.note(None, "", "bytes that are no UTF-8", "a TOML file");
        return None;
    };
    match Node::parse(text.trim_start_matches('\u{feff}')) {
        Ok(node) => Some(node),
        Err(e) => {
            checker.note(e.line, "", format!("no valid TOML: {}", e.reason), "");
            None
        }
    }
}

/// The path without `.` and `..`.
fn straight(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut so_far, part| {
        match part {
            Component::ParentDir => drop(so_far.pop()),
            Component::CurDir => {}
            part => so_far.push(part),
        }
        so_far
    })
}

impl Candidate {
    fn read(name: String, shown: &Path, config: &Config, catalog: &dyn Catalog) -> Self {
        let dir = config.daemon.roster.join(&name);
        let file = shown.join(&name).join(BUTLER_FILE);
        let mut checker = Checker::new(&file, &BUTLER);
        let refused = inside::mistakes(&config.daemon.roster, &dir, &shown.join(&name));
        if !refused.is_empty() {
            // Nothing of it is read: not even to say what else is wrong.
            let (port, schema, switchboard) = (None, None, None);
            return Self { name, dir, file, port, schema, switchboard, mistakes: refused, config: None, read: false };
        }
        for (required, purpose) in REQUIRED_FILES {
            if !dir.join(required).is_file() {
                let missing = shown.join(&name).join(required);
                checker.mistakes.push(Mistake::at(&missing, None, "", "missing", format!("a file: {purpose}")));
            }
        }
        let bytes = match std::fs::read(dir.join(BUTLER_FILE)) {
            Ok(bytes) => Some(bytes),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => {
                checker.note(None, "", format!("can't be read: {e}"), "a readable file");
                None
            }
        };
        let read = bytes.is_some();
        let mut candidate = Self {
            name,
            dir,
            file,
            port: None,
            schema: None,
            switchboard: None,
            mistakes: Vec::new(),
            config: None,
            read,
        };
        if let Some(node) = bytes.and_then(|bytes| parse(&bytes, &mut checker)) {
            let map = checker.file(&node);
            candidate.check(
                Single { dir: candidate.name.clone(), node, map, checker: &mut checker, catalog },
                config,
                shown,
            );
        }
        candidate.mistakes = checker.mistakes;
        candidate
    }

    /// The finding with its file as people call it, and its line.
    fn located(&self, finding: Finding, node: &Node, shown: &Path) -> Mistake {
        let Finding { place, problem, expected } = finding;
        let (file, line, key) = match place {
            Place::Key(path) => {
                let segments: Vec<&str> = path.iter().map(String::as_str).collect();
                (self.file.clone(), node.line_of(&segments), spelled(segments))
            }
            Place::Line(file, line) => {
                let file = straight(&file);
                let inside = self.dir.parent().and_then(|roster| file.strip_prefix(roster).ok());
                (inside.map_or_else(|| file.clone(), |inside| shown.join(inside)), Some(line), String::new())
            }
        };
        Mistake { file, line, key, problem, expected }
    }

    fn check(&mut self, mut one: Single<'_>, config: &Config, shown: &Path) {
        one.check(config);
        let skills = one.skills(&config.daemon.roster, shown);
        self.port = one.port();
        self.schema = one.schema();
        self.switchboard = one.switchboard();
        if !one.checker.mistakes.is_empty() {
            return;
        }
        let mut map = one.map;
        config.runtime.hand_on(&mut map);
        if let (Some(Json::Object(butler)), Some(schema)) = (map.get_mut("butler"), &self.schema)
            && let Json::Object(db) = butler.entry("db").or_insert_with(|| Json::Object(Map::new()))
        {
            db.insert("schema".to_owned(), Json::from(schema.value.as_str()));
        }
        if self.name == CORE_BUTLERS[0] {
            map.entry("buffer").or_insert_with(|| Json::Object(Map::new()));
        }
        BUTLER.fill(&mut map);
        match serde_json::from_value::<ButlerFile>(Json::Object(map)) {
            Ok(mut parsed) => {
                // Out of range it is a mistake, which was told.
                parsed.butler.port = config.daemon.moved(parsed.butler.port).unwrap_or(parsed.butler.port);
                let taken_over = format!("{:?}", config.runtime);
                let digest =
                    |shared: &[String]| super::digest::of(&config.daemon.roster, &self.dir, shared, &taken_over);
                let config = ButlerConfig::new(self.dir.clone(), self.file.clone(), parsed, skills, digest);
                for finding in one.catalog.check_butler(&config) {
                    let mistake = self.located(finding, &one.node, shown);
                    one.checker.mistakes.push(mistake);
                }
                self.config = Some(config);
            }
            // The walk has checked every value; this is for a table that contradicts its struct.
            Err(e) => one.checker.note(None, "", format!("can't be taken over: {e}"), ""),
        }
    }
}
