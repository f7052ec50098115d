//! The module `contacts`: address books as sources of the people whom the household knows.
//!
//! The people are `shared.entities`, `contacts` and `contact_identities`, and nothing else is the truth. A source's cards are
//! rows beside them ([`sql`]), with their bytes, so that what nobody here knows comes back as it went. The crate `dav` keeps
//! cards and address book equal ([`store`], [`book`], [`files`]); [`work`] keeps cards and people equal, by what [`people`]
//! decides. Who a card speaks of is certain by an identity alone: a name, and whatever is about the owner, is a proposal
//! that a person accepts ([`tools`]).

mod book;
mod choices;
mod error;
mod files;
mod people;
mod run;
mod settings;
mod source;
mod sql;
mod store;
mod tools;
mod work;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use serde_json::Value;

use crate::background::{BackgroundTask, TaskKind};
use crate::contract::{AccountTrial, Credential, Factory, Manifest, Module, ModuleContext, ModuleError, with_settings};
use ::tools::Tool;
use base::ButlerName;
use settings::{Provider, Settings, read};
use source::Source;

const NAME: &str = "contacts";

pub(super) struct ContactsFactory;

impl Factory for ContactsFactory {
    with_settings!(NAME, Settings, read);
    fn build(&self, config: &Value, _: &ButlerName, _: &Path) -> Result<Box<dyn Module>, ModuleError> {
        Ok(Box::new(ContactsModule { settings: read(config)?, source: OnceLock::new() }))
    }
}

struct ContactsModule {
    settings: Settings,
    /// There once the module has started.
    source: OnceLock<Arc<Source>>,
}

#[async_trait]
impl Module for ContactsModule {
    fn manifest(&self) -> Result<Manifest, ModuleError> {
        Ok(Manifest { tools: tools::NAMES.map(str::to_owned).into(), ..Manifest::default() })
    }
    fn credentials(&self) -> Vec<Credential> {
        let name = match self.settings.provider {
            Provider::Carddav => &self.settings.password,
            Provider::Google => &self.settings.grant,
            Provider::Vcard => return Vec::new(),
        };
        vec![Credential { name: name.clone(), token_env: self.settings.token_env.clone(), required: true }]
    }
    fn chains(&self) -> Vec<&'static str> {
        vec![NAME]
    }
    async fn start(&self, cx: &ModuleContext) -> Result<(), ModuleError> {
        let source = Source::new(cx, &self.settings).await?;
        let _ = self.source.set(Arc::new(source));
        Ok(())
    }
    async fn tools(&self, cx: &ModuleContext) -> Result<Vec<Tool>, ModuleError> {
        self.source.get().map_or_else(|| Ok(Vec::new()), |source| tools::tools(source, cx.butler.as_str()))
    }
    fn accounts(&self, _: &ModuleContext) -> Vec<Arc<dyn AccountTrial>> {
        self.source.get().map(|source| source.clone() as Arc<dyn AccountTrial>).into_iter().collect()
    }
    fn tasks(&self, _: &ModuleContext) -> Vec<BackgroundTask> {
        let task = |source: &Arc<Source>| BackgroundTask { name: "sync", kind: TaskKind::Loop, work: source.clone() };
        self.source.get().map(task).into_iter().collect()
    }
}
