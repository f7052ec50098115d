//! What the database grows by: no text is stored twice that does not change, and what is old goes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::support::tally::{counting_model, envelope, insist, rule};
use crate::support::{Household, eventually, model};

/// Bytes of a session's row as the server stores it, with the prompt that it refers to, and with all of it in the row.
const ROWS: &str = "SELECT count(*), count(DISTINCT s.prompt_sha256), avg(pg_column_size(s))::bigint,
        avg(coalesce(octet_length(s.system_prompt), 0))::bigint, avg(octet_length(p.parts[1] || p.parts[2]))::bigint
    FROM health.sessions s JOIN health.system_prompts p ON p.sha256 = s.prompt_sha256";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_share_one_copy_of_the_system_prompt() {
    let model = model(json!([{"when": "hello", "steps": [{"say": "Hello."}]}])).await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let health = daemon.mcp("health");
    let mut last = String::new();
    for n in 0..12 {
        let end = health.ok("trigger", json!({"prompt": format!("hello {n}")})).await;
        last = end["session_id"].as_str().unwrap_or_else(|| panic!("no session: {end}")).to_owned();
    }
    let db = household.owner().await;
    let row = db.query_one(ROWS, &[]).await.expect("the rows");
    let figures: [i64; 5] = std::array::from_fn(|i| row.get(i));
    let [sessions, prompts, row, own, shared] = figures;
    println!(
        "{sessions} sessions, {prompts} prompts: {row} bytes a row, of them {own} of memory; {shared} bytes shared"
    );
    assert_eq!((sessions, prompts), (12, 1), "{figures:?}");
    assert!(shared > 1000 && row < 2000, "{figures:?}");

    // Who reads a session is told the whole, also of a row from before.
    let shown = |id: &str| {
        let (code, out, err) = tokio::task::block_in_place(|| household.cli(&["sessions", "show", id, "--json"]));
        assert_eq!(code, 0, "{out}{err}");
        let session: serde_json::Value = serde_json::from_str(&out).expect("a session");
        session["system_prompt"].as_str().unwrap_or_else(|| panic!("no prompt: {session}")).to_owned()
    };
    let text = shown(&last);
    let parts = "SELECT parts[1] || parts[2] FROM health.system_prompts";
    let kept: String = db.query_one(parts, &[]).await.expect("the prompt").get(0);
    assert!(text.starts_with(&kept), "{text}");
    let old = "UPDATE health.sessions SET prompt_sha256 = NULL, system_prompt = 'As it was.' WHERE id::text = $1";
    db.execute(old, &[&last]).await.expect("an old row");
    assert_eq!(shown(&last), "As it was.");

    // A butler's own SQL reads it and can't put words into later sessions' rows.
    let denied = "SELECT has_table_privilege(role, 'health.system_prompts', 'INSERT, UPDATE, DELETE')
        FROM shared.butler_roles WHERE butler = 'health'";
    let may_write: bool = db.query_one(denied, &[]).await.expect("the rights").get(0);
    assert!(!may_write);
}

/// Ten days ago, for all that has happened so far.
const AGE: &str = "UPDATE tally.sessions SET queued_at = queued_at - interval '10 days', started_at = started_at - interval '10 days',
        completed_at = completed_at - interval '10 days', cost_usd = 0.25, input_tokens = 1000, output_tokens = NULL;
    UPDATE tally.session_events SET at = at - interval '10 days';
    UPDATE tally.tool_calls SET called_at = called_at - interval '10 days';
    UPDATE tally.route_inbox SET settled_at = settled_at - interval '10 days';
    UPDATE switchboard.message_inbox SET settled_at = settled_at - interval '10 days';
    UPDATE shared.conversation SET said_at = said_at - interval '10 days';
    UPDATE shared.outbox SET settled_at = settled_at - interval '10 days';
    UPDATE shared.replies SET at = at - interval '10 days';
    UPDATE switchboard.blobs SET used_at = used_at - interval '10 days';
    UPDATE tally.blobs SET used_at = used_at - interval '10 days'";

const READ: &str = "UPDATE shared.outbox SET state = 'sent', reason = NULL, last_error = NULL, receipt = '{\"read_by\": \"telegram\"}',
    settled_at = created_at, followed_at = created_at WHERE state = 'waiting'";

/// How many rows are left of each. That no channel takes the answers, the owner may be told, while they wait: notices are not
/// what this is about.
const LEFT: &str = "SELECT ARRAY[(SELECT count(*) FROM tally.sessions), (SELECT count(DISTINCT session_id) FROM tally.session_events),
        (SELECT count(*) FROM tally.route_inbox), (SELECT count(*) FROM switchboard.message_inbox),
        (SELECT count(*) FROM switchboard.route_segments), (SELECT count(*) FROM shared.conversation WHERE direction = 'in'),
        (SELECT count(*) FROM shared.conversation WHERE direction = 'out' AND kind <> 'notice'),
        (SELECT count(*) FROM shared.outbox WHERE kind <> 'notice'),
        (SELECT count(DISTINCT session_id) FROM tally.tool_calls WHERE session_id IS NOT NULL)]";

/// The attachments that are left, of the switchboard and of the butler that they were handed to.
const FILES: &str = "SELECT array_agg(convert_from(content, 'UTF8')) FROM
        (SELECT content FROM switchboard.blobs UNION ALL SELECT content FROM tally.blobs) b";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_old_goes_and_its_sums_stay() {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model)
        .with_tally(1)
        .env("BUTLERD_RETENTION__SESSIONS", "5d")
        .env("BUTLERD_RETENTION__TRANSCRIPTS", "forever")
        .env("BUTLERD_RETENTION__MESSAGES", "5d")
        .env("BUTLERD_RETENTION__ATTACHMENTS", "5d");
    let daemon = household.start().await;
    let db = household.owner().await;
    rule(&db, "count: ", "tally").await;
    let send = async |mark: &str| {
        let mut message = envelope(mark, "chat", &format!("count: {mark}"), "interactive");
        // The same file comes with the third and with the fourth, a file of its own with the others.
        let file = if mark == "four" { "three" } else { mark };
        message["payload"]["attachments"] =
            json!([{"media_type": "text/plain", "size_bytes": file.len(), "content_base64": BASE64.encode(file)}]);
        insist(&household.data(), &message).await;
        household.at_rest(mark).await;
        // As if its connector had read the answer.
        db.batch_execute(READ).await.expect("answers that are read");
    };
    for mark in ["one", "two", "three"] {
        send(mark).await;
    }
    db.batch_execute(AGE).await.expect("older rows");
    send("four").await;

    let json_of = |args: &[&str]| {
        let (code, out, err) = tokio::task::block_in_place(|| household.cli(args));
        assert_eq!(code, 0, "{out}{err}");
        serde_json::from_str::<Value>(&out).unwrap_or_else(|e| panic!("{e}: {out}"))
    };
    let today = jiff::Zoned::now().date();
    let days = json!({"from_date": (today - jiff::Span::new().days(30)).to_string(), "to_date": today.to_string()});
    let tally = daemon.mcp("tally");
    let sums = async || {
        let of = |by: &str| json_of(&["costs", "--json", "--days", "30", "--by", by]);
        let daily = tally.ok("sessions_daily", days.clone()).await;
        let summary = tally.ok("sessions_summary", json!({"period": "30d"})).await;
        json!({"butler": of("butler"), "schedule": of("schedule"), "model": of("model"), "daily": daily, "summary": summary})
    };
    let left = async || db.query_one(LEFT, &[]).await.expect("what is left").get::<_, Vec<i64>>(0);
    let files = async || db.query_one(FILES, &[]).await.expect("the files").get::<_, Vec<String>>(0);
    assert_eq!(files().await.len(), 6);
    let before = sums().await;
    assert!(before["summary"]["total_cost_usd"].to_string().contains("0.75"), "{before:#}");
    assert_eq!(left().await, [4; 9]);
    for again in [false, true] {
        for butler in ["tally", "switchboard"] {
            let ran = json_of(&["schedule", "run", "house-tidy", "--butler", butler, "--json"]);
            let said = ran["result"].as_str().unwrap_or_default();
            assert_eq!(said.contains(" 3 old sessions"), butler == "tally" && !again, "{ran}");
        }
        assert_eq!(left().await, [1; 9]);
        assert_eq!(files().await, ["three", "three"]);
        assert_eq!(sums().await, before, "the sums of what is gone");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_says_what_grows_and_when_the_disk_is_full() {
    let household = Household::few();
    let daemon = household.start().await;
    let db = household.owner().await;
    let usage = || {
        let (code, out, err) = tokio::task::block_in_place(|| household.cli(&["db", "usage", "--json"]));
        assert_eq!(code, 0, "{out}{err}");
        serde_json::from_str::<Value>(&out).expect("JSON")
    };
    let noted = eventually("the sizes are noted", || async {
        let row = db.query_one("SELECT count(*) FROM shared.table_sizes", &[]).await.expect("the sizes");
        let noted: i64 = row.get(0);
        if noted > 0 { Ok(noted) } else { Err(daemon.log()) }
    })
    .await;
    // Of the first day nothing is said that is not known.
    let first = usage();
    let tables = first["tables"].as_array().expect("tables");
    assert_eq!(i64::try_from(tables.len()).unwrap(), noted);
    assert!(first["grows"].is_null() && first["full_in_days"].is_null() && tables[0]["grows"].is_null(), "{first:#}");
    let (_, out, _) = tokio::task::block_in_place(|| household.cli(&["db", "usage"]));
    assert!(out.contains("known in a day") && out.contains("pg_wal") && out.contains("messenger."), "{out}");

    // Two days ago the largest table was half as large.
    let older = "UPDATE shared.table_sizes s SET taken_at = taken_at - interval '2 days',
                        bytes = CASE WHEN bytes = (SELECT max(bytes) FROM shared.table_sizes) THEN bytes / 2 ELSE bytes END";
    db.execute(older, &[]).await.expect("older sizes");
    let then = usage();
    let (largest, grows) = (&then["tables"][0], then["grows"].as_f64().expect("a growth"));
    let half_a_day = largest["bytes"].as_f64().unwrap() / 4.0;
    assert!((largest["grows"].as_f64().unwrap() / half_a_day - 1.0).abs() < 0.1, "{largest}");
    assert!(grows >= half_a_day * 0.9, "{grows}");
    let left = then["disk"]["free"].as_f64().unwrap() - then["disk"]["floor"].as_f64().unwrap();
    assert!((then["full_in_days"].as_f64().unwrap() / (left / grows) - 1.0).abs() < 0.01, "{then:#}");
}
