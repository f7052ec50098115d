//! Money and tokens: sessions that have used what they may are ended, days that are used up start nothing, and what is
//! not known is not made up.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::model::{Script, ScriptedModel};

use crate::support::{Daemon, Household, eventually, model};

/// Of each scripted turn: 1100 tokens in and 20 out, which cost $0.0036 with the model of the shipped roster.
const TURN_TOKENS: u64 = 1120;

/// A conversation of `turns` model calls, each but the last with another tool call.
fn long(when: &str, turns: usize) -> Value {
    let call = |n: usize| json!({"call": {"tool": "state_set", "arguments": {"key": "k", "value": n}}});
    let steps: Vec<Value> = (1..turns).map(call).chain([json!({"say": "done"})]).collect();
    json!({"when": when, "steps": steps})
}

/// Runs a session and returns what the command line says of it, whether it was refused, failed or went well.
fn trigger(household: &Household, butler: &str, prompt: &str) -> Value {
    let (_, out, err) = household.cli(&["trigger", butler, prompt, "--json"]);
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("no JSON: {out}{err}"))
}

/// The newest session of a butler, with its tool calls.
async fn newest(daemon: &Daemon, butler: &str) -> Value {
    let mcp = daemon.mcp(butler);
    let list = mcp.ok("sessions_list", json!({"limit": 1})).await;
    mcp.ok("sessions_get", json!({"session_id": list[0]["id"]})).await
}

async fn metric(daemon: &Daemon, line: &str) -> bool {
    let (_, text) = daemon.get("/metrics").await;
    text.lines().any(|l| l == line)
}

fn requests(model: &ScriptedModel) -> usize {
    model.requests().iter().filter(|r| r.path.contains("messages")).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_over_its_budget_stops_within_one_turn() {
    let model = model(json!([long("work", 12), {"when": "short", "steps": [{"say": "done"}]}])).await;
    let household = Household::with_model(&model).env("BUTLERD_SPAWNER__BUDGETS__SESSION_TOKENS", "3000");
    let daemon = household.start().await;
    let ended = trigger(&household, "health", "work for long");
    assert_eq!((&ended["state"], &ended["error_class"]), (&json!("failed"), &json!("budget")), "{ended}");
    let said = ended["error"].as_str().expect("a sentence");
    assert!(said.starts_with("the session used 3360 of 3000 tokens"), "{said}");
    let row = newest(&daemon, "health").await;
    let used = row["input_tokens"].as_u64().expect("tokens") + row["output_tokens"].as_u64().expect("tokens");
    assert!((3 * TURN_TOKENS..=4 * TURN_TOKENS).contains(&used), "{used} tokens");
    assert!(requests(&model) <= 4, "{} model calls", requests(&model));
    assert!(metric(&daemon, "butlerd_sessions_stopped_total{butler=\"health\",outcome=\"budget\"} 1").await);
    // What is over with its last call is not ended for it.
    assert_eq!(trigger(&household, "health", "a short one")["state"], "succeeded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_that_is_used_up_starts_nothing_not_even_after_a_restart() {
    let model = model(json!([long("work", 3)])).await;
    let household = Household::with_model(&model).env("BUTLERD_SPAWNER__BUDGETS__BUTLER_DAY_USD", "0.02");
    let mut daemon = household.start().await;
    for _ in 0..2 {
        assert_eq!(trigger(&household, "health", "work")["state"], "succeeded");
    }
    let calls = requests(&model);
    assert_eq!(calls, 6);
    for restart in [false, true] {
        if restart {
            daemon.kill();
            daemon = household.start().await;
        }
        let refused = trigger(&household, "health", "work");
        assert_eq!(refused["code"], "budget", "{refused}");
        let said = refused["error"].as_str().expect("a sentence");
        assert!(
            said.contains("health has used $0.0216 of $0.02 for ") && said.contains("the next day begins at "),
            "{said}"
        );
        let row = newest(&daemon, "health").await;
        assert_eq!((&row["state"], &row["error_class"]), (&json!("failed"), &json!("budget")), "{row}");
        assert!(row["started_at"].is_null() && row["exit_status"].is_null() && row["cost_usd"] == "0", "{row}");
        assert_eq!(row["prompt"], "work");
        let refusals = "butlerd_triggers_refused_total{butler=\"health\",outcome=\"budget\"} 1";
        assert!(metric(&daemon, refusals).await);
    }
    assert_eq!(requests(&model), calls, "nothing was started");
    assert_eq!(trigger(&household, "general", "work")["state"], "succeeded", "another butler's day is its own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_session_had_used_is_not_forgotten() {
    let script = json!([
        {"when": "hang", "steps": [
            {"call": {"tool": "state_set", "arguments": {"key": "k", "value": 1}}}, {"hang": true}, {"say": "never"}]},
        {"when": "short", "steps": [{"say": "done"}]},
    ]);
    let model = model(script).await;
    let limit = (2 * TURN_TOKENS).to_string();
    let household = Household::whole_with_model(&model).env("BUTLERD_SPAWNER__BUDGETS__TENANT_DAY_TOKENS", &limit);
    let mut daemon = household.start().await;
    let (health, waiting) = (daemon.mcp("health"), daemon.mcp("health"));
    let hanging = tokio::spawn(async move { waiting.call("trigger", json!({"prompt": "hang"})).await });
    eventually("the row of the running session has its tokens", || {
        let health = health.clone();
        async move {
            let list = health.ok("sessions_list", json!({"limit": 1})).await;
            match list[0]["input_tokens"].as_i64() {
                Some(1100) => Ok(()),
                _ => Err(list.to_string()),
            }
        }
    })
    .await;
    daemon.kill();
    hanging.abort();
    daemon = household.start().await;
    let row = newest(&daemon, "health").await;
    assert_eq!((&row["state"], &row["cost_usd"]), (&json!("interrupted"), &json!("0.0036")), "{row}");
    assert_eq!(trigger(&household, "general", "a short one")["state"], "succeeded");
    let refused = trigger(&household, "travel", "a short one");
    let said = refused["error"].as_str().expect("a sentence");
    assert!(said.contains("all butlers together have") && said.contains("used 2240 of 2240 tokens"), "{said}");
}

/// How three sessions of one butler end that are triggered at once, and how many tokens they used together.
async fn three_at_once(model: &ScriptedModel, limit: u64) -> (Vec<Value>, u64) {
    let limit = limit.to_string();
    let household = Household::with_model(model).env("BUTLERD_SPAWNER__BUDGETS__BUTLER_DAY_TOKENS", &limit);
    let daemon = household.start().await;
    let sessions: Vec<_> = (0..3)
        .map(|_| {
            let health = daemon.mcp("health");
            tokio::spawn(async move { health.call("trigger", json!({"prompt": "work"})).await.text() })
        })
        .collect();
    let mut ends = Vec::new();
    for session in sessions {
        ends.push(session.await.expect("an answer"));
    }
    assert!(ends.iter().all(|e| e["error_class"] == "budget" || e["code"] == "budget"), "{ends:?}");
    let sum = daemon.mcp("health").ok("sessions_summary", json!({})).await;
    let used = sum["total_input_tokens"].as_u64().unwrap_or(0) + sum["total_output_tokens"].as_u64().unwrap_or(0);
    (ends, used)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_side_by_side_overshoot_the_day_by_one_turn_and_use_all_of_it() {
    let model = model(json!([long("work", 12)])).await;
    let (ends, used) = three_at_once(&model, 5 * TURN_TOKENS + 1).await;
    assert_eq!(used, 6 * TURN_TOKENS, "the sixth turn crosses the limit, and nobody is refused before: {ends:?}");
}

/// Calls at a model that keeps each that begins a session until another comes.
#[derive(Default)]
struct Together {
    /// Under way now, and the most that ever were.
    calls: Mutex<(usize, usize)>,
    came: Condvar,
}

impl Together {
    /// One call: gone on with once it is not alone, or after so long that the others would have come.
    fn call(&self) {
        let mut calls = self.calls.lock().expect("nobody fails with it");
        *calls = (calls.0 + 1, calls.1.max(calls.0 + 1));
        self.came.notify_all();
        let alone = |calls: &mut (usize, usize)| calls.1 < 2;
        let (mut calls, _) = self.came.wait_timeout_while(calls, ALONE, alone).expect("nobody fails with it");
        calls.0 -= 1;
    }
}

/// How long a first call waits for company. Three sessions begin within a part of this.
const ALONE: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn the_first_calls_of_a_day_overshoot_it_by_one_turn() {
    let together = Arc::new(Together::default());
    let seen = together.clone();
    let script = Script::from_value(json!({"conversations": [long("work", 12)]})).expect("a right script");
    let thinks = move |_: &str| {
        seen.call();
        None
    };
    let model = ScriptedModel::start_thinking(script, thinks).await.expect("the model starts");
    let (ends, used) = three_at_once(&model, TURN_TOKENS / 2).await;
    assert_eq!((used, requests(&model)), (TURN_TOKENS, 1), "{ends:?}");
    assert_eq!(together.calls.lock().expect("nobody failed with it").1, 1, "one call at a time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_breaker_stops_the_endless_caller_at_its_fifth_identical_call() {
    let same = json!({"call": {"tool": "state_set", "arguments": {"key": "k", "value": {"a": 1, "b": 2}}}});
    let other = |n: usize| json!({"call": {"tool": "state_get", "arguments": {"key": format!("k{n}")}}});
    let endless: Vec<Value> = (0..15).map(|_| same.clone()).collect();
    let many: Vec<Value> = (0..15).map(other).collect();
    let model = model(json!([{"when": "endless", "steps": endless}, {"when": "many", "steps": many}])).await;
    let household = Household::with_model(&model).replace(
        "health/butler.toml",
        "max_queued = 20",
        "max_queued = 20\nmax_tool_calls = 7",
    );
    let daemon = household.start().await;
    let ended = trigger(&household, "health", "endless");
    assert_eq!((&ended["state"], &ended["error_class"]), (&json!("failed"), &json!("runaway")), "{ended}");
    let row = newest(&daemon, "health").await;
    let outcomes: Vec<&str> =
        row["tool_calls"].as_array().expect("calls").iter().filter_map(|c| c["outcome"].as_str()).collect();
    assert_eq!(outcomes[..5], ["ok", "ok", "ok", "ok", "refused"], "{row}");
    assert_eq!(outcomes.len(), 5, "{outcomes:?}");
    assert_eq!(requests(&model), 5, "it had no answer to go to its model with");
    let said = row["error"].as_str().expect("a sentence");
    assert!(said.starts_with("the session called `state_set` 5 times in a row with the same arguments"), "{said}");
    assert!(metric(&daemon, "butlerd_sessions_stopped_total{butler=\"health\",outcome=\"runaway\"} 1").await);
    let ended = trigger(&household, "health", "many");
    assert_eq!(ended["error_class"], "runaway", "{ended}");
    let row = newest(&daemon, "health").await;
    let made = row["tool_calls"].as_array().expect("calls").iter().filter(|c| c["outcome"] == "ok").count();
    assert_eq!(made, 7, "{row}");
    assert!(row["error"].as_str().expect("a sentence").contains("made its 7 tool calls"), "{row}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_price_is_null_and_holds_no_limit_of_money() {
    let model = model(json!([{"when": "short", "steps": [{"say": "done"}]}])).await;
    let household = Household::with_model(&model)
        .model("health", "nobody-knows-1")
        .model("general", "nobody-knows-1")
        .replace("general/butler.toml", "[butler.db]", "[butler.budgets]\nday_usd = 1\n\n[butler.db]");
    let daemon = household.start().await;
    let done = trigger(&household, "health", "a short one");
    assert_eq!((&done["state"], &done["cost_usd"]), (&json!("succeeded"), &Value::Null), "{done}");
    assert_eq!(newest(&daemon, "health").await["input_tokens"], 1100);
    let refused = trigger(&household, "general", "a short one");
    let said = refused["error"].as_str().expect("a sentence");
    assert!(refused["code"] == "budget" && said.contains("the price of nobody-knows-1 is unknown"), "{refused}");
    assert_eq!(requests(&model), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owners_prices_count_and_their_mistakes_are_told() {
    let model = model(json!([{"when": "short", "steps": [{"say": "done"}]}])).await;
    let household = Household::with_model(&model);
    let file = household.path().join("config/pricing.toml");
    std::fs::write(&file, "[models]\nclaude-sonnet-4-5 = { input = 0, ouput = 1 }\n").expect("the file");
    let (code, out, err) = household.cli(&["check", "--offline"]);
    assert_eq!(code, 2, "{out}{err}");
    assert!(out.contains("config/pricing.toml:2: models.claude-sonnet-4-5.ouput: unknown key"), "{out}{err}");
    std::fs::write(&file, "[models]\nclaude-sonnet-4-5 = { input = 0, output = \"0.10\" }\n").expect("the file");
    let daemon = household.start().await;
    assert_eq!(trigger(&household, "health", "a short one")["cost_usd"], "0.000002");
    // What a vendor asks for a model of this name is no price of a server at home.
    drop(daemon);
    std::fs::remove_file(&file).expect("the file goes");
    let _daemon = household.start().await;
    assert_eq!(trigger(&household, "health", "a short one")["cost_usd"], Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_shows_all_and_does_nothing() {
    let model = model(json!([{"when": "short", "steps": [{"say": "done"}]}])).await;
    let household = Household::with_model(&model)
        .env("BUTLERD_SPAWNER__BUDGETS__BUTLER_DAY_USD", "0.003")
        .env("BUTLERD_SPAWNER__BUDGETS__TENANT_DAY_TOKENS", "100000");
    let daemon = household.start().await;
    let dry = |prompt: &str| {
        let (code, out, err) =
            household.cli(&["trigger", "health", prompt, "--dry-run", "--context", "{\"a\":1}", "--json"]);
        let shown: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("no JSON: {out}{err}"));
        (code, shown, out)
    };
    let (code, shown, text) = dry("a short one");
    assert_eq!(code, 0, "{text}");
    assert!(shown["refusal"].is_null(), "{text}");
    assert_eq!((&shown["runtime"], &shown["model"]), (&json!("native"), &json!("claude-sonnet-4-5")));
    assert!(shown["system_prompt"].as_str().expect("a prompt").contains("Health"), "{text}");
    let asked = shown["user_prompt"].as_str().expect("a prompt");
    assert!(asked.starts_with("REQUEST CONTEXT") && asked.ends_with("a short one"), "{asked}");
    let names = |key: &str| -> Vec<String> { serde_json::from_value(shown[key].clone()).expect("a list") };
    assert!(names("tools").contains(&"notify".to_owned()), "{text}");
    assert!(names("environment").contains(&"ANTHROPIC_API_KEY".to_owned()), "{text}");
    assert!(!text.contains("sk-test-key"), "no value of the environment is shown");
    let left: Vec<&Value> = shown["limits"].as_array().expect("limits").iter().collect();
    assert_eq!((&left[0]["scope"], &left[0]["left_usd"]), (&json!("butler's day"), &json!("0.003")), "{text}");
    assert_eq!(left[1]["left_tokens"], 100_000, "{text}");
    // 136,000 tokens into the cache at $3.75 and 64,000 written at $15, past what is left.
    assert_eq!(shown["price_bound"]["usd"], "1.473", "{text}");
    assert_eq!(daemon.mcp("health").ok("sessions_list", json!({})).await, json!([]));
    assert_eq!(trigger(&household, "health", "a short one")["state"], "succeeded");
    let (code, shown, text) = dry("a short one");
    assert_eq!((code, &shown["refusal"]["code"]), (1, &json!("budget")), "{text}");
    assert_eq!(shown["limits"][0]["left_usd"], "0");
    let (_, out, _) = household.cli(&["trigger", "health", "a short one", "--dry-run"]);
    assert!(out.contains("It would be refused: health has used $0.0036 of $0.003"), "{out}");
    assert_eq!(requests(&model), 1);
    let rows = daemon.mcp("health").ok("sessions_list", json!({})).await;
    assert_eq!(rows.as_array().map(Vec::len), Some(1), "a dry run leaves no row, not even of a refusal");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn costs_are_told_by_butler_schedule_and_model() {
    let call = json!({"call": {"tool": "state_set", "arguments": {"key": "k", "value": 1}}});
    let breaks = json!({"when": "breaks off", "steps": [call, {"cut": {"times": 1}}, {"say": "done"}]});
    let model = model(json!([long("work", 2), {"when": "short", "steps": [{"say": "done"}]}, breaks])).await;
    let household = Household::whole_with_model(&model).model("travel", "nobody-knows-1");
    let daemon = household.start().await;
    let health = daemon.mcp("health");
    let schedule = json!({"name": "every-morning", "cron": "0 7 * * *", "prompt": "a short one"});
    let made = health.ok("schedule_create", schedule).await;
    let ran = health.ok("schedule_trigger", json!({"id": made["id"]})).await;
    assert_eq!(ran["status"], "triggered", "{ran}");
    for (butler, prompt) in [("health", "work"), ("travel", "a short one")] {
        assert_eq!(trigger(&household, butler, prompt)["state"], "succeeded");
    }
    let costs = |args: &[&str]| {
        let (code, out, err) = household.cli(&[&["costs", "--json"], args].concat());
        assert_eq!(code, 0, "{out}{err}");
        serde_json::from_str::<Value>(&out).expect("JSON")
    };
    let rows = |costs: &Value| -> Vec<String> {
        let row = |r: &Value| {
            let (name, usd) = (r["name"].as_str().unwrap_or("-"), r["usd"].as_str().unwrap_or("unknown"));
            format!("{name} {}/{} {usd}", r["sessions"], r["sessions_of_unknown_cost"])
        };
        costs["rows"].as_array().expect("rows").iter().map(row).collect()
    };
    let by_butler = costs(&[]);
    assert_eq!(rows(&by_butler), ["health 2/0 0.0108", "travel 1/1 unknown"], "{by_butler}");
    assert_eq!((&by_butler["total"]["usd"], &by_butler["total"]["sessions"]), (&json!("0.0108"), &json!(3)));
    assert_eq!(by_butler["month"]["usd"], "0.0108");
    assert_eq!(by_butler["month"]["sessions_of_unknown_cost"], 1);
    assert!(by_butler["month"]["forecast_usd"].is_string(), "{by_butler}");
    let by_schedule = costs(&["--by", "schedule", "--days", "2"]);
    assert_eq!(
        rows(&by_schedule),
        ["health: trigger 1/0 0.0072", "health: schedule:every-morning 1/0 0.0036", "travel: trigger 1/1 unknown"],
        "{by_schedule}"
    );
    let by_model = costs(&["--by", "model", "--month"]);
    assert_eq!(rows(&by_model), ["claude-sonnet-4-5 2/0 0.0108", "nobody-knows-1 1/1 unknown"], "{by_model}");
    let by_day = costs(&["--by", "day"]);
    assert_eq!((&by_day["by"], &by_day["total"]["sessions"]), (&json!("day"), &json!(3)), "{by_day}");
    let (_, out, _) = household.cli(&["costs"]);
    assert!(
        out.contains("$0.0108") && out.contains("unknown") && out.contains("Forecast for the whole month: $"),
        "{out}"
    );

    // What the schemas of tools took: of each request, about. What was not counted is unknown.
    let db = household.owner().await;
    let schemas = "SELECT sum(tool_tokens * turns) FROM health.sessions";
    let schemas: i64 = db.query_one(schemas, &[]).await.expect("a sum").get(0);
    assert!(
        schemas > 3 * 1000 && out.contains("FOR SCHEMAS") && out.contains(&schemas.to_string()),
        "{schemas}: {out}"
    );
    db.batch_execute("UPDATE travel.sessions SET tool_tokens = NULL").await.expect("an older row");
    for by in ["butler", "model"] {
        let told = costs(&["--by", by]);
        let of = |n: usize| told["rows"][n]["schema_tokens"].clone();
        assert_eq!(
            (of(0), of(1), &told["total"]["schema_tokens"]),
            (json!(schemas), json!(null), &json!(schemas)),
            "{told}"
        );
    }

    // Of several calls one broke off: what the session cost is unknown, not the sum of the others.
    assert_eq!(trigger(&household, "general", "it breaks off")["state"], "succeeded");
    let row = newest(&daemon, "general").await;
    assert_eq!((&row["cost_usd"], &row["input_tokens"]), (&json!(null), &json!(3300)), "{row}");
}
