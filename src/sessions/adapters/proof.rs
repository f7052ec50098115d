//! What a program says of its tools, held against what the butler's own server saw.

use super::{ErrorClass, Failure, Outcome, Parser, RunEvent};
use access::ToolsSeen;
use process::ExitInfo;

/// A parser whose word on the butler's tools counts only if the butler's server has told them under the session's
/// token. Some programs run on without a word where that server can't be reached.
pub struct Proven {
    inner: Box<dyn Parser>,
    seen: ToolsSeen,
    /// What was told of it so far.
    told: Option<bool>,
}

impl Proven {
    pub fn new(inner: Box<dyn Parser>, seen: ToolsSeen) -> Self {
        Self { inner, seen, told: None }
    }
}

impl Parser for Proven {
    fn line(&mut self, line: &str) -> Vec<RunEvent> {
        let mut events = Vec::new();
        for event in self.inner.line(line) {
            match event {
                // A good word waits for the proof, a bad one does not.
                RunEvent::McpConnected(true) => continue,
                RunEvent::McpConnected(false) => self.told = Some(false),
                // Programs ask for the tools before they ask the model: its first word comes with them or without.
                RunEvent::Text(_) | RunEvent::TextDelta { .. } | RunEvent::ToolCall { .. } if self.told.is_none() => {
                    self.told = Some(self.seen.get());
                    events.push(RunEvent::McpConnected(self.seen.get()));
                }
                _ => {}
            }
            events.push(event);
        }
        if self.told.is_none() && self.seen.get() {
            self.told = Some(true);
            events.insert(0, RunEvent::McpConnected(true));
        }
        events
    }

    fn finish(&mut self, exit: ExitInfo, stderr_tail: &str) -> Outcome {
        let mut outcome = self.inner.finish(exit, stderr_tail);
        if outcome.ok && !self.seen.get() {
            outcome.ok = false;
            let why = "the program said that all went well, but it never asked its butler for its tools";
            outcome.error = Some(Failure::new(ErrorClass::McpUnreachable, why));
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Adapter, Native};
    use super::*;

    const INIT: &str = r#"{"type":"init","mcp_connected":true}"#;
    const TEXT: &str = r#"{"type":"text","text":"a"}"#;
    const RESULT: &str = r#"{"type":"result","ok":true,"final_text":"done","error":null}"#;

    fn play(seen: bool, lines: &[&str]) -> (Vec<RunEvent>, Outcome) {
        let tools = ToolsSeen::default();
        if seen {
            tools.set();
        }
        let mut parser = Proven::new(Native.parser(&[]), tools);
        let events = lines.iter().flat_map(|line| parser.line(line)).collect();
        (events, parser.finish(ExitInfo::default(), ""))
    }

    #[test]
    fn with_proof_the_tools_are_there_from_the_first_line() {
        let (events, outcome) = play(true, &[INIT, TEXT, RESULT]);
        assert_eq!(events, [RunEvent::McpConnected(true), RunEvent::Text("a".into()), RunEvent::Final]);
        assert!(outcome.ok);
    }

    #[test]
    fn without_proof_neither_words_nor_success_count() {
        let (events, outcome) = play(false, &[INIT, TEXT, TEXT, RESULT]);
        let text = RunEvent::Text("a".into());
        assert_eq!(events, [RunEvent::McpConnected(false), text.clone(), text, RunEvent::Final]);
        assert_eq!(outcome.error.unwrap().class, ErrorClass::McpUnreachable);
        let (_, outcome) = play(false, &[INIT, RESULT]);
        assert_eq!(outcome.error.unwrap().class, ErrorClass::McpUnreachable);
    }

    #[test]
    fn a_failure_keeps_its_own_reason() {
        let failed = r#"{"type":"result","ok":false,"error":{"class":"auth","message":"no"}}"#;
        assert_eq!(play(false, &[failed]).1.error.unwrap().class, ErrorClass::Auth);
        let (events, _) = play(true, &[&INIT.replace("true", "false")]);
        assert_eq!(events, [RunEvent::McpConnected(false)]);
    }
}
