//! `butlerd sessions`

use clap::Subcommand;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::common::{Id, Newest};
use super::events::{Printer, READ, SHOWN, cut_off, next};
use super::follow::follow;
use super::out::{Out, Tone};
use super::problem::FAILED;
use super::text::{brief, one_line, span, words};
use super::{Caller, Outcome};
use admin::api::{EventsApiClient, SessionsApiClient, TimelineApiClient};
use admin::{CallRow, IdKind, SessionDetail, SessionRow};
use sessions::{EventKind, SessionEvent, SessionState};

/// `sessions`
#[derive(Debug, Subcommand)]
pub enum Sessions {
    /// List the newest sessions
    List {
        /// Only this butler's
        #[arg(long, value_name = "NAME")]
        butler: Option<String>,
        #[command(flatten)]
        newest: Newest,
    },
    /// Show one session in full: prompt, calls with their results, texts, answer
    Show { id: Id },
    /// Follow sessions as they happen: one until its end, or all until Ctrl-C
    Tail {
        id: Option<Id>,
        /// Only this butler's
        #[arg(long, value_name = "NAME", conflicts_with = "id")]
        butler: Option<String>,
    },
    /// End a session that waits or runs
    Cancel { id: Id },
}

/// A session with all that happened in it.
#[derive(Serialize)]
struct Story {
    #[serde(flatten)]
    detail: SessionDetail,
    events: Vec<SessionEvent>,
}

pub async fn run(caller: Caller, what: Sessions) -> Outcome {
    match what {
        Sessions::List { butler, newest } => {
            let page = caller.got(caller.quick()?.sessions_list(butler, Some(newest.limit)).await)?;
            caller.out.list(&page.sessions, &page.unavailable, list)
        }
        Sessions::Show { id } => {
            let (id, calls) = (caller.id(IdKind::Session, &id).await?, caller.quick()?);
            let mut story = Story { detail: caller.got(calls.sessions_get(id).await)?, events: Vec::new() };
            loop {
                let after = story.events.iter().filter_map(|e| e.seq).max();
                let page = caller.got(calls.sessions_events(id, after).await)?;
                story.events.extend(page.events);
                if !page.more {
                    break;
                }
            }
            caller.out.answer(&story, show)
        }
        Sessions::Tail { id: Some(id), .. } => tail_one(&caller, caller.id(IdKind::Session, &id).await?).await,
        Sessions::Tail { id: None, butler } => tail_all(&caller, butler).await,
        Sessions::Cancel { id } => {
            let id = caller.id(IdKind::Session, &id).await?;
            caller.show(caller.quick()?.sessions_cancel(id).await, |out, done| {
                out.line(&format!("Session {id} of {} is cancelled.", done.butler));
            })
        }
    }
}

fn state(row: &SessionRow) -> (Tone, String) {
    let tone = match row.state {
        SessionState::Succeeded => Tone::Good,
        SessionState::Queued | SessionState::Running => Tone::Warn,
        _ => Tone::Bad,
    };
    (tone, words(row.state.as_str()))
}

fn list(out: &Out, sessions: &[SessionRow]) {
    out.table(sessions)
        .ids("SESSION", |s| s.id)
        .column("BUTLER", |s| &s.butler)
        .column("BEGAN", |s| out.moment(s.queued_at))
        .column("STATE", state)
        .column("TOOK", |s| s.duration_ms.map(span))
        .column("TOOLS", |s| s.tool_call_count)
        .column("PROMPT", |s| one_line(&s.prompt, 60))
        .print("No sessions yet");
}

fn show(out: &Out, Story { detail, events }: &Story) {
    let s = &detail.session;
    let tainted = if s.exposed_at.is_some() { ", lowered by what it read" } else { "" };
    let private = if s.audience.is_empty() {
        String::new()
    } else {
        format!(", all of which {} may learn", s.audience.join(", "))
    };
    out.fields()
        .field("session", s.id)
        .field("butler", &s.butler)
        .field("state", state(s))
        .field("by", &s.trigger_source)
        .field("trust", format!("{}{tainted}{private}", s.trust))
        .field("began", out.moment(s.queued_at))
        .field("ended", s.completed_at.map(|at| out.moment(at)))
        .field("took", s.duration_ms.map(span))
        .field("runtime", &s.runtime)
        .field("model", &s.model)
        .field("tokens", tokens(s))
        .field("cost", s.cost_usd)
        .field("request", s.request_id)
        .field("parent", s.parent_session_id)
        .field("trace", &s.trace_id)
        .field("exit", &s.exit_status)
        .print();
    out.section("prompt", &s.prompt);
    if let context @ Value::Object(_) = &detail.context["context"] {
        out.section("context", &context.to_string());
    }
    // What a model calls is among the events; without them (a session of an older version) the calls' rows tell it.
    let told = |e: &SessionEvent| matches!(e.kind, EventKind::ToolCall { .. });
    if !detail.tool_calls.is_empty() && !events.iter().any(told) {
        tool_calls(out, &detail.tool_calls);
    }
    if !events.is_empty() {
        out.heading("what happened");
        let printer = Printer { out, butlers: false, most: READ };
        events.iter().for_each(|event| printer.session(event));
    }
    out.section("answer", s.result.as_deref().unwrap_or_default());
    out.section("error", s.error.as_deref().unwrap_or_default());
}

fn tool_calls(out: &Out, calls: &[CallRow]) {
    out.heading("tool calls");
    for call in calls {
        let tone = if call.outcome == "ok" { Tone::Good } else { Tone::Bad };
        let mark = out.paint(tone, &format!("{:<9}", call.outcome));
        let took = out.paint(Tone::Faint, &format!("{:.1} ms", call.duration_us as f64 / 1000.0));
        let detail = call.detail.as_deref().map(|d| format!("  {}", one_line(d, 300))).unwrap_or_default();
        let (name, arguments) = (one_line(&call.tool, 80), brief(&call.arguments, 300));
        out.line(&format!("{mark}  {name} {arguments}  {took}{detail}"));
    }
}

fn tokens(row: &SessionRow) -> String {
    let parts = [
        (row.input_tokens, "in"),
        (row.output_tokens, "out"),
        (row.cached_input_tokens, "from cache"),
        (row.cache_creation_tokens, "to cache"),
    ];
    let known = parts.into_iter().filter_map(|(n, name)| Some(format!("{} {name}", n?)));
    known.collect::<Vec<_>>().join(", ")
}

/// Follows all sessions until the person has seen enough.
async fn tail_all(caller: &Caller, butler: Option<String>) -> Outcome {
    let live = caller.client.live().await?;
    let printer = Printer { out: &caller.out, butlers: butler.is_none(), most: SHOWN };
    let mut events = caller.got(live.subscribe_events(butler).await)?;
    caller.out.aside("Waiting for sessions; Ctrl-C ends this.");
    loop {
        tokio::select! {
            event = next(&mut events) => match event? {
                Some(event) => printer.event(&event),
                None => return Err(cut_off()),
            },
            _ = tokio::signal::ctrl_c() => return Ok(0),
        }
    }
}

/// Follows one session to its end. One that is over already is told from its record.
async fn tail_one(caller: &Caller, id: Uuid) -> Outcome {
    let live = caller.client.live().await?;
    let mut events = caller.got(live.subscribe_events(None).await)?;
    let printer = Printer { out: &caller.out, butlers: false, most: SHOWN };
    Ok(match follow(caller, &live, &mut events, &printer, id).await? {
        Some(end) if end.result.state != SessionState::Succeeded => FAILED,
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use admin::sample;

    #[test]
    fn what_is_unknown_is_left_out() {
        assert_eq!(tokens(&SessionRow { input_tokens: Some(5), ..sample::session() }), "5 in");
        assert_eq!(tokens(&sample::session()), "");
    }
}
