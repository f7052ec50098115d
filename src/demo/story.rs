//! What the demo prints.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use base::{SessionId, TenantId, text};
use butler::HouseholdStatus;
use config::RuntimeKind;
use sessions::{EventKind, SessionEvent};
use store::Database;

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
pub(super) async fn database(db: &Database, session: SessionId) -> Result<(), String> {
    let mut lease = db.shared(&TenantId::owner()).await.map_err(|e| e.to_string())?;
    heading("What is in the database now");
    let rows = lease
        .query("SELECT kind, value, measured_at FROM health.measurements ORDER BY created_at", &[])
        .await
        .map_err(|e| e.to_string())?;
    println!("  health.measurements");
    for row in &rows {
        let (kind, value): (String, Value) = (row.get(0), row.get(1));
        println!("    {kind}  {value}  {}", row.get::<_, Timestamp>(2));
    }
    if rows.is_empty() {
        return Err("no measurement is in the database".to_owned());
    }
    let calls = lease
        .query(
            "SELECT tool, arguments, outcome, duration_us FROM health.tool_calls WHERE session_id = $1
             ORDER BY called_at, id",
            &[&session.0],
        )
        .await
        .map_err(|e| e.to_string())?;
    println!("  health.tool_calls of this session");
    for row in &calls {
        let (tool, arguments): (String, Value) = (row.get(0), row.get(1));
        let (outcome, us): (String, i64) = (row.get(2), row.get(3));
        println!("    {tool}  {arguments}  {outcome}  {:.1} ms", us as f64 / 1000.0);
    }
    let row = lease
        .query_opt(
            "SELECT state, runtime, model, input_tokens, output_tokens, duration_ms, trace_id FROM health.sessions
             WHERE id = $1",
            &[&session.0],
        )
        .await
        .map_err(|e| e.to_string())?;
    println!("  health.sessions");
    if let Some(row) = row {
        let (state, runtime): (String, String) = (row.get(0), row.get(1));
        let model: Option<String> = row.get(2);
        let tokens = |i: usize| row.get::<_, Option<i64>>(i).map_or_else(|| "unknown".to_owned(), |n| n.to_string());
        println!(
            "    {state}  {runtime}  {}  {} tokens in  {} out  {} ms  trace {}",
            model.as_deref().unwrap_or("-"),
            tokens(3),
            tokens(4),
            tokens(5),
            row.get::<_, String>(6)
        );
    }
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
        println!("    butlerd status --data-dir {}", data_dir.display());
        println!("    butlerd chat --data-dir {}    say the sentence above", data_dir.display());
    }
}
