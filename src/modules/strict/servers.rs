//! The MCP servers of others that a butler names: what goes together, and what their tools are called. None is started.

use serde::Deserialize;

use super::{ButlerContents, finding, key};
use config::{Finding, McpServer, SERVER_MODULES};

pub(super) fn check(known: &ButlerContents<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (module, table) in &known.butler.modules {
        let Some(name) = module.strip_prefix(SERVER_MODULES) else { continue };
        let Ok(server) = McpServer::deserialize(table) else { continue };
        let at = |inside: &str| {
            let inside = inside.split('.').filter(|segment| !segment.is_empty());
            key(&["mcp", "servers", name].into_iter().chain(inside).collect::<Vec<_>>())
        };
        let told = known.catalog.find(known.butler.name.as_str(), module).map(|factory| factory.check(table));
        found.extend(
            told.into_iter().flatten().map(|mistake| finding(at(&mistake.key), mistake.problem, mistake.expected)),
        );
        for (place, tool) in server.places() {
            let ours = server.tool_name(name, tool);
            if let Some(whose) = owner(known, module, &ours) {
                let place = if server.rename.contains_key(tool) { format!("rename.{tool}") } else { place };
                let problem = format!("found \"{tool}\", which would be called {ours}, a tool that {whose}");
                found.push(finding(at(&place), problem, "another name for it under `rename`"));
            }
        }
    }
    found
}

/// Whose a tool of this name is already, besides the module's own.
fn owner(known: &ButlerContents<'_>, module: &str, tool: &str) -> Option<String> {
    let tools = known.tools.as_ref()?;
    if tools.house.contains(tool) {
        return Some("every butler has already".to_owned());
    }
    if tools.own.contains(tool) {
        return Some("a file in tools/ makes already".to_owned());
    }
    let mut others = known.butler.modules.keys().zip(known.modules?).filter(|(name, _)| *name != module);
    let (other, _) = others.find(|(_, other)| other.manifest().is_ok_and(|m| m.tools.iter().any(|own| own == tool)))?;
    Some(match other.strip_prefix(SERVER_MODULES) {
        Some(server) => format!("the MCP server `{server}` has already"),
        None => format!("the module `{other}` has already"),
    })
}
