//! `butlerd sessions`

use jiff::tz::TimeZone;
use serde_json::Value;
use uuid::Uuid;

use super::args::Sessions;
use super::events::{Printer, READ, SHOWN, cut_off, next};
use super::follow::follow;
use super::out::{Out, Table, Tone, block, brief, moment_of, one_line, span, text};
use super::problem::FAILED;
use super::{Caller, Outcome};
use admin::{ApiClient, SessionPage};
use sessions::{EventKind, SessionEvent, SessionState};

pub async fn run(caller: Caller, what: Sessions) -> Outcome {
    let out = caller.out;
    match what {
        Sessions::List { butler, limit } => {
            let page = caller.client.quick()?.sessions_list(butler, Some(limit)).await.map_err(caller.failed())?;
            match out.json {
                true => out.value(&page),
                false => list(out, &page, &caller.zone()),
            }
        }
        Sessions::Show { id } => {
            let client = caller.client.quick()?;
            let mut row = client.sessions_get(id).await.map_err(caller.failed())?;
            let mut events = Vec::new();
            loop {
                let after = events.iter().filter_map(|e: &SessionEvent| e.seq).max();
                let page = client.sessions_events(id, after).await.map_err(caller.failed())?;
                events.extend(page.events);
                if !page.more {
                    break;
                }
            }
            match out.json {
                true => {
                    row["events"] = serde_json::to_value(&events).unwrap_or_default();
                    out.value(&row);
                }
                false => show(out, &row, &events, &caller.zone()),
            }
        }
        Sessions::Tail { id: Some(id), .. } => return tail_one(&caller, id).await,
        Sessions::Tail { id: None, butler } => return tail_all(&caller, butler).await,
        Sessions::Cancel { id } => {
            let done = caller.client.quick()?.sessions_cancel(id).await.map_err(caller.failed())?;
            match out.json {
                true => out.value(&done),
                false => out.line(&format!("Session {id} of {} is cancelled.", done.butler)),
            }
        }
    }
    Ok(0)
}

fn tone(state: &str) -> Tone {
    match state {
        "succeeded" => Tone::Good,
        "queued" | "running" => Tone::Warn,
        _ => Tone::Bad,
    }
}

fn list(out: Out, page: &SessionPage, zone: &TimeZone) {
    if page.sessions.is_empty() {
        out.line("There is no session yet.");
    } else {
        let mut table = Table::new(&["SESSION", "BUTLER", "BEGAN", "STATE", "TOOK", "TOOLS", "PROMPT"]);
        for row in &page.sessions {
            let state = text(row, "state");
            let took = row["duration_ms"].as_i64().map(span).unwrap_or_default();
            let calls = row["tool_call_count"].as_i64().map(|n| n.to_string()).unwrap_or_default();
            table.row(vec![
                (Tone::Plain, text(row, "id").to_owned()),
                (Tone::Plain, text(row, "butler").to_owned()),
                (Tone::Plain, moment_of(row, "queued_at", zone)),
                (tone(state), state.replace('_', " ")),
                (Tone::Plain, took),
                (Tone::Plain, calls),
                (Tone::Plain, one_line(text(row, "prompt"), 60)),
            ]);
        }
        out.table(&table);
    }
    for missing in &page.unavailable {
        out.aside(&format!("Without {}: {}", missing.butler, one_line(&missing.reason, 500)));
    }
}

fn show(out: Out, row: &Value, events: &[SessionEvent], zone: &TimeZone) {
    let field = |name: &str, value: &str| {
        if !value.is_empty() {
            out.line(&format!("{}  {value}", out.paint(Tone::Head, &format!("{name:<9}"))));
        }
    };
    let state = text(row, "state");
    field("session", text(row, "id"));
    field("butler", text(row, "butler"));
    field("state", &out.paint(tone(state), &state.replace('_', " ")));
    field("by", &one_line(text(row, "trigger_source"), 100));
    let tainted = row["exposed_at"].is_string().then_some(", lowered by what it read");
    let private = row["private_at"].is_string().then_some(", was shown private data");
    let shown = [Some(text(row, "trust")), tainted, private];
    field("trust", &shown.into_iter().flatten().collect::<String>());
    field("began", &moment_of(row, "queued_at", zone));
    field("ended", &moment_of(row, "completed_at", zone));
    field("took", &row["duration_ms"].as_i64().map(span).unwrap_or_default());
    field("runtime", &one_line(text(row, "runtime"), 60));
    field("model", &one_line(text(row, "model"), 100));
    field("tokens", &tokens(row));
    field("cost", &row["cost_usd"].as_str().map(|c| format!("${c}")).unwrap_or_default());
    field("request", text(row, "request_id"));
    field("parent", text(row, "parent_session_id"));
    field("trace", text(row, "trace_id"));
    field("exit", &one_line(text(row, "exit_status"), 100));
    let section = |name: &str, body: &str| {
        if !body.is_empty() {
            out.line(&format!("\n{}\n{}", out.paint(Tone::Head, name), block(body)));
        }
    };
    section("prompt", text(row, "prompt"));
    if let context @ Value::Object(_) = &row["context"]["context"] {
        section("context", &context.to_string());
    }
    // What a model calls is among the events; without them (a session of an older version) the calls' rows tell it.
    let told = |e: &SessionEvent| matches!(e.kind, EventKind::ToolCall { .. });
    let calls = row["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !calls.is_empty() && !events.iter().any(told) {
        tool_calls(out, calls);
    }
    if !events.is_empty() {
        out.line(&format!("\n{}", out.paint(Tone::Head, "what happened")));
        let printer = Printer { out, zone: zone.clone(), butlers: false, most: READ };
        events.iter().for_each(|event| printer.session(event));
    }
    section("answer", text(row, "result"));
    section("error", text(row, "error"));
}

fn tool_calls(out: Out, calls: &[Value]) {
    out.line(&format!("\n{}", out.paint(Tone::Head, "tool calls")));
    for call in calls {
        let outcome = text(call, "outcome");
        let mark = out.paint(if outcome == "ok" { Tone::Good } else { Tone::Bad }, &format!("{outcome:<9}"));
        let took = call["duration_us"].as_i64().map(|us| format!("{:.1} ms", us as f64 / 1000.0)).unwrap_or_default();
        let detail = call["detail"].as_str().map(|d| format!("  {}", one_line(d, 300))).unwrap_or_default();
        let (name, arguments) = (one_line(text(call, "tool"), 80), brief(&call["arguments"], 300));
        out.line(&format!("{mark}  {name} {arguments}  {}{detail}", out.paint(Tone::Faint, &took)));
    }
}

fn tokens(row: &Value) -> String {
    let one = |key: &str, name: &str| row[key].as_i64().map(|n| format!("{n} {name}"));
    let parts = [
        one("input_tokens", "in"),
        one("output_tokens", "out"),
        one("cached_input_tokens", "from cache"),
        one("cache_creation_tokens", "to cache"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Follows all sessions until the person has seen enough.
async fn tail_all(caller: &Caller, butler: Option<String>) -> Outcome {
    let live = caller.client.live().await?;
    let printer = Printer { out: caller.out, zone: caller.zone(), butlers: butler.is_none(), most: SHOWN };
    let mut events = live.subscribe_events(butler).await.map_err(caller.failed())?;
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
    let mut events = live.subscribe_events(None).await.map_err(caller.failed())?;
    let printer = Printer { out: caller.out, zone: caller.zone(), butlers: false, most: SHOWN };
    Ok(match follow(caller, &live, &mut events, &printer, id).await? {
        Some(end) if end.result.state != SessionState::Succeeded => FAILED,
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_unknown_is_left_out() {
        assert_eq!(tokens(&json!({"input_tokens": 5, "output_tokens": null})), "5 in");
        assert_eq!(tokens(&json!({})), "");
        assert_eq!(moment_of(&json!({"completed_at": null}), "completed_at", &TimeZone::UTC), "");
        let row = json!({"queued_at": "2026-01-01T10:00:00.5Z"});
        assert_eq!(moment_of(&row, "queued_at", &TimeZone::UTC), "2026-01-01 10:00:00");
    }
}
