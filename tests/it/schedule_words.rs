//! Schedules as people make and change them on the command line: times in words, an idle butler, what is next, at work,
//! and done. And row by row what the specification of tiered memory asks of the scheduler (its section 9.4).

use serde_json::{Value, json};

use crate::support::tally::{TALLY, counting_model};
use crate::support::{Household, eventually, model};

/// A command's answer as JSON.
fn json_of(household: &Household, args: &[&str]) -> Value {
    let (code, out, err) = tokio::task::block_in_place(|| household.cli(&[args, &["--json"]].concat()));
    assert_eq!(code, 0, "{args:?}: {out}{err}");
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{args:?}: {e}: {out}{err}"))
}

/// A command that is refused: its exit code and what it said.
fn refused(household: &Household, args: &[&str]) -> (i32, String) {
    let (code, out, err) = tokio::task::block_in_place(|| household.cli(args));
    assert_ne!(code, 0, "{args:?}: {out}{err}");
    (code, out + &err)
}

/// The runs of a schedule of `butler`, the oldest first: cause, state and reason.
async fn runs(household: &Household, butler: &str, name: &str) -> Vec<(String, String, String)> {
    let sql = format!(
        "SELECT r.cause, r.state, coalesce(r.reason, r.waited, '') FROM {butler}.schedule_runs r
         JOIN {butler}.scheduled_tasks t ON t.id = r.task_id WHERE t.name = $1 ORDER BY r.fire_at"
    );
    let rows = household.owner().await.query(&sql, &[&name]).await.expect("the runs");
    rows.iter().map(|r| (r.get(0), r.get(1), r.get(2))).collect()
}

/// Waits until the newest run of a schedule is as `wanted`.
async fn until(household: &Household, name: &str, what: &str, wanted: impl Fn(&str, &str) -> bool) -> String {
    eventually(what, || async {
        let runs = runs(household, TALLY, name).await;
        match runs.last() {
            Some((_, state, reason)) if wanted(state, reason) => Ok(reason.clone()),
            _ => Err(format!("{runs:?}")),
        }
    })
    .await
}

/// Until this commits, whatever counts is at work.
async fn held(household: &Household) -> tokio_postgres::Client {
    let lock = household.owner().await;
    lock.batch_execute("BEGIN; LOCK TABLE tally.counted IN ACCESS EXCLUSIVE MODE").await.expect("the lock");
    lock
}

/// Section 9.4: a listed schedule of a module, force-triggered, dispatched, with its priority.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_modules_schedule_is_listed_moved_and_runs_with_its_priority() {
    let household = Household::few();
    let marker = household.path().join("marker");
    let toml = format!(
        "[butler]\nname = \"tester\"\nport = 40190\ndescription = \"for tests\"\n\n[butler.runtime]\nmodel = \"m\"\n\n\
         [modules.contract_probe]\nevery = \"4h\"\nmarker = {:?}\n",
        marker.display().to_string()
    );
    let household = household.butler("tester", &toml);
    let daemon = household.start().await;
    // Row 1: it is registered, seen without --all, with priority 1.
    let (code, out, err) = tokio::task::block_in_place(|| household.cli(&["schedule", "list"]));
    assert!(code == 0 && out.contains("contract-work") && out.contains("every 4h"), "{out}{err}");
    assert!(!out.contains("house-tidy"), "{out}");
    let listed = json_of(&household, &["schedule", "list", "--butler", "tester"]);
    let of = |list: &Value| {
        list["items"].as_array().unwrap().iter().find(|s| s["name"] == "contract-work").cloned().unwrap_or_default()
    };
    let row = of(&listed);
    assert_eq!((&row["priority"], &row["source"]), (&json!(1), &json!("module")), "{listed}");
    // A missed run is made up for once, and its first time is four hours from its start, to the second.
    let sql =
        "SELECT missed, stagger_s, extract(epoch FROM next_run_at - anchor_at)::bigint FROM tester.scheduled_tasks
               WHERE name = 'contract-work'";
    let client = household.owner().await;
    let stored = client.query_one(sql, &[]).await.expect("its row");
    let stored: (String, i32, i64) = (stored.get(0), stored.get(1), stored.get(2));
    assert_eq!(stored, ("run_once".to_owned(), 0, 4 * 3600));
    // Row 2: its next run is moved, by the beginning of its id, and it stays what it is.
    let id = row["id"].as_str().unwrap();
    let moved = json_of(&household, &["schedule", "update", &id[..id.len() - 1], "--in", "2 seconds"]);
    assert_eq!((&moved["every"], &moved["source"]), (&json!("4h"), &json!("module")), "{moved}");
    assert_ne!(moved["next_run_at"], row["next_run_at"], "{moved}");
    // Rows 3 and 4: it runs, with priority 1.
    eventually("it runs", || async {
        let said = std::fs::read_to_string(&marker).unwrap_or_default();
        if said.contains("contract-work ran with priority 1") { Ok(()) } else { Err(said) }
    })
    .await;
    eventually("its next time is a slot again", || async {
        let row = of(&json_of(&household, &["schedule", "list", "--butler", "tester"]));
        let last = (&row["last"]["state"], &row["last"]["cause"]);
        if last == (&json!("done"), &json!("slot")) && row["every"] == "4h" && row["enabled"] == true {
            Ok(())
        } else {
            Err(row.to_string())
        }
    })
    .await;
    let (code, said) = refused(&household, &["schedule", "remove", "contract-work"]);
    assert!(code == 1 && said.contains("its butler's own") && said.contains("butlerd schedule pause"), "{said}");
    // A restart leaves it as it was.
    let before = of(&json_of(&household, &["schedule", "list", "--butler", "tester"]))["next_run_at"].clone();
    drop(daemon);
    let _daemon = household.start().await;
    let row = of(&json_of(&household, &["schedule", "list", "--butler", "tester"]));
    assert_eq!((&row["next_run_at"], &row["enabled"]), (&before, &json!(true)), "{row}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_is_added_changed_looked_at_and_removed_in_words() {
    let model = model(json!([{"when": "water", "steps": [{"say": "watered"}]}])).await;
    let household = Household::with_model(&model).env("BUTLERD_OWNER__TIME_ZONE", "Europe/Berlin");
    let _daemon = household.start().await;
    let zone = jiff::tz::TimeZone::get("Europe/Berlin").expect("a zone");
    let today = || jiff::Timestamp::now().to_zoned(zone.clone());
    // Without a name it is called by its prompt, and `general` has it.
    let made = json_of(
        &household,
        &["schedule", "add", "Water the plants on the balcony, please", "--at", "tomorrow 9:00", "--priority", "2"],
    );
    assert_eq!(
        (&made["name"], &made["butler"], &made["priority"], &made["require_idle"]),
        (&json!("water-the-plants-on-the"), &json!("general"), &json!(2), &json!(false)),
        "{made}"
    );
    let next: jiff::Timestamp = made["next_run_at"].as_str().unwrap().parse().unwrap();
    let next = next.to_zoned(zone.clone());
    let tomorrow = today().date().tomorrow().unwrap();
    assert_eq!((next.hour(), next.minute()), (9, 0), "{made}");
    assert!(next.date() == tomorrow || next.date() == today().date(), "{made}");
    let again = json_of(&household, &["schedule", "add", "water the plants on the balcony", "--in", "4 hours"]);
    assert_eq!(again["name"], "water-the-plants-on-the-2", "{again}");
    for (when, kind) in [
        (["--at", "monday 18:30"], "once"),
        (["--at", "tomorrow at 9am"], "once"),
        (["--at", "in 2 days"], "once"),
        (["--at", "2126-12-24 18:00"], "once"),
        (["--at", "2126-12-24T18:00:00+01:00"], "once"),
        (["--in", "an hour and 30 minutes"], "once"),
        (["--every", "4 hours"], "every"),
        (["--cron", "5 0 * * *"], "cron"),
    ] {
        let name = format!("w{}", when[1].replace(|c: char| !c.is_ascii_alphanumeric(), ""));
        let args = [&["schedule", "add", "water", "--name", &name, "--require-idle"][..], &when].concat();
        let made = json_of(&household, &args);
        assert_eq!((&made["task_type"], &made["require_idle"]), (&json!(kind), &json!(true)), "{when:?}: {made}");
    }
    // What is not understood says how it could be written, with the same words for people and sessions.
    let (code, said) = refused(&household, &["schedule", "add", "water", "--at", "soonish"]);
    assert!(code != 0 && said.contains("`tomorrow 9:00`, `monday 18:30` or `2026-12-24 18:00`"), "{said}");
    let (_, said) = refused(&household, &["schedule", "add", "water", "--in", "a while"]);
    assert!(said.contains("`10 seconds`, `4 hours` or `2 days`"), "{said}");
    let by_tool = _daemon.mcp("general").ok("schedule_create", json!({"prompt": "water", "in": "a while"})).await;
    assert!(said.contains(by_tool["error"].as_str().unwrap()), "{said} {by_tool}");
    assert_eq!(refused(&household, &["schedule", "add", "water"]).0, 2, "one of the times is needed");
    assert_eq!(refused(&household, &["schedule", "add", "water", "--in", "1h", "--every", "2h"]).0, 2);
    let (_, said) =
        refused(&household, &["schedule", "add", "water", "--name", "water-the-plants-on-the", "--in", "1h"]);
    assert!(said.contains("already"), "{said}");
    // Changes: only what is given.
    let name = "water-the-plants-on-the";
    let changed = json_of(
        &household,
        &["schedule", "update", name, "--cron", "0 9 * * *", "--require-idle", "--reply-channel", "telegram"],
    );
    assert_eq!(
        (
            &changed["cron"],
            &changed["require_idle"],
            &changed["priority"],
            &changed["reply_channel"],
            &changed["prompt"]
        ),
        (&json!("0 9 * * *"), &json!(true), &json!(2), &json!("telegram"), &made["prompt"]),
        "{changed}"
    );
    let moved = json_of(&household, &["schedule", "update", name, "--at", "tomorrow 11:15"]);
    assert_eq!((&moved["cron"], &moved["task_type"]), (&json!("0 9 * * *"), &json!("cron")), "{moved}");
    assert_ne!(moved["next_run_at"], changed["next_run_at"], "{moved}");
    let changed =
        json_of(&household, &["schedule", "update", name, "--no-require-idle", "--clear-reply", "--priority", "1"]);
    assert_eq!(
        (&changed["require_idle"], &changed["reply_channel"], &changed["priority"], &changed["next_run_at"]),
        (&json!(false), &Value::Null, &json!(1), &moved["next_run_at"]),
        "{changed}"
    );
    assert_eq!(refused(&household, &["schedule", "update", name]).0, 2);
    let (_, said) = refused(&household, &["schedule", "update", name, "--reply-to", "Ada"]);
    assert!(said.contains("reply_to needs a reply_channel"), "{said}");
    // What is next: the soonest first, five by default, the house's own upkeep left out.
    let next = json_of(&household, &["schedule", "next"]);
    let times: Vec<&str> = next["items"].as_array().unwrap().iter().filter_map(|s| s["next_run_at"].as_str()).collect();
    assert!(times.len() == 5 && times.is_sorted(), "{next}");
    assert_eq!(json_of(&household, &["schedule", "next", "2"])["items"].as_array().map(Vec::len), Some(2));
    assert!(!next.to_string().contains("house-tidy"), "{next}");
    // For people, with the butler of each: which is the soonest depends on the hour, so all are asked for.
    let (code, out, err) = tokio::task::block_in_place(|| household.cli(&["schedule", "next", "50"]));
    assert!(code == 0 && out.contains("NEXT") && out.contains("general") && out.contains(name), "{out}{err}");
    // Done needs a run.
    let (code, said) = refused(&household, &["schedule", "done", name]);
    assert!(code == 1 && said.contains("no run at work and none that waits"), "{said}");
    json_of(&household, &["schedule", "remove", name]);
    let (_, said) = refused(&household, &["schedule", "show", name]);
    assert!(said.contains("There is no schedule"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_outcome_is_asked_for_on_its_channel() {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(1);
    let _daemon = household.start().await;
    let args = ["schedule", "add", "count: replied", "--butler", TALLY, "--in", "1 second", "--name", "replied"];
    let reply = ["--reply-channel", "telegram", "--reply-to", "Ada \"L\""];
    json_of(&household, &[&args[..], &reply].concat());
    until(&household, "replied", "it has run", |state, _| state == "done").await;
    let row = household.owner().await.query_one("SELECT prompt FROM tally.sessions", &[]).await.expect("its session");
    let prompt: String = row.get(0);
    assert_eq!(
        prompt,
        "count: replied\n\nWhen you are done, send the outcome by `notify`: intent \"send\", channel \"telegram\", \
         recipient \"Ada \\\"L\\\"\"."
    );
    let shown = json_of(&household, &["schedule", "show", "replied"]);
    assert_eq!((&shown["reply_channel"], &shown["reply_to"]), (&json!("telegram"), &json!("Ada \"L\"")), "{shown}");
    assert_eq!(shown["prompt"], "count: replied", "the schedule keeps its own words");
    let other = json_of(&household, &["schedule", "update", "replied", "--reply-channel", "email"]);
    assert_eq!((&other["reply_channel"], &other["reply_to"]), (&json!("email"), &Value::Null), "{other}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_butler_has_been_quiet_for_three_seconds() {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(2);
    let daemon = household.start().await;
    let tally = daemon.mcp(TALLY);
    let lock = held(&household).await;
    tally.ok("schedule_create", json!({"name": "long", "in": "1s", "prompt": "count: long"})).await;
    tally
        .ok("schedule_create", json!({"name": "calm", "in": "2s", "prompt": "count: calm", "require_idle": true}))
        .await;
    let waits = until(&household, "calm", "it waits", |state, reason| state == "due" && !reason.is_empty()).await;
    assert_eq!(waits, "waits until its butler is idle");
    let open = json_of(&household, &["schedule", "running", "--butler", TALLY]);
    let calm = open["items"].as_array().unwrap().iter().find(|r| r["schedule"] == "calm").cloned().unwrap_or_default();
    assert_eq!((&calm["state"], &calm["reason"]), (&json!("due"), &json!(waits)), "{open}");
    let (code, out, err) = tokio::task::block_in_place(|| household.cli(&["schedule", "running"]));
    assert!(code == 0 && out.contains("calm") && out.contains("waits until"), "{out}{err}");
    lock.batch_execute("COMMIT").await.expect("the long one goes on");
    let said = until(&household, "calm", "it has run", |state, _| state == "done").await;
    assert_eq!(said, "it had waited until its butler was idle");
    // Between the end of the last session and its start lie three seconds.
    let sql = "SELECT extract(epoch FROM c.started_at - l.finished_at)::float8 FROM tally.schedule_runs c, tally.schedule_runs l
               WHERE c.task_id = (SELECT id FROM tally.scheduled_tasks WHERE name = 'calm')
                 AND l.task_id = (SELECT id FROM tally.scheduled_tasks WHERE name = 'long')";
    let apart: f64 = household.owner().await.query_one(sql, &[]).await.expect("both").get(0);
    assert!((2.9..8.0).contains(&apart), "{apart} seconds");
    assert_eq!(household.counted("calm").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_half_an_hour_it_runs_though_its_butler_is_busy() {
    let model = counting_model(55_000).await;
    let household = Household::moved(&model).with_tally(2);
    let daemon = household.start().await;
    let tally = daemon.mcp(TALLY);
    tally.ok("schedule_create", json!({"name": "busy", "in": "1s", "prompt": "count: busy"})).await;
    until(&household, "busy", "it is at work", |state, _| state == "running").await;
    // Jobs, so that what they run needs no session; one of them comes again before half an hour is over.
    let job = |name: &str, when: Value| {
        let mut wish = json!({"name": name, "dispatch_mode": "job", "job_name": "tidy", "require_idle": true});
        wish.as_object_mut().unwrap().extend(when.as_object().cloned().unwrap());
        wish
    };
    tally.ok("schedule_create", job("once", json!({"in": "1s"}))).await;
    tally.ok("schedule_create", job("often", json!({"every": "20m"}))).await;
    until(&household, "once", "it waits", |state, reason| state == "due" && reason.starts_with("waits")).await;
    let clock = |minutes: i64| {
        let set_up: jiff::Timestamp = crate::support::SET_UP.parse().expect("a time");
        household.set_clock(&set_up.checked_add(jiff::SignedDuration::from_mins(minutes)).unwrap().to_string());
    };
    clock(22);
    until(&household, "often", "its time has come", |state, reason| state == "due" && reason.starts_with("waits"))
        .await;
    clock(33);
    let anyway = until(&household, "once", "it runs anyway", |state, _| state == "done").await;
    assert!(anyway.ends_with("it began though its butler was busy, after 30 minutes"), "{anyway}");
    let still = runs(&household, TALLY, "busy").await;
    assert_eq!(still[0].1, "running", "{still:?}");
    // Its next time comes after twenty minutes: the run that waited is left out, and the new one waits.
    clock(42);
    eventually("the next one takes its place", || async {
        let runs = runs(&household, TALLY, "often").await;
        let states: Vec<&str> = runs.iter().map(|r| r.1.as_str()).collect();
        let why = runs.first().map(|r| r.2.clone()).unwrap_or_default();
        if states == ["skipped", "due"] && why == "its butler was not idle before the next time came" {
            Ok(())
        } else {
            Err(format!("{runs:?}"))
        }
    })
    .await;
}

/// A clock that was set back by days, and forward again: the time is decided once more, and the run that waits for it stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_that_is_decided_again_keeps_its_run() {
    let model = counting_model(55_000).await;
    let household = Household::moved(&model).with_tally(2);
    let daemon = household.start().await;
    let tally = daemon.mcp(TALLY);
    tally.ok("schedule_create", json!({"name": "busy", "in": "1s", "prompt": "count: busy"})).await;
    until(&household, "busy", "it is at work", |state, _| state == "running").await;
    let often =
        json!({"name": "often", "every": "20m", "dispatch_mode": "job", "job_name": "tidy", "require_idle": true});
    tally.ok("schedule_create", often).await;
    let set_up: jiff::Timestamp = crate::support::SET_UP.parse().expect("a time");
    for hours in [0, -48, 0] {
        let at = set_up + jiff::SignedDuration::from_hours(hours) + jiff::SignedDuration::from_mins(22);
        household.set_clock(&at.to_string());
        tally.ok("tick", json!({})).await;
    }
    let runs = runs(&household, TALLY, "often").await;
    let waiting: Vec<_> = runs.iter().filter(|run| run.1 == "due").collect();
    assert_eq!(waiting.len(), 1, "{runs:?}");
    assert!(!runs.iter().any(|run| run.2.contains("was not idle before the next time came")), "{runs:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_marked_as_done_is_done() {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(1);
    let _daemon = household.start().await;
    let lock = held(&household).await;
    let add = |name: &str, more: &[&str]| {
        let prompt = format!("count: {name}");
        let args = ["schedule", "add", &prompt, "--butler", TALLY, "--in", "1 second", "--name", name];
        json_of(&household, &[&args, more].concat());
    };
    add("first", &[]);
    until(&household, "first", "it is at work", |state, _| state == "running").await;
    add("second", &["--require-idle"]);
    until(&household, "second", "it waits", |state, _| state == "due").await;
    let waiting = json_of(&household, &["schedule", "done", "second"]);
    assert_eq!((&waiting["status"], &waiting["run"]), (&json!("done"), &json!("waiting")), "{waiting}");
    let at_work = json_of(&household, &["schedule", "done", "first"]);
    assert_eq!((&at_work["name"], &at_work["run"]), (&json!("first"), &json!("at_work")), "{at_work}");
    lock.batch_execute("COMMIT").await.expect("the first one goes on");
    let said = until(&household, "first", "it is over", |state, _| state == "done").await;
    assert_eq!(said, "marked as done");
    let second = runs(&household, TALLY, "second").await;
    assert_eq!((second[0].1.as_str(), second[0].2.as_str()), ("done", "marked as done"), "{second:?}");
    // The session went on to its end, and the one that waited never began.
    assert_eq!((household.counted("first").await, household.counted("second").await), (1, 0));
}
