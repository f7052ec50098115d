//! The door: calls that let something out of the household, or that a person wants to see first, ask here before they
//! run.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use base::Principal;

use super::call::{ToolCall, ToolError};
use super::definition::{Definition, SchemaError};

/// Where a call would let something out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EgressTarget {
    /// Whether it leaves the household: `false` for what only its owner gets.
    pub outward: bool,
    /// To whom, in words for the owner.
    pub to: String,
    /// Who learns of it; `None`: nobody can say.
    pub those: Option<Vec<Principal>>,
    /// Whom it reaches, where that is somebody with an address.
    pub recipient: Option<EgressRecipient>,
}

impl EgressTarget {
    /// It leaves the household for nobody knows whom.
    pub fn unknown() -> Self {
        let to = "somebody outside of the household".to_owned();
        Self { outward: true, to, those: None, recipient: None }
    }
}

/// Whom a call reaches, as its arguments were resolved: never as its model calls them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EgressRecipient {
    /// As the household calls them, where that is known.
    pub name: Option<String>,
    pub channel: String,
    /// The identity there: an address, a number, an endpoint's name.
    pub address: String,
}

/// Tells a call's aim. `None`: its arguments are such that it can't be made anyway.
pub type EgressTargetFn =
    Arc<dyn for<'a> Fn(&'a ToolCall) -> BoxFuture<'a, Result<Option<EgressTarget>, ToolError>> + Send + Sync>;

/// What a call was told at the door.
#[derive(Debug)]
pub enum GateDecision {
    /// It may run.
    Allow,
    /// It waits for a person; the session gets this for an answer.
    Hold(Value),
}

/// Whoever decides at the door.
#[async_trait]
pub trait EgressGate: Send + Sync {
    /// Whether the settings have every call of this tool by a session ask, wherever it goes.
    fn gated(&self, tool: &str) -> bool;
    /// Decides on a session's call. `egress_target`: where it goes, for a tool that sends out. `why`: what its model gives as the
    /// reason.
    async fn ask(
        &self,
        call: &ToolCall,
        egress_target: Option<&EgressTarget>,
        why: Option<&str>,
    ) -> Result<GateDecision, ToolError>;
    /// Has a session's call wait for a person whatever the gate says of it: its tool asks for that. Returns the session's
    /// answer.
    async fn hold(&self, call: &ToolCall, target: Option<&EgressTarget>, why: &str) -> Result<Value, ToolError>;
}

/// The argument in which a model may say why it makes the call.
pub(super) const WHY: &str = "_why";
/// The longest reason, in bytes; what is beyond is cut.
pub(super) const MAX_WHY: usize = 1000;

/// The definition with a place for the reason.
pub(super) fn with_reason(def: &Definition) -> Result<Definition, SchemaError> {
    let mut schema = Value::Object((*def.schema).clone());
    schema["properties"][WHY] = json!({"type": "string",
        "description": "Why you do this; the owner is shown it where the call has to be approved"});
    let made = Definition::new(&def.name, &def.description, schema, def.meta.clone())?;
    Ok(made.with_examples(def.examples.clone()).with_aliases(&def.aliases))
}
