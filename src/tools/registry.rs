//! A butler's tools, and the one way in which a call goes through them. They are fixed at boot, but for those of others'
//! servers, which a module may put in the place of its former ones.

mod run;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};

use serde_json::Value;

use super::audit::Auditor;
use super::definition::{Definition, Effect};
use super::egress::{self, EgressGate};
use super::offered::Offered;
use super::tool::Tool;
use base::{ButlerName, Label};
use store::Store;
use telemetry::ButlerMetrics;

/// Whether a module's tools answer; shared between the module's state and its tools.
#[derive(Clone)]
pub struct Gate {
    pub module: Arc<str>,
    pub enabled: Arc<AtomicBool>,
    /// Why the module failed after it had started, once it has.
    pub failed: Arc<OnceLock<String>>,
}

/// A second tool of the same name.
#[derive(Debug, thiserror::Error)]
#[error("the tool `{tool}` exists already: it belongs to {owner}")]
pub struct DuplicateTool {
    pub tool: String,
    pub owner: String,
}

struct Entry {
    tool: Tool,
    gate: Option<Gate>,
    /// Sessions' calls ask the gate: they may leave the household, or a person wants to see them.
    leaves: bool,
    /// It has effects of its own, which a session that others influenced does not have by itself.
    changes: bool,
}

type Entries = BTreeMap<String, Arc<Entry>>;

impl Entry {
    fn new(tool: Tool, gate: Option<Gate>, egress_gate: &dyn EgressGate) -> Self {
        let def = &tool.def;
        let leaves = def.meta.sends_out || def.meta.asks_always || egress_gate.gated(&def.name);
        let changes = def.changes();
        let with_reason = if leaves { egress::with_reason(def).ok() } else { None };
        let tool = match with_reason {
            Some(def) => Tool { def: Arc::new(def), ..tool },
            None => tool,
        };
        Self { tool, gate, leaves, changes }
    }

    fn owner(&self) -> String {
        owner(self.gate.as_ref())
    }
}

fn owner(gate: Option<&Gate>) -> String {
    match gate {
        Some(gate) => format!("the module `{}`", gate.module),
        None => "butlerd's core".to_owned(),
    }
}

/// Gathers tools during boot.
#[derive(Default)]
pub struct ToolSetBuilder {
    entries: BTreeMap<String, (Tool, Option<Gate>)>,
    offered: Offered,
    handle: ToolSetHandle,
}

impl ToolSetBuilder {
    /// For a set whose tools sessions are told of by `offered`, and which `handle` leads to from then on.
    pub fn new(offered: &Offered, handle: &ToolSetHandle) -> Self {
        Self { entries: BTreeMap::new(), offered: offered.clone(), handle: handle.clone() }
    }

    /// Who has a tool of this name: a module or butlerd's core.
    pub fn owner(&self, name: &str) -> Option<String> {
        self.entries.get(name).map(|(_, gate)| owner(gate.as_ref()))
    }

    /// Adds a tool; `gate` names the module it belongs to.
    pub fn add(&mut self, tool: Tool, gate: Option<Gate>) -> Result<(), DuplicateTool> {
        let name = tool.def.name.clone();
        if let Some(owner) = self.owner(&name) {
            return Err(DuplicateTool { tool: name, owner });
        }
        self.entries.insert(name, (tool, gate));
        Ok(())
    }

    /// Closes the set. `egress_gate` is asked about calls that leave the household, and about those of gated tools.
    pub fn build(
        self,
        butler: ButlerName,
        store: Store,
        auditor: Auditor,
        metrics: ButlerMetrics,
        egress_gate: Arc<dyn EgressGate>,
    ) -> ToolSet {
        let entry = |(name, (tool, gate))| (name, Arc::new(Entry::new(tool, gate, &*egress_gate)));
        let entries: Entries = self.entries.into_iter().map(entry).collect();
        let (entries, offered) = (RwLock::new(Arc::new(entries)), self.offered);
        let inner = Arc::new(Inner { entries, offered, butler, store, auditor, metrics, egress_gate });
        // Nothing has set it before.
        let _ = self.handle.0.set(Arc::downgrade(&inner));
        let set = ToolSet { inner };
        set.tell();
        set
    }
}

/// Leads to a set of tools once it is built, and keeps it no longer than its butler does. Cheap to clone.
#[derive(Clone, Default)]
pub struct ToolSetHandle(Arc<OnceLock<Weak<Inner>>>);

impl ToolSetHandle {
    /// Puts tools in the place of those that this module has, from the next call on; calls under way go on. `false`: there
    /// is no set yet, or none any more.
    ///
    /// # Errors
    /// One is called like a tool of somebody else's; nothing is changed.
    pub fn replace(&self, gate: &Gate, tools: Vec<Tool>) -> Result<bool, DuplicateTool> {
        let Some(inner) = self.0.get().and_then(Weak::upgrade) else { return Ok(false) };
        let set = ToolSet { inner };
        set.replace(gate, tools)?;
        set.tell();
        Ok(true)
    }
}

struct Inner {
    entries: RwLock<Arc<Entries>>,
    /// What sessions are told of.
    offered: Offered,
    butler: ButlerName,
    store: Store,
    auditor: Auditor,
    metrics: ButlerMetrics,
    egress_gate: Arc<dyn EgressGate>,
}

/// A butler's tools. Cheap to clone.
#[derive(Clone)]
pub struct ToolSet {
    inner: Arc<Inner>,
}

/// What a client gets: JSON, and whether it is an error of the call.
#[derive(Debug, Clone)]
pub struct Reply {
    pub json: Value,
    /// The same as text.
    pub text: String,
    pub is_error: bool,
    /// It goes along as structured content, whatever it is.
    pub structured: bool,
    /// The label of what it shows.
    pub seen: Label,
}

impl ToolSet {
    fn entries(&self) -> Arc<Entries> {
        self.inner.entries.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn entry(&self, name: &str) -> Option<Arc<Entry>> {
        self.inner.entries.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn replace(&self, gate: &Gate, tools: Vec<Tool>) -> Result<(), DuplicateTool> {
        let mut entries = self.inner.entries.write().unwrap_or_else(PoisonError::into_inner);
        let mut all: Entries = (**entries).clone();
        all.retain(|_, entry| entry.gate.as_ref().is_none_or(|own| own.module != gate.module));
        for tool in tools {
            let entry = Entry::new(tool, Some(gate.clone()), &*self.inner.egress_gate);
            let name = entry.tool.def.name.clone();
            if let Some(other) = all.get(&name) {
                return Err(DuplicateTool { tool: name, owner: other.owner() });
            }
            all.insert(name, Arc::new(entry));
        }
        *entries = Arc::new(all);
        Ok(())
    }

    /// Tells sessions to come of the tools as they are now.
    fn tell(&self) {
        let for_sessions = |def: &Arc<Definition>| !def.meta.internal && !def.meta.operators;
        self.inner.offered.set(self.definitions().filter(for_sessions).collect::<Vec<_>>());
    }

    /// The definitions in the order of their names.
    pub fn definitions(&self) -> impl Iterator<Item = Arc<Definition>> + use<> {
        let all: Vec<_> = self.entries().values().map(|e| e.tool.def.clone()).collect();
        all.into_iter()
    }

    /// The definition of this name.
    pub fn definition(&self, name: &str) -> Option<Arc<Definition>> {
        self.entry(name).map(|e| e.tool.def.clone())
    }

    /// Whether there is such a tool.
    pub fn has(&self, name: &str) -> bool {
        self.entry(name).is_some()
    }

    /// The module that a tool belongs to; `None`: butlerd's core, or there is no such tool.
    pub fn module(&self, name: &str) -> Option<Arc<str>> {
        self.entry(name).and_then(|e| e.gate.as_ref().map(|gate| gate.module.clone()))
    }

    /// Whether only the house itself may call this tool.
    pub fn is_internal(&self, name: &str) -> bool {
        self.entry(name).is_some_and(|e| e.tool.def.meta.internal)
    }

    /// What a call of this tool may change; `None`: there is no such tool.
    pub fn effect(&self, name: &str) -> Option<Effect> {
        self.entry(name).map(|e| e.tool.def.effect())
    }

    /// The butler whose tools these are.
    pub fn butler(&self) -> &ButlerName {
        &self.inner.butler
    }

    /// Writes the audit rows that still wait.
    pub async fn flush_audit(&self) {
        self.inner.auditor.flush().await;
    }
}
