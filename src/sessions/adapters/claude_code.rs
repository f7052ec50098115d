//! Anthropic's Claude Code, in its headless mode.
//!
//! Seen with 2.1.197 and 2.1.329, and the reason for what stands here:
//!
//! * The prompt is the standard input, a file of the workspace. On the command line every user of the machine could
//!   read it, and one argument ends at 128 KiB; a flag that names a prompt file does not exist.
//! * `@path` anywhere in a prompt makes the program read that file and send it to the model, also with no tools
//!   granted, also outside of its working directory. Whoever can write to a butler could so ask for the session's
//!   token. `CLAUDE_CODE_DISABLE_ATTACHMENTS` stops it in both versions (a narrower variable exists in the newer only).
//! * That variable also removes the announcement of skills, so the system prompt lists them.
//! * A prompt that begins with `/` is taken as a command: it reports success, and no model ever saw it. A line feed
//!   before it prevents that.
//! * Pictures go with a prompt as a message of `--input-format stream-json`. The older version reads such from a pipe only;
//!   given a file it ends at once, with success and without a word.
//! * With `--include-partial-messages` it tells each event of the model's stream, and the whole block after it as ever.
//! * Tool names reach the model with `_` for what its API does not allow (`module.states` becomes
//!   `mcp__butler__module_states`). The newer version has the butler's own name in `tool_use_meta`; for the older one it
//!   is looked up among the butler's tools.

mod events;

use std::path::PathBuf;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;

use super::common::{self, Smoke};
use super::{Adapter, AdapterError, Composed, EnvList, Invocation, Needs, Parser, Probe, SkillAccess};
use crate::workspace::AGENTS_DIR;
use config::{RuntimeKind, SandboxMode};
use process::ProcessSupervisor;

/// The variables of Claude Code.
pub const FIXED_ENV: EnvList = EnvList {
    always: &[
        "CLAUDE_CONFIG_DIR",
        "CLAUDE_CODE_DISABLE_ATTACHMENTS",
        "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "CLAUDE_CODE_MAX_RETRIES",
        "DISABLE_AUTOUPDATER",
    ],
    sometimes: &["ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
};

/// Variables for a key, the first that is there being the one used: given several, the program would send two.
const KEYS: [&str; 3] = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"];

/// The program's own default is 10, with delays that sum up to minutes.
const DEFAULT_RETRIES: u32 = 2;

/// Options that decide what a session may do or how its output is read. A later one would win over ours.
const RESERVED_ARGS: [&str; 33] = [
    "-p",
    "--print",
    "--output-format",
    "--input-format",
    "--verbose",
    "--strict-mcp-config",
    "--mcp-config",
    "--setting-sources",
    "--settings",
    "--tools",
    "--allowedTools",
    "--allowed-tools",
    "--permission-mode",
    "--permission-prompt-tool",
    "--permission-prompts",
    "--dangerously-skip-permissions",
    "--allow-dangerously-skip-permissions",
    "--system-prompt",
    "--system-prompt-file",
    "--no-session-persistence",
    "--resume",
    "-r",
    "--continue",
    "-c",
    "--session-id",
    "--max-turns",
    "--model",
    "--plugin-dir",
    "--plugin-url",
    "--add-dir",
    "--bg",
    "--background",
    "--cloud",
];

const MCP_FILE: &str = "mcp.json";
const SYSTEM_FILE: &str = "system.md";
const PROMPT_FILE: &str = "prompt.md";
/// This directory is the plug-in: its `skills` are the butler's.
const PLUGIN_DIR: &str = AGENTS_DIR;
const PLUGIN_FILE: &str = "agents/.claude-plugin/plugin.json";
/// The built-in tool through which the program reads skills.
const SKILL_TOOL: &str = "Skill";

const INSTALL: &str = "install it with `npm install -g @anthropic-ai/claude-code`, or set spawner.clis.claude";

/// Built-in tools that start no program but their own.
const WITHIN: [&str; 8] = ["Read", "Write", "Edit", "NotebookEdit", "Glob", "Grep", "TodoWrite", "WebSearch"];

/// Whether a granted tool, such as `Read` or `Bash(git log:*)`, starts no program but its own.
fn within(granted: &str) -> bool {
    WITHIN.contains(&granted.split('(').next().unwrap_or(granted))
}

/// The adapter of Claude Code, with the program at this path, or the `claude` on the daemon's PATH.
#[derive(Clone, Debug, Default)]
pub struct ClaudeCode(pub Option<PathBuf>);

impl ClaudeCode {
    fn find(&self) -> Result<PathBuf, AdapterError> {
        common::find_program(self.0.as_deref(), "spawner.clis.claude", "claude", INSTALL)
    }

    fn args(&self, inv: &Invocation) -> Result<Vec<String>, AdapterError> {
        for arg in &inv.extra_args {
            if RESERVED_ARGS.contains(&arg.split('=').next().unwrap_or(arg)) {
                return Err(AdapterError::Argument(arg.clone()));
            }
        }
        let mut tools = Vec::new();
        for granted in &inv.granted_tools {
            // `Bash(git log:*)` allows a part of the tool `Bash`.
            let name = granted.split('(').next().unwrap_or(granted);
            let named = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if !named || granted.contains(',') || (name != granted && !granted.ends_with(')')) {
                return Err(AdapterError::Tool(granted.clone(), self.kind()));
            }
            tools.push(name.to_owned());
        }
        let mut allowed = vec![format!("mcp__{}__*", common::SERVER)];
        allowed.extend(inv.granted_tools.iter().cloned());
        if !inv.skills.is_empty() {
            tools.push(SKILL_TOOL.to_owned());
            allowed.push(SKILL_TOOL.to_owned());
        }
        let at = |file: &str| inv.workspace.root.join(file).to_string_lossy().into_owned();
        let mut args: Vec<String> = vec!["-p".into()];
        if let Some(model) = &inv.model {
            args.extend(["--model".into(), model.clone()]);
        }
        args.extend(inv.extra_args.iter().cloned());
        args.extend(["--output-format", "stream-json", "--verbose", "--no-session-persistence"].map(str::to_owned));
        if !inv.images.is_empty() {
            args.extend(["--input-format", "stream-json"].map(str::to_owned));
        }
        if inv.stream_text {
            args.push("--include-partial-messages".into());
        }
        args.extend(["--strict-mcp-config".into(), "--mcp-config".into(), at(MCP_FILE)]);
        args.extend(["--setting-sources".into(), String::new()]);
        args.extend(["--tools".into(), tools.join(",")]);
        args.extend(["--allowedTools".into(), allowed.join(",")]);
        args.extend(["--permission-mode".into(), "dontAsk".into()]);
        args.extend(["--max-turns".into(), inv.max_turns.to_string()]);
        args.extend(["--system-prompt-file".into(), at(SYSTEM_FILE)]);
        if !inv.skills.is_empty() {
            args.extend(["--plugin-dir".into(), at(PLUGIN_DIR)]);
        }
        Ok(args)
    }
}

/// A prompt with pictures, as the line that the program reads.
fn message(prompt: &str, images: &[(String, Vec<u8>)]) -> Vec<u8> {
    let image = |(kind, data): &(String, Vec<u8>)| json!({"type": "image", "source": {"type": "base64", "media_type": kind, "data": BASE64.encode(data)}});
    let mut content = vec![json!({"type": "text", "text": prompt})];
    content.extend(images.iter().map(image));
    format!("{}\n", json!({"type": "user", "message": {"role": "user", "content": content}})).into_bytes()
}

#[async_trait]
impl Adapter for ClaudeCode {
    fn kind(&self) -> RuntimeKind {
        RuntimeKind::ClaudeCode
    }

    fn compose(&self, inv: &Invocation) -> Result<Composed, AdapterError> {
        if inv.prompt.trim().is_empty() {
            return Err(AdapterError::EmptyPrompt);
        }
        let args = self.args(inv)?;
        let hint = "run `butlerd secret set ANTHROPIC_API_KEY`, or set CLAUDE_CODE_OAUTH_TOKEN for a subscription";
        let (name, key) = common::credential(inv, &KEYS).ok_or(AdapterError::NoKey { runtime: self.kind(), hint })?;
        let config_dir = inv.workspace.home.join(".claude").to_string_lossy().into_owned();
        let mut own = vec![
            ("CLAUDE_CONFIG_DIR", config_dir),
            ("CLAUDE_CODE_DISABLE_ATTACHMENTS", "1".to_owned()),
            ("CLAUDE_CODE_DISABLE_BUNDLED_SKILLS", "1".to_owned()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
            ("CLAUDE_CODE_MAX_RETRIES", inv.max_retries.unwrap_or(DEFAULT_RETRIES).to_string()),
            ("DISABLE_AUTOUPDATER", "1".to_owned()),
            (name, key.expose().clone()),
        ];
        own.extend(inv.base_url.clone().map(|url| ("ANTHROPIC_BASE_URL", url)));
        let env = common::environment(inv, FIXED_ENV, own)?;

        let prompt = common::no_command(&inv.prompt);
        let piped = (!inv.images.is_empty()).then(|| message(&prompt, &inv.images));
        let mut files =
            vec![(MCP_FILE, common::mcp_servers(inv).to_string()), (SYSTEM_FILE, inv.system_prompt.clone())];
        if piped.is_none() {
            files.push((PROMPT_FILE, prompt));
        }
        if !inv.skills.is_empty() {
            let about = json!({"name": common::SERVER, "version": "1.0.0", "description": "Skills of this butler"});
            files.push((PLUGIN_FILE, about.to_string()));
        }
        let stdin = piped.is_none().then_some(PROMPT_FILE);
        let needs = Needs { programs: self.runs_programs(&inv.granted_tools), ..Needs::default() };
        Ok(Composed { needs, piped, ..common::composed(self.find()?, args, env, files, stdin) })
    }

    fn parser(&self, tools: &[String]) -> Box<dyn Parser> {
        Box::new(events::ClaudeParser::new(tools))
    }

    fn runs_programs(&self, granted: &[String]) -> bool {
        granted.iter().any(|tool| !within(tool))
    }

    fn skills(&self) -> SkillAccess {
        SkillAccess::Own("To read one, call the tool Skill with its name after `butler:`.")
    }

    async fn probe(&self, processes: &ProcessSupervisor, sandbox: SandboxMode) -> Probe {
        let smoke =
            Smoke { before: Vec::new(), env: &[("DISABLE_AUTOUPDATER", "1")], needs: Needs::default(), sandbox };
        common::probe(processes, self.find(), smoke).await
    }
}

#[cfg(test)]
mod tests;
