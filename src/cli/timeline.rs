//! `butlerd timeline`

use super::events::{Printer, READ};
use super::out::{Out, Tone};
use super::text::{brief, count, one_line, words};
use admin::{CallRow, Timeline, TracedRun, TracedSession};
use approvals::Action;
use outbox::DeliveryView;

/// One line of the story, and when it happened.
type Line<'a> = (jiff::Timestamp, Box<dyn Fn(&Printer) + 'a>);

/// Prints all that one id led to, in the order of time.
pub fn show(out: &Out, whole: &Timeline) {
    let printer = Printer { out, butlers: true, most: READ };
    for trace in &whole.traces {
        out.line(&format!("{}  {trace}", out.paint(Tone::Head, "trace   ")));
    }
    for row in &whole.sessions {
        out.line(&format!("{}  {}", out.paint(Tone::Head, "session "), session(row)));
    }
    out.line("");
    let mut lines: Vec<Line> = Vec::new();
    for run in &whole.runs {
        let at = run.begun_at.unwrap_or_default();
        lines.push((at, Box::new(move |p| p.row(at, &run.butler, "runs", &schedule(run)))));
    }
    for call in &whole.calls {
        lines.push((call.called_at, Box::new(|p| p.row(call.called_at, &call.butler, "calls", &called(call)))));
    }
    for action in &whole.approvals {
        lines.push((
            action.requested_at,
            Box::new(|p| p.row(action.requested_at, &action.butler, "asks", &asked(action))),
        ));
    }
    for row in &whole.deliveries {
        lines.push((row.created_at, Box::new(|p| p.row(row.created_at, &row.origin, "sends", &sent(row)))));
    }
    for event in &whole.events {
        lines.push((event.at, Box::new(|p| p.session(event))));
    }
    lines.sort_by_key(|(at, _)| *at);
    lines.iter().for_each(|(_, line)| line(&printer));
    out.line(&format!("\n{}", total(whole)));
    if whole.cut {
        out.aside("There is more on record than is shown here; see: butlerd sessions show");
    }
    out.left_out(&whole.unavailable);
}

/// A session's place among the others, and what it came from.
fn session(TracedSession { session: s, request, depth }: &TracedSession) -> String {
    let from = request.as_ref().map_or_else(String::new, |r| {
        format!("{} {}, trust {}", r.source_channel, r.source_sender_identity, r.trust.as_str())
    });
    let cost = s.cost_usd.map(|c| format!(", {c}")).unwrap_or_default();
    format!(
        "{}{} {}, {}{cost}, from {}, request {}",
        "  ".repeat((*depth).min(20) as usize),
        s.id,
        s.butler,
        words(s.state.as_str()),
        one_line(&from, 120),
        s.request_id,
    )
}

fn schedule(run: &TracedRun) -> String {
    let why = run.reason.as_deref().map(|r| format!(": {r}")).unwrap_or_default();
    one_line(&format!("the schedule {}, due {}, {}{why}", run.schedule, run.fire_at, run.state), READ)
}

fn called(call: &CallRow) -> String {
    let (arguments, took) = (brief(&call.arguments, READ), call.duration_us as f64 / 1000.0);
    let caller = one_line(call.caller.as_deref().unwrap_or_default(), 60);
    format!("{} {arguments} by {caller}: {}, {took:.1} ms", call.tool, call.outcome)
}

fn asked(action: &Action) -> String {
    let to = action.recipient.as_ref().map(|to| format!(" to {}", to.to)).unwrap_or_default();
    one_line(&format!("for {}{to}: {}, {}", action.tool_name, action.status.as_str(), action.id), READ)
}

fn sent(row: &DeliveryView) -> String {
    one_line(&format!("to {} over {}: {}, {}", row.target, row.channel, row.state, row.id), READ)
}

fn total(whole: &Timeline) -> String {
    let sessions = || whole.sessions.iter().map(|row| &row.session);
    let calls: i64 = sessions().map(|row| row.tool_call_count).sum();
    let tokens = |known: Vec<i64>| match known.as_slice() {
        [] => "?".to_owned(),
        known => known.iter().sum::<i64>().to_string(),
    };
    let (input, output) =
        (sessions().filter_map(|s| s.input_tokens).collect(), sessions().filter_map(|s| s.output_tokens).collect());
    let mut parts = vec![
        count(whole.sessions.len(), "session"),
        count(usize::try_from(calls).unwrap_or(0) + whole.calls.len(), "tool call"),
        format!("{} + {} tokens", tokens(input), tokens(output)),
    ];
    parts.extend(whole.cost_usd.map(|cost| cost.to_string()));
    if whole.sessions_of_unknown_cost > 0 {
        parts.push(format!("cost unknown of {}", count(whole.sessions_of_unknown_cost, "session")));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use admin::{SessionRow, sample};
    use base::Money;

    #[test]
    fn totals_do_not_make_up_what_is_unknown() {
        let session = |input, tool_call_count| TracedSession {
            session: SessionRow { input_tokens: Some(input), tool_call_count, ..sample::session() },
            request: None,
            depth: 0,
        };
        let mut whole = Timeline {
            sessions: vec![session(100, 2), session(50, 1)],
            cost_usd: Money::parse("0.3"),
            sessions_of_unknown_cost: 1,
            ..Timeline::default()
        };
        assert_eq!(total(&whole), "2 sessions, 3 tool calls, 150 + ? tokens, $0.30, cost unknown of 1 session");
        whole.sessions.clear();
        (whole.cost_usd, whole.sessions_of_unknown_cost) = (None, 0);
        assert_eq!(total(&whole), "0 sessions, 0 tool calls, ? + ? tokens");
    }
}
