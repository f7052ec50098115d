//! The module `memory`: what a butler knows. Episodes tell what happened, facts what is so, rules what to do.
//!
//! Rows are the truth (`sql/memory/`); what is searched stands in memory beside them and is kept in step by the numbers of
//! their changes. Whoever reads a row is told how far it is believed by the row's policy, so memory launders nothing.

mod calendar;
mod core;
pub mod embed;
mod fulltext;
pub mod gate;
mod jobs;
mod kind;
mod owner;
pub mod predicates;
pub mod rank;
mod reembed;
mod retrieval;
pub mod same;
mod settings;
mod shard;
mod tools;
pub mod write;

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::contract::{Credential, Factory, Manifest, Module, ModuleContext, NamedJob, told};
use ::tools::Tool;
use base::{ButlerName, TenantId};
use config::{KeyMistake, Section};
use schedule::BuiltInSchedule;
use store::migrate::Chain;

pub use core::{Ask, Memory};
use embed::Embedder;
pub use jobs::job_names;
use owner::Ledger;
pub use owner::PURGED;
use settings::{Embedding, Provider};

pub use settings::Settings;
use tools::With;

const NAME: &str = "memory";

pub(super) struct MemoryFactory;

impl Factory for MemoryFactory {
    fn name(&self) -> &str {
        NAME
    }
    fn settings(&self) -> Section {
        Settings::section()
    }
    fn check(&self, config: &Value) -> Vec<KeyMistake> {
        Settings::read(config).err().unwrap_or_default()
    }
    fn build(&self, config: &Value, _: &ButlerName, _: &Path) -> Result<Box<dyn Module>, String> {
        let settings = Settings::read(config).map_err(|wrong| told(&wrong))?;
        Ok(Box::new(MemoryModule { settings, memory: OnceLock::new() }))
    }
}

/// An endpoint that takes longer for some texts has none.
const EMBED_WITHIN: Duration = Duration::from_secs(10);

/// Who makes vectors, by the settings.
async fn embedder(settings: &Embedding, cx: &ModuleContext) -> Result<Arc<dyn Embedder>, String> {
    Ok(match settings.provider {
        Provider::Static => Arc::new(embed::Fixed),
        #[cfg(feature = "local-embedding")]
        Provider::Local => {
            let dir = settings.model_dir.as_ref().ok_or("embedding: a local model has a model_dir")?;
            Arc::new(embed::Local::open(dir).await.map_err(|e| e.to_string())?)
        }
        #[cfg(not(feature = "local-embedding"))]
        Provider::Local => return Err("embedding: this build has no local models".to_owned()),
        Provider::Endpoint => {
            let (Some(url), Some(model), Some(dimensions)) = (&settings.url, &settings.model, settings.dimensions)
            else {
                return Err("embedding: an endpoint has url, model and dimensions".to_owned());
            };
            let key = settings.key.as_ref().and_then(|name| cx.credentials.get(name)).cloned();
            Arc::new(embed::Endpoint::new(url, model, key, dimensions, EMBED_WITHIN).map_err(|e| e.to_string())?)
        }
    })
}

struct MemoryModule {
    settings: Settings,
    /// There once the module has started.
    memory: OnceLock<Arc<Memory>>,
}

impl MemoryModule {
    fn memory(&self) -> Result<&Arc<Memory>, String> {
        self.memory.get().ok_or_else(|| "it has not started".to_owned())
    }
}

#[async_trait]
impl Module for MemoryModule {
    fn manifest(&self) -> Result<Manifest, String> {
        if !self.settings.enabled {
            return Ok(Manifest::default());
        }
        Ok(Manifest {
            tools: retrieval::NAMES
                .iter()
                .copied()
                .chain(tools::names())
                .chain(owner::NAMES)
                .map(str::to_owned)
                .collect(),
        })
    }
    fn credentials(&self) -> Vec<Credential> {
        let key = self.settings.embedding.key.iter().filter(|_| self.settings.enabled);
        key.map(|name| Credential { name: name.clone(), required: true }).collect()
    }
    fn migrations(&self) -> Result<Option<Chain>, String> {
        if !self.settings.enabled {
            return Ok(None);
        }
        Chain::shipped(NAME).map(Some).map_err(|e| e.to_string())
    }
    async fn start(&self, cx: &ModuleContext) -> Result<(), String> {
        if !self.settings.enabled {
            return Ok(());
        }
        let embedder = embedder(&self.settings.embedding, cx).await?;
        let ledger = Ledger::of(&cx.data_dir, cx.store.schema());
        // Before anybody can ask: a backup that was restored may be older than a purge.
        let again = ledger.carry_out(&cx.store, &cx.clock, cx.butler.as_str()).await?;
        if again > 0 {
            tracing::warn!(butler = %cx.butler, again, "memories that were purged had come back, and were purged again");
        }
        let mut memory = Memory::new(&cx.butler, self.settings.clone(), &cx.store, embedder);
        memory.ledger = Some(ledger);
        let memory = Arc::new(memory);
        // The owner's own is there by the time that somebody asks.
        memory.warm(&TenantId::owner());
        let _ = self.memory.set(memory);
        Ok(())
    }
    fn jobs(&self, _: &ModuleContext) -> Vec<NamedJob> {
        self.memory.get().map(jobs::named).unwrap_or_default()
    }
    fn schedules(&self) -> Vec<BuiltInSchedule> {
        if self.settings.enabled { jobs::schedules(&self.settings) } else { Vec::new() }
    }
    async fn tools(&self, cx: &ModuleContext) -> Result<Vec<Tool>, String> {
        if !self.settings.enabled {
            return Ok(Vec::new());
        }
        let memory = self.memory()?;
        let with = With { memory: memory.clone(), runs: Some(jobs::on_demand(memory, &cx.due)) };
        Ok(retrieval::tools(memory)?.into_iter().chain(tools::tools(&with)?).chain(owner::tools(&with)?).collect())
    }
}
