//! The channel `log`: a line of the daemon's log for each delivery. For trying things out.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::contract::{Factory, Manifest, Module, ModuleContext, ModuleError};
use base::ButlerName;
use outbox::{Channel, Delivery, Outcome, send_tool, send_tool_name};
use tools::Tool;

const NAME: &str = "log";

pub(super) struct LogFactory;

impl Factory for LogFactory {
    fn name(&self) -> &str {
        NAME
    }
    fn build(&self, _: &Value, _: &ButlerName, _: &Path) -> Result<Box<dyn Module>, ModuleError> {
        Ok(Box::new(LogModule))
    }
}

struct LogModule;

#[async_trait]
impl Module for LogModule {
    fn manifest(&self) -> Result<Manifest, ModuleError> {
        Ok(Manifest { tools: vec![send_tool_name(NAME)], ..Manifest::default() })
    }
    fn channels(&self, _: &ModuleContext) -> Result<Vec<Arc<dyn Channel>>, ModuleError> {
        Ok(vec![Arc::new(LogChannel)])
    }
    async fn tools(&self, cx: &ModuleContext) -> Result<Vec<Tool>, ModuleError> {
        Ok(vec![send_tool(&cx.outbox, NAME).map_err(ModuleError::new)?])
    }
}

struct LogChannel;

#[async_trait]
impl Channel for LogChannel {
    fn name(&self) -> &str {
        NAME
    }
    fn at_home(&self) -> bool {
        true
    }
    fn carries_files(&self) -> bool {
        false
    }
    fn targets(&self) -> Vec<String> {
        vec![NAME.to_owned()]
    }
    /// A line too many does no harm.
    fn repeatable(&self, _: &Delivery) -> bool {
        true
    }
    async fn send(&self, delivery: &Delivery) -> Outcome {
        tracing::info!(
            delivery = %delivery.id, origin = delivery.origin, priority = delivery.priority.as_str(),
            message = delivery.message.as_deref().unwrap_or_default(), "delivery"
        );
        Outcome::Sent { receipt: json!({"log": "info"}) }
    }
}
