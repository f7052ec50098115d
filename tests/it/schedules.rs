//! Schedules in a running household: they fire by themselves, and what was missed is told.

use serde_json::{Value, json};

use crate::support::{Household, eventually, model, owners_zone};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_fires_by_itself_and_rests_when_it_is_told_to() {
    let model = model(json!([{"when": "water", "steps": [{"say": "watered"}]}])).await;
    let household = Household::with_model(&model).env("BUTLERD_SCHEDULES__MIN_INTERVAL", "1s");
    let daemon = household.start().await;
    let general = daemon.mcp("general");
    let made = general
        .ok("schedule_create", json!({"name": "plants", "cron": "* * * * * *", "prompt": "water the plants"}))
        .await;
    assert_eq!((&made["status"], &made["timezone"]), (&json!("created"), &json!(owners_zone())), "{made}");
    let refused = |name: &str, more: Value| {
        let mut wish = json!({"name": name, "prompt": "x"});
        wish.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        let general = &general;
        async move { general.ok("schedule_create", wish).await["code"].clone() }
    };
    assert_eq!(refused("plants", json!({"cron": "* * * * *"})).await, "already_exists");
    assert_eq!(refused("b", json!({"cron": "61 * * * *"})).await, "invalid_cron");
    assert_eq!(refused("c", json!({"cron": "* * * * *", "job_name": "y"})).await, "invalid_arguments");
    assert_eq!(refused("d", json!({})).await, "invalid_arguments");
    assert_eq!(refused("e", json!({"every": "2h", "in": "1h"})).await, "invalid_arguments");
    assert_eq!(refused("f", json!({"at": "2020-01-01T08:00"})).await, "never_due");
    assert_eq!(refused("g", json!({"every": "soon"})).await, "invalid_arguments");
    assert_eq!(refused("h", json!({"every": "2h", "timezone": "Mars/Base"})).await, Value::Null, "no zone is asked");
    let list = eventually("it fires without a tick", || async {
        let list = general.ok("schedule_list", json!({})).await;
        let plants = list.as_array().into_iter().flatten().find(|s| s["name"] == "plants").cloned().unwrap_or_default();
        if plants["last_result"]["ok"] == true { Ok(plants) } else { Err(list.to_string()) }
    })
    .await;
    assert!(list["last_run_at"].is_string() && list["task_type"] == "cron", "{list}");
    let id = made["id"].clone();
    let paused = general.ok("schedule_update", json!({"task_id": id, "enabled": false})).await;
    assert_eq!((&paused["status"], &paused["enabled"]), (&json!("updated"), &json!(false)), "{paused}");
    assert_eq!((&paused["next_run_at"], &paused["paused"]), (&Value::Null, &json!(true)), "{paused}");
    let sessions = general.ok("sessions_list", json!({})).await;
    assert_eq!((&sessions[0]["trigger_source"], &sessions[0]["trust"]), (&json!("schedule:plants"), &json!("system")));
    let run = general.ok("schedule_trigger", json!({"id": id})).await;
    assert_eq!((&run["status"], run["session_id"].is_string()), (&json!("triggered"), true), "{run}");
    assert_eq!(general.ok("tick", json!({})).await["dispatched"], 0);
    let costs = general.ok("schedule_costs", json!({})).await;
    let plants = costs["schedules"].as_array().unwrap().iter().find(|s| s["name"] == "plants").unwrap();
    assert!(plants["runs"].as_i64() >= Some(2) && plants["sessions"].as_i64() >= Some(2), "{costs}");
    assert_eq!(general.ok("schedule_delete", json!({"task_id": id})).await["status"], "deleted");
    assert_eq!(general.ok("schedule_delete", json!({"task_id": id})).await["code"], "not_found");
}

/// A butler that does something each hour, three times with different ideas of what was missed.
fn hourly() -> String {
    let entry = |policy: &str| {
        format!(
            "[[butler.schedule]]\nname = \"{policy}\"\ncron = \"0 * * * *\"\nmissed = \"{policy}\"\n\
             dispatch_mode = \"job\"\njob_name = \"tidy\"\n\n"
        )
    };
    let entries: String = ["skip", "run_once", "backfill"].into_iter().map(entry).collect();
    format!(
        "[butler]\nname = \"hourly\"\nport = 40197\ndescription = \"h\"\n\n[butler.runtime]\nmodel = \"m\"\n\n{entries}"
    )
}

/// What became of each time of a schedule: how many times the rows stand for, by state and reason.
async fn times(client: &tokio_postgres::Client, name: &str) -> Vec<(String, String, i64)> {
    let sql = "SELECT r.cause || ' ' || r.state, coalesce(r.reason, ''), r.times::bigint FROM hourly.schedule_runs r
               JOIN hourly.scheduled_tasks t ON t.id = r.task_id WHERE t.name = $1 ORDER BY r.fire_at";
    let rows = client.query(sql, &[&name]).await.expect("the runs");
    rows.iter().map(|r| (r.get(0), r.get(1), r.get(2))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_26_hours_away_each_missed_hour_has_its_row() {
    let household = Household::new().butler("hourly", &hourly());
    let mut daemon = household.start().await;
    let code = tokio::task::spawn_blocking(move || daemon.stop_blocking()).await.expect("its end");
    assert_eq!(code, 0);
    // To half past an hour, 26 hours or nearly so from now: the last hour is missed as well.
    let now = jiff::Timestamp::now().as_second();
    let offset = 26 * 3600 + 1800 - now.rem_euclid(3600);
    let household = Household::again(&household, "BUTLERD_CLOCK_OFFSET", &format!("{offset}s"));
    let _daemon = household.start().await;
    let client = household.owner().await;
    let sql = "SELECT (extract(epoch FROM created_at)::bigint / 3600), (extract(epoch FROM decided_at)::bigint / 3600)
               FROM hourly.scheduled_tasks WHERE name = $1 AND decided_at IS NOT NULL";
    for policy in ["skip", "run_once", "backfill"] {
        let hours: i64 = eventually("the missed times are decided on", || async {
            let row = client.query_opt(sql, &[&policy]).await.map_err(|e| e.to_string())?;
            row.map(|r| r.get::<_, i64>(1) - r.get::<_, i64>(0)).ok_or_else(|| "not yet".to_owned())
        })
        .await;
        assert!((25..=27).contains(&hours), "{hours}");
        let rows = eventually("nothing is open", || async {
            let rows = times(&client, policy).await;
            let open = rows.iter().any(|(s, ..)| s.ends_with("due") || s.ends_with("running"));
            if open { Err(format!("{rows:?}")) } else { Ok(rows) }
        })
        .await;
        assert_eq!(rows.iter().map(|r| r.2).sum::<i64>(), hours, "{policy}: {rows:?}");
        let ran: Vec<_> = rows.iter().filter(|(state, ..)| state.ends_with("done")).collect();
        match policy {
            "skip" => assert!(ran.is_empty() && rows[0].1.contains("skips what it missed"), "{rows:?}"),
            "run_once" => {
                assert!(ran.len() == 1 && ran[0].0 == "late done" && rows.last() == Some(ran[0]), "{rows:?}");
                assert!(rows[0].0 == "missed skipped" && rows[0].1.contains("stands for it"), "{rows:?}");
            }
            _ => {
                assert_eq!(ran.len() as i64, hours.min(24), "{rows:?}");
                assert!(ran.iter().all(|r| r.0 == "backfill done"), "{rows:?}");
            }
        }
    }
}

fn chores(entries: &str) -> String {
    format!(
        "[butler]\nname = \"chores\"\nport = 40198\ndescription = \"c\"\n\n[butler.runtime]\nmodel = \"m\"\n\n{entries}"
    )
}

fn entry(name: &str, when: &str) -> String {
    format!("[[butler.schedule]]\nname = \"{name}\"\n{when}\nprompt = \"count: {name}\"\n\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_butler_toml_declares_is_synced_and_what_people_decide_stays() {
    let (rent, water, dust) = (
        entry("rent", "cron = \"0 8 1 * *\""),
        entry("water", "every = \"90m\"\npriority = 2"),
        entry("dust", "at = \"2027-03-28T02:30\""),
    );
    // A zone with a summer time.
    let household = Household::new().env("BUTLERD_OWNER__TIME_ZONE", "Europe/Berlin");
    let household = household.butler("chores", &chores(&format!("{rent}{water}{dust}")));
    let daemon = household.start().await;
    let mcp = daemon.mcp("chores");
    let of = |list: &Value, name: &str| list.as_array().unwrap().iter().find(|s| s["name"] == name).unwrap().clone();
    let list = mcp.ok("schedule_list", json!({})).await;
    let (first, water_then) = (of(&list, "rent"), of(&list, "water"));
    assert_eq!(
        (&water_then["every"], &water_then["priority"], &water_then["task_type"]),
        (&json!("90m"), &json!(2), &json!("every")),
        "{list}"
    );
    // A local time that is left out is taken right after the gap.
    assert_eq!(of(&list, "dust")["next_run_at"], "2027-03-28T01:30:00Z", "{list}");
    assert_eq!(mcp.ok("schedule_delete", json!({"id": first["id"]})).await["code"], "declared");
    mcp.ok("schedule_update", json!({"id": first["id"], "enabled": false})).await;
    let edited = json!({"id": of(&list, "dust")["id"], "cron": "0 9 * * *", "prompt": "count: other"});
    let edited = mcp.ok("schedule_update", edited).await;
    assert_eq!(
        (&edited["source"], &edited["at"], &edited["cron"]),
        (&json!("db"), &Value::Null, &json!("0 9 * * *")),
        "{edited}"
    );
    drop(daemon);
    let household = household.write("chores/butler.toml", &chores(&format!("{rent}{dust}")));
    let daemon = household.start().await;
    let mcp = daemon.mcp("chores");
    let list = mcp.ok("schedule_list", json!({})).await;
    assert_eq!((&of(&list, "rent")["enabled"], &of(&list, "rent")["paused"]), (&json!(false), &json!(true)), "{list}");
    assert_eq!(
        (&of(&list, "dust")["cron"], &of(&list, "dust")["prompt"]),
        (&json!("0 9 * * *"), &json!("count: other"))
    );
    let gone = of(&list, "water");
    assert_eq!((&gone["enabled"], &gone["paused"]), (&json!(false), &json!(false)), "{list}");
    let on = mcp.ok("schedule_update", json!({"id": first["id"], "enabled": true})).await;
    assert_eq!(
        (&on["enabled"], &on["next_run_at"], &on["source"]),
        (&json!(true), &first["next_run_at"], &json!("toml"))
    );
    drop(daemon);
    // Declared again: it goes on from now, and has missed nothing.
    let household = household.write("chores/butler.toml", &chores(&format!("{rent}{water}{dust}")));
    let daemon = household.start().await;
    let list = daemon.mcp("chores").ok("schedule_list", json!({})).await;
    assert_eq!(of(&list, "water")["enabled"], true, "{list}");
    let runs = household.owner().await.query_one("SELECT count(*) FROM chores.schedule_runs", &[]).await.unwrap();
    assert_eq!(runs.get::<_, i64>(0), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_needs_its_butler_idle_waits_and_holds_up_nobody() {
    let add = json!({"call": {"tool": "tally_add", "arguments": {"mark": "long"}}});
    let model = model(json!([
        {"when": "count: long", "steps": [add, {"say": "counted"}]},
        {"when": "count: (idle|other)", "steps": [{"say": "done"}]},
    ]))
    .await;
    let household = Household::few_with_model(&model).with_tally(2);
    let daemon = household.start().await;
    let tally = daemon.mcp("tally");
    // The long one is at its tool until it is let go.
    let (client, lock) = (household.owner().await, household.owner().await);
    lock.batch_execute("BEGIN; LOCK TABLE tally.counted IN ACCESS EXCLUSIVE MODE").await.expect("the lock");
    tally.ok("schedule_create", json!({"name": "long", "in": "1s", "prompt": "count: long"})).await;
    let at_work = "SELECT count(*) FROM tally.sessions WHERE state = 'running' AND prompt LIKE '%long'";
    eventually("the long one is at work", || async {
        let n: i64 = client.query_one(at_work, &[]).await.map_err(|e| e.to_string())?.get(0);
        if n == 1 { Ok(()) } else { Err(n.to_string()) }
    })
    .await;
    let idle = json!({"name": "idle", "in": "1s", "prompt": "count: idle", "require_idle": true});
    tally.ok("schedule_create", idle).await;
    tally.ok("schedule_create", json!({"name": "other", "in": "1s", "prompt": "count: other", "priority": 1})).await;
    eventually("the other one has run, and the idle one waits", || async {
        let sql = "SELECT count(*) FILTER (WHERE t.name = 'other' AND r.state = 'done'),
                          count(*) FILTER (WHERE t.name = 'idle' AND r.state = 'due')
                   FROM tally.schedule_runs r JOIN tally.scheduled_tasks t ON t.id = r.task_id";
        let row = client.query_one(sql, &[]).await.map_err(|e| e.to_string())?;
        let seen: (i64, i64) = (row.get(0), row.get(1));
        if seen == (1, 1) { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
    lock.batch_execute("COMMIT").await.expect("the long one goes on");
    let order = eventually("all have run", || async {
        let sql = "SELECT t.name FROM tally.schedule_runs r JOIN tally.scheduled_tasks t ON t.id = r.task_id
                   WHERE r.state = 'done' ORDER BY r.started_at";
        let rows = client.query(sql, &[]).await.map_err(|e| e.to_string())?;
        let names: Vec<String> = rows.iter().map(|r| r.get(0)).filter(|n: &String| n != "house-tidy").collect();
        if names.len() == 3 { Ok(names) } else { Err(format!("{names:?}")) }
    })
    .await;
    assert_eq!(order, ["long", "other", "idle"]);
    let sql = "SELECT count(*) FROM tally.schedule_runs r JOIN tally.scheduled_tasks t ON t.id = r.task_id
               JOIN tally.schedule_runs o ON o.id <> r.id AND o.started_at < r.started_at AND o.finished_at > r.started_at
               WHERE t.name = 'idle'";
    assert_eq!(client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 0, "it began while another was at work");
}

/// `support::owners_zone` stands on this.
#[test]
fn no_shipped_schedule_asks_a_model_between_eleven_and_three() {
    let roster = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("roster");
    let (eleven, three): (jiff::Timestamp, jiff::Timestamp) =
        ("2026-01-01T11:00Z".parse().expect("a time"), "2026-01-01T15:00Z".parse().expect("a time"));
    let mut seen = 0;
    for entry in std::fs::read_dir(roster).expect("the roster").flatten() {
        let text = std::fs::read_to_string(entry.path().join("butler.toml")).unwrap_or_default();
        for block in text.split("[[butler.schedule]]").skip(1) {
            let cron = block.lines().find_map(|line| line.strip_prefix("cron = \"")?.strip_suffix('"'));
            let job = block.lines().find_map(|line| line.strip_prefix("job_name = \"")?.strip_suffix('"'));
            // What a job finds may be for a session, too.
            let asks = job.is_none_or(|job| {
                let text = std::fs::read_to_string(entry.path().join(format!("jobs/{job}.sql"))).expect("the job");
                text.contains("\nprompt:")
            });
            if let (Some(cron), true) = (cron, asks) {
                let next = schedule::Times::cron(cron, "UTC").expect("a cron").next(eleven);
                // Each day of the week and of the month is tried by leaving them out.
                let daily: Vec<&str> = cron.split(' ').take(2).chain(["*", "*", "*"]).collect();
                let today = schedule::Times::cron(&daily.join(" "), "UTC").expect("a cron").next(eleven);
                assert!(next.is_some() && today.is_none_or(|at| at >= three), "{cron} of {}", entry.path().display());
                seen += 1;
            }
        }
    }
    assert!(seen >= 5, "{seen} schedules with a prompt");
}
