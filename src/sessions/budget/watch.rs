//! What a run's own events mean for its meter.

use serde_json::Value;

use super::meter::Meter;
use crate::adapters::RunEvent;
use llm_api::Failure;

/// Feeds the meter from a run's events, and ends the run where nobody stands between the program and its model.
pub struct Watch<'a> {
    meter: &'a Meter,
    /// Names of the butler's tools: their calls are counted where they arrive.
    tools: &'a [String],
    /// A limit was reached, and the program has not begun another call yet.
    over: Option<Failure>,
}

impl<'a> Watch<'a> {
    pub fn new(meter: &'a Meter, tools: &'a [String]) -> Self {
        Self { meter, tools, over: None }
    }

    /// Takes notice of an event.
    pub fn see(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Model(model) => self.meter.heard_model(model),
            RunEvent::Usage(usage) => {
                self.go_on();
                self.over = self.meter.heard(*usage).err();
                // If it goes on, it shall not get far: it waits at its next tool call until it is ended.
                if let Some(over) = &self.over {
                    self.meter.calls().close(&over.message);
                }
            }
            // With its last call the program was done: what it has to say is worth its price.
            RunEvent::Final => self.over = None,
            RunEvent::ToolCall { name, arguments, .. } => {
                self.go_on();
                // Built-in tools of the program, and tools that don't exist. A refusal ends the run by itself.
                if !self.tools.contains(name) {
                    let none = serde_json::Map::new();
                    let arguments = if let Value::Object(map) = arguments { map } else { &none };
                    let _ = self.meter.calls().admit(name, arguments);
                }
            }
            RunEvent::Text(_) | RunEvent::TextDelta { .. } | RunEvent::ToolResult { .. } | RunEvent::Retry { .. } => {
                self.go_on()
            }
            RunEvent::McpConnected(_) | RunEvent::SkillUsed { .. } => {}
        }
    }

    /// The program goes on although a limit is reached.
    fn go_on(&mut self) {
        if let Some(over) = self.over.take() {
            self.meter.stop_signal().stop(over);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::meter::Limits;
    use super::*;
    use llm_api::{ErrorClass, Usage};

    fn usage(n: u64) -> RunEvent {
        RunEvent::Usage(Usage { input: Some(n), output: Some(0), ..Usage::default() })
    }

    fn call(name: &str) -> RunEvent {
        RunEvent::ToolCall { id: "1".into(), name: name.into(), arguments: json!({"a": 1}) }
    }

    fn stopped_by(limits: Limits, events: &[RunEvent]) -> Option<ErrorClass> {
        let meter = Meter::new(limits);
        let tools = ["state_get".to_owned()];
        let mut watch = Watch::new(&meter, &tools);
        events.iter().for_each(|event| watch.see(event));
        meter.stop_signal().why().map(|e| e.class)
    }

    #[test]
    fn a_run_over_its_limit_is_ended_when_it_goes_on_and_not_when_it_is_done() {
        let few = Limits { tokens: Some(100), ..Limits::default() };
        assert_eq!(stopped_by(few, &[usage(99), call("state_get"), RunEvent::Final]), None);
        assert_eq!(stopped_by(few, &[usage(100)]), None);
        assert_eq!(stopped_by(few, &[usage(100), RunEvent::Final]), None);
        assert_eq!(stopped_by(few, &[usage(100), call("state_get")]), Some(ErrorClass::Budget));
        let turns = Limits { turns: Some(1), ..Limits::default() };
        assert_eq!(stopped_by(turns, &[usage(1), RunEvent::Text("on".into())]), Some(ErrorClass::Turns));
    }

    #[test]
    fn tools_that_do_not_arrive_here_are_counted_all_the_same() {
        let own: Vec<RunEvent> = (0..9).map(|_| call("state_get")).collect();
        assert_eq!(stopped_by(Limits::default(), &own), None, "these are counted at the butler's door");
        let shell: Vec<RunEvent> = (0..5).map(|_| call("Bash")).collect();
        assert_eq!(stopped_by(Limits::default(), &shell[..4]), None);
        assert_eq!(stopped_by(Limits::default(), &shell), Some(ErrorClass::Runaway));
    }
}
