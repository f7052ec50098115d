//! Modules that fail on demand, for tests: `[modules.probe]` and, depending on it, `[modules.probe_child]`.
//! And one that uses all that a module may have: `[modules.contract_probe]`, with `[modules.contract_child]` above it.
//!
//! Only builds with test points have them.

mod contract;
mod sql;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use config::{KeyMistake, Section};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::contract::{Credential, Factory, Manifest, Module, ModuleContext, ModuleError, Phase};
use base::ButlerName;
use store::migrate::{Chain, Migration};
use tools::{Definition, Effect, Meta, Tool, handler};

/// The test modules.
pub(super) fn factories() -> Vec<Box<dyn Factory>> {
    vec![
        Box::new(ProbeFactory { name: "probe", needs: &[] }),
        Box::new(ProbeFactory { name: "probe_child", needs: &["probe"] }),
        Box::new(contract::ContractFactory { name: "contract_probe", needs: &[] }),
        Box::new(contract::ContractFactory { name: "contract_child", needs: &["contract_probe"] }),
    ]
}

struct ProbeFactory {
    name: &'static str,
    needs: &'static [&'static str],
}

/// `[modules.probe]`
#[derive(Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
struct Settings {
    /// In which phase it fails.
    fail_in: Option<Phase>,
    /// The name of its tool.
    tool: Option<String>,
    /// One more tool, which its manifest does not name.
    undeclared: Option<String>,
    /// The file in which it says that it stopped.
    stop_marker: Option<PathBuf>,
    /// Its tool has an effect each time.
    #[schemars(extend("default" = false))]
    once: bool,
}

impl Factory for ProbeFactory {
    fn name(&self) -> &str {
        self.name
    }
    fn dependencies(&self) -> &[&str] {
        self.needs
    }
    fn settings(&self) -> Section {
        Section::of::<Settings>()
    }
    fn check(&self, config: &Value) -> Vec<KeyMistake> {
        match self.settings().read::<Settings>(config) {
            Err(wrong) => wrong,
            Ok(Settings { fail_in: Some(Phase::Config), .. }) => {
                vec![KeyMistake::new("fail_in", "asked to fail in phase config", "")]
            }
            Ok(_) => Vec::new(),
        }
    }
    fn build(&self, config: &Value, _: &ButlerName, _: &Path) -> Result<Box<dyn Module>, ModuleError> {
        let Settings { fail_in, tool, undeclared, stop_marker, once } = self.settings().read(config)?;
        Ok(Box::new(Probe {
            name: self.name,
            fail_in,
            tool: tool.unwrap_or_else(|| format!("{}_echo", self.name)),
            undeclared,
            stop_marker: contract::Marker(stop_marker),
            effect: if once { Effect::Once } else { Effect::None },
        }))
    }
}

struct Probe {
    name: &'static str,
    fail_in: Option<Phase>,
    tool: String,
    undeclared: Option<String>,
    stop_marker: contract::Marker,
    /// What its tool is said to do.
    effect: Effect,
}

fn define(name: &str, effect: Effect) -> Tool {
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}, "ms": {"type": "integer"},
                        "hang": {"type": "boolean"}}});
    let meta = Meta { reads_private: false, effect: Some(effect), sensitive: vec!["secret".into()], ..Meta::default() };
    let def = Definition::new(name, "Echo a text after some milliseconds.", schema, meta).expect("a right schema");
    Tool::new(
        &Arc::new(def),
        handler(|call| async move {
            if call.args.get("hang") == Some(&Value::Bool(true)) {
                std::future::pending::<()>().await;
            }
            let seconds = call.args.get("ms").and_then(Value::as_f64).unwrap_or(0.0) / 1000.0;
            sql::wait(&call, seconds).await?;
            Ok(json!({"echo": call.args.get("text")}))
        }),
    )
}

#[async_trait]
impl Module for Probe {
    fn manifest(&self) -> Result<Manifest, ModuleError> {
        Ok(Manifest { tools: vec![self.tool.clone()], ..Manifest::default() })
    }
    fn credentials(&self) -> Vec<Credential> {
        let required = self.fail_in == Some(Phase::Credentials);
        vec![Credential { name: "PROBE_CREDENTIAL".to_owned(), token_env: None, required }]
    }
    fn migrations(&self) -> Result<Vec<Chain>, ModuleError> {
        let migration = Migration {
            version: 1,
            name: "probe".into(),
            sql: sql::migration(self.fail_in == Some(Phase::Migration)).into(),
            file: format!("{}/001_probe.sql", self.name),
            shipped: false,
        };
        Ok(vec![Chain { name: self.name.to_owned(), migrations: vec![migration] }])
    }
    async fn start(&self, _: &ModuleContext) -> Result<(), ModuleError> {
        if self.fail_in == Some(Phase::Startup) { Err("asked to fail in phase startup".into()) } else { Ok(()) }
    }
    async fn tools(&self, _: &ModuleContext) -> Result<Vec<Tool>, ModuleError> {
        if self.fail_in == Some(Phase::Tools) {
            return Err("asked to fail in phase tools".into());
        }
        Ok(std::iter::once(&self.tool).chain(&self.undeclared).map(|n| define(n, self.effect)).collect())
    }
    async fn stop(&self) {
        self.stop_marker.say(self.name);
    }
}
