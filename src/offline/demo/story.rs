//! What the demo prints.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use base::{RequestContext, SessionId, TenantId, text};
use butler::{Butler, HouseholdStatus};
use config::RuntimeKind;
use sessions::{EventKind, SessionEvent};
use store::Database;

use super::error::DemoError;
use crate::sql;

fn heading(title: &str) {
    println!("\n{title}\n{}", "-".repeat(title.chars().count()));
}

/// What will happen, and what is not real in it.
pub(super) fn opening(runtime: RuntimeKind, scratch: &Path, model: &str) {
    println!("butlerd demo: one household, one sentence, one real piece of work.");
    println!();
    println!("The model is SCRIPTED: no language model takes part. A server on {model} answers from a script.");
    println!("All else is real: PostgreSQL, the butlers and their ports, the child process, its MCP calls, the rows.");
    println!();
    println!("  runtime of the session   {runtime}");
    println!("  scratch directory        {} (removed at the end)", scratch.display());
}

/// Who is there.
pub(super) fn household(status: &HouseholdStatus, took: Duration) {
    heading("The household");
    println!("  database   {}", status.database.server);
    for butler in &status.butlers {
        let port = butler.port.map_or_else(|| "-".to_owned(), |p| p.to_string());
        println!("  {:<13}{:<9}port {:<7}{}", butler.name, butler.state.as_str(), port, butler.description);
    }
    println!("  up after {:.1} s", took.as_secs_f64());
}

/// The sentence.
pub(super) fn trigger(butler: &str, prompt: &str) {
    heading("The trigger");
    println!("  to {butler}: \"{prompt}\"");
    heading("The session, as it happens");
}

/// One event of the session.
pub(super) fn event(event: &SessionEvent, at: Duration) {
    let line = match &event.kind {
        EventKind::Queued { .. } => format!("session     {} (its row is written)", event.session_id),
        EventKind::Started { runtime, model, pid } => {
            format!("child       pid {pid}, {runtime}, model {}", model.as_deref().unwrap_or("of its own choice"))
        }
        EventKind::Text { text: said } => format!("says        {}", text::truncate(said.trim(), 600)),
        EventKind::ToolCall { name, arguments, .. } => format!("calls       {name} {arguments}"),
        EventKind::ToolResult { name, is_error, content, .. } => {
            let what = if *is_error { "error" } else { "result" };
            format!("  {what:<10}{name}: {}", text::truncate(content.trim(), 600))
        }
        EventKind::Skill { name } => format!("reads       the skill {name}"),
        EventKind::Retry { class, attempt, .. } => format!("retries     {class}, attempt {attempt}"),
        EventKind::ModelCall { status, duration_ms, .. } => {
            let status = status.map_or_else(|| "no answer".to_owned(), |s| s.to_string());
            format!("model       {status}, {duration_ms} ms, through the gateway")
        }
        EventKind::Followed { by, runtime, class } => format!("follows     session {by} in {runtime}, after {class}"),
        EventKind::Ended(end) => {
            let tokens = |n: Option<i64>| n.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
            format!(
                "{:<12}{} ms, {} tool calls, {} tokens in, {} out, cost {}",
                end.state.as_str(),
                end.duration_ms,
                end.tool_calls,
                tokens(end.input_tokens),
                tokens(end.output_tokens),
                end.cost_usd.as_ref().map_or_else(|| "unknown".to_owned(), |c| format!("{c} USD")),
            )
        }
        // `butlerd sessions show` tells the rest.
        _ => return,
    };
    println!("  {:>6} ms  {line}", at.as_millis());
}

/// What is in the database now. Fails when the measurement is not there.
pub(super) async fn database(
    db: &Database,
    health: &Butler,
    request: &RequestContext,
    session: SessionId,
) -> Result<(), DemoError> {
    heading("What is in the database now");
    // The roster's own table: no tool stands between the reader and its rows.
    let mut lease = db.shared(&TenantId::owner()).await?;
    let rows = lease
        .query(sql::MEASUREMENTS, &[])
        .await
        .map_err(|source| DemoError::Rows { what: "health.measurements", source })?;
    println!("  health.measurements");
    for row in &rows {
        let (kind, value, at): (String, Value, Timestamp) = (row.get("kind"), row.get("value"), row.get("measured_at"));
        println!("    {kind}  {value}  {at}");
    }
    if rows.is_empty() {
        return Err(DemoError::NoMeasurement);
    }
    let Some(page) = health.spawner().events(request, session.0, 0).await? else { return Ok(()) };
    println!("  health.session_events: {} of this session", page.events.len());
    for event in &page.events {
        if let EventKind::ToolResult { name, is_error, duration_ms, .. } = &event.kind {
            let (end, ms) = (if *is_error { "error" } else { "ok" }, duration_ms.unwrap_or_default());
            println!("    {name}  {end}  {ms} ms");
        }
    }
    println!("  health.sessions: {}", page.state.as_str());
    Ok(())
}

/// What to do next.
pub(super) fn going_on(status: &HouseholdStatus, data_dir: &Path, keep: bool) {
    heading("How to go on");
    println!("  With a real model, in the directory of this repository:");
    println!(
        "    butlerd serve                             in one terminal (config/butlerd.toml is read if it is there)"
    );
    println!("    butlerd secret set ANTHROPIC_API_KEY      in another; it asks for the key");
    println!("    butlerd chat                              and say it yourself: I weighed 81.4 kg this morning, …");
    println!(
        "    butlerd sessions list                     what happened; `butlerd status` and `butlerd doctor` tell more"
    );
    println!("  From a clone, `butlerd` is `cargo run --release --`.");
    if keep {
        println!();
        println!("  This household stays up until you press Ctrl-C. Its admin server: http://{}", status.admin);
        println!("    butlerd open --data-dir {}      the household in your browser", data_dir.display());
        println!("    butlerd status --data-dir {}", data_dir.display());
        println!("    butlerd chat --data-dir {}    say the sentence above", data_dir.display());
    }
}
