//! A butler's tools: fixed at boot, and the one way in which a call goes through them.

mod run;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::audit::Auditor;
use super::definition::{Definition, Effect};
use super::egress::{self, EgressGate};
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

/// Gathers tools during boot.
#[derive(Default)]
pub struct ToolSetBuilder {
    entries: BTreeMap<String, Entry>,
}

impl ToolSetBuilder {
    /// Who has a tool of this name: a module or butlerd's core.
    pub fn owner(&self, name: &str) -> Option<String> {
        self.entries.get(name).map(|e| match &e.gate {
            Some(gate) => format!("the module `{}`", gate.module),
            None => "butlerd's core".to_owned(),
        })
    }

    /// Adds a tool; `gate` names the module it belongs to.
    pub fn add(&mut self, tool: Tool, gate: Option<Gate>) -> Result<(), DuplicateTool> {
        let name = tool.def.name.clone();
        if let Some(owner) = self.owner(&name) {
            return Err(DuplicateTool { tool: name, owner });
        }
        self.entries.insert(name, Entry { tool, gate, leaves: false, changes: false });
        Ok(())
    }

    /// Closes the set. `egress_gate` is asked about calls that leave the household, and about those of gated tools.
    pub fn build(
        mut self,
        butler: ButlerName,
        store: Store,
        auditor: Auditor,
        metrics: ButlerMetrics,
        egress_gate: Arc<dyn EgressGate>,
    ) -> ToolSet {
        for (name, entry) in &mut self.entries {
            let def = &entry.tool.def;
            entry.leaves = def.meta.sends_out || egress_gate.gated(name);
            entry.changes = def.effect() != Effect::None && !def.meta.carries_label;
            if let (true, Ok(def)) = (entry.leaves, egress::with_reason(&entry.tool.def)) {
                entry.tool.def = Arc::new(def);
            }
        }
        ToolSet { inner: Arc::new(Inner { entries: self.entries, butler, store, auditor, metrics, egress_gate }) }
    }
}

struct Inner {
    entries: BTreeMap<String, Entry>,
    butler: ButlerName,
    store: Store,
    auditor: Auditor,
    metrics: ButlerMetrics,
    egress_gate: Arc<dyn EgressGate>,
}

/// A butler's tools. Cheap to clone, immutable.
#[derive(Clone)]
pub struct ToolSet {
    inner: Arc<Inner>,
}

/// What a client gets: JSON text, and whether it is an error of the call.
#[derive(Debug, Clone)]
pub struct Reply {
    pub json: Value,
    pub is_error: bool,
    /// The label of what it shows.
    pub seen: Label,
}

impl ToolSet {
    /// The definitions in the order of their names.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.inner.entries.values().map(|e| &e.tool.def)
    }

    /// Whether there is such a tool.
    pub fn has(&self, name: &str) -> bool {
        self.inner.entries.contains_key(name)
    }

    /// The module that a tool belongs to; `None`: butlerd's core, or there is no such tool.
    pub fn module(&self, name: &str) -> Option<&str> {
        self.inner.entries.get(name).and_then(|e| e.gate.as_ref()).map(|gate| &*gate.module)
    }

    /// Whether only the house itself may call this tool.
    pub fn is_internal(&self, name: &str) -> bool {
        self.inner.entries.get(name).is_some_and(|e| e.tool.def.meta.internal)
    }

    /// What a call of this tool may change; `None`: there is no such tool.
    pub fn effect(&self, name: &str) -> Option<Effect> {
        self.inner.entries.get(name).map(|e| e.tool.def.effect())
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
