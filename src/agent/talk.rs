//! The conversation itself: model, tools, model, until the model wants no more tools.

use std::time::Instant;

use serde_json::Value;

use super::AgentError;
use super::config::AgentConfig;
use super::event::{AgentEvent, Reporter};
use super::mcp::{Answer, Mcp};
use super::model::{ModelClient, Progress, Retry};
use super::names::ToolNames;
use super::wire::{Call, Stop, ToolOutcome, Turn, WireTool};
use llm_api::{TAKES_NO_PICTURES, Usage, pictures_not_shown};

/// Where a conversation stands. It outlives a failure, so that the last line can tell how far the run came.
#[derive(Default)]
pub struct Talk {
    pub mcp: Option<Mcp>,
    /// Answered model calls.
    pub turns: u32,
    /// Text of the last turn, set when the run ends with it.
    pub final_text: Option<String>,
    used: Option<Usage>,
}

impl Talk {
    /// The sum of what all model calls used.
    pub fn usage(&self) -> Usage {
        self.used.unwrap_or_default()
    }

    /// Talks to the end. The MCP servers are connected.
    pub async fn run(
        &mut self,
        config: &AgentConfig,
        model: &ModelClient,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), AgentError> {
        let Some(mcp) = self.mcp.take() else { return Ok(()) };
        let outcome = self.rounds(config, model, &mcp, reporter).await;
        self.mcp = Some(mcp);
        outcome
    }

    async fn rounds(
        &mut self,
        config: &AgentConfig,
        model: &ModelClient,
        mcp: &Mcp,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), AgentError> {
        let names = ToolNames::new(mcp.tools().iter().map(|tool| tool.name.as_ref()));
        let tools: Vec<WireTool> = mcp
            .tools()
            .iter()
            .map(|tool| WireTool {
                name: names.wire(&tool.name).to_owned(),
                description: tool.description.as_deref().unwrap_or_default().to_owned(),
                schema: Value::Object(tool.input_schema.as_ref().clone()),
            })
            .collect();
        let mut history = config.api.opening(config);
        let mut pictures = !config.images.is_empty();
        loop {
            let request = config.api.request(config, &tools, &history);
            let asked = model
                .turn::<AgentError>(&request, async |heard| {
                    let event = match heard {
                        Progress::Retry(Retry { class, attempt, delay, status, message }) => {
                            let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
                            AgentEvent::Retry { class, attempt, delay_ms, status, message }
                        }
                        Progress::Text { start, text } => AgentEvent::TextDelta { start, text },
                    };
                    Ok(reporter.emit(&event).await?)
                })
                .await;
            let mut turn = match asked {
                // No list says which models take pictures: one that doesn't is asked without them.
                Err(AgentError::Model(error)) if pictures && self.turns == 0 && error.may_be_of_pictures() => {
                    (history, pictures) = (config.api.opening(&without_pictures(config)), false);
                    continue;
                }
                asked => asked?,
            };
            self.turns += 1;
            turn.name_calls(self.turns);
            self.used = Some(self.used.map_or(turn.usage, |sum| sum.plus_if_known(turn.usage)));
            for text in turn.texts.iter().filter(|text| !text.trim().is_empty()) {
                reporter.emit(&AgentEvent::Text { text: text.clone() }).await?;
            }
            reporter.emit(&AgentEvent::Usage(turn.usage)).await?;
            if self.is_over(config, &turn, &names)? {
                return Ok(());
            }
            let mut outcomes = Vec::with_capacity(turn.calls.len());
            for call in turn.calls {
                outcomes.push(perform(call, &names, mcp, reporter).await?);
            }
            if config.one_round && outcomes.iter().any(|outcome| !outcome.is_error && !refused(&outcome.content)) {
                self.final_text = Some(turn.texts.concat());
                return Ok(());
            }
            history.push(turn.message);
            if !outcomes.is_empty() {
                history.extend(config.api.outcomes(&outcomes));
            }
        }
    }

    /// Whether this turn is the last one; an error where it is but should not be.
    fn is_over(&mut self, config: &AgentConfig, turn: &Turn, names: &ToolNames) -> Result<bool, AgentError> {
        let failure = match turn.stop {
            // Calls of a cut answer are not made: their arguments may be cut as well.
            Stop::OutputLimit => Some(AgentError::OutputLimit(config.max_output_tokens)),
            Stop::ContextFull => Some(AgentError::ContextFull),
            Stop::Refused => Some(AgentError::Declined),
            Stop::Done | Stop::Pause => None,
        };
        if let Some(failure) = failure {
            self.final_text = Some(turn.texts.concat());
            return Err(failure);
        }
        if turn.calls.is_empty() && turn.stop == Stop::Done {
            self.final_text = Some(turn.texts.concat());
            return Ok(true);
        }
        // The calls of the last allowed turn are not made: the model would never learn what they did.
        if self.turns >= config.max_turns {
            let wanted: Vec<&str> =
                turn.calls.iter().map(|call| names.original(&call.name).unwrap_or(&call.name)).collect();
            let wanted = if wanted.is_empty() { "nothing yet".to_owned() } else { wanted.join(", ") };
            return Err(AgentError::Turns { max: config.max_turns, wanted });
        }
        Ok(false)
    }
}

/// The same run for a model that takes no pictures.
fn without_pictures(config: &AgentConfig) -> AgentConfig {
    let mut config = config.clone();
    config.images.clear();
    config.prompt.push_str(&pictures_not_shown(TAKES_NO_PICTURES));
    config
}

/// Whether a tool's answer says that it was not done.
fn refused(content: &str) -> bool {
    serde_json::from_str::<Value>(content).is_ok_and(|answer| answer["status"] == "error")
}

/// Makes one call and reports it. Calls of one turn are made one after the other, in the model's order.
async fn perform(
    call: Call,
    names: &ToolNames,
    mcp: &Mcp,
    reporter: &mut Reporter<'_>,
) -> Result<ToolOutcome, AgentError> {
    let Call { id, name: called, arguments } = call;
    let name = names.original(&called).unwrap_or(&called).to_owned();
    let shown = arguments.clone().map_or_else(|e| Value::String(e.0), Value::Object);
    reporter.emit(&AgentEvent::ToolCall { id: id.clone(), name: name.clone(), arguments: shown }).await?;
    let started = Instant::now();
    let Answer { content, is_error } = match arguments {
        Ok(arguments) => mcp.call(&name, arguments).await?,
        Err(_) => Answer {
            content: "The arguments are not a JSON object, so the tool was not called. Send them again.".to_owned(),
            is_error: true,
        },
    };
    let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let reported = AgentEvent::ToolResult { id: id.clone(), name, is_error, content: content.clone(), duration_ms };
    reporter.emit(&reported).await?;
    Ok(ToolOutcome { id, content, is_error })
}
