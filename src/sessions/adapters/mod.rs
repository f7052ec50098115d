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
pub use native::Native;
pub use proof::Proven;
pub use types::{Composed, ErrorClass, Invocation, Needs, Outcome, RunError, RunEvent, SkillAccess, Usage};

use super::child::{ExitInfo, ProcessSupervisor};
use config::{Api, ClisConfig, RuntimeKind};

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
    #[error("`{0}` is no name of an environment variable, or its value holds a NUL byte")]
    Variable(String),
    #[error("[runtime] args: `{0}` is set by butlerd itself, or could loosen a session's bounds; leave it out")]
    Argument(String),
    #[error("[runtime] tools: `{0}` is no name of a tool of {1}")]
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

/// Whether and in which version a program is on this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    pub program: Option<PathBuf>,
    /// As the program says it.
    pub version: Option<String>,
    /// Why it can't be used, and what to do.
    pub problem: Option<String>,
}

/// One kind of runtime.
#[async_trait]
pub trait Adapter: Send + Sync {
    fn kind(&self) -> RuntimeKind;

    /// The names of its variables.
    fn env_list(&self) -> EnvList;

    /// What to start, and which files must be in the workspace before.
    fn compose(&self, invocation: &Invocation) -> Result<Composed, AdapterError>;

    /// A reader for the output of one run. `tools`: the names of the butler's tools, for programs that change them.
    fn parser(&self, tools: &[String]) -> Box<dyn Parser>;

    /// How its sessions come to the butler's skills.
    fn skills(&self) -> SkillAccess {
        SkillAccess::Served
    }

    /// Looks for the program and asks for its version; for `doctor`.
    async fn probe(&self, processes: &ProcessSupervisor) -> Probe;
}

/// Reads the output of one run.
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
        RuntimeKind::ClaudeCode => Arc::new(ClaudeCode::new(clis.claude.clone())),
        RuntimeKind::Codex => Arc::new(Codex::new(clis.codex.clone())),
        RuntimeKind::Gemini => Arc::new(Gemini::new(clis.gemini.clone())),
        RuntimeKind::Native => Arc::new(Native::default()),
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
