//! A butler's modules through the phases of boot, and their states afterwards.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::catalog::Catalog;
use super::contract::{Health, Manifest, Module, ModuleContext, NamedJob, Phase, State, told};
use super::order::sort;
use access::credentials::Credentials;
use base::{ButlerName, TenantId};
use outbox::{Channel, MESSENGER};
use schedule::BuiltInSchedule;
use store::Database;
use tools::{Gate, Tool, ToolSetBuilder};

struct Slot {
    name: String,
    needs: Vec<String>,
    module: Option<Box<dyn Module>>,
    context: Option<ModuleContext>,
    manifest: Manifest,
    enabled: Arc<AtomicBool>,
    failure: Option<(Health, Phase, String)>,
}

/// The modules of one butler in the order in which they start.
pub struct Modules {
    slots: Vec<Slot>,
    states: Arc<Mutex<BTreeMap<String, State>>>,
}

/// Where a module's switch is kept among the butler's state.
pub fn switch_key(module: &str) -> String {
    format!("module:{module}:enabled")
}

/// How tools end that send something out.
const EGRESS: [&str; 5] =
    ["_send_message", "_reply_to_message", "_send_email", "_reply_to_thread", "_react_to_message"];

/// Without those that only the messenger may have.
fn stripped(mut tools: Vec<Tool>, cx: &ModuleContext, module: &str) -> Vec<Tool> {
    if cx.butler.as_str() != MESSENGER {
        tools.retain(|tool| {
            let name = &tool.def.name;
            let egress = EGRESS.iter().any(|end| name.ends_with(end));
            if egress {
                tracing::warn!(
                    butler = %cx.butler, module, tool = name,
                    "stripped: only the messenger sends anything out; its tool `notify` does it for this butler"
                );
            }
            !egress
        });
    }
    tools
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
        let mut set = Self { slots: Vec::new(), states: Arc::default() };
        for name in order {
            let mut slot = Slot {
                needs: needs[&name].clone(),
                name: name.clone(),
                module: None,
                context: None,
                manifest: Manifest::default(),
                enabled: Arc::new(AtomicBool::new(true)),
                failure: None,
            };
            let built = match catalog.find(butler.as_str(), &name) {
                None => Err(format!("this butlerd has no module `{name}`")),
                Some(_) if circle.contains(&name) => Err(format!("modules need each other: {}", circle.join(", "))),
                Some(factory) => match factory.check(&declared[&name]) {
                    wrong if !wrong.is_empty() => Err(told(&wrong)),
                    _ => match slot.needs.iter().find(|d| !declared.contains_key(*d)) {
                        Some(missing) => Err(format!("needs the module `{missing}`; add [modules.{missing}]")),
                        None => factory.build(&declared[&name], butler, dir),
                    },
                },
            };
            match built.and_then(|m| m.manifest().map(|manifest| (m, manifest))) {
                Ok((module, manifest)) => {
                    slot.module = Some(module);
                    slot.manifest = manifest;
                }
                Err(error) => {
                    tracing::error!(module = name, butler = %butler, phase = ?Phase::Config, error, "module failed");
                    slot.failure = Some((Health::Failed, Phase::Config, error));
                }
            }
            set.slots.push(slot);
        }
        set.cascade();
        set
    }

    fn fail(&mut self, name: &str, phase: Phase, error: String) {
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
                enabled: s.enabled.load(Ordering::Acquire),
                failure_phase: s.failure.as_ref().map(|f| f.1),
                failure_error: s.failure.as_ref().map(|f| f.2.clone()),
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

    /// Lays a failure that happened elsewhere in boot at a module's door.
    pub fn blame(&mut self, name: &str, phase: Phase, error: String) {
        self.fail(name, phase, error);
    }

    /// Phase `migration`.
    pub async fn migrate(&mut self, db: &Database, butler: &ButlerName, schema: &str) {
        for i in self.alive() {
            let name = self.slots[i].name.clone();
            let Some(module) = &self.slots[i].module else { continue };
            let result = match module.migrations() {
                Ok(None) => Ok(0),
                Ok(Some(chain)) => db.migrate(butler, schema, &[&chain]).await.map_err(|e| e.to_string()),
                Err(e) => Err(e),
            };
            if let Err(e) = result {
                self.fail(&name, Phase::Migration, e);
            }
        }
    }

    /// Phase `credentials`: `base` is the context but for the credentials, which each module gets its own of.
    pub async fn credentials(&mut self, store: &Credentials, base: &ModuleContext) {
        for i in self.alive() {
            let name = self.slots[i].name.clone();
            let Some(module) = &self.slots[i].module else { continue };
            let mut found = BTreeMap::new();
            let mut missing = Vec::new();
            for want in module.credentials() {
                match store.get(&TenantId::owner(), &want.name).await {
                    Ok(Some((value, _))) => {
                        found.insert(want.name, value);
                    }
                    Ok(None) if want.required => {
                        missing.push(format!("{} is not set; run: butlerd secret set {}", want.name, want.name));
                    }
                    Ok(None) => {}
                    Err(e) => missing.push(e.to_string()),
                }
            }
            if missing.is_empty() {
                self.slots[i].context = Some(ModuleContext { credentials: Arc::new(found), ..base.clone() });
            } else {
                self.fail(&name, Phase::Credentials, missing.join("; "));
            }
        }
    }

    /// Reads the switches that were set at run time, then phase `startup`.
    pub async fn start(&mut self, base: &ModuleContext) {
        for slot in &self.slots {
            match self.stored_switch(base, &slot.name).await {
                Ok(Some(on)) => slot.enabled.store(on, Ordering::Release),
                Ok(None) => {}
                Err(e) => tracing::warn!(module = slot.name, error = e, "a module's switch could not be read"),
            }
        }
        for i in self.alive() {
            let name = self.slots[i].name.clone();
            let (Some(module), Some(cx)) = (&self.slots[i].module, &self.slots[i].context) else { continue };
            if let Err(e) = module.start(cx).await {
                self.fail(&name, Phase::Startup, e);
            }
        }
        self.publish();
    }

    async fn stored_switch(&self, base: &ModuleContext, module: &str) -> Result<Option<bool>, String> {
        let mut lease = base.store.tenant(&TenantId::owner()).await.map_err(|e| e.to_string())?;
        let row = lease.query_opt("SELECT value FROM state WHERE key = $1", &[&switch_key(module)]).await;
        Ok(row.map_err(|e| e.to_string())?.and_then(|r| r.get::<_, Value>(0).as_bool()))
    }

    /// Phase `startup`, after all have started: the ways out that they bring. Those of any other butler than the messenger
    /// are left out, and the log says so.
    pub fn channels(&mut self) -> Vec<Arc<dyn Channel>> {
        let mut all: Vec<Arc<dyn Channel>> = Vec::new();
        for i in self.alive() {
            let name = self.slots[i].name.clone();
            let (Some(module), Some(cx)) = (&self.slots[i].module, &self.slots[i].context) else { continue };
            match module.channels(cx) {
                Ok(channels) if cx.butler.as_str() == MESSENGER => all.extend(channels),
                Ok(channels) => {
                    for channel in channels {
                        tracing::warn!(
                            butler = %cx.butler, module = name, channel = channel.name(),
                            "stripped: only the messenger sends anything out; configure this module there"
                        );
                    }
                }
                Err(e) => self.fail(&name, Phase::Startup, e),
            }
        }
        all
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

    /// Phase `tools`: adds what the modules bring. One that brings what it did not declare, or what is there already,
    /// fails and brings nothing.
    pub async fn tools(&mut self, builder: &mut ToolSetBuilder) {
        for i in self.alive() {
            // An earlier module of this loop may have failed meanwhile.
            if self.slots[i].failure.is_some() {
                continue;
            }
            let name = self.slots[i].name.clone();
            let (Some(module), Some(cx)) = (&self.slots[i].module, &self.slots[i].context) else { continue };
            let gate = Gate { module: name.as_str().into(), enabled: self.slots[i].enabled.clone() };
            let manifest = &self.slots[i].manifest;
            let checked = module.tools(cx).await.map(|tools| stripped(tools, cx, &name)).and_then(|tools| {
                for (n, tool) in tools.iter().enumerate() {
                    let tool_name = &tool.def.name;
                    if tools[..n].iter().any(|other| other.def.name == *tool_name) {
                        return Err(format!("it brings the tool `{tool_name}` twice"));
                    }
                    if !manifest.tools.contains(tool_name) {
                        return Err(format!("it brings the tool `{tool_name}`, which its manifest does not declare"));
                    }
                    if let Some(owner) = builder.owner(tool_name) {
                        return Err(format!("it brings the tool `{tool_name}`, which belongs to {owner}"));
                    }
                }
                Ok(tools)
            });
            let added = checked.and_then(|tools| {
                tools.into_iter().try_for_each(|t| builder.add(t, Some(gate.clone())).map_err(|e| e.to_string()))
            });
            if let Err(e) = added {
                self.fail(&name, Phase::Tools, e);
            }
        }
        self.publish();
    }

    /// A view of the states that stays current.
    pub fn states(&self) -> ModuleStates {
        let switches = self.slots.iter().map(|s| (s.name.clone(), s.enabled.clone())).collect();
        ModuleStates { states: self.states.clone(), switches: Arc::new(switches) }
    }

    /// Stops the modules in reverse order.
    pub async fn stop(&mut self) {
        for slot in self.slots.iter_mut().rev() {
            if let (Some(module), true) = (&slot.module, slot.context.is_some() && slot.failure.is_none()) {
                module.stop().await;
            }
        }
    }
}

/// Modules' states and switches, for tools and status pages. Cheap to clone.
#[derive(Clone)]
pub struct ModuleStates {
    states: Arc<Mutex<BTreeMap<String, State>>>,
    switches: Arc<BTreeMap<String, Arc<AtomicBool>>>,
}

impl ModuleStates {
    /// All modules with their states.
    pub fn all(&self) -> BTreeMap<String, State> {
        let mut states = self.states.lock().unwrap_or_else(|e| e.into_inner()).clone();
        for (name, state) in &mut states {
            state.enabled = self.switches.get(name).is_some_and(|s| s.load(Ordering::Acquire));
        }
        states
    }

    /// Turns a module's tools on or off; the caller has stored the switch before.
    pub fn switch(&self, name: &str, on: bool) {
        if let Some(switch) = self.switches.get(name) {
            switch.store(on, Ordering::Release);
        }
    }
}
