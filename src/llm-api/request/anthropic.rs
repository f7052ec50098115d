//! Requests of the Messages API.

use super::tree::Node;
use super::{FETCHED, Feature, Judge, Refused, Rule, Rules, SERVER, STORED, VendorTool, each, member};

const BODY: Rules = &[
    ("cache_control", Rule::Pass),
    ("container", Rule::Never(STORED)),
    ("context_management", Rule::Pass),
    ("max_tokens", Rule::Pass),
    ("mcp_servers", Rule::Never(SERVER)),
    ("messages", Rule::Check(messages)),
    ("metadata", Rule::Pass),
    ("model", Rule::Pass),
    ("output_config", Rule::Pass),
    ("output_format", Rule::Pass),
    ("service_tier", Rule::Pass),
    ("speed", Rule::Pass),
    ("stop_sequences", Rule::Pass),
    ("stream", Rule::Pass),
    ("system", Rule::Check(content)),
    ("temperature", Rule::Pass),
    ("thinking", Rule::Pass),
    ("tool_choice", Rule::Pass),
    ("tools", Rule::Check(tools)),
    ("top_k", Rule::Pass),
    ("top_p", Rule::Pass),
];

const MESSAGE: Rules = &[("content", Rule::Check(content)), ("role", Rule::Pass)];

const CLIENT_TOOL: Rules = &[
    ("cache_control", Rule::Pass),
    ("defer_loading", Rule::Pass),
    ("description", Rule::Pass),
    ("eager_input_streaming", Rule::Pass),
    ("input_examples", Rule::Pass),
    ("input_schema", Rule::Pass),
    ("name", Rule::Pass),
    ("strict", Rule::Pass),
    ("type", Rule::Pass),
];

/// A name that ends in `_` stands for all its versions.
const TOOLS: Rules = &[
    ("custom", Rule::Members("tools", CLIENT_TOOL)),
    ("web_search_", Rule::Of(VendorTool::WebSearch)),
    ("web_fetch_", Rule::Of(VendorTool::WebFetch)),
    ("code_execution_", Rule::Of(VendorTool::CodeExecution)),
];

const BLOCKS: Rules = &[
    ("compaction", Rule::Pass),
    ("container_upload", Rule::Never(STORED)),
    ("document", Rule::Check(sourced)),
    ("image", Rule::Check(sourced)),
    ("redacted_thinking", Rule::Pass),
    ("search_result", Rule::Check(result)),
    ("text", Rule::Pass),
    ("thinking", Rule::Pass),
    ("tool_reference", Rule::Pass),
    ("tool_result", Rule::Check(result)),
    ("tool_use", Rule::Pass),
    // What the vendor's own tools said in an earlier turn.
    ("server_tool_use", Rule::Check(server_call)),
    ("web_search_tool_result", Rule::Of(VendorTool::WebSearch)),
    ("web_fetch_tool_result", Rule::Of(VendorTool::WebFetch)),
    ("code_execution_tool_result", Rule::Of(VendorTool::CodeExecution)),
    ("bash_code_execution_tool_result", Rule::Of(VendorTool::CodeExecution)),
    ("text_editor_code_execution_tool_result", Rule::Of(VendorTool::CodeExecution)),
];

const SOURCES: Rules = &[
    ("base64", Rule::Pass),
    ("content", Rule::Check(result)),
    ("file", Rule::Never(STORED)),
    ("text", Rule::Pass),
    ("url", Rule::Never(FETCHED)),
];

const SERVER_CALLS: Rules = &[
    ("web_search", Rule::Of(VendorTool::WebSearch)),
    ("web_fetch", Rule::Of(VendorTool::WebFetch)),
    ("code_execution", Rule::Of(VendorTool::CodeExecution)),
    ("bash_code_execution", Rule::Of(VendorTool::CodeExecution)),
    ("text_editor_code_execution", Rule::Of(VendorTool::CodeExecution)),
];

pub fn body(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    judge.members(node, "", BODY)
}

fn messages(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    each(node, judge, |message, judge| judge.members(message, "messages", MESSAGE))
}

fn content(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    each(node, judge, |block, judge| judge.kind(block, ("a block of the kind", "type", None), BLOCKS))
}

/// A block that holds others.
fn result(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    member(node, "content", judge, content)
}

/// A picture or a document.
fn sourced(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    member(node, "source", judge, |source, judge| judge.kind(source, ("a source of the kind", "type", None), SOURCES))
}

fn server_call(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    judge.kind(node, ("a call of the vendor's tool", "name", None), SERVER_CALLS)
}

fn tools(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    each(node, judge, |tool, judge| judge.kind(tool, ("the vendor's tool", "type", Some("custom")), TOOLS))
}

/// What a trial feature is good for, by its name without the date.
pub fn feature(name: &str) -> Feature {
    match name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-') {
        "web-search" => Feature::Of(VendorTool::WebSearch),
        "web-fetch" => Feature::Of(VendorTool::WebFetch),
        "code-execution" => Feature::Of(VendorTool::CodeExecution),
        "mcp-client" | "mcp-servers" | "mcp-tunnels" => Feature::Never(SERVER),
        "agent-memory" | "files-api" | "managed-agents" | "message-batches" | "message-threads" | "skills" => {
            Feature::Never(STORED)
        }
        "advanced-tool-use"
        | "afk-mode"
        | "auto-mode-classifier"
        | "cache-diagnosis"
        | "cache-keepalive"
        | "claude-code"
        | "claude-code-side-query"
        | "compact"
        | "context-1m"
        | "context-hint"
        | "context-management"
        | "dangerous-tool-use"
        | "effort"
        | "extended-cache-ttl"
        | "fallback-credit"
        | "fast-mode"
        | "fine-grained-tool-streaming"
        | "interleaved-thinking"
        | "max-tokens-3-5-sonnet"
        | "mid-conversation-system"
        | "mid-conversation-system-clear-at"
        | "mid-conversation-tool-changes"
        | "oauth"
        | "output-128k"
        | "per-turn-control"
        | "prompt-caching"
        | "prompt-caching-evict"
        | "prompt-caching-scope"
        | "redact-thinking"
        | "request-tags"
        | "server-side-fallback"
        | "structured-outputs"
        | "task-budgets"
        | "thinking-binding-controls"
        | "thinking-display-updates"
        | "thinking-resumption"
        | "thinking-token-count"
        | "timing"
        | "token-counting"
        | "token-efficient-tools"
        | "tool-examples"
        | "tool-provenance"
        | "tool-search-tool" => Feature::Harmless,
        _ => Feature::Unknown,
    }
}
