//! What a session waits for at its start: the journal's text out of a log of a hundred thousand messages, asked at the
//! socket and by the hook of an interactive session, in turns with two floors of the same run.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::household::Household;
use crate::project::{serve_echo, timed};
use crate::table::{self, Verdict, median, p95};
use crate::{Failed, Plan, boot};

/// The text of a start, put together by the daemon, p50.
const START_MS: f64 = 5.0;
/// A hook, process start included, p95.
const HOOK_MS: f64 = 20.0;
/// Messages in the log, in and out.
const MESSAGES: i64 = 100_000;
/// Of those, so many are not summarized yet.
const OPEN: i64 = 20;

pub async fn measure(plan: &Plan) -> Result<(), Failed> {
    let household = Household::new(0)?;
    let daemon = Daemon::start(&household, &[]).await?;
    let times = if plan.is_quick() { 30 } else { 200 };
    fill(&household).await?;
    write_references(&household)?;
    let socket = household.data().join("run/journal.sock");
    let echo = household.directory("echo")?.join("echo.sock");
    serve_echo(UnixListener::bind(&echo)?);
    let (mut start, mut line, mut hook, mut floor, mut nothing) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..times {
        start.push(ask(&socket)?);
        line.push(ask(&echo)?);
        let (ms, said) = run_hook(&household, &socket)?;
        hook.push(ms);
        let told: Value = serde_json::from_str(&said).map_err(|e| format!("the hook said: {e}: {said}"))?;
        let told = told["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default();
        if !told.contains("=== CORE MEMORY") || !told.contains("message number 100000") {
            return Err(format!("the hook told something else: {told}").into());
        }
        let mut bare = Command::new(std::env::current_exe()?);
        floor.push(timed(bare.arg("floor-ask").arg(&echo), "")?.0);
        nothing.push(timed(&mut Command::new("true"), "")?.0);
    }
    let floors = (median(&line), median(&floor));
    table::journal_head(times, MESSAGES);
    table::journal(
        "start, asked at the socket",
        &start,
        floors.0,
        Some(Verdict::at_most("journal.start", median(&start), START_MS, "ms, p50")),
    );
    table::journal("one line to a bare echo", &line, floors.0, None);
    table::journal(
        "hook of a start",
        &hook,
        floors.1,
        Some(Verdict::at_most("journal.hook", p95(&hook), HOOK_MS, "ms, p95")),
    );
    table::journal("a process that asks a bare echo", &floor, floors.1, None);
    table::journal("true", &nothing, floors.1, None);
    daemon.stop().await
}

/// Puts messages into the log as if they had been said, and a checkpoint behind all but the last ones.
async fn fill(household: &Household) -> Result<(), Failed> {
    let (client, connection) = boot::owner(household, "butlers")?.connect(tokio_postgres::NoTls).await?;
    base::task::spawn(base::task::Kind::Job, "bench", connection);
    let tenant = base::TenantId::owner();
    let sql = format!(
        "SET butlerd.tenant = '{tenant}'; SET butlerd.trust = 'owner';
         INSERT INTO shared.conversation (entry, direction, kind, channel, lane, person, butler, text, request_id, said_at)
         SELECT id, CASE WHEN n % 2 = 0 THEN 'out' ELSE 'in' END, CASE WHEN n % 2 = 0 THEN 'reply' ELSE 'message' END, 'chat',
                'bench', 'owner', CASE WHEN n % 2 = 0 THEN 'general' END, 'This is message number ' || n || repeat(' of a long talk', 20), id,
                now() - make_interval(secs => {MESSAGES} - n)
         FROM (SELECT n, gen_random_uuid() AS id FROM generate_series(1, {MESSAGES}) n) said;
         INSERT INTO shared.conversation_readers (entry, direction, butler)
         SELECT entry, direction, 'general' FROM shared.conversation WHERE lane = 'bench';
         SELECT shared.conversation_order();
         INSERT INTO general.journal_checkpoints (id, start_id, end_id, count, summary)
         SELECT 1, min(id), (array_agg(id ORDER BY id DESC))[{OPEN} + 1], {MESSAGES} - {OPEN}, 'Much was said.'
         FROM shared.conversation_readers WHERE butler = 'general';
         ANALYZE shared.conversation, shared.conversation_readers"
    );
    Ok(client.batch_execute(&sql).await?)
}

/// References as full as they may be, written by a person.
fn write_references(household: &Household) -> Result<(), Failed> {
    for name in ["decisions", "projects", "preferences", "ideas"] {
        let path = household.data().join(format!("journal/owner/general/reference/{name}.md"));
        let mut text = std::fs::read_to_string(&path)?;
        for n in 1.. {
            let entry = format!("\n### Number {n} of {name}\n- **Notes:** {}\n", "What the garden needs. ".repeat(10));
            if text.len() + entry.len() > 20 * 1024 {
                break;
            }
            text += &entry;
        }
        std::fs::write(&path, text)?;
    }
    let mut accept = Command::new(env!("CARGO_BIN_EXE_butlerd"));
    accept.args(["journal", "accept", "--yes", "--data-dir"]).arg(household.data());
    let done = accept.output()?;
    let said = String::from_utf8_lossy(&done.stdout);
    if !done.status.success() || !said.contains("ideas.md") {
        return Err(format!("the references were not taken in: {said}{}", String::from_utf8_lossy(&done.stderr)).into());
    }
    Ok(())
}

/// One question at a socket, in milliseconds.
fn ask(socket: &Path) -> Result<f64, Failed> {
    let begun = Instant::now();
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(b"{\"op\":\"start\"}\n")?;
    let mut said = String::new();
    BufReader::new(&stream).read_line(&mut said)?;
    let ms = begun.elapsed().as_secs_f64() * 1e3;
    if said.is_empty() { Err("no answer".into()) } else { Ok(ms) }
}

fn run_hook(household: &Household, socket: &Path) -> Result<(f64, String), Failed> {
    let home = household.directory("home")?;
    let input = json!({"session_id": "s", "cwd": home, "hook_event_name": "SessionStart", "source": "startup"});
    let mut command = Command::new(env!("CARGO_BIN_EXE_butlerd"));
    command.args(["hook", "SessionStart"]).current_dir(&home).env("HOME", &home);
    timed(command.env("BUTLERD_JOURNAL_SOCKET", socket), &input.to_string())
}
