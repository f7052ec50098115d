//! The module `approvals`: which of a butler's tools wait for a person, and the tools to look at what waits and decide.
//!
//! The gates stand whether the module is switched on or not. Sessions may look; only people decide.

/// Tools that say the same of themselves, each named like the function that does its work.
macro_rules! tools {
    ($gate:ident, $meta:expr, $(($work:ident, $description:expr, $properties:expr, $required:expr $(,)?)),* $(,)?) => {
        vec![$({
            let (gate, required): (_, &[&str]) = ($gate.clone(), $required);
            let def = tools::Definition::of(stringify!($work), $description, $properties, required, $meta)?;
            Tool::new(&def, handler(move |call| $work(call, gate.clone())))
        }),*]
    };
}

mod decision_tools;
mod read_tools;

use std::path::Path;

use async_trait::async_trait;
use serde_json::{Value, json};
use uuid::Uuid;

use super::contract::{Factory, Manifest, Module, ModuleContext, ModuleError};
use approvals::{Action, ApprovalGate, DecideError, Rule, Settings};
use base::{ButlerName, Label};
use config::Section;
use tools::{Tool, ToolCall, ToolError};

const NAME: &str = "approvals";

pub(super) struct ApprovalsFactory;

impl Factory for ApprovalsFactory {
    fn name(&self) -> &str {
        NAME
    }
    fn settings(&self) -> Section {
        Settings::section()
    }
    fn build(&self, _: &Value, _: &ButlerName, _: &Path) -> Result<Box<dyn Module>, ModuleError> {
        Ok(Box::new(ApprovalsModule))
    }
}

struct ApprovalsModule;

#[async_trait]
impl Module for ApprovalsModule {
    fn manifest(&self) -> Result<Manifest, ModuleError> {
        let names = read_tools::NAMES.iter().chain(&decision_tools::NAMES);
        Ok(Manifest { tools: names.map(|name| (*name).to_owned()).collect(), ..Manifest::default() })
    }
    async fn tools(&self, cx: &ModuleContext) -> Result<Vec<Tool>, ModuleError> {
        let mut tools = read_tools::tools(&cx.gate)?;
        tools.extend(decision_tools::tools(&cx.gate)?);
        Ok(tools)
    }
}

fn id_of(what: &str) -> Value {
    json!({"type": "string", "format": "uuid", "description": format!("Which {what}, as the lists show it")})
}

/// An id among the arguments. Its form was checked by the schema.
fn id(call: &ToolCall, name: &str) -> Result<Uuid, ToolError> {
    let given = call.text(name).unwrap_or_default();
    given.parse().map_err(|_| ToolError::refused("invalid_arguments", format!("{name} is not an id: {given}")))
}

/// A moment among the arguments.
fn moment(call: &ToolCall, name: &str) -> Result<Option<jiff::Timestamp>, ToolError> {
    let Some(given) = call.text(name) else { return Ok(None) };
    let wrong = |_| ToolError::refused("invalid_arguments", format!("{name} is not a time with an offset: {given}"));
    given.parse().map(Some).map_err(wrong)
}

/// One of the butler's own wishes.
async fn own_action(call: &ToolCall, gate: &ApprovalGate) -> Result<Action, ToolError> {
    let id = id(call, "action_id")?;
    let found = gate.actions().get(&call.context().tenant_id, id).await?;
    let action = found.filter(|a| a.butler == call.butler.as_str()).ok_or(DecideError::Unknown(id))?;
    call.shows(&Label::household(action.trust));
    Ok(action)
}

/// One of the butler's own rules.
async fn own_rule(call: &ToolCall, gate: &ApprovalGate) -> Result<Rule, ToolError> {
    let id = id(call, "rule_id")?;
    let found = gate.actions().rule(&call.context().tenant_id, id).await?;
    let unknown = || ToolError::refused("not_found", format!("There is no rule {id}."));
    let rule = found.filter(|r| r.butler == call.butler.as_str()).ok_or_else(unknown)?;
    call.shows(&Label::household(rule.trust));
    Ok(rule)
}
