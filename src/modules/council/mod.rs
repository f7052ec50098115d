//! The module `council`: several models answer a question, judge each other's answers without knowing whose they are, and
//! one of them writes the answer.
//!
//! It conducts the sessions of its butler: whatever asks the butler (a message, a chat, another butler, a schedule) asks
//! the council. Members are sessions like any other, under the one that is conducted. What was said is told to a
//! knowledge graph where there is one ([`recorder`]), and memory answers in the council's place where it is sure
//! enough ([`weigh`]).

mod budget;
mod flow;
mod graphiti;
mod provenance;
mod recorder;
mod seat;
mod settings;
mod sql;
mod tools;
mod weigh;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use base::ButlerName;
use serde_json::Value;
use sessions::Conductor;
use tokio::sync::{Notify, Semaphore};

use crate::background::{BackgroundTask, TaskKind};
use crate::contract::{Credential, Factory, Manifest, Module, ModuleContext, ModuleError, with_settings};
use ::tools::Tool;
use flow::Council;
use graphiti::Graphiti;
use recorder::Recorder;
use seat::Seat;
use settings::{Settings, default_name};
pub use sql::OLD;

const NAME: &str = "council";
/// Its tables. Those of the butler's own roster go by the butler's name.
const CHAIN: &str = "deliberations";

pub(super) struct CouncilFactory;

impl Factory for CouncilFactory {
    with_settings!(NAME, Settings, Settings::read);
    fn build(&self, config: &Value, _: &ButlerName, _: &Path) -> Result<Box<dyn Module>, ModuleError> {
        // Without any settings it is asked for what it would bring alone.
        let named = config.as_object().is_some_and(|keys| !keys.is_empty());
        let settings = if named { Settings::read(config)? } else { Settings::section().read(config)? };
        Ok(Box::new(CouncilModule { settings, started: OnceLock::new() }))
    }
}

struct CouncilModule {
    settings: Settings,
    /// There once the module has started.
    started: OnceLock<Arc<Council>>,
}

impl CouncilModule {
    fn council(&self, cx: &ModuleContext) -> Council {
        let settings = &self.settings;
        let own = cx.sessions.own_model();
        let members: Vec<Seat> =
            settings.members.iter().enumerate().map(|(at, model)| Seat::of(model, &default_name(at), own)).collect();
        let chairman = Seat::of(&settings.chairman, "the chairman", own);
        let known_as = members.iter().flat_map(Seat::known_as).map(str::to_owned).collect();
        let graphiti = settings.graphiti.url.as_ref().map(|url| {
            let token = settings.graphiti.token.as_ref().and_then(|name| cx.credentials.get(name)).cloned();
            Arc::new(Graphiti::new(url, &settings.graphiti, token, &cx.live))
        });
        Council {
            confidence: match settings.confidence.set() {
                Some(model) => Seat::of(model, "the memory's judge", own),
                None => chairman.as_part("the memory's judge"),
            },
            router: settings.router.set().map(|model| Seat::of(model, "the router", own)),
            title: settings.title.set().map(|model| Seat::of(model, "the titler", own)),
            members,
            chairman,
            known_as,
            graphiti,
            sessions: cx.sessions.clone(),
            store: cx.store.clone(),
            clock: cx.clock.clone(),
            places: Semaphore::new(settings.at_once as usize),
            wake: Arc::new(Notify::new()),
            settings: settings.clone(),
        }
    }
}

#[async_trait]
impl Module for CouncilModule {
    fn manifest(&self) -> Result<Manifest, ModuleError> {
        let tools = if self.settings.enabled { tools::names() } else { Vec::new() };
        Ok(Manifest { tools, ..Manifest::default() })
    }
    fn chains(&self) -> Vec<&'static str> {
        if self.settings.enabled { vec![CHAIN] } else { Vec::new() }
    }
    fn credentials(&self) -> Vec<Credential> {
        let graphiti = &self.settings.graphiti;
        let token = graphiti.token.clone().filter(|_| graphiti.url.is_some());
        token.into_iter().map(|name| Credential { name, token_env: None, required: true }).collect()
    }
    async fn start(&self, cx: &ModuleContext) -> Result<(), ModuleError> {
        if self.settings.enabled {
            let wrong = self.settings.mistakes();
            if !wrong.is_empty() {
                return Err(wrong.into());
            }
            let _ = self.started.set(Arc::new(self.council(cx)));
        }
        Ok(())
    }
    async fn tools(&self, _: &ModuleContext) -> Result<Vec<Tool>, ModuleError> {
        if self.settings.enabled { tools::tools() } else { Ok(Vec::new()) }
    }
    fn tasks(&self, cx: &ModuleContext) -> Vec<BackgroundTask> {
        let recorded = self.started.get().and_then(|council| Some((council.graphiti.clone()?, council.wake.clone())));
        let Some((graphiti, wake)) = recorded else { return Vec::new() };
        let recorder = Recorder {
            house: cx.house.clone(),
            schema: cx.store.schema().to_owned(),
            butler: cx.butler.to_string(),
            node: cx.node.clone(),
            graphiti,
            wake,
        };
        vec![BackgroundTask { name: "recorder", kind: TaskKind::Loop, work: Arc::new(recorder) }]
    }
    fn conductor(&self, _: &ModuleContext) -> Option<Arc<dyn Conductor>> {
        let council: Arc<dyn Conductor> = self.started.get()?.clone();
        Some(council)
    }
}
