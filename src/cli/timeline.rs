//! `butlerd timeline`

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;
use uuid::Uuid;

use super::events::{Printer, READ};
use super::out::{Out, Tone, brief, count, one_line, text};
use super::{Caller, Outcome};
use admin::{ApiClient, Timeline};

pub async fn run(caller: Caller, id: Uuid) -> Outcome {
    let whole = caller.client.quick()?.timeline(id).await.map_err(caller.failed())?;
    match caller.out.json {
        true => caller.out.value(&whole),
        false => show(caller.out, &whole, &caller.zone()),
    }
    Ok(0)
}

/// One line of the story, and when it happened.
type Line<'a> = (Timestamp, Box<dyn Fn(&Printer) + 'a>);

fn show(out: Out, whole: &Timeline, zone: &TimeZone) {
    let printer = Printer { out, zone: zone.clone(), butlers: true, most: READ };
    for trace in &whole.traces {
        out.line(&format!("{}  {trace}", out.paint(Tone::Head, "trace   ")));
    }
    for row in &whole.sessions {
        out.line(&format!("{}  {}", out.paint(Tone::Head, "session "), session(row)));
    }
    out.line("");
    let mut lines: Vec<Line> = Vec::new();
    let at = |row: &Value, key: &str| row[key].as_str().and_then(|t| t.parse::<Timestamp>().ok()).unwrap_or_default();
    for run in &whole.runs {
        lines.push((
            at(run, "begun_at"),
            Box::new(move |p| p.row(at(run, "begun_at"), text(run, "butler"), "runs", &schedule(run))),
        ));
    }
    for call in &whole.calls {
        let when = at(call, "called_at");
        lines.push((when, Box::new(move |p| p.row(when, text(call, "butler"), "calls", &called(call)))));
    }
    for event in &whole.events {
        lines.push((event.at, Box::new(move |p| p.session(event))));
    }
    lines.sort_by_key(|(at, _)| *at);
    for (_, line) in lines {
        line(&printer);
    }
    out.line(&format!("\n{}", total(whole)));
    if whole.cut {
        out.aside("There is more on record than is shown here; see: butlerd sessions show");
    }
    for missing in &whole.unavailable {
        out.aside(&format!("Without {}: {}", missing.butler, one_line(&missing.reason, 500)));
    }
}

/// A session's place among the others, and what it came from.
fn session(row: &Value) -> String {
    let depth = usize::try_from(row["depth"].as_u64().unwrap_or(0)).unwrap_or(0).min(20);
    let request = &row["request"];
    let from = format!(
        "{} {}, trust {}",
        text(request, "source_channel"),
        text(request, "source_sender_identity"),
        text(request, "trust")
    );
    let cost = row["cost_usd"].as_str().map(|c| format!(", ${c}")).unwrap_or_default();
    format!(
        "{}{} {}, {}{cost}, from {}, request {}",
        "  ".repeat(depth),
        text(row, "id"),
        text(row, "butler"),
        text(row, "state").replace('_', " "),
        one_line(&from, 120),
        text(row, "request_id"),
    )
}

fn schedule(run: &Value) -> String {
    let why = run["reason"].as_str().map(|r| format!(": {r}")).unwrap_or_default();
    let words =
        format!("the schedule {}, due {}, {}{why}", text(run, "schedule"), text(run, "fire_at"), text(run, "state"));
    one_line(&words, READ)
}

fn called(call: &Value) -> String {
    let took = call["duration_us"].as_f64().map(|us| format!(", {:.1} ms", us / 1000.0)).unwrap_or_default();
    let arguments = brief(&call["arguments"], READ);
    format!(
        "{} {arguments} by {}: {}{took}",
        text(call, "tool"),
        one_line(text(call, "caller"), 60),
        text(call, "outcome")
    )
}

fn total(whole: &Timeline) -> String {
    let calls: i64 = whole.sessions.iter().filter_map(|row| row["tool_call_count"].as_i64()).sum();
    let tokens = |key: &str| {
        let known: Vec<i64> = whole.sessions.iter().filter_map(|row| row[key].as_i64()).collect();
        if known.is_empty() { "?".to_owned() } else { known.iter().sum::<i64>().to_string() }
    };
    let calls = usize::try_from(calls).unwrap_or(0) + whole.calls.len();
    let mut parts = vec![
        count(whole.sessions.len(), "session"),
        count(calls, "tool call"),
        format!("{} + {} tokens", tokens("input_tokens"), tokens("output_tokens")),
    ];
    parts.extend(whole.cost_usd.as_ref().map(|c| format!("${c}")));
    if whole.sessions_of_unknown_cost > 0 {
        parts.push(format!("cost unknown of {}", count(whole.sessions_of_unknown_cost, "session")));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn totals_do_not_make_up_what_is_unknown() {
        let mut whole = Timeline {
            sessions: vec![
                json!({"tool_call_count": 2, "input_tokens": 100, "output_tokens": null}),
                json!({"tool_call_count": 1, "input_tokens": 50, "output_tokens": null}),
            ],
            cost_usd: Some("0.3".into()),
            sessions_of_unknown_cost: 1,
            ..Timeline::default()
        };
        assert_eq!(total(&whole), "2 sessions, 3 tool calls, 150 + ? tokens, $0.3, cost unknown of 1 session");
        whole.sessions.clear();
        (whole.cost_usd, whole.sessions_of_unknown_cost) = (None, 0);
        assert_eq!(total(&whole), "0 sessions, 0 tool calls, ? + ? tokens");
    }
}
