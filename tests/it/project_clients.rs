//! Project memory through the real coding assistants, pinned, as a developer runs them: in a repository in which
//! `butlerd project init` was run, each asking a scripted model. What the model was sent is the proof.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::model::{LoggedRequest, ScriptedModel};
use what_was_left_out::left_out;

use crate::support::developer::{Developer, with_workshop};
use crate::support::{Household, butlerd, model, path_with_node};

/// What the model says and the Stop hook finds worth keeping.
const CAUSE: &str =
    "The root cause was that the session cache keys did not include the tenant, so two tenants shared one entry.";
/// What the model keeps by a tool.
const REGION: &str = "The deploy script fails when REGION is unset, because terraform falls back to us-east-1";
/// What `init` calls the MCP server everywhere.
const SERVER: &str = "wt-tools";
/// No run of an assistant takes so long, however busy the machine is.
const LONGEST: Duration = Duration::from_secs(180);

/// So often a busy machine may be too slow for a hook.
pub const ROUNDS: usize = 10;

/// An assistant in a developer's repository.
pub struct Assistant<'a> {
    pub developer: Developer<'a>,
    pub program: PathBuf,
    /// What it is told beside the developer's own environment.
    pub environment: Vec<(&'static str, String)>,
}

impl<'a> Assistant<'a> {
    /// The program that the variable names, on the developer's PATH by its own name. `None`: it is not installed.
    fn installed(
        (name, variable): (&str, &str),
        test: &str,
        household: &'a Household,
        environment: Vec<(&'static str, String)>,
    ) -> Option<Self> {
        let Some(installed) = std::env::var_os(variable) else {
            left_out(test, &format!("{variable} is not set; `eval \"$(.ci/run clients)\"` installs it"));
            return None;
        };
        let programs = household.path().join("programs");
        std::fs::create_dir_all(&programs).expect("the directory");
        let program = programs.join(name);
        std::os::unix::fs::symlink(installed, &program).expect("the link");
        let path = format!("{}:{}", programs.display(), path_with_node());
        let environment = environment.into_iter().chain([("PATH", path)]).collect();
        Some(Self { developer: Developer::in_repository(household, "work/api"), program, environment })
    }

    /// Runs a program as the developer would, with nothing to read, and returns what it printed.
    pub async fn run(&self, program: &Path, args: &[&str]) -> String {
        let environment = self.environment.iter().map(|(name, value)| (name, value));
        let mut command = self.developer.command(program, args);
        command.envs(environment).stdin(Stdio::null());
        let mut command = tokio::process::Command::from(command);
        let running = command.kill_on_drop(true).output();
        let ended = tokio::time::timeout(LONGEST, running).await.unwrap_or_else(|_| panic!("{args:?} does not end"));
        let out = ended.expect("it runs");
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success(), "{args:?}: {text}{}", String::from_utf8_lossy(&out.stderr));
        text
    }

    /// Registers the memory with this assistant: everything at once, and nothing once more.
    pub async fn init(&self, name: &str) {
        let args = ["project", "init", "--assistant", name, "--json"];
        for is_first in [true, false] {
            let text = self.run(butlerd(), &args).await;
            let report: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
            assert_eq!(report["notes"], json!([]), "{report}");
            assert_eq!(report["changes"] != json!([]), is_first, "{report}");
        }
    }

    /// How many hooks came too late or failed so far.
    fn missed(&self) -> u64 {
        self.developer.project(&["status"])["missed_hooks"]["missed"].as_u64().unwrap_or_default()
    }

    /// Does something until it holds, as long as a hook was too late each time: a hook gives up after a tenth of a
    /// second, and a busy machine is no mistake of butlerd's.
    async fn in_time(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        for _ in 0..ROUNDS {
            let before = self.missed();
            if holds().await {
                return;
            }
            assert!(self.missed() > before, "{what}: not so, and no hook was late");
        }
        panic!("{what}: hooks were late {ROUNDS} times");
    }

    /// Says something to Claude Code, and returns its final answer.
    pub async fn claude(&self, prompt: &str, session: &[&str]) -> String {
        let mut args = vec!["-p", prompt, "--model", "claude-sonnet-4-5", "--output-format", "json"];
        args.extend(["--permission-mode", "dontAsk", "--allowedTools", "mcp__wt-tools__*"]);
        args.extend(session);
        let text = self.run(&self.program, &args).await;
        let result: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{prompt}: {e}: {text}"));
        assert_eq!(result["is_error"], false, "{prompt}: {result}");
        result["result"].as_str().unwrap_or_default().to_owned()
    }
}

/// How often a text stands in what the model was sent with this prompt.
fn shown(model: &ScriptedModel, prompt: &str, text: &str) -> usize {
    let requests = model.requests();
    let last = requests.iter().rfind(|request| request.body.to_string().contains(prompt));
    last.unwrap_or_else(|| panic!("the model was never asked: {prompt}")).body.to_string().matches(text).count()
}

/// All names of tools that a request offers. Some programs group them.
fn offered(request: &LoggedRequest) -> Vec<String> {
    let mut names = Vec::new();
    let mut lists = vec![&request.body["tools"]];
    while let Some(list) = lists.pop() {
        for tool in list.as_array().into_iter().flatten() {
            names.extend(tool["name"].as_str().map(str::to_owned));
            lists.extend([&tool["tools"], &tool["functionDeclarations"]]);
        }
    }
    names
}

/// What Claude Code's model does. It finds tools by a search, as the program has it do.
fn of_claude() -> Value {
    let search = |tool: &str| json!({"call": {"tool": "ToolSearch", "arguments": {"query": format!("select:{tool}")}}});
    let (recall, remember) = ("mcp__wt-tools__recall", "mcp__wt-tools__remember");
    let about = json!({"query": "session cache keys tenant"});
    let kept = json!({"content": REGION, "type": "Learning", "tags": "deploy"});
    json!([
        {"when": "create a detailed summary", "steps": [{"say": "<summary>It was about deployments.</summary>"}]},
        {"when": "see each other's entries", "steps": [{"say": CAUSE}]},
        {"when": "look up what is known", "steps": [
            search(recall), {"call": {"tool": recall, "arguments": about}}, {"say": "FOUND {{last_result}}"}]},
        {"when": "keep what we learned", "steps": [
            search(remember), {"call": {"tool": remember, "arguments": kept}}, {"say": "KEPT {{last_result}}"}]},
        {"when": "Good morning", "steps": [{"say": "Good morning."}]},
        {"when": "deploy script fail", "steps": [{"say": "I look at the region."}]},
    ])
}

/// Claude Code on this model.
pub fn claude<'a>(test: &str, household: &'a Household, model: &ScriptedModel) -> Option<Assistant<'a>> {
    let home = household.path().join("claude").display().to_string();
    let environment = vec![
        ("CLAUDE_CONFIG_DIR", home),
        ("ANTHROPIC_BASE_URL", model.base_url()),
        ("ANTHROPIC_API_KEY", "sk-test-key-of-the-scripted-model".to_owned()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ("DISABLE_AUTOUPDATER", "1".to_owned()),
        ("CLAUDE_CODE_MAX_RETRIES", "2".to_owned()),
    ];
    let claude = Assistant::installed(("claude", "BUTLERD_TEST_CLAUDE"), test, household, environment)?;
    // The developer has a hook of their own.
    let own = json!({"hooks": {"PreCompact": [{"hooks": [{"type": "command", "command": "cat >> compactions"}]}]}});
    let settings = claude.developer.at.join(".claude");
    std::fs::create_dir_all(&settings).expect("the directory");
    std::fs::write(settings.join("settings.json"), own.to_string()).expect("the settings");
    Some(claude)
}

/// What Claude Code says in one session is stored by the Stop hook, and found by the MCP server in the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_code_s_stop_hook_saves_what_its_mcp_server_recalls() {
    let test = "project_clients::claude_code_s_stop_hook_saves_what_its_mcp_server_recalls";
    let (model, household) = (model(of_claude()).await, with_workshop());
    let Some(claude) = claude(test, &household, &model) else { return };
    let _daemon = household.start().await;
    claude.init("claude").await;
    claude
        .in_time("the Stop hook stores", async || {
            assert_eq!(claude.claude("Why do tenants see each other's entries?", &[]).await, CAUSE);
            claude.developer.recalled("session cache keys tenant") == [CAUSE]
        })
        .await;
    let tags = claude.developer.project(&["list"])[0]["tags"].clone();
    assert_eq!(tags, json!(["auto", "source:stop-hook", "branch:main"]));
    // In a new session, by the tool: no hook told it to this prompt.
    let prompt = "Please look up what is known";
    let found = claude.claude(prompt, &[]).await;
    assert!(found.starts_with("FOUND ") && found.contains(CAUSE), "{found}");
    let first = model.requests().into_iter().find(|request| request.body.to_string().contains(prompt));
    assert!(!first.expect("a request").body.to_string().contains(CAUSE), "a hook told it");
}

/// What Claude Code stores by the MCP server is injected by the next prompt that it bears on: once in a session, and
/// once more when the session was compacted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_code_is_told_once_what_its_mcp_server_saved_and_once_more_after_compaction() {
    let test = "project_clients::claude_code_is_told_once_what_its_mcp_server_saved_and_once_more_after_compaction";
    let (model, household) = (model(of_claude()).await, with_workshop());
    let Some(claude) = claude(test, &household, &model) else { return };
    let _daemon = household.start().await;
    claude.init("claude").await;
    let kept = claude.claude("Please keep what we learned", &[]).await;
    assert!(kept.starts_with("KEPT {") && kept.contains("\"stored\""), "{kept}");
    assert_eq!(claude.developer.recalled("terraform region of the deploy script"), [REGION]);

    let session = uuid::Uuid::now_v7().to_string();
    claude.claude("Good morning", &["--session-id", &session]).await;
    assert_eq!(shown(&model, "Good morning", REGION), 0, "nothing bears on it");
    let resumed = ["--resume", session.as_str()];
    let first = "Why does the deploy script fail with the terraform region?";
    claude
        .in_time("the prompt is told", async || {
            claude.claude(first, &resumed).await;
            shown(&model, first, REGION) == 1
        })
        .await;
    assert_eq!(shown(&model, first, "=== PROJECT MEMORY"), 1, "as notes of earlier sessions");
    for again in ["And why does the deploy script fail in that region?", "Does the deploy script fail everywhere?"] {
        claude.claude(again, &resumed).await;
        assert_eq!(shown(&model, again, REGION), 1, "the session has it from the first prompt: {again}");
    }

    let compactions = claude.developer.at.join("compactions");
    let after = "After all, why does the deploy script fail with the terraform region?";
    claude
        .in_time("the compacted session is told", async || {
            claude.claude("/compact", &resumed).await;
            claude.claude(after, &resumed).await;
            assert_eq!(shown(&model, after, first), 0, "it was compacted");
            shown(&model, after, REGION) == 1
        })
        .await;
    let own = std::fs::read_to_string(compactions).expect("the developer's own hook ran beside");
    assert!(own.contains("\"PreCompact\"") && own.contains(&session), "{own}");
    let last = "At last, why does the deploy script fail with the terraform region?";
    claude.claude(last, &resumed).await;
    assert_eq!(shown(&model, last, REGION), 1, "once more, and no third time");
}

/// The assistant's model is offered the tools, stores with one and finds with another what the developer stored.
async fn lists_and_calls(assistant: &Assistant<'_>, model: &ScriptedModel, args: &[&str]) {
    assistant.developer.remember("Learning", "", CAUSE);
    let said = assistant.run(&assistant.program, args).await;
    assert!(said.contains("FOUND") && said.contains("did not include the tenant"), "{said}");
    let kept = assistant.developer.recalled("swap of the staging cluster");
    assert!(kept.iter().any(|text| text.contains("needs eight gigabytes")), "{kept:?}");
    let requests = model.requests();
    let asked = requests.iter().find(|request| request.answer.starts_with("call ")).expect("a request");
    let names = offered(asked);
    for tool in ["remember", "recall", "proactive_context", "forget", "list_memories", "sync", "dedup", "health"] {
        assert!(names.iter().any(|name| name == tool || name.ends_with(&format!("_{tool}"))), "{tool}: {names:?}");
    }
    // The model saw the memory as the tool's result.
    assert_eq!(requests.iter().filter(|request| request.answer == "say").count(), 1);
    let last = requests.last().expect("a request").body.to_string();
    assert!(last.contains("did not include the tenant"), "{last}");
}

/// What the model of the other assistants does.
fn of_others() -> Value {
    let kept = json!({"content": "The test suite needs eight gigabytes, because the staging cluster has no swap", "type": "Learning"});
    json!([{"when": "Keep one thing", "steps": [
        {"call": {"tool": "remember", "arguments": kept}},
        {"call": {"tool": "recall", "arguments": {"query": "session cache keys tenant"}}},
        {"say": "FOUND {{last_result}}"},
    ]}])
}

const PROMPT: &str = "Keep one thing and find another.";

/// Codex on this model, and its home.
pub fn codex<'a>(test: &str, household: &'a Household, model: &ScriptedModel) -> Option<(Assistant<'a>, PathBuf)> {
    let home = household.path().join("codex");
    let environment = vec![
        ("CODEX_HOME", home.display().to_string()),
        ("OPENAI_API_KEY", "sk-test-key-of-the-scripted-model".to_owned()),
    ];
    let codex = Assistant::installed(("codex", "BUTLERD_TEST_CODEX"), test, household, environment)?;
    let config = format!(
        "model = \"gpt-5\"\nmodel_provider = \"scripted\"\napproval_policy = \"never\"\nweb_search = \"disabled\"\n\
         check_for_update_on_startup = false\n\n[model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{}\"\n\
         env_key = \"OPENAI_API_KEY\"\nwire_api = \"responses\"\nrequest_max_retries = 1\nstream_max_retries = 1\n\n\
         [analytics]\nenabled = false\n\n[features]\nunbounded_connection_retries = false\napps = false\n\
         plugins = false\n",
        model.openai_base_url()
    );
    std::fs::create_dir_all(&home).expect("the directory");
    std::fs::write(home.join("config.toml"), config).expect("the configuration");
    Some((codex, home))
}

/// Codex lists the tools of `butlerd mcp` and calls them, in the project that it was started in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_lists_and_calls_the_tools() {
    let test = "project_clients::codex_lists_and_calls_the_tools";
    let (model, household) = (model(of_others()).await, with_workshop());
    let Some((codex, home)) = codex(test, &household, &model) else { return };
    let _daemon = household.start().await;
    let config = std::fs::read_to_string(home.join("config.toml")).expect("the configuration");
    codex.init("codex").await;
    let after = std::fs::read_to_string(home.join("config.toml")).expect("the configuration");
    assert!(after.starts_with(&config) && after.contains(&format!("[mcp_servers.{SERVER}]")), "{after}");
    // The developer allows the calls, which `exec` could not show them.
    let allowed = format!("mcp_servers.{SERVER}.default_tools_approval_mode=\"approve\"");
    lists_and_calls(&codex, &model, &["exec", "--json", "-c", &allowed, PROMPT]).await;
}

/// Gemini lists the tools of `butlerd mcp` and calls them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini_lists_and_calls_the_tools() {
    let test = "project_clients::gemini_lists_and_calls_the_tools";
    let (model, household) = (model(of_others()).await, with_workshop());
    let environment = vec![
        ("GEMINI_API_KEY", "sk-test-key-of-the-scripted-model".to_owned()),
        ("GOOGLE_GEMINI_BASE_URL", model.base_url()),
        ("GEMINI_CLI_NO_RELAUNCH", "true".to_owned()),
    ];
    let program = ("gemini", "BUTLERD_TEST_GEMINI");
    let Some(gemini) = Assistant::installed(program, test, &household, environment) else { return };
    let _daemon = household.start().await;
    let settings = json!({
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
        "general": {"maxAttempts": 2, "retryFetchErrors": false, "enableAutoUpdate": false},
        "privacy": {"usageStatisticsEnabled": false}, "telemetry": {"enabled": false},
    });
    std::fs::create_dir_all(household.path().join(".gemini")).expect("the directory");
    std::fs::write(household.path().join(".gemini/settings.json"), settings.to_string()).expect("the settings");
    // The developer allows the calls, which it could not show them without a terminal.
    let policy = household.path().join("policy.toml");
    let rule = format!("[[rule]]\nmcpName = \"{SERVER}\"\ntoolName = \"*\"\ndecision = \"allow\"\npriority = 500\n");
    std::fs::write(&policy, rule).expect("the policy");
    gemini.init("gemini").await;
    let policy = policy.display().to_string();
    lists_and_calls(&gemini, &model, &["-m", "gemini-2.5-pro", "--policy", &policy, "-p", PROMPT]).await;
}
