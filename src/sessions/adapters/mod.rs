//! Adapters: how one program is told what to do, and how its output is read. Only files below this one name a vendor.
//!
//! An adapter composes; it starts nothing and writes nothing. What it composes holds secrets in exactly two places: the
//! environment and the files of the workspace. Command lines hold none, and neither prompt: every user of the machine
//! can read them.

mod claude_code;
mod codex;
mod common;
mod gemini;
mod native;
mod proof;
#[cfg(test)]
mod tests;
mod types;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

pub use claude_code::ClaudeCode;
pub use codex::Codex;
pub use common::{BASE_ENV, CHILD_PATH};
pub use gemini::Gemini;
pub use llm_api::{ErrorClass, Failure, Usage};
pub use native::Native;
pub use proof::Proven;
pub use types::{Composed, Invocation, Needs, Outcome, RunEvent, SkillAccess};

use config::{Api, ClisConfig, RuntimeKind, SandboxMode};
use process::{ExitInfo, ProcessSupervisor};

/// Why a program could not be told what to do.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    #[error("`{name}` is not on butlerd's PATH; {hint}")]
    NoProgram { name: &'static str, hint: &'static str },
    #[error("the program {path} (from {setting}) is not there or not executable")]
    ProgramGone { path: PathBuf, setting: &'static str },
    #[error("no key for {runtime}: {hint}")]
    NoKey { runtime: RuntimeKind, hint: &'static str },
    #[error("no model for {0}: set [butler.runtime] model")]
    NoModel(RuntimeKind),
    #[error("`{0}` is set by butlerd itself, so [butler.env] must not declare it")]
    Reserved(String),
    #[error("`{0}` is not a valid name of an environment variable, or its value holds a NUL byte")]
    Variable(String),
    #[error("[runtime] args: `{0}` is set by butlerd itself, or could loosen a session's bounds; leave it out")]
    Argument(String),
    #[error("[runtime] tools: `{0}` is not the name of a tool of {1}")]
    Tool(String, RuntimeKind),
    #[error("the prompt is empty")]
    EmptyPrompt,
}

/// The names of the variables that an adapter's child has, besides those of [`BASE_ENV`] and those that a butler
/// declares. ARCHITECTURE.md lists them; a test compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EnvList {
    /// In every session.
    pub always: &'static [&'static str],
    /// In sessions that need them: where the model is, and one key.
    pub sometimes: &'static [&'static str],
}

/// The oldest version of a vendor's program that sessions were tried with; older ones may work.
pub fn oldest_tried(kind: RuntimeKind) -> Option<&'static str> {
    match kind {
        RuntimeKind::ClaudeCode => Some("2.1.197"),
        RuntimeKind::Codex => Some("0.169.0"),
        RuntimeKind::Gemini => Some("0.61.0"),
        RuntimeKind::Native => None,
    }
}

/// Whether and in which version a program is on this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    pub program: Option<PathBuf>,
    /// As the program says it.
    pub version: Option<String>,
    /// Why it can't be used, and what to do.
    pub problem: Option<String>,
}

/// One kind of runtime: how its program is told what to do, and how its output is read.
///
/// # Examples
///
/// A program that reads its prompt from standard input, prints one line `{"said": …}` and needs no key:
///
/// ```
/// use async_trait::async_trait;
/// use config::{RuntimeKind, SandboxMode};
/// use llm_api::{ErrorClass, Failure, Usage};
/// use process::{ExitInfo, ProcessSupervisor};
/// use sessions::adapters::{
///     Adapter, AdapterError, CHILD_PATH, Composed, Invocation, Needs, Outcome, Parser, Probe, RunEvent,
/// };
/// use sessions::workspace::SessionFile;
///
/// struct Echo;
///
/// #[async_trait]
/// impl Adapter for Echo {
///     fn kind(&self) -> RuntimeKind {
///         RuntimeKind::Native // A new runtime gets a name of its own there.
///     }
///     fn compose(&self, invocation: &Invocation) -> Result<Composed, AdapterError> {
///         let contents = invocation.prompt.clone().into_bytes();
///         Ok(Composed {
///             program: "/usr/local/bin/echo-agent".into(),
///             args: vec!["--json".to_owned()],
///             env: vec![("PATH".to_owned(), CHILD_PATH.to_owned())],
///             files: vec![SessionFile { path: "prompt.md".into(), contents, mode: 0o600 }],
///             stdin: Some("prompt.md".into()),
///             piped: None,
///             needs: Needs::default(),
///         })
///     }
///     fn parser(&self, _: &[String]) -> Box<dyn Parser> {
///         Box::new(EchoParser { said: None })
///     }
///     async fn probe(&self, _: &ProcessSupervisor, _: SandboxMode) -> Probe {
///         Probe { program: None, version: None, problem: Some("install echo-agent".to_owned()) }
///     }
/// }
///
/// struct EchoParser {
///     said: Option<String>,
/// }
///
/// impl Parser for EchoParser {
///     fn line(&mut self, line: &str) -> Vec<RunEvent> {
///         let value: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
///         let Some(said) = value["said"].as_str() else { return Vec::new() };
///         self.said = Some(said.to_owned());
///         vec![RunEvent::Text(said.to_owned()), RunEvent::Final]
///     }
///     fn finish(&mut self, exit: ExitInfo, _: &str) -> Outcome {
///         match self.said.take() {
///             Some(said) => Outcome {
///                 ok: true,
///                 final_text: Some(said),
///                 usage: Usage::default(),
///                 cost_usd: None,
///                 turns: Some(1),
///                 error: None,
///             },
///             None => Outcome::failed(Failure::new(ErrorClass::Crashed, format!("it ended ({exit}) without a word"))),
///         }
///     }
/// }
///
/// let mut parser = Echo.parser(&[]);
/// assert_eq!(parser.line(r#"{"said": "hello"}"#).last(), Some(&RunEvent::Final));
/// assert!(parser.finish(ExitInfo::default(), "").ok);
/// ```
#[async_trait]
pub trait Adapter: Send + Sync {
    fn kind(&self) -> RuntimeKind;

    /// What to start, and which files must be in the workspace before.
    fn compose(&self, invocation: &Invocation) -> Result<Composed, AdapterError>;

    /// A reader for the output of one run. `tools`: the names of the butler's tools, for programs that change them.
    fn parser(&self, tools: &[String]) -> Box<dyn Parser>;

    /// How its sessions come to the butler's skills.
    fn skills(&self) -> SkillAccess {
        SkillAccess::Served
    }

    /// Whether one of these built-in tools runs programs of the system, as a shell does.
    fn runs_programs(&self, _granted: &[String]) -> bool {
        false
    }

    /// Looks for the program and asks for its version; for `doctor`.
    async fn probe(&self, processes: &ProcessSupervisor, sandbox: SandboxMode) -> Probe;
}

/// Reads the output of one run. [`Adapter`] has an example.
pub trait Parser: Send {
    /// Takes the next line. Lines that mean nothing, or are no whole JSON object, yield no event.
    fn line(&mut self, line: &str) -> Vec<RunEvent>;

    /// Judges the run after its last line: it succeeded if the program said so in its final event and had said that
    /// the butler's tools are connected. Its exit status alone proves nothing.
    fn finish(&mut self, exit: ExitInfo, stderr_tail: &str) -> Outcome;
}

/// The adapter for a kind of runtime. `clis`: where programs are that are not on the PATH.
pub fn adapter(kind: RuntimeKind, clis: &ClisConfig) -> Arc<dyn Adapter> {
    match kind {
        RuntimeKind::ClaudeCode => Arc::new(ClaudeCode(clis.claude.clone())),
        RuntimeKind::Codex => Arc::new(Codex(clis.codex.clone())),
        RuntimeKind::Gemini => Arc::new(Gemini(clis.gemini.clone())),
        RuntimeKind::Native => Arc::new(Native),
    }
}

/// The variables that may hold the key of a runtime, best first.
pub fn key_names(kind: RuntimeKind, api: Api) -> &'static [&'static str] {
    match (kind, api) {
        (RuntimeKind::ClaudeCode, _) => &["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"],
        // The second is a subscription's login, which stays with the gateway.
        (RuntimeKind::Codex, _) => &["OPENAI_API_KEY", "CODEX_AUTH_JSON"],
        (RuntimeKind::Native, Api::Openai) => &["OPENAI_API_KEY"],
        (RuntimeKind::Gemini, _) => &["GEMINI_API_KEY"],
        (RuntimeKind::Native, Api::Anthropic) => &["ANTHROPIC_API_KEY"],
    }
}

/// How a runtime's model is spoken to. `None`: in a way that butlerd does not speak.
pub fn api_of(kind: RuntimeKind, native: Api) -> Option<Api> {
    match (kind, native) {
        (RuntimeKind::Gemini, _) => None,
        (RuntimeKind::Native, Api::Anthropic) | (RuntimeKind::ClaudeCode, _) => Some(Api::Anthropic),
        (RuntimeKind::Native, Api::Openai) | (RuntimeKind::Codex, _) => Some(Api::Openai),
    }
}
