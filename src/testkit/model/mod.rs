//! A model server that plays a script: for the demonstration, and for tests of everything that talks to a model.
//!
//! It speaks Anthropic's Messages, OpenAI's Responses and chat completions, and Gemini's `generateContent`, with and
//! without streaming, well enough for the real command-line programs. It is data that decides what it says
//! ([`Script`]); it says the same to the same request, however often it is asked.

mod anthropic;
mod chat;
mod dialog;
mod gemini;
mod log;
mod play;
mod responses;
mod route;
mod script;
mod server;
mod sse;
#[cfg(test)]
mod tests;

pub use log::LoggedRequest;
pub use script::{Conversation, Fail, Hurdle, Script, ScriptCall, ScriptError, Step, StepUsage};
pub use server::ScriptedModel;

/// What the person says in the demonstration.
pub const DEMO_PROMPT: &str = "I weighed 81.4 kg this morning, log it and tell me the trend";

/// The demonstration's script as JSON.
pub const DEMO_SCRIPT: &str = include_str!("demo_script.json");

/// The demonstration's script.
pub fn demo_script() -> Result<Script, ScriptError> {
    Script::parse(DEMO_SCRIPT)
}
