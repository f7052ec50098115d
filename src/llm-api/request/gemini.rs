//! Requests of `generateContent` and `countTokens`. The API reads each key as `camelCase` and as `snake_case`.

use super::tree::{Node, same};
use super::{FETCHED, Judge, Refused, Rule, Rules, STORED, VendorTool, each};

const BODY: Rules = &[
    ("cachedContent", Rule::Never(STORED)),
    ("contents", Rule::Check(contents)),
    ("generateContentRequest", Rule::Check(body)),
    ("generationConfig", Rule::Pass),
    ("labels", Rule::Pass),
    ("model", Rule::Pass),
    ("safetySettings", Rule::Pass),
    ("serviceTier", Rule::Pass),
    ("systemInstruction", Rule::Check(turn)),
    ("toolConfig", Rule::Check(tool_config)),
    ("tools", Rule::Check(tools)),
];

/// An entry may hold several tools at once, each under its key.
const TOOL: Rules = &[
    ("codeExecution", Rule::Of(VendorTool::CodeExecution)),
    ("functionDeclarations", Rule::Pass),
    ("googleSearch", Rule::Of(VendorTool::WebSearch)),
    ("googleSearchRetrieval", Rule::Of(VendorTool::WebSearch)),
    ("urlContext", Rule::Of(VendorTool::WebFetch)),
    ("computerUse", Rule::Never(HOSTED)),
    ("enterpriseWebSearch", Rule::Never(HOSTED)),
    ("fileSearch", Rule::Never(STORED)),
    ("googleMaps", Rule::Never(HOSTED)),
    ("mcpServers", Rule::Never(super::SERVER)),
    ("retrieval", Rule::Never(STORED)),
];

const HOSTED: &str = "the vendor would run it";

const TOOL_CONFIG: Rules = &[("functionCallingConfig", Rule::Pass)];

const TURN: Rules = &[("parts", Rule::Check(parts)), ("role", Rule::Pass)];

const PART: Rules = &[
    ("codeExecutionResult", Rule::Of(VendorTool::CodeExecution)),
    ("executableCode", Rule::Of(VendorTool::CodeExecution)),
    ("fileData", Rule::Never(FETCHED)),
    ("functionCall", Rule::Pass),
    ("functionResponse", Rule::Check(response)),
    ("inlineData", Rule::Pass),
    ("mediaResolution", Rule::Pass),
    ("text", Rule::Pass),
    ("thought", Rule::Pass),
    ("thoughtSignature", Rule::Pass),
    ("videoMetadata", Rule::Pass),
];

const RESPONSE: Rules = &[
    ("id", Rule::Pass),
    ("name", Rule::Pass),
    ("parts", Rule::Check(parts)),
    ("response", Rule::Pass),
    ("scheduling", Rule::Pass),
    ("willContinue", Rule::Pass),
];

pub fn body(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    judge.members_as(node, "", BODY, same)
}

fn contents(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    each(node, judge, turn)
}

fn turn(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    match node {
        // A text alone is a turn too.
        Node::Plain(_) => Ok(()),
        _ => judge.members_as(node, "contents", TURN, same),
    }
}

fn parts(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    each(node, judge, |part, judge| match part {
        Node::Plain(_) => Ok(()),
        _ => judge.members_as(part, "parts", PART, same),
    })
}

fn response(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    judge.members_as(node, "functionResponse", RESPONSE, same)
}

fn tools(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    each(node, judge, |tool, judge| judge.members_as(tool, "tools", TOOL, same))
}

fn tool_config(node: &mut Node, judge: &mut Judge<'_>) -> Result<(), Refused> {
    judge.members_as(node, "toolConfig", TOOL_CONFIG, same)
}
