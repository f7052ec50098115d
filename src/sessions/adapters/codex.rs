//! OpenAI's Codex, in its headless mode.
//!
//! Seen with 0.169.0, and the reason for what stands here:
//!
//! * All that bounds a session is a configuration file in a home of its own; the command line only names the mode.
//! * The program in the npm package is a script that starts the native one. The native one is started directly: it
//!   needs nothing else, and a signal reaches it.
//! * A tool of an MCP server wants an approval that nobody can give unless the server says `approve`, and a server that
//!   is not `required` may be absent without a word.
//! * Without its feature switched off it waits for ever for a model server that is not there.
//! * `--image` takes files, and `--image=` one each; without that the next argument is taken for one more.
//! * It has no bound of turns: butlerd counts.
//! * It tells a text when it is whole, and has no way to tell it as it is written.
//! * It lists a server's tools again when the server says that they changed only with a feature that it calls "under
//!   development", which stays off: what `tool_find` told of is called through `tool_call`.
//! * With its shell off it can't read a skill's file, so the butler's own tools give skills to it.

mod events;

use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::common::{self, Smoke};
use super::{Adapter, AdapterError, Composed, EnvList, Invocation, Needs, Parser, Probe};
use crate::workspace::SessionFile;
use config::{RuntimeKind, SandboxMode};
use process::ProcessSupervisor;

/// The variables of Codex.
pub const FIXED_ENV: EnvList = EnvList { always: &[TOKEN_ENV, "CODEX_HOME"], sometimes: &[KEY] };

const KEY: &str = "OPENAI_API_KEY";
/// Out of this the program takes the session's token: so no file holds it.
const TOKEN_ENV: &str = "BUTLER_TOKEN";
const VENDOR_URL: &str = "https://api.openai.com/v1";
/// Of a request and of a stream, each: so four requests at most.
const DEFAULT_RETRIES: u32 = 1;

const HOME: &str = "home/.codex";
const CONFIG_FILE: &str = "home/.codex/config.toml";
const SYSTEM_FILE: &str = "system.md";
const PROMPT_FILE: &str = "prompt.md";

/// Settings that `[runtime] args` may make with `-c`. All others could loosen a session's bounds.
const FREE_SETTINGS: [&str; 3] = ["model_reasoning_effort", "model_reasoning_summary", "model_verbosity"];

const INSTALL: &str = "install it with `npm install -g @openai/codex`, or set spawner.clis.codex";

/// The adapter of Codex, with the program at this path, or the `codex` on the daemon's PATH.
#[derive(Clone, Debug, Default)]
pub struct Codex(pub Option<PathBuf>);

/// The native program behind the script of the npm package, if `found` is that script: in a package beside it or below
/// it.
fn native(found: &Path) -> Option<PathBuf> {
    let (package, target) = match std::env::consts::ARCH {
        "x86_64" => ("codex-linux-x64", "x86_64-unknown-linux-musl"),
        "aarch64" => ("codex-linux-arm64", "aarch64-unknown-linux-musl"),
        _ => return None,
    };
    let own = found.file_name().filter(|name| *name == "codex.js").and_then(|_| found.parent()?.parent())?;
    let places = [own.join("node_modules/@openai").join(package), own.parent()?.join(package)];
    let binary = |place: &PathBuf| place.join("vendor").join(target).join("bin/codex");
    places.iter().map(binary).find(|path| path.is_file())
}

impl Codex {
    fn find(&self) -> Result<PathBuf, AdapterError> {
        let found = common::find_program(self.0.as_deref(), "spawner.clis.codex", "codex", INSTALL)?;
        Ok(native(&found).unwrap_or(found))
    }

    fn args(inv: &Invocation) -> Result<Vec<String>, AdapterError> {
        let mut args: Vec<String> =
            ["exec", "--json", "--skip-git-repo-check", "--ephemeral"].map(str::to_owned).into();
        let mut given = inv.extra_args.iter();
        while let Some(arg) = given.next() {
            let setting = (arg == "-c").then(|| given.next()).flatten();
            let free = setting.filter(|s| s.split_once('=').is_some_and(|(key, _)| FREE_SETTINGS.contains(&key)));
            let setting = free.ok_or_else(|| AdapterError::Argument(setting.unwrap_or(arg).clone()))?;
            args.extend([arg.clone(), setting.clone()]);
        }
        let at = |file: &SessionFile| inv.workspace.root.join(&file.path).to_string_lossy().into_owned();
        args.extend(common::pictures(inv).iter().map(|file| format!("--image={}", at(file))));
        // The prompt is the standard input.
        args.push("-".to_owned());
        Ok(args)
    }

    /// The configuration file: no secret is in it.
    fn settings(&self, inv: &Invocation) -> Result<String, AdapterError> {
        let granted = |tool: &str| inv.granted_tools.iter().any(|t| t == tool);
        if let Some(other) = inv.granted_tools.iter().find(|t| !["shell", "view_image", "web_search"].contains(&&***t))
        {
            return Err(AdapterError::Tool(other.clone(), self.kind()));
        }
        let system = inv.workspace.root.join(SYSTEM_FILE);
        let server = common::server_url(inv);
        let url = inv.base_url.as_deref().unwrap_or(VENDOR_URL);
        let retries = inv.max_retries.unwrap_or(DEFAULT_RETRIES);
        let model = inv.model.as_ref().map(|model| format!("model = {}\n", quoted(model))).unwrap_or_default();
        let (shell, image) = (granted("shell"), granted("view_image"));
        let (sandbox, web) = (
            match (shell, inv.confined) {
                // Its own sandbox makes namespaces, which ours forbids: every command would fail.
                (true, true) => "danger-full-access",
                (true, false) => "workspace-write",
                (false, _) => "read-only",
            },
            if granted("web_search") { "live" } else { "disabled" },
        );
        let (system, url, server) = (quoted(&system.to_string_lossy()), quoted(url), quoted(&server));
        let name = common::SERVER;
        Ok(format!(
            r#"{model}model_provider = "butlerd"
approval_policy = "never"
sandbox_mode = "{sandbox}"
web_search = "{web}"
check_for_update_on_startup = false
project_doc_max_bytes = 0
model_instructions_file = {system}
include_permissions_instructions = false
include_apps_instructions = false
include_environment_context = false

[agents]
enabled = false

[skills]
include_instructions = false

[skills.bundled]
enabled = false

[analytics]
enabled = false

[shell_environment_policy]
inherit = "core"

[features]
shell_tool = {shell}
view_image = {image}
unbounded_connection_retries = false
goals = false
apps = false
plugins = false
hooks = false
memories = false
tool_suggest = false
skill_search = false
unified_exec = false
image_generation = false

[model_providers.butlerd]
name = "butlerd"
base_url = {url}
env_key = "{KEY}"
wire_api = "responses"
request_max_retries = {retries}
stream_max_retries = {retries}

[mcp_servers.{name}]
url = {server}
bearer_token_env_var = "{TOKEN_ENV}"
required = true
default_tools_approval_mode = "approve"
startup_timeout_sec = 10
tool_timeout_sec = 120
"#
        ))
    }
}

/// A text as TOML has it: as JSON, but for one character that JSON leaves as it is.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[async_trait]
impl Adapter for Codex {
    fn kind(&self) -> RuntimeKind {
        RuntimeKind::Codex
    }

    fn compose(&self, inv: &Invocation) -> Result<Composed, AdapterError> {
        if inv.prompt.trim().is_empty() {
            return Err(AdapterError::EmptyPrompt);
        }
        let args = Self::args(inv)?;
        let settings = self.settings(inv)?;
        let hint = "run `butlerd secret set OPENAI_API_KEY`";
        let (name, key) = common::credential(inv, &[KEY]).ok_or(AdapterError::NoKey { runtime: self.kind(), hint })?;
        let own = vec![
            ("CODEX_HOME", inv.workspace.root.join(HOME).to_string_lossy().into_owned()),
            (TOKEN_ENV, inv.token.expose().clone()),
            (name, key.expose().clone()),
        ];
        let env = common::environment(inv, FIXED_ENV, own)?;
        let files =
            vec![(CONFIG_FILE, settings), (SYSTEM_FILE, inv.system_prompt.clone()), (PROMPT_FILE, inv.prompt.clone())];
        let needs = Needs { programs: self.runs_programs(&inv.granted_tools), ..Needs::default() };
        let mut composed = common::composed(self.find()?, args, env, files, Some(PROMPT_FILE));
        composed.files.extend(common::pictures(inv));
        Ok(Composed { needs, ..composed })
    }

    fn runs_programs(&self, granted: &[String]) -> bool {
        granted.iter().any(|tool| tool == "shell")
    }

    fn parser(&self, tools: &[String]) -> Box<dyn Parser> {
        Box::new(events::CodexParser::new(tools))
    }

    async fn probe(&self, processes: &ProcessSupervisor, sandbox: SandboxMode) -> Probe {
        // A home that isn't there: nothing is read from the user's, and nothing written.
        let env = [("CODEX_HOME", "/nonexistent")];
        let smoke = Smoke { before: Vec::new(), env: &env, needs: Needs::default(), sandbox };
        common::probe(processes, self.find(), smoke).await
    }
}

#[cfg(test)]
mod tests;
