//! The module `graphiti`: a butler's memory with the tools of Graphiti's MCP server, for programs that know those.
//!
//! An episode that comes in this way is one of the memory engine's, in a scope of its own: `graphiti:GROUP`. Consolidation
//! makes facts of it there, and neither mixes with what the butler knows by itself. What comes in and what is shown has the
//! label of whoever calls and of the rows; nothing here raises it.

mod arguments;
mod edges;
mod episodes;
mod facts;
mod nodes;
mod schemas;
mod tools;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::contract::{Factory, Manifest, Module, ModuleContext, ModuleError, with_settings};
use ::tools::Tool;
use arguments::is_group;
use base::ButlerName;
use config::KeyMistake;
use memory::Memory;

const NAME: &str = "graphiti";

pub(super) struct GraphitiFactory;

/// `[modules.graphiti]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
struct Settings {
    /// Whether programs may use the butler's memory as that of a Graphiti.
    #[schemars(extend("default" = true))]
    enabled: bool,
    /// The group of episodes and questions that name none: letters, digits, `-` and `_`.
    #[schemars(extend("default" = "main"))]
    group: String,
}

impl Factory for GraphitiFactory {
    with_settings!(NAME, Settings);
    fn dependencies(&self) -> &[&str] {
        &["memory"]
    }
    fn check(&self, config: &Value) -> Vec<KeyMistake> {
        let mut found = self.settings().check(config);
        if let Some(group) = config["group"].as_str().filter(|group| !is_group(group)) {
            found.push(KeyMistake::new("group", format!("found {group:?}"), "1 to 64 letters, digits, `-` and `_`"));
        }
        found
    }
    fn build(&self, config: &Value, _: &ButlerName, _: &Path) -> Result<Box<dyn Module>, ModuleError> {
        let settings = self.settings().read::<Settings>(config)?;
        Ok(Box::new(GraphitiModule { settings, started: OnceLock::new() }))
    }
}

/// A butler's memory as a graph.
pub(super) struct Graph {
    memory: Arc<Memory>,
    /// The group where none is named.
    group: String,
}

struct GraphitiModule {
    settings: Settings,
    /// There once the module has started.
    started: OnceLock<Arc<Graph>>,
}

#[async_trait]
impl Module for GraphitiModule {
    fn manifest(&self) -> Result<Manifest, ModuleError> {
        let tools = if self.settings.enabled { tools::names() } else { Vec::new() };
        Ok(Manifest { tools, ..Manifest::default() })
    }
    async fn start(&self, cx: &ModuleContext) -> Result<(), ModuleError> {
        if !self.settings.enabled {
            return Ok(());
        }
        let Some(memory) = cx.memory.get() else {
            return Err("the butler does not remember; write `enabled = true` into its [modules.memory]".into());
        };
        let _ = self.started.set(Arc::new(Graph { memory, group: self.settings.group.clone() }));
        Ok(())
    }
    async fn tools(&self, _: &ModuleContext) -> Result<Vec<Tool>, ModuleError> {
        self.started.get().map_or_else(|| Ok(Vec::new()), tools::tools)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_usual_group_is_one_that_can_be_named() {
        let wrong = |config: Value| GraphitiFactory.check(&config).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(wrong(json!({})), [""; 0]);
        assert_eq!(wrong(json!({"group": "llm_council"})), [""; 0]);
        let why = "group: found \"a b\", expected 1 to 64 letters, digits, `-` and `_`";
        assert_eq!(wrong(json!({"group": "a b"})), [why]);
        assert_eq!(wrong(json!({"groups": "a"})).len(), 1);
    }
}
