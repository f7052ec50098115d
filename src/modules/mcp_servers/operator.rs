//! Tools for people about the servers of a butler: how they are, what they show, and the owner's consent.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::pins::{Change, Listing, ShownTool};
use super::registry::McpServers;
use super::server::{Known, Server};
use access::GrantScope;
use tools::{Definition, Effect, Meta, Tool, ToolCall, ToolError, handler};

/// `mcp_server_list`, `mcp_server_show` and `mcp_server_accept`.
pub fn mcp_server_tools(servers: &McpServers) -> Vec<Tool> {
    static DEFS: OnceLock<[Arc<Definition>; 3]> = OnceLock::new();
    let [list_def, show_def, accept_def] = DEFS.get_or_init(definitions);
    let of = || servers.clone();
    let (for_list, for_show, for_accept) = (of(), of(), of());
    vec![
        Tool::new(list_def, handler(move |_| list(for_list.clone()))),
        Tool::new(show_def, handler(move |call| show(call, for_show.clone()))),
        Tool::new(accept_def, handler(move |call| accept(call, for_accept.clone()))),
    ]
}

fn definitions() -> [Arc<Definition>; 3] {
    let define = |name: &str, description: &str, properties: Value, required: Value, meta: Meta| {
        let meta = Meta { operators: true, reads_untrusted: true, ..meta };
        Definition::built_in(name, description, properties, required, meta)
    };
    let server = json!({"type": "string", "minLength": 1, "description": "Its name in [mcp.servers.<name>]"});
    [
        define(
            "mcp_server_list",
            "The MCP servers of others that this butler has, and how they are.",
            json!({}),
            json!([]),
            Meta::read(),
        ),
        define(
            "mcp_server_show",
            "What an MCP server shows of its tools, and how that differs from what the owner agreed to.",
            json!({"server": server}),
            json!(["server"]),
            Meta::read(),
        ),
        define(
            "mcp_server_accept",
            "Agree to the tools that an MCP server shows now.",
            json!({"server": server, "seen": {"type": "string", "minLength": 64, "maxLength": 64,
                "description": "The hash that mcp_server_show gives for what is held"}}),
            json!(["server", "seen"]),
            Meta::write(Effect::Idempotent),
        ),
    ]
}

fn find(call: &ToolCall, servers: &McpServers) -> Result<Arc<Server>, ToolError> {
    let wanted = call.text("server").unwrap_or_default();
    let all = servers.all();
    if let Some(found) = all.iter().find(|server| server.parts.name == wanted) {
        return Ok(found.clone());
    }
    let names: Vec<&str> = all.iter().map(|server| server.parts.name.as_str()).collect();
    let there = if names.is_empty() {
        "none of its servers has started".to_owned()
    } else {
        format!("there are: {}", names.join(", "))
    };
    Err(ToolError::refused("not_found", format!("{} has no MCP server `{wanted}`; {there}.", call.butler)))
}

/// How it is, in a word.
fn state(known: &Known) -> &'static str {
    match known {
        Known { down: Some(_), .. } => "down",
        Known { held: Some(_), .. } => "held",
        Known { pinned: None, .. } => "not seen yet",
        Known { open: true, .. } => "connected",
        _ => "idle",
    }
}

fn summary(server: &Arc<Server>) -> Value {
    let (known, config) = (server.known(), &server.parts.config);
    let offered: Vec<String> = server.tools().iter().map(|tool| tool.def.name.clone()).collect();
    json!({
        "server": server.parts.name, "state": state(&known), "at": config.url.as_deref().or(config.command.first().map(String::as_str)),
        "tools": offered, "down": known.down, "changes": known.changes(),
    })
}

async fn list(servers: McpServers) -> Result<Value, ToolError> {
    Ok(servers.all().iter().map(summary).collect())
}

async fn show(call: ToolCall, servers: McpServers) -> Result<Value, ToolError> {
    let server = find(&call, &servers)?;
    let known = server.known();
    let made = server.made();
    let pinned = known.pinned.clone().unwrap_or_default();
    let tool = |(name, shown): (&String, &ShownTool)| {
        let (ours, why) = match made.iter().find(|(theirs, _)| theirs == name) {
            Some((_, Ok(tool))) => (Some(tool.def.name.clone()), None),
            Some((_, Err(why))) => (None, Some(why.to_string())),
            None => (None, Some("it is not among `tools`".to_owned())),
        };
        json!({"tool": name, "called": ours, "not_offered": why, "description": shown.description})
    };
    let mut answer = summary(&server);
    answer["shown"] = pinned.0.iter().map(tool).collect();
    answer["pinned_sha256"] = json!(known.pinned.as_ref().map(Listing::sha256));
    answer["held_sha256"] = json!(known.held.as_ref().map(Listing::sha256));
    answer["differences"] = differences(&known, &pinned);
    Ok(answer)
}

fn differences(known: &Known, pinned: &Listing) -> Value {
    let held = known.held.clone().unwrap_or_default();
    let difference = |(name, change): (String, Change)| json!({"change": change, "before": pinned.0.get(&name), "after": held.0.get(&name), "tool": name});
    known.changes().into_iter().map(difference).collect()
}

async fn accept(call: ToolCall, servers: McpServers) -> Result<Value, ToolError> {
    let server = find(&call, &servers)?;
    if call.context().tenant_id != base::TenantId::owner() || !call.caller.grant.has(GrantScope::Admin) {
        let why = "Only the household's owner agrees to an MCP server's tools: with a token of the scope `admin`.";
        return Err(ToolError::refused("forbidden", why));
    }
    if !server.accept(&call, call.text("seen").unwrap_or_default()).await? {
        let why = "That is not what it shows now: look at it again with mcp_server_show.";
        return Err(ToolError::refused("not_held", why));
    }
    Ok(summary(&server))
}
