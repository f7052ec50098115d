//! The module `memory`: what a butler knows. Episodes tell what happened, facts what is so, rules what to do.
//!
//! Its tools, jobs and settings; what they do it leaves to the engine, the crate `memory`.

#[macro_use]
mod tools;

mod jobs;
mod owner;
mod retrieval;
mod settings;

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::contract::{Credential, Factory, Manifest, Module, ModuleContext, ModuleError, with_settings};
use super::job::NamedJob;
use ::tools::Tool;
use base::{ButlerName, TenantId};
use memory::{Ledger, Memory, Options};
use memory_index::embed::{Embedder, Endpoint, Fixed};
use schedule::BuiltInSchedule;

pub use jobs::job_names;
pub use memory::sql::upkeep::notices;
use settings::{Embedding, Provider};

pub use settings::Settings;
use tools::With;

const NAME: &str = "memory";

pub(super) struct MemoryFactory;

impl Factory for MemoryFactory {
    with_settings!(NAME, Settings, Settings::read);
    fn build(&self, config: &Value, _: &ButlerName, _: &Path) -> Result<Box<dyn Module>, ModuleError> {
        let settings = Settings::read(config)?;
        Ok(Box::new(MemoryModule { settings: Arc::new(settings), started: OnceLock::new() }))
    }
}

/// An endpoint that takes longer for some texts has none.
const EMBED_WITHIN: Duration = Duration::from_secs(10);

/// Who makes vectors, by the settings.
async fn embedder(settings: &Embedding, cx: &ModuleContext) -> Result<Arc<dyn Embedder>, ModuleError> {
    Ok(match settings.provider {
        Provider::Static => Arc::new(Fixed),
        #[cfg(feature = "local-embedding")]
        Provider::Local => {
            let dir = settings.model_dir.as_ref().ok_or("embedding: a local model has a model_dir")?;
            Arc::new(memory_index::embed::Local::open(dir).await.map_err(ModuleError::new)?)
        }
        #[cfg(not(feature = "local-embedding"))]
        Provider::Local => return Err("embedding: this build has no local models".into()),
        Provider::Endpoint => {
            let (Some(url), Some(model), Some(dimensions)) = (&settings.url, &settings.model, settings.dimensions)
            else {
                return Err("embedding: an endpoint has url, model and dimensions".into());
            };
            let key = settings.key.as_ref().and_then(|name| cx.credentials.get(name)).cloned();
            Arc::new(Endpoint::new(url, model, key, dimensions, EMBED_WITHIN).map_err(ModuleError::new)?)
        }
    })
}

struct MemoryModule {
    settings: Arc<Settings>,
    /// There once the module has started.
    started: OnceLock<(Arc<Memory>, Ledger)>,
}

#[async_trait]
impl Module for MemoryModule {
    fn manifest(&self) -> Result<Manifest, ModuleError> {
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
            ..Manifest::default()
        })
    }
    fn credentials(&self) -> Vec<Credential> {
        let embedding = &self.settings.embedding;
        let key = embedding.key.iter().filter(|_| self.settings.enabled);
        let token_env = embedding.token_env.clone();
        key.map(|name| Credential { name: name.clone(), token_env: token_env.clone(), required: true }).collect()
    }
    fn chains(&self) -> Vec<&'static str> {
        if self.settings.enabled { vec![NAME] } else { Vec::new() }
    }
    async fn start(&self, cx: &ModuleContext) -> Result<(), ModuleError> {
        if !self.settings.enabled {
            return Ok(());
        }
        let embedder = embedder(&self.settings.embedding, cx).await?;
        let ledger = Ledger::of(&cx.data_dir, cx.store.schema());
        // Before anybody can ask: a backup that was restored may be older than a purge.
        let again = ledger.carry_out(&cx.store, &cx.clock, cx.butler.as_str()).await.map_err(ModuleError::new)?;
        if again > 0 {
            tracing::warn!(butler = %cx.butler, again, "memories that were purged had come back, and were purged again");
        }
        let options = Options {
            weights: self.settings.retrieval.weights.into(),
            question_within: self.settings.recall_within() / 2,
            index_bytes: self.settings.index_size.0,
        };
        let memory = Arc::new(Memory::new(&cx.butler, options, &cx.store, embedder));
        // The owner's own is there by the time that somebody asks.
        memory.warm(&TenantId::owner());
        cx.memory.set(&memory);
        let _ = self.started.set((memory, ledger));
        Ok(())
    }
    fn jobs(&self, _: &ModuleContext) -> Vec<NamedJob> {
        self.started.get().map(|(memory, _)| jobs::named(memory, &self.settings)).unwrap_or_default()
    }
    fn schedules(&self) -> Vec<BuiltInSchedule> {
        if self.settings.enabled { jobs::schedules(&self.settings) } else { Vec::new() }
    }
    async fn tools(&self, cx: &ModuleContext) -> Result<Vec<Tool>, ModuleError> {
        if !self.settings.enabled {
            return Ok(Vec::new());
        }
        let (memory, ledger) = self.started.get().ok_or("it has not started")?;
        let with = With {
            memory: memory.clone(),
            settings: self.settings.clone(),
            ledger: ledger.clone(),
            runs: Some(jobs::on_demand(memory, &cx.due)),
        };
        Ok(retrieval::tools(&with)?.into_iter().chain(tools::tools(&with)?).chain(owner::tools(&with)?).collect())
    }
}
