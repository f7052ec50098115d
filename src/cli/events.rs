//! Live events, for people and for programs.

use std::time::Duration;

use jiff::tz::TimeZone;
use jsonrpsee::core::client::Subscription;

use super::out::{Out, Tone, block, brief, one_line, span};
use super::problem::{FAILED, Problem};
use crate::admin::LiveEvent;
use crate::spawner::{EventKind, SessionEvent, SessionResult, SessionState};

/// How much of a tool's arguments and results is shown.
const SHOWN: usize = 400;

/// Prints events as they come.
pub struct Printer {
    pub out: Out,
    pub zone: TimeZone,
    /// Whether lines name the butler: several may speak.
    pub butlers: bool,
}

impl Printer {
    /// One event: a line of JSON, or a line or more of text.
    pub fn event(&self, event: &LiveEvent) {
        match event {
            _ if self.out.json => self.out.record(event),
            LiveEvent::Session(event) => self.session(event),
            LiveEvent::Missed { missed } => {
                let text = format!("({missed} events were too fast to be shown)");
                self.out.line(&self.out.paint(Tone::Warn, &text));
            }
        }
    }

    fn session(&self, event: &SessionEvent) {
        let time = event.at.to_zoned(self.zone.clone()).strftime("%H:%M:%S").to_string();
        let mut head = self.out.paint(Tone::Faint, &time);
        if self.butlers {
            head.push_str(&format!("  {:<12}", one_line(&event.butler, 31)));
        }
        let (tone, word, text) = describe(&event.kind, &event.session_id.to_string());
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        self.out.line(format!("{head}  {}  {first}", self.out.paint(tone, &format!("{word:<7}"))).trim_end());
        for more in lines {
            self.out.line(&format!("{:width$}{more}", "", width = if self.butlers { 33 } else { 19 }));
        }
    }
}

/// An event's word and text.
fn describe(kind: &EventKind, session: &str) -> (Tone, &'static str, String) {
    match kind {
        EventKind::Queued { source, prompt } => {
            (Tone::Head, "session", format!("{session}, by {}: {}", one_line(source, 80), one_line(prompt, SHOWN)))
        }
        EventKind::Started { runtime, model, pid } => {
            let model = model.as_deref().map(|m| format!(", {}", one_line(m, 80))).unwrap_or_default();
            (Tone::Plain, "starts", format!("{}{model}, process {pid}", one_line(runtime, 40)))
        }
        EventKind::Text { text } => (Tone::Plain, "says", block(text)),
        EventKind::ToolCall { name, arguments } => {
            (Tone::Head, "calls", format!("{} {}", one_line(name, 80), brief(arguments, SHOWN)))
        }
        EventKind::ToolResult { name, is_error, content } => {
            let tone = if *is_error { Tone::Bad } else { Tone::Good };
            (
                tone,
                if *is_error { "failed" } else { "gets" },
                format!("{} {}", one_line(name, 80), one_line(content, SHOWN)),
            )
        }
        EventKind::Skill { name } => (Tone::Head, "reads", format!("the skill {}", one_line(name, 80))),
        EventKind::Retry { class, attempt } => {
            (Tone::Warn, "retries", format!("attempt {attempt}, after {}", one_line(class, 80)))
        }
        EventKind::ModelCall { model, status, duration_ms, error, .. } => {
            let status = status.map_or_else(|| "no answer".to_owned(), |s| s.to_string());
            let model = model.as_deref().map(|m| format!(" {},", one_line(m, 80))).unwrap_or_default();
            let error = error.as_deref().map(|e| format!(": {}", one_line(e, SHOWN))).unwrap_or_default();
            let tone = if error.is_empty() { Tone::Faint } else { Tone::Warn };
            (tone, "model", format!("{status},{model} {duration_ms} ms{error}"))
        }
        EventKind::Followed { by, runtime, class } => {
            let class = one_line(class, 80);
            (
                Tone::Warn,
                "failed",
                format!("{class}, before it called a tool; session {by} tries again in {}", one_line(runtime, 40)),
            )
        }
        EventKind::Ended(result) => {
            let tone = if result.state == SessionState::Succeeded { Tone::Good } else { Tone::Bad };
            (tone, "ends", ending(result))
        }
    }
}

/// How a session ended, on one line: what is unknown is left out.
pub fn ending(result: &SessionResult) -> String {
    let mut parts = vec![result.state.as_str().replace('_', " "), span(result.duration_ms)];
    match (result.input_tokens, result.output_tokens) {
        (None, None) => {}
        (i, o) => {
            let number = |n: Option<i64>| n.map_or_else(|| "?".to_owned(), |n| n.to_string());
            parts.push(format!("{} + {} tokens", number(i), number(o)));
        }
    }
    if let Some(cost) = &result.cost_usd {
        parts.push(format!("${cost}"));
    }
    parts.push(super::out::count(usize::try_from(result.tool_calls).unwrap_or(0), "tool call"));
    let mut text = parts.join(", ");
    if let Some(error) = &result.error {
        text.push_str(&format!("\n{}", one_line(error, 1000)));
    }
    text
}

/// The next event; `None` when the daemon ended the stream.
pub async fn next(events: &mut Subscription<LiveEvent>) -> Result<Option<LiveEvent>, Problem> {
    match events.next().await {
        None => Ok(None),
        Some(Ok(event)) => Ok(Some(event)),
        Some(Err(e)) => {
            let message = format!("An event of the daemon makes no sense here: {e}.");
            Err(Problem::new(FAILED, "foreign_answer", message, "Run the same version of butlerd as the daemon."))
        }
    }
}

/// The stream's end, which is the daemon's.
pub fn cut_off() -> Problem {
    let message = "The daemon closed the connection: it stops, or the token was revoked.";
    Problem::new(super::problem::UNREACHABLE, "unreachable", message, "`butlerd status` says whether it runs.")
}

/// After the answer to a call, its last events may still be on the way for this long.
pub const TRAILING: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SessionId;

    fn result(state: SessionState, error: Option<&str>) -> SessionResult {
        SessionResult {
            session_id: SessionId::new(),
            state,
            output: None,
            error_class: None,
            error: error.map(Into::into),
            duration_ms: 2100,
            input_tokens: Some(1200),
            output_tokens: Some(80),
            cost_usd: None,
            tool_calls: 2,
        }
    }

    #[test]
    fn an_ending_says_what_is_known() {
        assert_eq!(ending(&result(SessionState::Succeeded, None)), "succeeded, 2.1 s, 1200 + 80 tokens, 2 tool calls");
        let mut failed = result(SessionState::TimedOut, Some("it took\ntoo long"));
        (failed.input_tokens, failed.output_tokens, failed.tool_calls) = (None, None, 1);
        failed.cost_usd = Some("0.012".into());
        assert_eq!(ending(&failed), "timed out, 2.1 s, $0.012, 1 tool call\nit took too long");
    }

    #[test]
    fn what_a_model_or_tool_says_can_not_command_the_terminal() {
        for kind in [
            EventKind::Text { text: "hi\x1b[2J".into() },
            EventKind::ToolResult { name: "t\x1b[1m".into(), is_error: false, content: "x\x1b]0;y\x07".into() },
            EventKind::Queued { source: "trigger".into(), prompt: "\x1b[31mred".into() },
        ] {
            let (_, _, text) = describe(&kind, "id");
            assert!(!text.contains('\x1b') && !text.contains('\x07'), "{text:?}");
        }
    }

    #[test]
    fn events_keep_their_form_over_the_wire() {
        let at = "2026-01-01T10:00:00Z".parse().unwrap();
        let result = result(SessionState::Succeeded, None);
        let session_id = result.session_id;
        let ended = SessionEvent { butler: "health".into(), session_id, at, kind: EventKind::Ended(result) };
        let queued = EventKind::Queued { source: "trigger".into(), prompt: "hi".into() };
        let queued = SessionEvent { butler: "health".into(), session_id, at, kind: queued };
        for event in
            [LiveEvent::Session(ended.into()), LiveEvent::Session(queued.into()), LiveEvent::Missed { missed: 3 }]
        {
            let text = serde_json::to_string(&event).unwrap();
            let back: LiveEvent = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
            assert_eq!(serde_json::to_string(&back).unwrap(), text);
        }
    }
}
