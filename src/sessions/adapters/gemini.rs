//! Google's Gemini CLI, in its headless mode.
//!
//! Seen with 0.61.0, and the reason for what stands here:
//!
//! * It is one bundle of JavaScript, so it is started by `node`. With `GEMINI_CLI_NO_RELAUNCH` it does not start itself a second
//!   time, and is one process.
//! * A policy that denies every tool but the butler's is what takes the built-in ones from the model.
//! * Its settings may name variables: so the session's token is in the environment alone.
//! * A system prompt of one's own replaces all of the program's, the list of skills too.
//! * It says nothing when its MCP server is absent: butlerd's own server knows whether it was asked.
//! * `@path` in a prompt is its only way to a picture. It skips that file in the sandbox, and puts a space before every other
//!   `@` of the prompt, which no address survives: so its models are told that they can't be shown pictures.
//! * Ended by a signal it exits with 0: only its result line counts.

mod events;

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde_json::json;

use super::common::{self, Smoke};
use super::{Adapter, AdapterError, Composed, EnvList, Invocation, Needs, Parser, Probe, SkillAccess};
use config::{RuntimeKind, SandboxMode};
use llm_api::pictures_not_shown;
use process::ProcessSupervisor;

/// The variables of the Gemini CLI.
pub const FIXED_ENV: EnvList = EnvList {
    always: &[TOKEN_ENV, "GEMINI_CLI_HOME", "GEMINI_CLI_NO_RELAUNCH", "GEMINI_SYSTEM_MD"],
    sometimes: &["GOOGLE_GEMINI_BASE_URL", KEY],
};

const KEY: &str = "GEMINI_API_KEY";
const TOKEN_ENV: &str = "BUTLER_TOKEN";
/// Tries of one request. The program's own delays between them are 5 s and more.
const DEFAULT_RETRIES: u32 = 1;

const SETTINGS_FILE: &str = "home/.gemini/settings.json";
const POLICY_FILE: &str = "policy.toml";
const SYSTEM_FILE: &str = "system.md";
const PROMPT_FILE: &str = "prompt.md";

/// The built-in tool through which the program reads skills.
const SKILL_TOOL: &str = "activate_skill";

const BUNDLED_SKILLS: [&str; 2] = ["antigravity-support", "skill-creator"];

/// Built-in tools that start no program but their own.
const WITHIN: [&str; 7] =
    ["read_file", "write_file", "replace", "list_directory", "glob", "grep_search", "google_web_search"];

/// Where some systems keep what is built into Node.js elsewhere.
const NODE_MODULES: &str = "/usr/share/nodejs";

const INSTALL: &str = "install it with `npm install -g @google/gemini-cli`, or set spawner.clis.gemini";
const NODE: &str = "the Gemini CLI needs Node.js 20 or newer";

/// The adapter of the Gemini CLI, with the program at this path, or the `gemini` on the daemon's PATH.
#[derive(Clone, Debug, Default)]
pub struct Gemini(pub Option<PathBuf>);

impl Gemini {
    /// What to start, and the arguments that come before all others.
    fn find(&self) -> Result<(PathBuf, Vec<String>), AdapterError> {
        let found = common::find_program(self.0.as_deref(), "spawner.clis.gemini", "gemini", INSTALL)?;
        if found.extension().is_none_or(|e| e != "js") {
            return Ok((found, Vec::new()));
        }
        let node = common::find_program(None, "", "node", NODE)?;
        Ok((node, vec![found.to_string_lossy().into_owned()]))
    }

    fn policy(&self, inv: &Invocation) -> Result<String, AdapterError> {
        let rule = |what: &str, decision: &str, priority: u32| {
            format!("[[rule]]\n{what}\ndecision = \"{decision}\"\npriority = {priority}\n\n")
        };
        let mut policy = rule("toolName = \"*\"", "deny", 100);
        policy.push_str(&rule(&format!("mcpName = \"{}\"\ntoolName = \"*\"", common::SERVER), "allow", 500));
        if !inv.skills.is_empty() {
            policy.push_str(&rule(&format!("toolName = \"{SKILL_TOOL}\""), "allow", 500));
        }
        for tool in &inv.granted_tools {
            if tool.is_empty() || !tool.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') {
                return Err(AdapterError::Tool(tool.clone(), self.kind()));
            }
            policy.push_str(&rule(&format!("toolName = \"{tool}\""), "allow", 500));
        }
        Ok(policy)
    }

    fn settings(inv: &Invocation) -> String {
        let mut model = json!({"maxSessionTurns": inv.max_turns, "skipNextSpeakerCheck": true});
        if let Some(name) = &inv.model {
            model["name"] = json!(name);
        }
        json!({
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
            "general": {
                "maxAttempts": inv.max_retries.unwrap_or(DEFAULT_RETRIES) + 1, "retryFetchErrors": false,
                "enableAutoUpdate": false, "enableAutoUpdateNotification": false,
            },
            "privacy": {"usageStatisticsEnabled": false},
            "telemetry": {"enabled": false},
            "model": model,
            // Skills that come with the program.
            "skills": {"disabled": BUNDLED_SKILLS},
            "context": {"fileName": "GEMINI.md"},
            "mcp": {"allowed": [common::SERVER]},
            "mcpServers": {common::SERVER: {
                "httpUrl": common::server_url(inv),
                "headers": {"Authorization": format!("Bearer ${TOKEN_ENV}")},
                "trust": true, "timeout": 120_000,
            }},
        })
        .to_string()
    }
}

#[async_trait]
impl Adapter for Gemini {
    fn kind(&self) -> RuntimeKind {
        RuntimeKind::Gemini
    }

    fn compose(&self, inv: &Invocation) -> Result<Composed, AdapterError> {
        if inv.prompt.trim().is_empty() {
            return Err(AdapterError::EmptyPrompt);
        }
        // Its parser takes options in many spellings, and no option of it is for butlers.
        if let Some(arg) = inv.extra_args.first() {
            return Err(AdapterError::Argument(arg.clone()));
        }
        let policy = self.policy(inv)?;
        let hint = "run `butlerd secret set GEMINI_API_KEY`";
        let (name, key) = common::credential(inv, &[KEY]).ok_or(AdapterError::NoKey { runtime: self.kind(), hint })?;
        let at = |path: &str| inv.workspace.root.join(path).to_string_lossy().into_owned();
        let mut own = vec![
            (TOKEN_ENV, inv.token.expose().clone()),
            ("GEMINI_CLI_HOME", inv.workspace.home.to_string_lossy().into_owned()),
            ("GEMINI_CLI_NO_RELAUNCH", "true".to_owned()),
            ("GEMINI_SYSTEM_MD", at(SYSTEM_FILE)),
            (name, key.expose().clone()),
        ];
        own.extend(inv.base_url.clone().map(|url| ("GOOGLE_GEMINI_BASE_URL", url)));
        let env = common::environment(inv, FIXED_ENV, own)?;
        let (program, mut args) = self.find()?;
        let script = args.first().map_or_else(|| program.clone(), PathBuf::from);
        if let Some(model) = &inv.model {
            args.extend(["-m".to_owned(), model.clone()]);
        }
        args.extend(["-o", "stream-json", "--policy"].map(str::to_owned));
        args.push(at(POLICY_FILE));
        let mut prompt = common::no_command(&inv.prompt);
        if !inv.images.is_empty() {
            prompt.push_str(&pictures_not_shown("the program that runs you can't"));
        }
        let files = vec![
            (SETTINGS_FILE, Self::settings(inv)),
            (POLICY_FILE, policy),
            (SYSTEM_FILE, inv.system_prompt.clone()),
            (PROMPT_FILE, prompt),
        ];
        let needs = Needs {
            read: common::package_of(&script).into_iter().chain([NODE_MODULES.into()]).collect(),
            programs: self.runs_programs(&inv.granted_tools),
            ..Needs::default()
        };
        Ok(Composed { needs, ..common::composed(program, args, env, files, Some(PROMPT_FILE)) })
    }

    fn parser(&self, tools: &[String]) -> Box<dyn Parser> {
        Box::new(events::GeminiParser::new(tools))
    }

    fn runs_programs(&self, granted: &[String]) -> bool {
        granted.iter().any(|tool| !WITHIN.contains(&tool.as_str()))
    }

    fn skills(&self) -> SkillAccess {
        SkillAccess::Own("To read one, call the tool activate_skill with its name.")
    }

    async fn probe(&self, processes: &ProcessSupervisor, sandbox: SandboxMode) -> Probe {
        let (found, before) = match self.find() {
            Ok((program, before)) => (Ok(program), before),
            Err(e) => (Err(e), Vec::new()),
        };
        let shown = before.first().map(Path::new).map(Path::to_owned);
        let read = shown.iter().filter_map(|script| common::package_of(script)).chain([NODE_MODULES.into()]).collect();
        let env = [("GEMINI_CLI_HOME", "/nonexistent"), ("GEMINI_CLI_NO_RELAUNCH", "true")];
        let smoke = Smoke { before, env: &env, needs: Needs { read, ..Needs::default() }, sandbox };
        let probe = common::probe(processes, found, smoke).await;
        Probe { program: shown.or(probe.program), ..probe }
    }
}

#[cfg(test)]
mod tests;
