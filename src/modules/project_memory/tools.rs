//! The same operations as tools of the butler's own port. Whoever calls there stands in no directory, and so names the
//! project.

use std::sync::Arc;

use project::tool::{Place, ProjectTool, all};
use project::wire::{GLOBAL, Identity};
use serde_json::{Value, json};

use super::request::{Caller, ProjectMemory};
use crate::contract::ModuleError;
use ::tools::{Definition, Effect, Meta, Tool, ToolCall, ToolError, handler};

/// The names of all of them.
pub(super) fn names() -> Vec<String> {
    all().iter().map(|tool| tool.name.to_owned()).collect()
}

pub(super) fn tools(memory: &Arc<ProjectMemory>) -> Result<Vec<Tool>, ModuleError> {
    all().iter().map(|tool| made(tool, memory)).collect()
}

fn made(tool: &ProjectTool, memory: &Arc<ProjectMemory>) -> Result<Tool, ModuleError> {
    let mut schema = tool.schema();
    schema["properties"]["project"] = json!({"type": "string", "default": GLOBAL, "description": "Which project: its name, or its id where two have the name"});
    let effect = if tool.writes { Effect::Idempotent } else { Effect::None };
    let meta = match tool.writes {
        true => Meta { sensitive: vec!["content".to_owned()], ..Meta::write(effect).labelled() },
        false => Meta { reads_untrusted: true, ..Meta::read() },
    };
    let def = Definition::new(tool.name, tool.description, schema, meta).map(Arc::new).map_err(ModuleError::new)?;
    let (memory, tool) = (memory.clone(), tool.clone());
    Ok(Tool::new(&def, handler(move |call| answer(call, memory.clone(), tool.clone()))))
}

async fn answer(call: ToolCall, memory: Arc<ProjectMemory>, tool: ProjectTool) -> Result<Value, ToolError> {
    // An export is only read; the rest of what developers do needs their files and their git.
    if tool.place == Place::Developer && tool.name != "export_memories" {
        let why = format!(
            "`{}` is done where the repository is: by `butlerd project` there, or by the server that `butlerd mcp` starts.",
            tool.name
        );
        return Err(ToolError::refused("unavailable_here", why));
    }
    let name = call.text("project").unwrap_or(GLOBAL).to_owned();
    let by = Identity { name, ..Identity::default() };
    let args = Value::Object(
        call.args.iter().filter(|(name, _)| *name != "project").map(|(k, v)| (k.clone(), v.clone())).collect(),
    );
    let (_, result) = memory.run(Caller::Call(&call), tool.name, &by, None, &args).await?;
    memory.used(call.context(), tool.name, &result).await;
    Ok(result)
}
