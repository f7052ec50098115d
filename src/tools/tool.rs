//! A tool: its definition with its handler.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::call::{ToolCall, ToolError};
use super::definition::{Definition, Meta};
use super::egress::EgressTargetFn;

/// What runs a call. [`handler`] makes one of an async function.
pub type Handler = Arc<dyn Fn(ToolCall) -> BoxFuture<'static, Result<Value, ToolError>> + Send + Sync>;

/// Makes a handler of an async function.
///
/// Its arguments were checked against the tool's schema. It reads with [`ToolCall::query`] and writes with
/// [`ToolCall::effect`], which commits the change and the call's audit row together.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use serde_json::json;
/// use tools::{Definition, Meta, Tool, handler};
///
/// let schema = json!({"type": "object", "additionalProperties": false, "required": ["key"],
///                     "properties": {"key": {"type": "string", "minLength": 1}}});
/// let definition = Definition::new("state_has", "Say whether the store has a key.", schema, Meta::read())?;
/// let look = handler(|call| async move {
///     let key = call.text("key").unwrap_or_default();
///     let rows = call.query("SELECT 1 FROM state WHERE key = $1", &[&key]).await?;
///     Ok(json!({"found": !rows.is_empty()}))
/// });
/// let tool = Tool::new(&Arc::new(definition), look);
/// assert_eq!(tool.def.name, "state_has");
/// # Ok::<(), tools::SchemaError>(())
/// ```
pub fn handler<F, R>(f: F) -> Handler
where
    F: Fn(ToolCall) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value, ToolError>> + Send + 'static,
{
    Arc::new(move |call| Box::pin(f(call)))
}

/// A definition with its handler.
#[derive(Clone)]
pub struct Tool {
    pub def: Arc<Definition>,
    pub handler: Handler,
    /// Where its calls go, for a tool that sends out. Without one that tells, all of them leave the household.
    pub egress_target: Option<EgressTargetFn>,
}

impl Tool {
    pub fn new(def: &Arc<Definition>, handler: Handler) -> Self {
        Self { def: def.clone(), handler, egress_target: None }
    }

    /// One whose schema stands in the source, from the properties of its arguments as [`Definition::built_in`] takes them.
    pub fn built_in(
        name: &str,
        description: &str,
        properties: Value,
        required: &[&str],
        meta: Meta,
        handler: Handler,
    ) -> Self {
        Self::new(&Definition::built_in(name, description, properties, required, meta), handler)
    }

    /// The same tool with somebody who can tell where a call goes.
    #[must_use]
    pub fn with_egress_target(self, egress_target: EgressTargetFn) -> Self {
        Self { egress_target: Some(egress_target), ..self }
    }
}
