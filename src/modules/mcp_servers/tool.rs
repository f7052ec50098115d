//! A server's tool as one of the butler's.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::pins::ShownTool;
use base::{ButlerName, Principal, text};
use config::{McpServer, ResultTrust};
use tools::{Definition, Effect, EgressRecipient, EgressTarget, Handler, Meta, SchemaError, Tool};

/// The channel under which servers are known to approvals and standing rules.
const CHANNEL: &str = "mcp";
/// A model is told no more of a tool than this, in bytes.
const MOST_DESCRIPTION: usize = 4 << 10;
const MOST_SCHEMA: usize = 32 << 10;

/// Why the butler does not have a tool: a sentence without its subject and full stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Lacking {
    #[error("the server was not reached yet")]
    Unreached,
    #[error("it waits for your consent")]
    Held,
    #[error("the server has no such tool")]
    Absent,
    #[error("its schema {0}")]
    Schema(String),
    #[error(transparent)]
    Arguments(#[from] SchemaError),
}

/// The tool; `Err`: why it can't be one. `of`: the butler, the server's name and its settings.
pub(super) fn make(
    of: (&ButlerName, &str, &McpServer),
    theirs: &str,
    shown: &ShownTool,
    run: Handler,
) -> Result<Tool, Lacking> {
    let (_, server, config) = of;
    let reads = config.only_reads.iter().any(|tool| tool == theirs);
    let meta = Meta {
        reads_private: config.reads_private,
        reads_untrusted: config.trust != ResultTrust::Owner,
        sends_out: config.sends_out,
        destructive: config.destructive && !reads,
        // It only takes calls of others back.
        operators: !config.tools.iter().any(|tool| tool == theirs),
        effect: Some(if reads { Effect::None } else { Effect::Once }),
        ..Meta::default()
    };
    let description = match shown.description.trim() {
        "" => format!("The tool {theirs} of the MCP server {server}."),
        said => text::truncate(said, MOST_DESCRIPTION),
    };
    let ours = config.tool_name(server, theirs);
    let definition = Definition::new(&ours, &description, schema(&shown.schema)?, meta)?;
    let tool = Tool::new(&Arc::new(definition), run);
    if !config.sends_out {
        return Ok(tool);
    }
    let target = target(of);
    Ok(tool.with_egress_target(Arc::new(move |_| {
        let target = target.clone();
        Box::pin(async move { Ok(Some(target)) })
    })))
}

/// Where its calls go.
fn target((butler, server, config): (&ButlerName, &str, &McpServer)) -> EgressTarget {
    let host = config.url.as_deref().and_then(|url| reqwest::Url::parse(url).ok()?.host_str().map(str::to_owned));
    let address = host.clone().unwrap_or_else(|| format!("{butler}/{server}"));
    let at = host.map(|host| format!(" at {host}")).unwrap_or_default();
    EgressTarget {
        outward: true,
        to: format!("the MCP server {server}{at}"),
        those: Some(vec![Principal::person(CHANNEL, &address)]),
        recipient: Some(EgressRecipient { name: None, channel: CHANNEL.to_owned(), address }),
    }
}

/// The schema of an object, as a call can be checked by it.
fn schema(shown: &Value) -> Result<Value, Lacking> {
    let wrong = |why: &str| Lacking::Schema(why.to_owned());
    let size = text::json_length(shown);
    if size > MOST_SCHEMA {
        return Err(wrong(&format!("has {} KiB, and at most {} are taken", size >> 10, MOST_SCHEMA >> 10)));
    }
    let Value::Object(mut parts) = shown.clone() else { return Err(wrong("is no object")) };
    // Which draft it is written in says nothing to a model.
    parts.remove("$schema");
    parts.insert("type".to_owned(), json!("object"));
    if !parts.entry("properties").or_insert_with(|| Map::new().into()).is_object() {
        return Err(wrong("has properties that are no object"));
    }
    Ok(Value::Object(parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_one_of_an_object_or_none() {
        assert_eq!(schema(&json!({"$schema": "x"})).unwrap(), json!({"type": "object", "properties": {}}));
        assert!(schema(&json!([])).is_err() && schema(&json!({"properties": []})).is_err());
        let large = json!({"properties": {"a": {"description": "x".repeat(MOST_SCHEMA)}}});
        assert!(schema(&large).unwrap_err().to_string().contains("KiB"));
    }
}
