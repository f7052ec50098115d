//! What the database grows by: no text is stored twice that does not change, and what is old goes.

use serde_json::json;

use crate::support::{Household, model};

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
    println!("{sessions} sessions, {prompts} prompts: {row} bytes a row, of them {own} of memory; {shared} bytes shared");
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
