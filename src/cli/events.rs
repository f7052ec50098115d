//! Live events, for people and for programs.

use jiff::Timestamp;
use jsonrpsee::core::client::Subscription;

use super::out::{Out, Tone};
use super::problem::{Problem, UNREACHABLE};
use super::text::{block, brief, count, one_line, span, words};
use admin::LiveEvent;
use base::Money;
use sessions::adapters::Usage;
use sessions::{EventKind, SessionEvent, SessionResult, SessionState};
use tools::{Reason, ShownTool};

/// How much of a tool's arguments and results is shown to those who watch.
pub const SHOWN: usize = 400;
/// And to those who read afterwards.
pub const READ: usize = 2000;

/// Prints events as they come.
pub struct Printer<'a> {
    pub out: &'a Out,
    /// Whether lines name the butler: several may speak.
    pub butlers: bool,
    /// How much of arguments, results and errors is shown.
    pub most: usize,
}

impl Printer<'_> {
    /// One event: a line of JSON, or a line or more of text.
    pub fn event(&self, event: &LiveEvent) {
        match event {
            LiveEvent::Session(event) => self.session(event),
            LiveEvent::Missed { .. } if self.out.json => self.out.record(event),
            LiveEvent::Missed { missed } => {
                self.out.toned(Tone::Warn, &format!("({missed} events came too fast to be shown)"));
            }
        }
    }

    /// As [`Printer::event`].
    pub fn session(&self, event: &SessionEvent) {
        if matches!(event.kind, EventKind::TextDelta { .. }) {
            // The whole text follows.
            return;
        }
        if self.out.json {
            return self.out.record(event);
        }
        let (tone, word, text) = describe(&event.kind, &event.session_id.to_string(), self.most);
        self.text(event.at, &event.butler, (tone, word), &text);
    }

    /// A line of text, or more, that is no event.
    pub fn row(&self, at: Timestamp, butler: &str, word: &'static str, text: &str) {
        self.text(at, butler, (Tone::Plain, word), text);
    }

    fn text(&self, at: Timestamp, butler: &str, (tone, word): (Tone, &'static str), text: &str) {
        let time = at.to_zoned(self.out.zone.clone()).strftime("%H:%M:%S").to_string();
        let mut head = self.out.paint(Tone::Faint, &time);
        if self.butlers {
            head.push_str(&format!("  {:<12}", one_line(butler, 31)));
        }
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        self.out.line(format!("{head}  {}  {first}", self.out.paint(tone, &format!("{word:<7}"))).trim_end());
        for more in lines {
            self.out.line(&format!("{:width$}{more}", "", width = if self.butlers { 33 } else { 19 }));
        }
    }
}

/// The tools that a session is told of, each with the reason.
pub(super) fn tools(shown: &[ShownTool], more: usize, tokens: u32) -> String {
    let of = |reason: Reason| {
        let names: Vec<&str> = shown.iter().filter(|t| t.reason == reason).map(|t| t.name.as_str()).collect();
        (!names.is_empty()).then(|| format!("{}: {}", reason.as_str(), names.join(", ")))
    };
    let reasons = [Reason::Always, Reason::Skill, Reason::Conversation, Reason::Prompt, Reason::All];
    let all: Vec<String> = reasons.into_iter().filter_map(of).collect();
    let more = if more > 0 { format!(", {more} more to be found") } else { String::new() };
    format!("{} of about {tokens} tokens{more}\n{}", count(shown.len(), "tool"), all.join("\n"))
}

/// An event's word and text.
fn describe(kind: &EventKind, session: &str, most: usize) -> (Tone, &'static str, String) {
    let maybe = |what: Option<String>| what.map(|w| format!(", {w}")).unwrap_or_default();
    let one = |text: &str| one_line(text, most);
    match kind {
        EventKind::Queued { source, prompt } => {
            (Tone::Head, "session", format!("{session}, by {}: {}", one_line(source, 80), one(prompt)))
        }
        EventKind::Prompt { prompt, system_bytes } => {
            (Tone::Plain, "asks", format!("{} (system prompt: {system_bytes} bytes)", one(prompt)))
        }
        EventKind::Started { runtime, model, pid } => {
            let model = maybe(model.as_deref().map(|m| one_line(m, 80)));
            (Tone::Plain, "starts", format!("{}{model}, process {pid}", one_line(runtime, 40)))
        }
        EventKind::Memory { recalled } => (Tone::Faint, "memory", memory(recalled)),
        EventKind::Tools { shown, more, tokens } => (Tone::Faint, "tools", tools(shown, *more, *tokens)),
        EventKind::Connected { connected: true } => (Tone::Faint, "tools", "connected".to_owned()),
        EventKind::Connected { connected: false } => (Tone::Bad, "tools", "not connected".to_owned()),
        EventKind::Text { text } => (Tone::Plain, "says", block(text)),
        EventKind::TextDelta { text, .. } => (Tone::Faint, "writes", block(text)),
        EventKind::ToolCall { name, arguments, .. } => {
            (Tone::Head, "calls", format!("{} {}", one_line(name, 80), brief(arguments, most)))
        }
        EventKind::ToolResult { name, is_error, content, duration_ms, .. } => {
            let (tone, word) = if *is_error { (Tone::Bad, "failed") } else { (Tone::Good, "gets") };
            let took = duration_ms.map(|ms| format!(" ({})", span(ms))).unwrap_or_default();
            (tone, word, format!("{} {}{took}", one_line(name, 80), one(content)))
        }
        EventKind::Skill { name } => (Tone::Head, "reads", format!("the skill {}", one_line(name, 80))),
        EventKind::Retry { class, attempt, delay_ms, status, .. } => {
            let status = status.map(|s| format!(" ({s})")).unwrap_or_default();
            let delay = maybe(delay_ms.map(|ms| format!("in {}", span(i64::try_from(ms).unwrap_or(i64::MAX)))));
            (Tone::Warn, "retries", format!("attempt {attempt}, after {}{status}{delay}", one_line(class, 80)))
        }
        EventKind::Usage(usage) => (Tone::Faint, "used", used(usage)),
        EventKind::ModelCall { model, status, duration_ms, usage, error, .. } => {
            let status = status.map_or_else(|| "no answer".to_owned(), |s| s.to_string());
            let tone = if error.is_none() { Tone::Faint } else { Tone::Warn };
            let (model, error) =
                (maybe(model.as_deref().map(|m| one_line(m, 80))), maybe(error.as_ref().map(|e| one(e))));
            let took = span(i64::try_from(*duration_ms).unwrap_or(i64::MAX));
            (tone, "model", format!("{status}{model}, {took}, {}{error}", used(usage)))
        }
        EventKind::Stopped { class, message } => {
            (Tone::Bad, "stopped", format!("{}: {}", one_line(class, 80), one(message)))
        }
        EventKind::Signal { signal, why } => (Tone::Warn, "signal", format!("{}: {}", one_line(signal, 20), one(why))),
        EventKind::Exit { status, strays, survivors, stderr } => {
            let mut text = status.as_ref().map_or_else(|| "it has not ended".to_owned(), |s| one_line(s, 80));
            if *strays > 0 {
                text.push_str(&format!(", {} left behind and killed", count(*strays, "process")));
            }
            if !survivors.is_empty() {
                text.push_str(&format!(", and {survivors:?} can't be killed"));
            }
            if let Some(stderr) = stderr {
                text.push_str(&format!("\n{}", block(stderr)));
            }
            (Tone::Faint, "exits", text)
        }
        EventKind::Cut { message } => (Tone::Warn, "cut", one(message)),
        EventKind::Stage { stage, by, text } => {
            let by = by.as_ref().map(|by| format!("{}: ", one_line(by, 80))).unwrap_or_default();
            (Tone::Head, "stage", format!("{}, {by}{}", one_line(stage, 40), one(text)))
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
        EventKind::Unknown => (Tone::Faint, "?", "an event that this version does not know".to_owned()),
    }
}

fn used(usage: &Usage) -> String {
    let one = |n: Option<u64>, name: &str| n.map(|n| format!("{n} {name}"));
    let parts = [
        one(usage.input, "in"),
        one(usage.output, "out"),
        one(usage.cache_read, "from cache"),
        one(usage.cache_write, "to cache"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "tokens unknown".to_owned() } else { parts.join(", ") + " tokens" }
}

/// How a session ended, on one line: what is unknown is left out.
pub fn ending(result: &SessionResult) -> String {
    let mut parts = vec![words(result.state.as_str()), span(result.duration_ms)];
    match (result.input_tokens, result.output_tokens) {
        (None, None) => {}
        (i, o) => {
            let number = |n: Option<i64>| n.map_or_else(|| "?".to_owned(), |n| n.to_string());
            parts.push(format!("{} + {} tokens", number(i), number(o)));
        }
    }
    parts.extend(result.cost_usd.as_deref().and_then(Money::parse).map(|cost| cost.to_string()));
    parts.push(count(usize::try_from(result.tool_calls).unwrap_or(0), "tool call"));
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
        Some(Err(e)) => Err(Problem::foreign(&e)),
    }
}

/// The stream's end, which is the daemon's.
pub fn cut_off() -> Problem {
    let message = "The daemon closed the connection: it is stopping, or the token was revoked.";
    Problem::new(UNREACHABLE, "unreachable", message, "`butlerd status` says whether it runs.")
}

/// What memory told a session, in a line.
fn memory(recalled: &serde_json::Value) -> String {
    let text = |key: &str| recalled.get(key).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
    let number = |key: &str| recalled.get(key).and_then(serde_json::Value::as_u64);
    match text("state").as_str() {
        "told" => {
            let memories = recalled.get("ids").and_then(serde_json::Value::as_array).map_or(0, Vec::len);
            format!("{memories} memories, {} tokens", number("tokens").unwrap_or(0))
        }
        "nothing" => "nothing relevant".to_owned(),
        state => format!("{state}: {}", text("why")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SessionId;

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
            all_tokens: None,
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
    fn tools_are_told_with_the_reason_and_the_cost() {
        let detail = || serde_json::from_value("terse".into()).unwrap();
        let tool = |reason| ShownTool { name: "notify".into(), reason, detail: detail(), tokens: 9 };
        assert_eq!(tools(&[tool(Reason::All)], 0, 9), "1 tool of about 9 tokens\nall that it may call: notify");
        let chosen = tools(&[tool(Reason::Always), tool(Reason::Prompt)], 3, 18);
        assert_eq!(chosen, "2 tools of about 18 tokens, 3 more to be found\nalways: notify\nfor the prompt: notify");
    }

    #[test]
    fn what_a_model_or_tool_says_can_not_command_the_terminal() {
        for kind in [
            EventKind::Text { text: "hi\x1b[2J".into() },
            EventKind::ToolResult {
                call: None,
                name: "t\x1b[1m".into(),
                is_error: false,
                content: "x\x1b]0;y\x07".into(),
                duration_ms: Some(3),
            },
            EventKind::Queued { source: "trigger".into(), prompt: "\x1b[31mred".into() },
        ] {
            let (_, _, text) = describe(&kind, "id", SHOWN);
            assert!(!text.contains('\x1b') && !text.contains('\x07'), "{text:?}");
        }
    }

    #[test]
    fn events_keep_their_form_over_the_wire() {
        let at = "2026-01-01T10:00:00Z".parse().unwrap();
        let result = result(SessionState::Succeeded, None);
        let session_id = result.session_id;
        let ended =
            SessionEvent { butler: "health".into(), session_id, seq: Some(1), at, kind: EventKind::Ended(result) };
        let queued = EventKind::Queued { source: "trigger".into(), prompt: "hi".into() };
        let queued = SessionEvent { butler: "health".into(), session_id, seq: Some(1), at, kind: queued };
        for event in
            [LiveEvent::Session(ended.into()), LiveEvent::Session(queued.into()), LiveEvent::Missed { missed: 3 }]
        {
            let text = serde_json::to_string(&event).unwrap();
            let back: LiveEvent = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
            assert_eq!(serde_json::to_string(&back).unwrap(), text);
        }
    }
}
