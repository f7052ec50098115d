//! butlerd's own small LLM agent: `butlerd agent`, run as a supervised child of a session.
//!
//! It reads one configuration file ([`config::CONFIG_ENV`]) and the MCP servers of its environment
//! ([`config::MCP_ENV`]), asks the model, calls the tools that the model wants, and goes on until the model wants
//! none. It reports each step as a line of JSON ([`AgentEvent`]). Ended by a signal it just dies: nothing that it
//! holds matters, every effect is the daemon's.

mod config;
mod event;
mod mcp;
mod model;
mod names;
mod probe;
mod talk;
#[cfg(test)]
mod tests;
mod wire;

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use tokio::io::AsyncWrite;

pub use config::{AgentConfig, Api, CONFIG_ENV, ConfigError, Image, MCP_ENV, McpServer, McpServers, TRACE_ENV};
pub use event::{AgentEvent, RunResult};
pub use llm_api::{ErrorClass, Failure, Usage};
pub use probe::{Endpoint, ProbeError, probe, served_models, takes_key};

use event::Reporter;
use mcp::{Mcp, McpError};
use model::{ModelClient, ModelError, ModelKey};
use talk::Talk;

use base::Secret;

/// Reads one environment variable; `None` where it is not set.
pub type Env<'a> = &'a (dyn Fn(&str) -> Option<String> + Sync);

/// What ends a run before its time, by the step that failed.
#[derive(Debug, thiserror::Error)]
enum AgentError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Mcp(#[from] McpError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("the model still wanted to call {wanted} after {max} turns, the limit of this run (max_turns)")]
    Turns { max: u32, wanted: String },
    #[error("the model's answer was cut at {0} tokens, the limit of this run (max_output_tokens)")]
    OutputLimit(u32),
    #[error("the model's context is full")]
    ContextFull,
    #[error("the model or its provider declined to answer")]
    Declined,
    #[error("cannot write an event to standard output")]
    Report(#[from] std::io::Error),
}

impl AgentError {
    fn class(&self) -> ErrorClass {
        match self {
            AgentError::Config(ConfigError::NoKey(_) | ConfigError::KeyForm(_)) => ErrorClass::Auth,
            AgentError::Config(ConfigError::NoServers | ConfigError::Servers(_) | ConfigError::Empty) => {
                ErrorClass::McpUnreachable
            }
            AgentError::Config(_) => ErrorClass::InvalidRequest,
            AgentError::Mcp(_) => ErrorClass::McpUnreachable,
            AgentError::Model(error) => error.class(),
            AgentError::Turns { .. } => ErrorClass::Turns,
            AgentError::OutputLimit(_) => ErrorClass::OutputLimit,
            AgentError::ContextFull => ErrorClass::ContextTooLong,
            AgentError::Declined => ErrorClass::Refused,
            AgentError::Report(_) => ErrorClass::Crashed,
        }
    }
}

/// Runs the agent in this process, on a runtime of its own, and returns the exit code: 0 where the last event is a
/// `result` with `ok`, else 1.
pub fn main() -> i32 {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("butlerd agent: cannot start the async runtime: {error}");
            return 1;
        }
    };
    let code = runtime.block_on(run(&|name| std::env::var(name).ok(), &mut Stdout));
    // Connections that are still open need no farewell.
    runtime.shutdown_background();
    code
}

/// Runs the agent with this environment and writes its events to `out`. Returns the exit code, as [`main`] does.
pub async fn run(env: Env<'_>, out: &mut (dyn AsyncWrite + Unpin + Send)) -> i32 {
    let mut reporter = Reporter::new(out);
    let mut talk = Talk::default();
    let outcome = AssertUnwindSafe(work(env, &mut talk, &mut reporter)).catch_unwind().await;
    let error = match outcome {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(Failure::new(error.class(), explain(&error))),
        Err(_) => {
            let message = "the agent hit a fault of its own; its standard error says where";
            Some(Failure::new(ErrorClass::Crashed, message))
        }
    };
    let ok = error.is_none();
    let result = RunResult { ok, final_text: talk.final_text.take(), turns: talk.turns, error, usage: talk.usage() };
    let written = reporter.emit(&AgentEvent::Result(result)).await;
    if let Some(mcp) = talk.mcp.take() {
        mcp.close().await;
    }
    if ok && written.is_ok() { 0 } else { 1 }
}

async fn work(env: Env<'_>, talk: &mut Talk, reporter: &mut Reporter<'_>) -> Result<(), AgentError> {
    let path = env(CONFIG_ENV).filter(|path| !path.is_empty()).ok_or(ConfigError::NoPath)?;
    let config = AgentConfig::read(Path::new(&path))?;
    let key = read_key(&config, env)?;
    if let Some(key) = &key {
        reporter.hide(key.key.expose());
    }
    let servers = McpServers::parse(&env(MCP_ENV).ok_or(ConfigError::NoServers)?)?;
    for (name, value) in servers.servers.values().flat_map(|server| &server.headers) {
        let name = name.to_ascii_lowercase();
        if ["authorization", "key", "token", "secret", "cookie"].iter().any(|part| name.contains(part)) {
            reporter.hide(value.strip_prefix("Bearer ").unwrap_or(value));
        }
    }
    let model = ModelClient::new(&config, key.as_ref())?;
    let traceparent = env(TRACE_ENV).filter(|t| base::TraceContext::parse(t).is_some());
    let mcp = Mcp::connect(&servers, config.tool_timeout.0, traceparent).await?;
    let mcp = talk.mcp.insert(mcp);
    let tools = mcp.tools().iter().map(|tool| tool.name.to_string()).collect();
    reporter.emit(&AgentEvent::Init { model: config.model.clone(), tools, mcp_connected: true }).await?;
    talk.run(&config, &model, reporter).await
}

fn read_key(config: &AgentConfig, env: Env<'_>) -> Result<Option<ModelKey>, ConfigError> {
    let Some(variable) = config.api_key_env.clone() else { return Ok(None) };
    let key = env(&variable).map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
    let Some(key) = key else { return Err(ConfigError::NoKey(variable)) };
    if http::HeaderValue::from_str(&key).is_err() {
        return Err(ConfigError::KeyForm(variable));
    }
    Ok(Some(ModelKey { variable, key: Secret::new(key) }))
}

/// The error and its causes in one sentence.
fn explain(error: &AgentError) -> String {
    let mut sentence = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let text = cause.to_string();
        if !sentence.contains(&text) {
            sentence = format!("{sentence}: {text}");
        }
        source = cause.source();
    }
    sentence
}

/// Standard output without a second thread: the agent has nothing else to do while a line is being taken.
struct Stdout;

impl AsyncWrite for Stdout {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Poll::Ready(std::io::Write::write(&mut std::io::stdout().lock(), bytes))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(std::io::Write::flush(&mut std::io::stdout().lock()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.poll_flush(cx)
    }
}
