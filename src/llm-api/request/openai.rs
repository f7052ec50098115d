//! Requests of the Responses API and of chat completions, which local servers speak too.

use serde_json::Value;

use super::tree::Node;
use super::{Feature, Judge, Refused, Rule, Rules, SERVER, STORED, VendorTool, data_address, each, member};

const RESPONSES: Rules = &[
    ("background", Rule::Never(STORED)),
    ("client_metadata", Rule::Pass),
    ("context_management", Rule::Pass),
    ("conversation", Rule::Never(STORED)),
    ("include", Rule::Pass),
    ("input", Rule::Check(input)),
    ("instructions", Rule::Check(input)),
    ("max_output_tokens", Rule::Pass),
    ("max_tool_calls", Rule::Pass),
    ("metadata", Rule::Pass),
    ("model", Rule::Check(model)),
    ("parallel_tool_calls", Rule::Pass),
    ("previous_response_id", Rule::Never(STORED)),
    ("prompt", Rule::Never(STORED)),
    ("prompt_cache_key", Rule::Pass),
    ("prompt_cache_retention", Rule::Pass),
    ("reasoning", Rule::Pass),
    ("safety_identifier", Rule::Pass),
    ("service_tier", Rule::Pass),
    ("stream", Rule::Pass),
    ("stream_options", Rule::Pass),
    ("temperature", Rule::Pass),
    ("text", Rule::Pass),
    ("tool_choice", Rule::Pass),
    ("tools", Rule::Check(tools)),
    ("top_logprobs", Rule::Pass),
    ("top_p", Rule::Pass),
    ("truncation", Rule::Pass),
    ("user", Rule::Pass),
];

const CHAT: Rules = &[
    ("frequency_penalty", Rule::Pass),
    ("function_call", Rule::Pass),
    ("functions", Rule::Pass),
    ("logit_bias", Rule::Pass),
    ("logprobs", Rule::Pass),
    ("max_completion_tokens", Rule::Pass),
    ("max_tokens", Rule::Pass),
    ("messages", Rule::Check(messages)),
    ("metadata", Rule::Pass),
    ("min_p", Rule::Pass),
    ("model", Rule::Check(model)),
    ("n", Rule::Pass),
    ("parallel_tool_calls", Rule::Pass),
    ("plugins", Rule::Never(SERVER)),
    ("presence_penalty", Rule::Pass),
    ("prompt_cache_key", Rule::Pass),
    ("prompt_cache_retention", Rule::Pass),
    ("reasoning", Rule::Pass),
    ("reasoning_effort", Rule::Pass),
    ("repeat_penalty", Rule::Pass),
    ("response_format", Rule::Pass),
    ("safety_identifier", Rule::Pass),
    ("seed", Rule::Pass),
    ("service_tier", Rule::Pass),
    ("stop", Rule::Pass),
    ("stream", Rule::Pass),
    ("stream_options", Rule::Pass),
    ("temperature", Rule::Pass),
    ("tool_choice", Rule::Pass),
    ("tools", Rule::Check(chat_tools)),
    ("top_k", Rule::Pass),
    ("top_logprobs", Rule::Pass),
    ("top_p", Rule::Pass),
    ("user", Rule::Pass),
    ("verbosity", Rule::Pass),
    ("web_search_options", Rule::Of(VendorTool::WebSearch)),
];

/// What a program calls by itself; it gets the call, and the vendor does nothing.
const TOOLS: Rules = &[
    ("apply_patch", Rule::Pass),
    ("code_interpreter", Rule::Of(VendorTool::CodeExecution)),
    ("custom", Rule::Pass),
    ("function", Rule::Pass),
    ("local_shell", Rule::Pass),
    // Tools under a common name, and those that an item brings.
    ("namespace", Rule::Check(additional_tools)),
    ("tool_search", Rule::Check(tool_search)),
    ("web_search", Rule::Of(VendorTool::WebSearch)),
    ("web_search_preview", Rule::Of(VendorTool::WebSearch)),
];

const CHAT_TOOLS: Rules = &[("custom", Rule::Pass), ("function", Rule::Pass)];

const ITEMS: Rules = &[
    ("additional_tools", Rule::Check(additional_tools)),
    ("agent_message", Rule::Check(content)),
    ("apply_patch_call", Rule::Pass),
    ("apply_patch_call_output", Rule::Check(output)),
    ("code_interpreter_call", Rule::Of(VendorTool::CodeExecution)),
    ("compaction", Rule::Pass),
    ("compaction_summary", Rule::Pass),
    ("custom_tool_call", Rule::Pass),
    ("custom_tool_call_output", Rule::Check(output)),
    ("function_call", Rule::Pass),
    ("function_call_output", Rule::Check(output)),
    ("item_reference", Rule::Never(STORED)),
    ("local_shell_call", Rule::Pass),
    ("local_shell_call_output", Rule::Check(output)),
    ("message", Rule::Check(content)),
    ("reasoning", Rule::Pass),
    ("tool_search_call", Rule::Pass),
    ("tool_search_output", Rule::Check(additional_tools)),
    ("web_search_call", Rule::Of(VendorTool::WebSearch)),
];

const PARTS: Rules = &[
    ("encrypted_content", Rule::Pass),
    ("input_audio", Rule::Pass),
    ("input_file", Rule::Members("file", FILE)),
    ("input_image", Rule::Members("image", IMAGE)),
    ("input_text", Rule::Pass),
    ("output_text", Rule::Pass),
    ("reasoning_text", Rule::Pass),
    ("refusal", Rule::Pass),
    ("summary_text", Rule::Pass),
    ("text", Rule::Pass),
];

const CHAT_PARTS: Rules = &[
    ("file", Rule::Members("file", CHAT_FILE)),
    ("image_url", Rule::Members("image_url", CHAT_IMAGE)),
    ("input_audio", Rule::Pass),
    ("reasoning", Rule::Pass),
    ("refusal", Rule::Pass),
    ("text", Rule::Pass),
    ("thinking", Rule::Pass),
];

const IMAGE: Rules = &[
    ("detail", Rule::Pass),
    ("file_id", Rule::Never(STORED)),
    ("image_url", Rule::Check(data_address)),
    ("type", Rule::Pass),
];

const FILE: Rules = &[
    ("file_data", Rule::Check(data)),
    ("file_id", Rule::Never(STORED)),
    ("file_url", Rule::Check(data_address)),
    ("filename", Rule::Pass),
    ("type", Rule::Pass),
];

const CHAT_IMAGE: Rules = &[("image_url", Rule::Check(image_url)), ("type", Rule::Pass)];
const IMAGE_URL: Rules = &[("detail", Rule::Pass), ("url", Rule::Check(data_address))];
const CHAT_FILE: Rules = &[("file", Rule::Members("file", FILE)), ("type", Rule::Pass)];

const MESSAGE: Rules = &[
    ("content", Rule::Check(chat_content)),
    ("function_call", Rule::Pass),
    ("name", Rule::Pass),
    ("reasoning", Rule::Pass),
    ("reasoning_content", Rule::Pass),
    ("reasoning_details", Rule::Pass),
    ("refusal", Rule::Pass),
    ("role", Rule::Pass),
    ("tool_call_id", Rule::Pass),
    ("tool_calls", Rule::Pass),
];

pub fn responses(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    judge.members(node, "", RESPONSES)?;
    // Where nothing is said the vendor keeps the conversation.
    judge.left_out.remove("store");
    node.set("store", Value::Bool(false));
    Ok(())
}

pub fn chat(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    judge.members(node, "", CHAT)?;
    // Where nobody asks, a stream does not say what it used.
    if node.get("stream").is_some_and(|stream| !stream.is_nothing()) {
        node.set("stream_options", serde_json::json!({"include_usage": true}));
    }
    Ok(())
}

/// A model that searches the web whatever it is asked is a tool of the vendor's.
fn model(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    let name = node.text().unwrap_or_default().to_ascii_lowercase();
    let searches =
        ["-search-preview", "-search-api", "deep-research", ":online"].iter().any(|part| name.contains(part));
    if searches && !judge.granted.contains(&VendorTool::WebSearch) {
        return Err(Refused::NotGranted { what: format!("the model \"{name}\""), tool: VendorTool::WebSearch });
    }
    Ok(())
}

fn input(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    each(node, judge, |item, judge| judge.kind(item, ("an item of the kind", "type", Some("message")), ITEMS))
}

fn content(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    member(node, "content", judge, parts)
}

fn output(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    member(node, "output", judge, parts)
}

fn parts(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    each(node, judge, |part, judge| judge.kind(part, ("a part of the kind", "type", None), PARTS))
}

/// The bytes of a file, as text or as an address that holds them.
fn data(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    if node.text().is_some_and(|text| text.contains("://")) { data_address(node, judge) } else { Ok(()) }
}

fn tools(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    each(node, judge, |tool, judge| judge.kind(tool, ("the vendor's tool", "type", None), TOOLS))
}

fn additional_tools(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    member(node, "tools", judge, tools)
}

/// A search among the request's own tools, which the program makes itself.
fn tool_search(node: &mut Node, _: &mut Judge<'_>) -> Result<(), Refused> {
    match node.get("execution").and_then(Node::text) {
        Some("client") => Ok(()),
        _ => Err(Refused::Never { what: "the vendor's tool \"tool_search\"".to_owned(), why: super::UNKNOWN_KIND }),
    }
}

fn messages(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    each(node, judge, |message, judge| judge.members(message, "messages", MESSAGE))
}

fn chat_content(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    each(node, judge, |part, judge| judge.kind(part, ("a part of the kind", "type", None), CHAT_PARTS))
}

/// An object with the address, or the address itself, as some servers take it.
fn image_url(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    match node {
        Node::Object(_) => judge.members(node, "image_url", IMAGE_URL),
        _ => data_address(node, judge),
    }
}

fn chat_tools(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    each(node, judge, |tool, judge| judge.kind(tool, ("the vendor's tool", "type", Some("function")), CHAT_TOOLS))
}

/// What a trial feature is good for, by its name without version or date.
pub fn feature(name: &str) -> Feature {
    match name.split('=').next().unwrap_or(name) {
        "responses" => Feature::Harmless,
        "assistants" | "realtime" => Feature::Never(STORED),
        _ => Feature::Unknown,
    }
}
