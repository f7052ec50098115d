//! Jobs without a model, and schedules as people handle them on the command line.

use serde_json::{Value, json};

use crate::support::tally::{counting_model, died};
use crate::support::{Household, eventually};

const FOUND: &str = "/*---\ndescription: What was counted.\nargs:\n  least: {type: integer, default: 0}\n\
                     prompt: \"count: from-rows\"\n---*/\n\
                     SELECT id, mark FROM counted WHERE mark LIKE 'look%' AND id > :least::bigint ORDER BY id\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_in_sql_is_silent_without_rows_and_starts_a_session_with_them() {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(1).write("tally/jobs/found.sql", FOUND);
    let daemon = household.start().await;
    let tally = daemon.mcp("tally");
    let job = json!({"name": "look", "cron": "0 0 1 1 *", "dispatch_mode": "job", "job_name": "found"});
    let made = tally.ok("schedule_create", job).await;
    let run = || tally.ok("schedule_trigger", json!({"id": made["id"]}));
    let silent = run().await;
    assert_eq!((&silent["status"], &silent["session_id"]), (&json!("triggered"), &Value::Null), "{silent}");
    assert_eq!(silent["result"], "nothing was found");
    assert_eq!(model.requests().len(), 0);
    let client = household.owner().await;
    let add = |mark: &'static str, trust: &'static str| {
        let client = &client;
        async move {
            let sql = "INSERT INTO tally.counted (mark, tenant_id, trust) VALUES ($1, 'owner', $2)";
            client.execute(sql, &[&mark, &trust]).await.expect("a row");
        }
    };
    add("look-here", "system").await;
    let ran = run().await;
    assert!(ran["status"] == "triggered" && ran["session_id"].is_string(), "{ran}");
    let session = tally.ok("sessions_get", json!({"session_id": ran["session_id"]})).await;
    assert_eq!(
        (&session["trust"], &session["trigger_source"]),
        (&json!("system"), &json!("schedule:look")),
        "{session}"
    );
    let asked = format!("{:?}", model.requests());
    assert!(asked.contains("look-here"), "the rows are in the request's context");
    // What a stranger's session wrote is believed no more for having been looked at by a schedule.
    add("look-there", "stranger").await;
    let ran = run().await;
    let session = tally.ok("sessions_get", json!({"session_id": ran["session_id"]})).await;
    assert_eq!(session["trust"], "stranger", "{session}");
    let wrong = json!({"id": made["id"], "job_args": {"least": "many"}});
    tally.ok("schedule_update", wrong).await;
    let failed = run().await;
    assert!(failed["status"] == "error" && failed["error"].as_str().unwrap().contains("least"), "{failed}");
    let unknown = json!({"name": "u", "cron": "0 0 1 1 *", "dispatch_mode": "job", "job_name": "nobodys"});
    let unknown = tally.ok("schedule_create", unknown).await;
    let failed = tally.ok("schedule_trigger", json!({"id": unknown["id"]})).await;
    assert!(failed["error"].as_str().unwrap().contains("there is no job `nobodys`"), "{failed}");
}

/// Who plans has the schedule and writes its times; the end of a run writes both. Neither may wait for the other's second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_ends_while_its_schedule_is_planned_waits_its_turn() {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(1).write("tally/jobs/found.sql", FOUND);
    let daemon = household.start().await;
    let tally = daemon.mcp("tally");
    let job = json!({"name": "look", "cron": "0 0 1 1 *", "dispatch_mode": "job", "job_name": "found"});
    let made = tally.ok("schedule_create", job).await;
    let (mut held, mut planner, looking) = (household.owner().await, household.owner().await, household.owner().await);
    let held = held.transaction().await.expect("a transaction");
    held.batch_execute("LOCK TABLE tally.counted IN ACCESS EXCLUSIVE MODE").await.expect("the job waits for its table");
    let run = tally.ok("schedule_trigger", json!({"id": made["id"]}));
    let meanwhile = async {
        eventually("the run has begun", || async {
            let sql = "SELECT count(*) FROM tally.schedule_runs WHERE state = 'running'";
            let running: i64 = looking.query_one(sql, &[]).await.map_err(|e| e.to_string())?.get(0);
            if running == 1 { Ok(()) } else { Err(format!("{running} runs are at work")) }
        })
        .await;
        let planning = planner.transaction().await.expect("a transaction");
        // Less than after which the server takes one of two that wait for each other.
        let first =
            "SET LOCAL lock_timeout = '500ms'; SELECT FROM tally.scheduled_tasks WHERE name = 'look' FOR UPDATE";
        planning.batch_execute(first).await.expect("the schedule");
        held.commit().await.expect("the job goes on");
        eventually("the end of the run waits for the schedule", || async {
            let sql = "SELECT count(*) FROM pg_catalog.pg_stat_activity
                       WHERE wait_event_type = 'Lock' AND query LIKE '%scheduled_tasks%'";
            let waiting: i64 = looking.query_one(sql, &[]).await.map_err(|e| e.to_string())?.get(0);
            if waiting == 1 { Ok(()) } else { Err(format!("{waiting} wait")) }
        })
        .await;
        let again = "INSERT INTO tally.schedule_runs (id, task_id, tenant_id, trust, fire_at, cause, state, created_at)
                     SELECT gen_random_uuid(), task_id, tenant_id, trust, fire_at, cause, 'due', created_at
                     FROM tally.schedule_runs ON CONFLICT (task_id, fire_at) DO NOTHING";
        assert_eq!(planning.execute(again, &[]).await.expect("the time is planned once more"), 0);
        planning.commit().await.expect("it is planned");
    };
    let (ran, ()) = tokio::join!(run, meanwhile);
    assert_eq!(ran["status"], "triggered", "{ran}");
    let state: String = looking.query_one("SELECT state FROM tally.schedule_runs", &[]).await.expect("the run").get(0);
    assert_eq!(state, "done");
}

const TELL: &str = "/*---\ndescription: What was counted.\nnotify:\n  head: \"Counted ({count}):\"\n  \
                    template: \"- {mark}\"\n  priority: high\n---*/\n\
                    SELECT mark FROM counted WHERE mark LIKE 'tell%' ORDER BY id\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_job_finds_is_told_to_the_owner_once_without_a_model() {
    // It dies after the message is posted and before the run's end is on record.
    for point in ["owner.committed", "schedule.tried"] {
        found_and_told_once(point).await;
    }
}

async fn found_and_told_once(point: &str) {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(1).write("tally/jobs/tell.sql", TELL);
    let mut daemon = Household::again(&household, "BUTLERD_CRASH_POINT", point).start().await;
    let client = household.owner().await;
    for mark in ["tell {mark}", "tell-two"] {
        let sql = "INSERT INTO tally.counted (mark, tenant_id) VALUES ($1, 'owner')";
        client.execute(sql, &[&mark]).await.expect("a row");
    }
    let job = json!({"name": "tell", "in": "1s", "dispatch_mode": "job", "job_name": "tell"});
    daemon.mcp("tally").ok("schedule_create", job).await;
    died(&mut daemon, point).await;
    drop(daemon);
    let _daemon = household.start().await;
    let client = household.owner().await;
    eventually("the run is done", || async {
        let sql = "SELECT r.state, coalesce(r.reason, '') FROM tally.schedule_runs r
                   JOIN tally.scheduled_tasks t ON t.id = r.task_id WHERE t.name = 'tell'";
        let row = client.query_one(sql, &[]).await.map_err(|e| e.to_string())?;
        let (state, reason): (String, String) = (row.get(0), row.get(1));
        if state == "done" && reason == "2 rows found, 1 message sent" {
            Ok(())
        } else {
            Err(format!("{state} {reason}"))
        }
    })
    .await;
    let posted = client.query("SELECT message, priority FROM shared.outbox WHERE origin = 'tally'", &[]).await.unwrap();
    let posted: Vec<(String, String)> = posted.iter().map(|r| (r.get(0), r.get(1))).collect();
    // A row's braces are text.
    assert_eq!(posted, [("Counted (2):\n- tell {mark}\n- tell-two".to_owned(), "high".to_owned())]);
    assert_eq!(model.requests().len(), 0, "no model was asked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_job_fails_its_module_with_file_and_line_and_nobody_else() {
    for (text, line, why) in [
        (FOUND.replace("mark FROM", "marks FROM"), 7, "marks"),
        (
            FOUND.replace(
                "SELECT id, mark FROM counted",
                "WITH c AS (UPDATE counted SET mark = 'x' RETURNING *) SELECT * FROM c",
            ),
            7,
            "only reads",
        ),
        (FOUND.replace("prompt: \"count: from-rows\"", "notify: {template: \"{nothing}\"}"), 5, "nothing"),
    ] {
        let household = Household::few().with_tally(1).write("tally/jobs/found.sql", &text);
        let daemon = household.start().await;
        let states = daemon.mcp("tally").ok("module.states", json!({})).await;
        let told = states["tally"]["failure_error"].as_str().unwrap_or_default().to_owned();
        assert!(told.contains(&format!("jobs/found.sql:{line}: ")) && told.contains(why), "{states}");
        assert_eq!(states["probe"]["health"], "active");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_look_at_schedules_and_run_pause_and_resume_them() {
    let model = counting_model(0).await;
    let entry = "\n[[butler.schedule]]\nname = \"evening\"\ncron = \"0 20 * * *\"\nprompt = \"count: evening\"\n";
    let household = Household::few_with_model(&model).with_tally(1);
    let toml = std::fs::read_to_string(household.roster().join("tally/butler.toml")).expect("the file");
    let household = household.write("tally/butler.toml", &format!("{toml}{entry}"));
    let mut daemon = household.start().await;
    let json_of = |args: &[&str], code: i32| -> Value {
        let (got, out, err) = household.cli(args);
        assert_eq!(got, code, "{args:?}: {out}{err}");
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"))
    };
    let listed = json_of(&["schedule", "list", "--butler", "tally", "--json"], 0);
    let names: Vec<&str> = listed["items"].as_array().unwrap().iter().filter_map(|s| s["name"].as_str()).collect();
    assert_eq!(names, ["evening", "house-tidy"], "{listed}");
    let id = listed["items"][0]["id"].as_str().unwrap().to_owned();
    let ran = json_of(&["schedule", "run", "evening", "--json"], 0);
    assert_eq!((&ran["status"], ran["session_id"].is_string()), (&json!("triggered"), true), "{ran}");
    assert_eq!(household.counted("evening").await, 1);
    let paused = json_of(&["schedule", "pause", &id[..id.len() - 1], "--json"], 0);
    assert_eq!((&paused["paused"], &paused["next_run_at"]), (&json!(true), &Value::Null), "{paused}");
    let (code, out, err) = household.cli(&["schedule", "list"]);
    assert!(code == 0 && out.contains("paused") && out.contains("evening"), "{out}{err}");
    assert!(!out.contains("house-tidy") && err.contains("of the house's own are not listed: --all"), "{out}{err}");
    assert!(household.cli(&["schedule", "list", "--all"]).1.contains("house-tidy"));
    // A pause outlives a restart, and what passed in it is one row.
    daemon.kill();
    let later = Household::again(&household, "BUTLERD_CLOCK_OFFSET", "72h");
    let _daemon = later.start().await;
    let shown = json_of(&["schedule", "show", "evening", "--json"], 0);
    assert_eq!((&shown["paused"], shown["history"].as_array().map(Vec::len)), (&json!(true), Some(1)), "{shown}");
    assert_eq!((&shown["last"]["state"], &shown["last"]["cause"]), (&json!("done"), &json!("manual")), "{shown}");
    let on = json_of(&["schedule", "resume", "evening", "--json"], 0);
    assert!(on["paused"] == false && on["next_run_at"].is_string(), "{on}");
    let history = json_of(&["schedule", "history", "evening", "--json"], 0)["items"].clone();
    assert_eq!(
        (&history[0]["state"], &history[0]["cause"], &history[0]["times"]),
        (&json!("skipped"), &json!("rest"), &json!(3))
    );
    assert_eq!(household.counted("evening").await, 1);
    let (code, out, err) = household.cli(&["schedule", "history", "evening"]);
    assert!(code == 0 && out.contains("3 times until") && out.contains("paused"), "{out}{err}");
    let (code, _, err) = household.cli(&["schedule", "show", "nothing-like-it"]);
    assert!(code == 1 && err.contains("butlerd schedule list"), "{err}");
    // The house tidies in every butler: without --butler it must be said which one.
    let (code, _, err) = household.cli(&["schedule", "run", "house-tidy"]);
    assert!(code == 2 && err.contains("--butler"), "{err}");
    let client = household.owner().await;
    let kept = "SELECT key FROM shared.row_changes WHERE key ? 'at' ORDER BY id";
    client
        .batch_execute(
            "INSERT INTO shared.row_changes (tx_at, schema, table_name, key, before, tenant_id)
             SELECT now() - make_interval(days => at), whose, 'counted', jsonb_build_object('at', at), '{}', 'owner'
             FROM (VALUES ('tally', 91), ('tally', 89), ('messenger', 92), ('shared', 93), ('shared', 88)) r (whose, at)",
        )
        .await
        .expect("rows before");
    let tidied = json_of(&["schedule", "run", "house-tidy", "--butler", "tally", "--json"], 0);
    assert!(tidied["result"].as_str().unwrap().contains("1 old rows kept for undo"), "{tidied}");
    let left = async || {
        let left = client.query(kept, &[]).await.expect("what is left");
        left.iter().map(|row| row.get::<_, Value>(0)["at"].as_i64().expect("a number")).collect::<Vec<_>>()
    };
    assert_eq!(left().await, [89, 92, 93, 88], "another butler's are its own");
    // What no butler's tables hold is the switchboard's to tidy.
    let tidied = json_of(&["schedule", "run", "house-tidy", "--butler", "switchboard", "--json"], 0);
    assert!(tidied["result"].as_str().unwrap().contains("1 old rows kept for undo"), "{tidied}");
    assert_eq!(left().await, [89, 92, 88]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_more_urgent_of_several_goes_first() {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(1);
    let clock = household.path().join("clock").to_string_lossy().into_owned();
    let household = household.env("BUTLERD_CLOCK_FILE", &clock);
    let daemon = household.start().await;
    let tally = daemon.mcp("tally");
    let at = jiff::Timestamp::now().checked_add(jiff::SignedDuration::from_mins(10)).unwrap().to_string();
    for (name, priority) in [("third", 3), ("second", 2), ("first", 1)] {
        let wish = json!({"name": name, "at": at, "prompt": format!("count: {name}"), "priority": priority});
        assert_eq!(tally.ok("schedule_create", wish).await["status"], "created");
    }
    // All three are there before the first one is due.
    household.set_clock(&at);
    tally.ok("tick", json!({})).await;
    let client = household.owner().await;
    let order = eventually("all have run", || async {
        let sql = "SELECT t.name FROM tally.schedule_runs r JOIN tally.scheduled_tasks t ON t.id = r.task_id
                   WHERE r.state = 'done' AND t.source = 'db' ORDER BY r.started_at";
        let rows = client.query(sql, &[]).await.map_err(|e| e.to_string())?;
        let names: Vec<String> = rows.iter().map(|r| r.get(0)).collect();
        if names.len() == 3 { Ok(names) } else { Err(format!("{names:?}")) }
    })
    .await;
    assert_eq!(order, ["first", "second", "third"]);
}
