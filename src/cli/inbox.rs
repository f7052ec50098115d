//! `butlerd inbox`

use jiff::tz::TimeZone;
use serde_json::Value;

use super::args::Inbox;
use super::out::{Out, Table, Tone, block, moment, one_line};
use super::{Caller, Outcome};
use admin::ApiClient;
use inbox::Reopened;
use inbox::messages::Entry;

pub async fn run(caller: Caller, what: Inbox) -> Outcome {
    let out = caller.out;
    let calls = caller.client.quick()?;
    match what {
        Inbox::List { state, limit } => {
            let entries = calls.inbox_list(state, Some(limit)).await.map_err(caller.failed())?;
            match out.json {
                true => out.value(&entries),
                false => list(out, &entries, &caller.zone()),
            }
        }
        Inbox::Show { id } => {
            let entry = calls.inbox_show(id).await.map_err(caller.failed())?;
            match out.json {
                true => out.value(&entry),
                false => show(out, &entry, &caller.zone()),
            }
        }
        Inbox::Retry { id } => {
            let done = calls.inbox_retry(id).await.map_err(caller.failed())?;
            reopened(out, &done, "is taken up again");
        }
        Inbox::Reroute { id, butler, part } => {
            let done = calls.inbox_reroute(id, butler, part).await.map_err(caller.failed())?;
            reopened(out, &done, "is on its way");
        }
    }
    Ok(0)
}

fn tone(state: &str) -> Tone {
    match state {
        "done" => Tone::Good,
        "dead" => Tone::Bad,
        "rerouted" => Tone::Faint,
        _ => Tone::Warn,
    }
}

fn list(out: Out, entries: &[Entry], zone: &TimeZone) {
    if entries.is_empty() {
        return out.line("There is no such message.");
    }
    let mut table = Table::new(&["MESSAGE", "CAME", "CHANNEL", "FROM", "TRUST", "STATE", "TEXT"]);
    for entry in entries {
        table.row(vec![
            (Tone::Plain, entry.request_id.to_string()),
            (Tone::Plain, moment(entry.received_at, zone)),
            (Tone::Plain, entry.channel.clone()),
            (Tone::Plain, one_line(&entry.sender, 30)),
            (Tone::Plain, entry.trust.clone()),
            (tone(&entry.state), entry.state.clone()),
            (Tone::Plain, one_line(&entry.body, 60)),
        ]);
    }
    out.table(&table);
}

fn show(out: Out, entry: &Entry, zone: &TimeZone) {
    let head = |name: &str| out.paint(Tone::Faint, &format!("{name:<10}"));
    let thread = entry.thread.as_deref().map(|t| format!(", thread {}", one_line(t, 80))).unwrap_or_default();
    out.line(&format!("{}{}", head("message"), entry.request_id));
    out.line(&format!("{}{}", head("came"), moment(entry.received_at, zone)));
    out.line(&format!(
        "{}{} ({}) over {}{thread}",
        head("from"),
        one_line(&entry.sender, 80),
        entry.trust,
        entry.channel
    ));
    out.line(&format!("{}{}", head("state"), out.paint(tone(&entry.state), &entry.state)));
    if let Some(error) = &entry.last_error {
        out.line(&format!("{}{}", head("error"), one_line(error, 1000)));
    }
    out.line("");
    out.line(&block(&entry.body));
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    if !entry.segments.is_empty() {
        out.line("");
        let mut table = Table::new(&["PART", "BUTLER", "CHOSEN BY", "STATE", "TEXT", "ERROR"]);
        for part in &entry.segments {
            let state = text(part, "state");
            table.row(vec![
                (Tone::Plain, part["n"].to_string()),
                (Tone::Plain, text(part, "butler")),
                (Tone::Plain, text(part, "chosen_by")),
                (tone(&state), state),
                (Tone::Plain, one_line(&text(part, "prompt"), 60)),
                (Tone::Plain, one_line(&text(part, "error"), 100)),
            ]);
        }
        out.table(&table);
    }
    for reply in &entry.replies {
        let said = reply["message"].as_str().or(reply["emoji"].as_str()).unwrap_or_default();
        let note = if reply["auto"] == true { " (sent for it)" } else { "" };
        let who = out.paint(Tone::Head, &format!("{}:", text(reply, "butler")));
        out.line("");
        out.line(&format!("{who}{note} {}", block(said)));
    }
}

fn reopened(out: Out, done: &Reopened, how: &str) {
    if out.json {
        return out.value(done);
    }
    let to = match done.butlers.as_slice() {
        [] => "; the switchboard finds out whose it is".to_owned(),
        butlers => format!(", to {}", butlers.join(", ")),
    };
    out.line(&format!("The message {} {how}{to}.", done.request_id));
    if !done.taken_before.is_empty() {
        let steps: Vec<String> = done.taken_before.iter().map(|step| one_line(step, 80)).collect();
        let text =
            format!("These steps were taken before, are not undone, and may be taken again: {}", steps.join(", "));
        out.line(&out.paint(Tone::Warn, &text));
    }
    if let Some(rule) = &done.rule {
        out.line("So that the next one goes there at once:");
        out.line(&format!("  {}", one_line(rule, 1000)));
    }
}
