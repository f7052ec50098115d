//! The phases of boot that a butler's modules go through, each over those that are still well.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Modules, Slot, switch_key};
use crate::background::TaskBoard;
use crate::contract::{ModuleContext, ModuleError, Phase};
use access::credentials::Credentials;
use base::{ButlerName, TenantId};
use config::SERVER_MODULES;
use outbox::{Channel, MESSENGER};
use store::Database;
use store::migrate::Chain;
use tools::sql::state;
use tools::{Tool, ToolSetBuilder};

/// How tools end that send something out.
const EGRESS: [&str; 5] =
    ["_send_message", "_reply_to_message", "_send_email", "_reply_to_thread", "_react_to_message"];

/// Without those that only the messenger may have.
fn stripped(mut tools: Vec<Tool>, cx: &ModuleContext, module: &str) -> Vec<Tool> {
    // Those of others' servers ask before they send.
    if cx.butler.as_str() != MESSENGER && !module.starts_with(SERVER_MODULES) {
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

impl Slot {
    /// What the module works with: of the butler's what all have, and its own.
    fn context(&self, base: &ModuleContext, board: &TaskBoard) -> ModuleContext {
        ModuleContext {
            live: base.live.of(&self.gate, &self.manifest.tools, board),
            credentials: Arc::new(self.credentials.clone()),
            inbound: base.inbound.of(&self.manifest.channels),
            sessions: base.sessions.of(&self.name),
            ..base.clone()
        }
    }
}

impl Modules {
    /// What each module that is well makes its tables of, in the order in which they are made.
    pub fn chains(&self) -> Vec<(String, Result<Vec<Chain>, ModuleError>)> {
        let slots = self.alive().into_iter().map(|i| &self.slots[i]);
        slots.filter_map(|slot| Some((slot.name.clone(), slot.module.as_ref()?.migrations()))).collect()
    }

    /// Phase `migration`.
    pub async fn migrate(&mut self, db: &Database, butler: &ButlerName, schema: &str) {
        for (name, chains) in self.chains() {
            let result = match chains {
                Ok(chains) => {
                    let chains: Vec<_> = chains.iter().collect();
                    db.migrate(butler, schema, &chains).await.map_err(ModuleError::new)
                }
                Err(e) => Err(e),
            };
            if let Err(e) = result {
                self.fail(&name, Phase::Migration, e);
            }
        }
    }

    /// Phase `credentials`: each module gets those that it asks for.
    pub async fn credentials(&mut self, store: &Credentials) {
        for i in self.alive() {
            let name = self.slots[i].name.clone();
            let Some(module) = &self.slots[i].module else { continue };
            let mut found = BTreeMap::new();
            let mut missing = Vec::new();
            let wanted = module.credentials();
            // Before they are read, so that one that is stored meanwhile counts as stale.
            let versions = wanted.iter().map(|want| (want.name.clone(), store.version(&want.name)));
            self.slots[i].secret_versions = versions.collect();
            for want in wanted {
                let variable = want.token_env.as_deref().unwrap_or(&want.name);
                match store.get_or(&TenantId::owner(), &want.name, variable).await {
                    Ok(Some((value, _))) => {
                        found.insert(want.name, value);
                    }
                    Ok(None) if want.required => {
                        let nor = match want.token_env.as_deref() {
                            Some(variable) => format!(", and neither is the variable {variable}"),
                            None => String::new(),
                        };
                        missing.push(format!("{} is not set{nor}; run: butlerd secret set {}", want.name, want.name));
                    }
                    Ok(None) => {}
                    Err(e) => missing.push(e.to_string()),
                }
            }
            if missing.is_empty() {
                self.slots[i].credentials = found;
            } else {
                self.fail(&name, Phase::Credentials, missing.join("; "));
            }
        }
    }

    /// Reads the switches that were set at run time, then phase `startup`. `base`: the context but for what each module
    /// has of its own.
    pub async fn start(&mut self, base: &ModuleContext) {
        for slot in &self.slots {
            match self.stored_switch(base, &slot.name).await {
                Ok(Some(on)) => slot.gate.enabled.store(on, Ordering::Release),
                Ok(None) => {}
                Err(e) => tracing::warn!(module = slot.name, error = e, "a module's switch could not be read"),
            }
        }
        for i in self.alive() {
            // What it needs may have failed meanwhile.
            if self.slots[i].failure.is_some() {
                continue;
            }
            let name = self.slots[i].name.clone();
            let cx = self.slots[i].context(base, &self.board);
            let Some(module) = &self.slots[i].module else { continue };
            let started = module.start(&cx).await;
            self.slots[i].context = Some(cx);
            match started {
                Ok(()) => self.slots[i].started = true,
                Err(e) => self.fail(&name, Phase::Startup, e),
            }
        }
        self.publish();
    }

    async fn stored_switch(&self, base: &ModuleContext, module: &str) -> Result<Option<bool>, String> {
        let mut lease = base.store.tenant(&TenantId::owner()).await.map_err(|e| e.to_string())?;
        let value = state::value(&mut lease, &switch_key(module)).await.map_err(|e| e.to_string())?;
        Ok(value.and_then(|value| value.as_bool()))
    }

    /// Phase `startup`, after all have started: the ways out that they bring. Those of any other butler than the
    /// messenger are left out, and the log says so.
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
            let gate = self.slots[i].gate.clone();
            let manifest = &self.slots[i].manifest;
            let checked = module.tools(cx).await.map(|tools| stripped(tools, cx, &name)).and_then(|tools| {
                for (n, tool) in tools.iter().enumerate() {
                    let tool_name = &tool.def.name;
                    if tools[..n].iter().any(|other| other.def.name == *tool_name) {
                        return Err(format!("it brings the tool `{tool_name}` twice").into());
                    }
                    if !manifest.tools.contains(tool_name) {
                        return Err(
                            format!("it brings the tool `{tool_name}`, which its manifest does not declare").into()
                        );
                    }
                    if let Some(owner) = builder.owner(tool_name) {
                        return Err(format!("it brings the tool `{tool_name}`, which belongs to {owner}").into());
                    }
                }
                Ok(tools)
            });
            let added = checked.and_then(|tools| {
                tools.into_iter().try_for_each(|t| builder.add(t, Some(gate.clone())).map_err(ModuleError::new))
            });
            if let Err(e) = added {
                self.fail(&name, Phase::Tools, e);
            }
        }
        self.publish();
    }
}
