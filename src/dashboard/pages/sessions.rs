//! Sessions: the newest, and one of them as it happens and as it is on record.

use admin::calls::{SessionPagesApiServer, SessionsApiServer, TimelineApiServer};
use admin::{CallRow, SessionDetail, SessionRow};
use base::text::truncate;
use jiff::SignedDuration;
use maud::{Markup, html};
use sessions::{EventKind, SessionEvent, SessionState};
use uuid::Uuid;

use crate::form::encoded;
use crate::parts::{Tone, badge, count, crumbs, empty, id, json, line, money, note, said, toned, unavailable};
use crate::reply::{Answer, Did, Reply, View};
use crate::route::{Route, get, post};
use crate::time::length;
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] = &[
    get("/sessions", |visit| Box::pin(list(visit))),
    get("/sessions/*", |visit| Box::pin(one(visit))),
    post("/sessions/*/cancel", |visit| Box::pin(cancel(visit))),
];

const SHOWN: u32 = 50;
/// How much of one argument or result is shown; the record has it whole.
const MOST: usize = 4000;

async fn list(visit: &Visit) -> Answer {
    let butler = visit.query.get("butler").map(str::to_owned);
    let before = visit.query.get("before").map(str::to_owned);
    let newest = before.is_none();
    let of = butler.as_deref().map(|butler| format!("&butler={}", encoded(butler))).unwrap_or_default();
    let page = visit.calls.sessions_page(&visit.ext, butler, before, Some(SHOWN)).await?;
    let body = html! {
        (unavailable(&page.unavailable))
        (table(visit, &page.sessions))
        @if let Some(next) = &page.next { p { a href={ "/sessions?before=" (encoded(next)) (of) } { "Older sessions" } } }
    };
    let view = View::new("Sessions", body);
    Ok(if newest { view.live("house").into() } else { view.into() })
}

/// Sessions as rows.
pub(super) fn table(visit: &Visit, rows: &[SessionRow]) -> Markup {
    if rows.is_empty() {
        return empty("No session yet. One begins with a message, a schedule, or: butlerd trigger");
    }
    html! { div.wide tabindex="0" { table {
        thead { tr { th { "When" } th { "Butler" } th { "What" } th { "State" } th.num { "Took" } th.num { "Tools" } th.num { "Cost" } } }
        tbody { @for row in rows { tr {
            td { (visit.now.when(row.queued_at)) }
            td { a href={ "/butlers/" (row.butler) } { (row.butler) } }
            td.grow { a href={ "/sessions/" (row.id) } { (line(&row.prompt, 100)) } div.dim { (line(&row.trigger_source, 60)) } }
            td { (badge(row.state.as_str())) }
            td.num { (took(row.duration_ms)) }
            td.num { (row.tool_call_count) }
            td.num { (money(row.cost_usd)) }
        } } }
    } } }
}

fn took(ms: Option<i64>) -> String {
    ms.map_or_else(|| "–".to_owned(), |ms| length(SignedDuration::from_millis(ms)))
}

fn over(state: SessionState) -> bool {
    !matches!(state, SessionState::Queued | SessionState::Running)
}

async fn one(visit: &Visit) -> Answer {
    let session: Uuid = visit.parsed(0)?;
    let detail = visit.calls.sessions_get(&visit.ext, session).await?;
    let after = visit.query.get("after").and_then(|n| n.parse().ok()).unwrap_or(0);
    let page = visit.calls.sessions_events(&visit.ext, session, Some(after)).await?;
    let row = &detail.session;
    let running = !over(row.state);
    let last = page.events.iter().filter_map(|event| event.seq).max().unwrap_or(after);
    let body = html! {
        (crumbs(&[("Sessions", "/sessions"), (&row.butler, &format!("/butlers/{}", row.butler))]))
        (facts(visit, &detail))
        @if running { (visit.button(&format!("/sessions/{session}/cancel"), "Kill this session", "danger", &[])) }
        @if let Some(error) = &row.error { (note(Tone::Bad, &html! { (error) })) }
        @if let Some(result) = &row.result { h2 { "Result" } (said(result)) }
        h2 #transcript { "Transcript" }
        @if page.events.is_empty() { (empty("Nothing has happened yet.")) }
        ol.events { @for event in &page.events { (entry(visit, event)) } }
        @if page.more { p { a href={ "?after=" (last) "#transcript" } { "What came after" } } }
        @if !detail.tool_calls.is_empty() { h2 { "Tool calls on record" } (calls(visit, &detail.tool_calls)) }
        details { summary { "What it was asked, whole" } (said(&row.prompt)) }
        @if let Some(prompt) = &detail.system_prompt { details { summary { "System prompt" } (said(prompt)) } }
        details { summary { "Who asked, and from where" } (json(&detail.context)) }
    };
    let view = View::new(format!("Session of {}", row.butler), body);
    Ok(if running { view.live(format!("butler/{}", row.butler)).into() } else { view.into() })
}

fn facts(visit: &Visit, detail: &SessionDetail) -> Markup {
    let row = &detail.session;
    let tokens = |n: Option<i64>| n.map_or_else(|| "unknown".to_owned(), count);
    html! { dl.facts {
        dt { "State" } dd { (badge(row.state.as_str())) }
        dt { "Began" } dd { (visit.now.when(row.queued_at)) }
        dt { "Took" } dd { (took(row.duration_ms)) }
        dt { "Model" } dd { (row.runtime) @if let Some(model) = &row.model { ", " (line(model, 60)) } }
        dt { "Tokens" } dd { (tokens(row.input_tokens)) " in, " (tokens(row.output_tokens)) " out, "
            (tokens(row.cached_input_tokens)) " from the cache" }
        dt { "Cost" } dd { (money(row.cost_usd)) }
        dt { "Because of" } dd { (line(&row.trigger_source, 80)) " (" a href={ "/trace/" (row.request_id) } { "request " (id(&row.request_id)) } ")" }
        @if let Some(parent) = row.parent_session_id { dt { "Came of" } dd { a href={ "/sessions/" (parent) } { "session " (id(&parent)) } } }
        dt { "Led to" } dd { a href={ "/trace/" (row.id) } { "what came of it" } ", trace " code { (line(&row.trace_id, 40)) } }
        dt { "Trust" } dd { (row.trust) @if let Some(at) = row.exposed_at { ", lowered " (visit.now.when(at)) " by what it read" } }
        @if !row.audience.is_empty() { dt { "May learn it" } dd { "besides the household: " (line(&row.audience.join(", "), 300)) } }
        dt { "Memory" } dd { a href={ "/memory/told/" (row.id) } { "what it was told" } }
        dt { "Id" } dd { code { (row.id) } }
    } }
}

fn calls(visit: &Visit, rows: &[CallRow]) -> Markup {
    html! { div.wide tabindex="0" { table {
        thead { tr { th { "When" } th { "Tool" } th { "Arguments" } th { "Outcome" } th.num { "Took" } } }
        tbody { @for row in rows { tr {
            td { (visit.now.when(row.called_at)) }
            td { code { (row.tool) } }
            td.grow { (line(&row.arguments.to_string(), 200)) }
            td { (badge(&row.outcome)) @if let Some(detail) = &row.detail { div.dim { (line(detail, 200)) } } }
            td.num { (length(SignedDuration::from_micros(row.duration_us))) }
        } } }
    } } }
}

/// One event of a transcript.
fn entry(visit: &Visit, event: &SessionEvent) -> Markup {
    let (tone, word, body) = told(&event.kind);
    let exact = visit.now.zoned(event.at).strftime("%H:%M:%S%.3f").to_string();
    html! {
        li.event id={ "e" (event.seq.unwrap_or_default()) } {
            time datetime=(event.at) title=(exact) { (visit.now.zoned(event.at).strftime("%H:%M:%S").to_string()) }
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
            html! { (badge(end.state.as_str())) " after " (took(Some(end.duration_ms))) ", cost " (end.cost_usd.as_deref().map_or_else(|| "unknown".to_owned(), |usd| format!("${usd}")))
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

async fn cancel(visit: &Visit) -> Answer {
    let session: Uuid = visit.parsed(0)?;
    visit.calls.sessions_cancel(&visit.ext, session).await?;
    Ok(Reply::Go { to: format!("/sessions/{session}"), did: Did::Cancelled })
}
