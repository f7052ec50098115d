//! What goes into a session and what comes out of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::IntoStaticStr;
use tokio::sync::Notify;
use uuid::Uuid;

use super::budget::Limits;
use base::{RequestContext, SessionId, TraceContext, Trust};
use config::RuntimeKind;
use llm_api::Usage;
use tools::ShownTool;

/// The source of sessions that read what others wrote for a session which only the owner and the house had a part in. On
/// whose behalf such a session is, its trust does not say.
pub const INSPECT: &str = "inspect";

/// What asks for a session.
#[derive(Clone, Debug)]
pub struct Trigger {
    pub prompt: String,
    /// What the caller adds; it reaches the model fenced as data.
    pub context: Option<Value>,
    /// `trigger`, `schedule:<name>`, `external`, `route`, …
    pub source: String,
    pub request: Arc<RequestContext>,
    pub options: SessionOptions,
}

/// What is special about the sessions of a trigger.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// The tools that the session is offered, in the place of all of its butler's.
    pub tools: Option<Arc<BTreeSet<String>>>,
    /// The session can look and speak, and change nothing: it is offered no tool with an effect.
    pub reads_only: bool,
    /// All that the session is told besides its prompt, in the place of its butler's own prompt, of notes and skills. It
    /// gets no built-in tools of its runtime either.
    pub system_prompt: Option<&'static str>,
    /// The session's work is done with the calls of the model's first answer. Runtimes that can't stop there go on.
    pub one_round: bool,
    /// Another session waits for its end.
    pub awaited: bool,
    /// The row of the butler's route inbox that the session works on.
    pub route: Option<Uuid>,
    /// The run of a schedule that the session works on.
    pub run: Option<Uuid>,
    /// Memory tells the session nothing, and does not take in its end.
    pub apart_from_memory: bool,
    /// A model works on it, also where a module conducts the sessions of its butler.
    pub by_a_model: bool,
    /// Of a schedule: 1 goes before all else, 2 with what others wait for, 3 after it.
    pub priority: Option<u8>,
    /// Only this runtime, in the place of the butler's and its fallbacks.
    pub runtime: Option<RuntimeKind>,
    /// This model, in the place of the butler's.
    pub model: Option<String>,
    /// This model server, in the place of the butler's; it is not given the butler's key.
    pub server: Option<ModelServer>,
    /// References of attachments that the model is shown with the prompt, where they are pictures and its program can.
    pub attachments: Vec<String>,
    /// The model refused its pictures, so it is told that it can't be shown them.
    pub pictures_refused: bool,
    /// What the session may use, where that is less than its butler's limits.
    pub limits: Limits,
    /// Rung once the session waits for no slot any more.
    pub has_slot: Option<Arc<Notify>>,
}

/// A model server that speaks the protocol of the session's runtime.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelServer {
    pub url: String,
    /// The stored secret that is its key, if it wants one.
    pub key: Option<String>,
}

impl Trigger {
    /// A trigger with nothing special about it.
    pub fn new(prompt: impl Into<String>, source: impl Into<String>, request: Arc<RequestContext>) -> Self {
        Self {
            prompt: prompt.into(),
            context: None,
            source: source.into(),
            request,
            options: SessionOptions::default(),
        }
    }

    /// Whether a stranger asked for it, whose limits then hold.
    pub fn is_strangers(&self) -> bool {
        self.request.trust == Trust::Stranger && self.source != INSPECT
    }

    /// The same for what stands under another span of its trace.
    pub(super) fn under(&self, trace: &TraceContext) -> Self {
        Self { request: Arc::new(self.request.under(trace)), ..self.clone() }
    }
}

/// Why no session came to be, or how the wait for one ended.
#[derive(Debug, thiserror::Error, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum TriggerError {
    #[error("{0}")]
    NoModel(String),
    #[error(
        "{butler} has {running} sessions running and {queued} waiting, which is all it may have; try again later, \
         or raise [butler.runtime] max_concurrent_sessions or max_queued"
    )]
    Capacity { butler: String, running: usize, queued: usize },
    #[error(
        "no session of {butler} is free, and a session can't wait for another: the slot that it holds may be the one it \
         waits for; try again later"
    )]
    SelfWait { butler: String },
    /// What may be used is used up, or can't be held to a limit; the sentence says which and what to do.
    #[error("{0}")]
    Budget(String),
    #[error("this request is {0} sessions deep, and sessions may cause one another at most {max} deep", max = base::MAX_LINEAGE_DEPTH)]
    TooDeep(u32),
    #[error("the prompt is {0} bytes; at most {MAX_PROMPT} are taken")]
    #[strum(serialize = "invalid_prompt")]
    PromptSize(usize),
    #[error("the prompt is empty")]
    #[strum(serialize = "invalid_prompt")]
    PromptEmpty,
    #[error("{0} is stopping and takes no new work")]
    Stopping(String),
    /// The machine fails; the sentence says how.
    #[error("{0}; nothing is begun until that is over")]
    Unavailable(String),
    #[error(transparent)]
    #[strum(serialize = "unavailable")]
    Store(#[from] store::StoreError),
}

/// The longest prompt, in bytes.
pub const MAX_PROMPT: usize = 256 * 1024;

impl TriggerError {
    /// A stable name for clients.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}

/// A session's state, as its row has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, IntoStaticStr, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum SessionState {
    #[default]
    Queued,
    Running,
    Succeeded,
    Failed,
    TimedOut,
    Cancelled,
    Interrupted,
}

base::named!(SessionState);

/// How a session ended.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SessionResult {
    pub session_id: SessionId,
    pub state: SessionState,
    pub output: Option<String>,
    pub error_class: Option<String>,
    pub error: Option<String>,
    pub duration_ms: i64,
    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    /// All kinds together, as budgets count them; `None`: nobody knows. Only whoever has waited for the end is told.
    #[serde(skip)]
    pub all_tokens: Option<u64>,
    /// US dollars as an exact decimal; `None` is unknown.
    pub cost_usd: Option<String>,
    pub tool_calls: i64,
}

/// Something that happened in a session, as it is stored and as whoever watches is told.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SessionEvent {
    pub butler: String,
    pub session_id: SessionId,
    /// Counts from 1 in each session. `None`: it is told to those who watch, and not stored.
    #[serde(default)]
    pub seq: Option<i32>,
    pub at: Timestamp,
    #[serde(flatten)]
    pub kind: EventKind,
}

/// The kinds of [`SessionEvent`].
#[derive(Clone, Debug, Serialize, Deserialize, IntoStaticStr, schemars::JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum EventKind {
    Queued {
        source: String,
        prompt: String,
    },
    /// What the model is asked, context included. The system prompt stands in the session's row.
    Prompt {
        prompt: String,
        /// Length of the system prompt.
        system_bytes: usize,
    },
    /// What memory told the session before it began, as its row has it.
    Memory {
        recalled: Value,
    },
    /// Which tools the session is told of, and why.
    Tools {
        shown: Vec<ShownTool>,
        /// How many it may call besides.
        more: usize,
        /// What their schemas cost, about.
        tokens: u32,
    },
    Started {
        runtime: String,
        model: Option<String>,
        pid: u32,
    },
    /// Whether the butler's tools are there.
    Connected {
        connected: bool,
    },
    Text {
        text: String,
    },
    /// A piece of a text that is being written: told, never stored. `Text` has the whole.
    TextDelta {
        /// The last event that was stored before it.
        after: i32,
        /// Where in its text it begins, in bytes. 0: a text begins, in the place of one that is not whole.
        start: usize,
        text: String,
    },
    ToolCall {
        /// As the program numbers its calls.
        #[serde(default)]
        call: Option<String>,
        name: String,
        arguments: Value,
    },
    ToolResult {
        #[serde(default)]
        call: Option<String>,
        name: String,
        is_error: bool,
        content: String,
        /// From the call to here, as seen from outside of the program. `None`: its call was not seen.
        #[serde(default)]
        duration_ms: Option<i64>,
    },
    /// The model has read one of its butler's skills.
    Skill {
        name: String,
    },
    Retry {
        class: String,
        /// Counts from 1.
        attempt: u32,
        #[serde(default)]
        delay_ms: Option<u64>,
        /// Of HTTP.
        #[serde(default)]
        status: Option<u16>,
        /// What went wrong.
        #[serde(default)]
        message: Option<String>,
    },
    /// What one model call used, as the program says it.
    Usage(Usage),
    /// A model call as the gateway saw it.
    ModelCall {
        model: Option<String>,
        /// Of HTTP; `None`: there was no answer.
        status: Option<u16>,
        first_byte_ms: Option<u64>,
        duration_ms: u64,
        usage: Usage,
        error: Option<String>,
    },
    /// A limit was reached: the session, or the one call, is stopped.
    Stopped {
        class: String,
        message: String,
    },
    /// The child was told to end.
    Signal {
        /// `SIGTERM` or `SIGKILL`.
        signal: String,
        why: String,
    },
    /// The child is gone.
    Exit {
        /// `None`: it is not, for nothing ends it.
        status: Option<String>,
        /// Processes of its own that were still there and were killed.
        strays: usize,
        survivors: Vec<i32>,
        /// The end of its standard error, where the run failed.
        stderr: Option<String>,
    },
    /// From here on the transcript is full: only what ends the session is still stored.
    Cut {
        message: String,
    },
    /// How far a session is that a module works on.
    Stage {
        /// What is being done.
        stage: String,
        /// Who of several has done it.
        #[serde(default)]
        by: Option<String>,
        text: String,
    },
    /// The session failed before it called a tool, and another takes its place.
    Followed {
        /// The other session.
        by: SessionId,
        runtime: String,
        /// Why this one failed: its error class.
        class: String,
    },
    #[serde(with = "ended")]
    #[schemars(with = "ended::Read")]
    Ended(SessionResult),
    /// Of a kind that this version does not know.
    #[serde(other)]
    Unknown,
}

impl EventKind {
    /// Its name in rows and JSON.
    pub fn name(&self) -> &'static str {
        self.into()
    }

    /// Whether it is stored even in a transcript that is full.
    pub(super) fn closes(&self) -> bool {
        matches!(
            self,
            EventKind::Followed { .. } | EventKind::Stopped { .. } | EventKind::Signal { .. } | EventKind::Exit { .. }
        )
    }
}

/// In JSON the result stands apart, because it names the session as the event around it does: two keys of one name
/// can be written, but not read.
mod ended {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::SessionResult;

    #[derive(Serialize)]
    struct Written<'a> {
        result: &'a SessionResult,
    }
    #[derive(Deserialize, schemars::JsonSchema)]
    pub(super) struct Read {
        result: SessionResult,
    }

    pub fn serialize<S: Serializer>(result: &SessionResult, s: S) -> Result<S::Ok, S::Error> {
        Written { result }.serialize(s)
    }
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<SessionResult, D::Error> {
        Read::deserialize(d).map(|read| read.result)
    }
}

/// Whether a butler can start sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ModelState {
    pub runtime: String,
    pub model: Option<String>,
    pub ready: bool,
    /// What to set, when it is not ready.
    pub reason: Option<String>,
}
