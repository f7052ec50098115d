//! A butler's modules: from their configuration through the phases of boot to their end, and their states meanwhile.

mod life;
mod phases;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::accounts::{Accounts, TriedAccount};
use super::background::{Supervised, TaskBoard};
use super::catalog::Catalog;
use super::contract::{Health, Manifest, Module, ModuleContext, Phase, State};
use super::job::NamedJob;
use super::order::sort;
use access::credentials::Credentials;
use base::{ButlerName, Secret};
use schedule::BuiltInSchedule;
use tools::Gate;

struct Slot {
    name: String,
    needs: Vec<String>,
    module: Option<Box<dyn Module>>,
    /// Those of its credentials that were found.
    credentials: BTreeMap<String, Secret<String>>,
    /// The versions of those that it reads, as they were then.
    secret_versions: BTreeMap<String, u64>,
    /// What it works with, from its start on.
    context: Option<ModuleContext>,
    manifest: Manifest,
    gate: Gate,
    failure: Option<(Health, Phase, String)>,
    /// It came to life, and so is told to leave.
    started: bool,
    /// Its background tasks in the order of their start.
    tasks: Vec<Supervised>,
    /// Ends all of them.
    stop: CancellationToken,
}

/// The modules of one butler in the order in which they start.
pub struct Modules {
    butler: ButlerName,
    slots: Vec<Slot>,
    states: Arc<Mutex<BTreeMap<String, State>>>,
    board: TaskBoard,
    accounts: Accounts,
}

/// Where a module's switch is kept among the butler's state.
pub fn switch_key(module: &str) -> String {
    format!("module:{module}:enabled")
}

impl Modules {
    /// Phase `config`: order, configuration, construction. Never fails; what is wrong is each module's state.
    pub fn load(catalog: &Catalog, butler: &ButlerName, dir: &Path, declared: &BTreeMap<String, Value>) -> Self {
        let needs: BTreeMap<String, Vec<String>> = declared
            .keys()
            .map(|n| {
                let deps = catalog.find(butler.as_str(), n).map(|f| f.dependencies()).unwrap_or_default();
                (n.clone(), deps.iter().map(|d| (*d).to_owned()).collect())
            })
            .collect();
        let (order, circle) = match sort(&needs) {
            Ok(order) => (order, Vec::new()),
            Err(circle) => (needs.keys().cloned().collect(), circle),
        };
        let mut set = Self {
            butler: butler.clone(),
            slots: Vec::new(),
            states: Arc::default(),
            board: TaskBoard::default(),
            accounts: Accounts::default(),
        };
        for name in order {
            let mut slot = Slot {
                needs: needs[&name].clone(),
                name: name.clone(),
                module: None,
                credentials: BTreeMap::new(),
                secret_versions: BTreeMap::new(),
                context: None,
                manifest: Manifest::default(),
                gate: Gate { module: name.as_str().into(), enabled: Arc::new(true.into()), failed: Arc::default() },
                failure: None,
                started: false,
                tasks: Vec::new(),
                stop: CancellationToken::new(),
            };
            let built = match catalog.find(butler.as_str(), &name) {
                None => Err(format!("this butlerd has no module `{name}`").into()),
                Some(_) if circle.contains(&name) => {
                    Err(format!("modules need each other: {}", circle.join(", ")).into())
                }
                Some(factory) => match factory.check_for(butler.as_str(), &declared[&name]) {
                    wrong if !wrong.is_empty() => Err(wrong.into()),
                    _ => match slot.needs.iter().find(|d| !declared.contains_key(*d)) {
                        Some(missing) => Err(format!("needs the module `{missing}`; add [modules.{missing}]").into()),
                        None => factory.build(&declared[&name], butler, dir),
                    },
                },
            };
            match built.and_then(|m| m.manifest().map(|manifest| (m, manifest))) {
                Ok((module, manifest)) => {
                    slot.module = Some(module);
                    slot.manifest = manifest;
                }
                Err(e) => {
                    let error = e.to_string();
                    tracing::error!(module = name, butler = %butler, phase = ?Phase::Config, error, "module failed");
                    slot.failure = Some((Health::Failed, Phase::Config, error));
                }
            }
            set.slots.push(slot);
        }
        set.cascade();
        set
    }

    fn fail(&mut self, name: &str, phase: Phase, error: impl std::fmt::Display) {
        let error = error.to_string();
        tracing::error!(module = name, phase = ?phase, error, "module failed");
        if let Some(slot) = self.slots.iter_mut().find(|s| s.name == name && s.failure.is_none()) {
            slot.failure = Some((Health::Failed, phase, error));
        }
        self.cascade();
    }

    /// Marks those that need a failed module.
    fn cascade(&mut self) {
        for i in 0..self.slots.len() {
            if self.slots[i].failure.is_some() {
                continue;
            }
            let broken = self.slots.iter().find(|s| s.failure.is_some() && self.slots[i].needs.contains(&s.name));
            if let Some(broken) = broken {
                let phase = broken.failure.as_ref().map_or(Phase::Config, |f| f.1);
                let error = format!("the module `{}` that it needs failed", broken.name);
                self.slots[i].failure = Some((Health::CascadeFailed, phase, error));
            }
        }
        self.publish();
    }

    fn publish(&self) {
        let states = self.slots.iter().map(|s| {
            let state = State {
                health: s.failure.as_ref().map_or(Health::Active, |f| f.0),
                enabled: s.gate.enabled.load(Ordering::Acquire),
                failure_phase: s.failure.as_ref().map(|f| f.1),
                failure_error: s.failure.as_ref().map(|f| f.2.clone()),
                note: None,
                tasks: BTreeMap::new(),
            };
            (s.name.clone(), state)
        });
        *self.states.lock().unwrap_or_else(|e| e.into_inner()) = states.collect();
    }

    /// A phase over all modules that are still well.
    fn alive(&self) -> Vec<usize> {
        (0..self.slots.len()).filter(|i| self.slots[*i].failure.is_none()).collect()
    }

    /// Whether the roster's own module is among them, to bear a failure of the butler's own migrations.
    pub fn has(&self, name: &str) -> bool {
        self.slots.iter().any(|s| s.name == name)
    }

    /// Whether a module of the butler brings this tool, well or not.
    pub fn declare(&self, tool: &str) -> bool {
        self.slots.iter().any(|s| s.manifest.tools.iter().any(|own| own == tool))
    }

    /// The credentials without which one of them does not start.
    pub fn required_credentials(&self) -> Vec<String> {
        let modules = self.slots.iter().filter_map(|s| s.module.as_ref());
        modules.flat_map(|m| m.credentials()).filter(|want| want.required).map(|want| want.name).collect()
    }

    /// Lays a failure that happened elsewhere in boot at a module's door.
    pub fn blame(&mut self, name: &str, phase: Phase, error: String) {
        self.fail(name, phase, error);
    }

    /// What schedules may name because of the modules that are well.
    pub fn jobs(&self) -> Vec<NamedJob> {
        self.well().flat_map(|(module, cx)| module.jobs(cx)).collect()
    }

    /// What the butler does by itself because of the modules that are well.
    pub fn schedules(&self) -> Vec<BuiltInSchedule> {
        self.well().flat_map(|(module, _)| module.schedules()).collect()
    }

    fn well(&self) -> impl Iterator<Item = (&dyn Module, &ModuleContext)> {
        let well = self.slots.iter().filter(|slot| slot.failure.is_none());
        well.filter_map(|slot| Some((slot.module.as_deref()?, slot.context.as_ref()?)))
    }

    /// The modules that are configured, well or not.
    pub fn names(&self) -> Vec<String> {
        self.slots.iter().map(|slot| slot.name.clone()).collect()
    }

    /// A view of the states that stays current.
    pub fn states(&self) -> ModuleStates {
        let gates = self.slots.iter().map(|s| (s.name.clone(), s.gate.clone())).collect();
        let secret_versions = self.slots.iter().flat_map(|s| s.secret_versions.clone()).collect();
        ModuleStates {
            states: self.states.clone(),
            gates: Arc::new(gates),
            secret_versions: Arc::new(secret_versions),
            board: self.board.clone(),
            accounts: self.accounts.clone(),
            butler: self.butler.to_string(),
        }
    }
}

/// Modules' states and switches, for tools and status pages. Cheap to clone.
#[derive(Clone)]
pub struct ModuleStates {
    states: Arc<Mutex<BTreeMap<String, State>>>,
    gates: Arc<BTreeMap<String, Gate>>,
    secret_versions: Arc<BTreeMap<String, u64>>,
    board: TaskBoard,
    accounts: Accounts,
    butler: String,
}

impl ModuleStates {
    /// Tries the accounts that the modules serve.
    pub async fn try_accounts(&self) -> Vec<TriedAccount> {
        self.accounts.attempt(&self.butler).await
    }

    /// All modules with their states.
    pub fn all(&self) -> BTreeMap<String, State> {
        let mut states = self.states.lock().unwrap_or_else(|e| e.into_inner()).clone();
        for (name, state) in &mut states {
            state.enabled = self.gates.get(name).is_some_and(|gate| gate.enabled.load(Ordering::Acquire));
            state.tasks = self.board.of(name);
            state.note = self.board.note_of(name);
            let well = state.note.is_none() && state.tasks.values().all(super::TaskHealth::well);
            if state.health == Health::Active && !well {
                state.health = Health::Degraded;
            }
        }
        states
    }

    /// Whether a module reads this secret when it starts.
    pub fn reads_secret(&self, name: &str) -> bool {
        self.secret_versions.contains_key(name)
    }

    /// Whether a secret was stored or removed since a module read it.
    pub fn have_stale_secrets(&self, credentials: &Credentials) -> bool {
        self.secret_versions.iter().any(|(name, version)| credentials.version(name) != *version)
    }

    /// Turns a module's tools and routes on or off; the caller has stored the switch before.
    pub fn switch(&self, name: &str, on: bool) {
        if let Some(gate) = self.gates.get(name) {
            gate.enabled.store(on, Ordering::Release);
        }
    }
}
