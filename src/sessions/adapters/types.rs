//! What adapters take and give.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use llm_api::{ErrorClass, Failure, Usage};
use rust_decimal::Decimal;
use serde_json::Value;

use crate::workspace::{SessionFile, WorkspacePaths};
use base::{ButlerName, Secret, SessionId};
use config::Api;

/// One run that somebody wants.
#[derive(Clone, Debug)]
pub struct Invocation {
    pub session_id: SessionId,
    pub butler: ButlerName,
    /// What the model is asked, context included.
    pub prompt: String,
    /// Pictures that go with it, each with its media type.
    pub images: Vec<(String, Vec<u8>)>,
    /// The composed system prompt.
    pub system_prompt: String,
    /// The model's id, as its vendor has it; `None` is the program's own default.
    pub model: Option<String>,
    /// The butler's MCP endpoint, without query: `http://127.0.0.1:41101/mcp`.
    pub mcp_url: String,
    /// The session token.
    pub token: Secret<String>,
    /// The session's span, as W3C Trace Context writes it.
    pub traceparent: String,
    /// Model calls at most.
    pub max_turns: u32,
    /// Whether the run is over with the calls of the first answer, where the program can stop there.
    pub one_round: bool,
    /// Of one answer; `None` is the program's own bound.
    pub max_output_tokens: Option<u32>,
    /// How long one model request may take; `None` is the program's own bound.
    pub request_timeout: Option<Duration>,
    /// How often the program tries one model request again; `None` is the adapter's default.
    pub max_retries: Option<u32>,
    /// Somebody reads along: text is told as it is written, by programs that can.
    pub stream_text: bool,
    /// butlerd's own sandbox holds the program, in which it can make none of its own.
    pub confined: bool,
    /// Built-in tools of the program that the butler's configuration grants.
    pub granted_tools: Vec<String>,
    pub extra_args: Vec<String>,
    /// Keys, each with the name of the variable that its program expects it in.
    pub credentials: Vec<(String, Secret<String>)>,
    /// Where the model is served; `None` is the vendor's own address.
    pub base_url: Option<String>,
    /// Which protocol the model's endpoint speaks, for programs that speak several.
    pub api: Api,
    pub workspace: WorkspacePaths,
    /// The names of the skills that are in the workspace, for programs that load them by themselves.
    pub skills: Vec<String>,
    /// What the butler declares, besides.
    pub declared_env: Vec<(String, Secret<String>)>,
}

/// What to start. `Debug` shows neither values of the environment nor contents of files.
#[derive(Clone)]
pub struct Composed {
    /// Absolute.
    pub program: PathBuf,
    pub args: Vec<String>,
    /// The whole environment, sorted by name.
    pub env: Vec<(String, String)>,
    /// Files that must be in the workspace before the start.
    pub files: Vec<SessionFile>,
    /// Which of the files is the standard input; `None` is `/dev/null`.
    pub stdin: Option<PathBuf>,
    /// What it is given through a pipe, in the place of a file.
    pub piped: Option<Vec<u8>>,
    pub needs: Needs,
}

/// What a program needs of the system, beside itself, its interpreter and loader, and the system's libraries. What is
/// not there is passed over.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// To read: where it is installed, if that is more than one file.
    pub read: Vec<PathBuf>,
    /// To read and execute.
    pub execute: Vec<PathBuf>,
    /// A tool is granted that runs programs of the system, such as a shell.
    pub programs: bool,
}

impl fmt::Debug for Composed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Composed")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env", &names)
            .field("files", &self.files)
            .field("stdin", &self.stdin)
            .field("piped", &self.piped.as_ref().map(Vec::len))
            .field("needs", &self.needs)
            .finish()
    }
}

/// How the sessions of a runtime come to their butler's skills.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SkillAccess {
    /// The program loads a skill's text out of the workspace with a tool of its own; the sentence tells a model with
    /// which. Its parser tells such a call as one of `skill_read`.
    Own(&'static str),
    /// The program can't: the butler's tools read skills.
    Served,
}

/// Something that happened in a run.
#[derive(Clone, PartialEq, Debug)]
pub enum RunEvent {
    /// Whether the butler's tools are there. Said once, as soon as it is known.
    McpConnected(bool),
    /// A block of text that the model wrote.
    Text(String),
    /// A piece of the text that is being written; the whole follows as `Text`. `start`: where in it, in bytes; 0 begins a
    /// text, in the place of one that is not whole.
    TextDelta {
        start: usize,
        text: String,
    },
    /// `name` is the tool's own name, as the butler has it; a built-in tool of the program has the program's name.
    ToolCall {
        id: String,
        name: String,
        arguments: Value,
    },
    ToolResult {
        id: String,
        name: String,
        is_error: bool,
        content: String,
    },
    /// The model has read a skill; said once for each skill, after the result of the call that read it.
    SkillUsed {
        name: String,
    },
    /// A model call failed and is tried again; `attempt` counts from 1.
    Retry {
        class: ErrorClass,
        attempt: u32,
        delay_ms: Option<u64>,
        status: Option<u16>,
        /// What went wrong, where the program says it.
        message: Option<String>,
    },
    /// Which model the usage that follows is of; said by programs that name it.
    Model(String),
    /// What one model call used.
    Usage(Usage),
    /// The program is done and should leave now.
    Final,
}

/// How a run ended. `ok` and `error` are opposites.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    pub ok: bool,
    /// The model's last words. After a failure only if they are the model's, not an error text.
    pub final_text: Option<String>,
    /// Of the whole run.
    pub usage: Usage,
    /// As the program computed it, in US dollars; `None` is unknown, never 0.
    pub cost_usd: Option<Decimal>,
    /// Model calls.
    pub turns: Option<u32>,
    pub error: Option<Failure>,
}

impl Outcome {
    /// A failure of which nothing else is known.
    pub fn failed(error: Failure) -> Self {
        Self { ok: false, final_text: None, usage: Usage::default(), cost_usd: None, turns: None, error: Some(error) }
    }
}
