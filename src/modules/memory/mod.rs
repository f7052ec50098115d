//! The module `memory`: what a butler knows. Episodes tell what happened, facts what is so, rules what to do.
//!
//! Rows are the truth (`sql/memory/`); what is searched stands in memory beside them and is kept in step by the numbers of
//! their changes. Whoever reads a row is told how far it is believed by the row's policy, so memory launders nothing.

mod jobs;
mod settings;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::contract::{Factory, Manifest, Module, ModuleContext, NamedJob};
use crate::base::ButlerName;
use crate::scheduler::HouseSchedule;
use crate::store::migrate::Chain;
use crate::tools::Tool;

pub use settings::Settings;

const NAME: &str = "memory";

pub(super) struct MemoryFactory;

impl Factory for MemoryFactory {
    fn name(&self) -> &str {
        NAME
    }
    fn check(&self, config: &Value) -> Vec<String> {
        Settings::read(config).err().unwrap_or_default()
    }
    fn build(&self, config: &Value, _: &ButlerName, _: &Path) -> Result<Box<dyn Module>, String> {
        let settings = Settings::read(config).map_err(|wrong| wrong.join("; "))?;
        Ok(Box::new(MemoryModule { settings }))
    }
}

struct MemoryModule {
    settings: Settings,
}

#[async_trait]
impl Module for MemoryModule {
    fn manifest(&self) -> Result<Manifest, String> {
        Ok(Manifest::default())
    }
    fn migrations(&self) -> Result<Option<Chain>, String> {
        if !self.settings.enabled {
            return Ok(None);
        }
        Chain::shipped(NAME).map(Some).map_err(|e| e.to_string())
    }
    fn jobs(&self, cx: &ModuleContext) -> Vec<NamedJob> {
        if self.settings.enabled { jobs::named(&self.settings, cx, Arc::new(|_, _| {})) } else { Vec::new() }
    }
    fn schedules(&self) -> Vec<HouseSchedule> {
        if self.settings.enabled { jobs::schedules(&self.settings) } else { Vec::new() }
    }
    async fn tools(&self, _: &ModuleContext) -> Result<Vec<Tool>, String> {
        Ok(Vec::new())
    }
}
