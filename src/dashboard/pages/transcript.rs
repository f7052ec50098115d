//! The transcript of a session as people read it: event by event, and the text that is being written.

use base::text::truncate;
use jiff::SignedDuration;
use maud::{Markup, html};
use sessions::{EventKind, SessionEvent};

use crate::parts::{Tone, badge, count, json, line, toned};
use crate::time::{Now, length};

/// How much of one argument or result is shown; the record has it whole.
pub(super) const MOST: usize = 4000;
/// The text that is being written: it is the last of its list, and goes where it is whole.
pub(super) const WRITING: &str = "writing";

/// What is written of a text so far. Empty: nothing is being written any more.
pub(super) fn writing(text: &str) -> Markup {
    if text.is_empty() {
        return html! { li id=(WRITING) hidden {} };
    }
    html! { li.event id=(WRITING) aria-busy="true" {
        span.dim { "now" } (toned(Tone::Busy, "writes")) div.body { div.said { (truncate(text, MOST)) } }
    } }
}

/// One event of a transcript.
pub(super) fn entry(now: &Now, event: &SessionEvent) -> Markup {
    let (tone, word, body) = told(&event.kind);
    let exact = now.zoned(event.at).strftime("%H:%M:%S%.3f").to_string();
    html! {
        li.event id={ "e" (event.seq.unwrap_or_default()) } {
            time datetime=(event.at) title=(exact) { (now.zoned(event.at).strftime("%H:%M:%S").to_string()) }
            (toned(tone, word))
            div.body { (body) }
        }
    }
}

fn cut(text: &str) -> Markup {
    html! {
        div.said { (truncate(text, MOST)) }
        @if text.len() > MOST { p.dim { "Cut here; " code { "butlerd sessions show" } " has all of it." } }
    }
}

/// Numbers with their names, on one line; without those that are not known.
fn short(value: &serde_json::Value) -> Markup {
    let known = value.as_object().into_iter().flatten().filter_map(|(name, n)| Some((name, n.as_i64()?)));
    let parts: Vec<String> = known.map(|(name, n)| format!("{} {}", name.replace('_', " "), count(n))).collect();
    html! { span.dim { (if parts.is_empty() { "unknown".to_owned() } else { parts.join(", ") }) } }
}

/// An event's tone, word and text.
fn told(kind: &EventKind) -> (Tone, &'static str, Markup) {
    let ms = |ms: &u64| length(SignedDuration::from_millis(i64::try_from(*ms).unwrap_or(i64::MAX)));
    match kind {
        EventKind::Queued { source, .. } => (Tone::Quiet, "asked", html! { "by " (line(source, 80)) }),
        EventKind::Prompt { prompt, .. } => {
            (Tone::Quiet, "prompt", html! { details { summary { (line(prompt, 100)) } (cut(prompt)) } })
        }
        EventKind::Memory { recalled } => {
            (Tone::Quiet, "memory", html! { details { summary { "What memory told it" } (json(recalled)) } })
        }
        EventKind::Tools { shown, more, tokens } => (
            Tone::Quiet,
            "tools",
            html! { details { summary { (shown.len()) " told of, " (more) " more to be found, about " (count(*tokens)) " tokens" }
            p { @for tool in shown { code { (tool.name) } " " } } } },
        ),
        EventKind::Started { runtime, model, pid } => (
            Tone::Quiet,
            "starts",
            html! { (runtime) @if let Some(model) = model { ", " (line(model, 80)) } ", process " (pid) },
        ),
        EventKind::Connected { connected: true } => (Tone::Quiet, "tools", html! { "connected" }),
        EventKind::Connected { connected: false } => (Tone::Bad, "tools", html! { "not connected" }),
        EventKind::Text { text } => (Tone::Good, "says", cut(text)),
        EventKind::TextDelta { text, .. } => (Tone::Quiet, "writes", cut(text)),
        EventKind::ToolCall { name, arguments, .. } => {
            (Tone::Busy, "calls", html! { code { (line(name, 80)) } (json(arguments)) })
        }
        EventKind::ToolResult { name, is_error, content, duration_ms, .. } => (
            if *is_error { Tone::Bad } else { Tone::Good },
            if *is_error { "failed" } else { "result" },
            html! { code { (line(name, 80)) } @if let Some(took) = duration_ms { " after " (length(SignedDuration::from_millis(*took))) }
            details open[content.len() < 400] { summary { (line(content, 80)) } (cut(content)) } },
        ),
        EventKind::Skill { name } => (Tone::Quiet, "reads", html! { "the skill " (line(name, 80)) }),
        EventKind::Retry { class, attempt, message, .. } => (
            Tone::Warn,
            "retries",
            html! { "attempt " (attempt) ", after " (line(class, 80)) @if let Some(message) = message { ": " (line(message, 300)) } },
        ),
        EventKind::Usage(usage) => (Tone::Quiet, "used", short(&serde_json::to_value(usage).unwrap_or_default())),
        EventKind::Ended(end) => (
            Tone::of(end.state.as_str()),
            "ended",
            html! { (badge(end.state.as_str())) " after " (length(SignedDuration::from_millis(end.duration_ms))) ", cost " (end.cost_usd.as_deref().map_or_else(|| "unknown".to_owned(), |usd| format!("${usd}")))
            @if let Some(error) = &end.error { ": " (line(error, 500)) } },
        ),
        EventKind::ModelCall { model, duration_ms, error, usage, .. } => (
            if error.is_some() { Tone::Bad } else { Tone::Quiet },
            "model",
            html! { @if let Some(model) = model { (line(model, 80)) ", " } (ms(duration_ms))
            @if let Some(error) = error { ": " (line(error, 300)) }
            details { summary { "Tokens" } (json(&serde_json::to_value(usage).unwrap_or_default())) } },
        ),
        EventKind::Stopped { message, .. } => (Tone::Bad, "stopped", html! { (line(message, 500)) }),
        EventKind::Signal { signal, why } => (Tone::Warn, "signal", html! { (signal) ": " (line(why, 200)) }),
        EventKind::Exit { status, stderr, .. } => (
            Tone::Quiet,
            "exits",
            html! { @match status { Some(status) => (line(status, 100)), None => "It is not gone, for nothing ends it." }
            @if let Some(stderr) = stderr { (cut(stderr)) } },
        ),
        EventKind::Cut { message } => (Tone::Warn, "cut", html! { (line(message, 300)) }),
        EventKind::Stage { stage, by, text } => (
            Tone::Busy,
            "stage",
            html! { strong { (line(stage, 60)) } @if let Some(by) = by { ", " (line(by, 60)) } (cut(text)) },
        ),
        EventKind::Followed { by, .. } => {
            (Tone::Warn, "goes on", html! { "in " a href={ "/sessions/" (by.0) } { "another session" } })
        }
        other => (Tone::Quiet, other.into(), json(&serde_json::to_value(other).unwrap_or_default())),
    }
}
