//! Butlers that come, change and go while the household runs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::inbound::{ended, ingest, message};
use crate::support::{Daemon, Household, Mcp, eventually, http, model};

const GARDEN: &str = "[butler]\nname = \"garden\"\nport = 40180\ndescription = \"Plants and beds\"\n\n\
    [butler.runtime]\nmodel = \"m\"\n\n[butler.switchboard]\n\n[modules.garden]\n\n[modules.probe]\n";
const ROWS: &str = "CREATE TABLE plants (name text NOT NULL);\nSELECT shared.tenant_table('plants');\n";
const ADD: &str = "/*---\ndescription: Note a plant.\nargs:\n  name: {type: string, required: true}\nreturns: row\n\
    meta: {effect: once}\n---*/\nINSERT INTO plants (name) VALUES (:name) RETURNING name\n";
const LIST: &str = "/*---\ndescription: All plants.\nreturns: rows\nmeta: {effect: none}\n---*/\n\
    SELECT name FROM plants ORDER BY name\n";

fn with_garden(household: Household) -> Household {
    household
        .butler("garden", GARDEN)
        .write("garden/migrations/001_plants.sql", ROWS)
        .write("garden/tools/plant_add.sql", ADD)
        .write("garden/tools/plant_list.sql", LIST)
}

/// Runs `butlerd reload`: its exit code and what it answers.
async fn reload(household: &Household) -> (i32, Value) {
    let (code, out, err) = tokio::task::block_in_place(|| household.cli(&["reload", "--json"]));
    (code, serde_json::from_str(&out).unwrap_or_else(|_| panic!("no JSON: {code} {out}{err}")))
}

/// What a reload did with one butler.
fn of<'a>(done: &'a Value, butler: &str) -> &'a Value {
    let list = done["butlers"].as_array().unwrap_or_else(|| panic!("{done}"));
    list.iter().find(|b| b["name"] == butler).unwrap_or_else(|| panic!("no {butler} in {done}"))
}

/// The butler's server where it is now.
pub async fn mcp(daemon: &Daemon, butler: &str) -> Mcp {
    let port = daemon.butler(butler).await["port"].as_u64().and_then(|p| u16::try_from(p).ok());
    Mcp::new(port.unwrap_or_else(|| panic!("{butler} has no port")), Some(daemon.token()))
}

/// Starts a session that runs until it is ended, and waits until its child has asked the model.
async fn busy(daemon: &Daemon, butler: &str) -> String {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "butlerd.trigger_start",
                      "params": {"butler": butler, "prompt": "forever"}});
    let request = http().post(format!("http://{}/rpc", daemon.admin())).bearer_auth(daemon.token());
    let answer: Value = request.json(&body).send().await.expect("an answer").json().await.expect("JSON");
    let id = answer["result"]["session_id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    eventually("the session runs", || async {
        let butler = daemon.butler(butler).await;
        if butler["sessions_running"] == 1 { Ok(()) } else { Err(butler.to_string()) }
    })
    .await;
    id
}

async fn names(daemon: &Daemon) -> Vec<String> {
    let listed = daemon.mcp("general").ok("list_butlers", json!({"routable_only": true})).await;
    listed.as_array().expect("a list").iter().filter_map(|b| b["name"].as_str().map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_butler_serves_at_once_and_a_removed_one_leaves_its_data() {
    let model = model(json!([{"when": "forever", "steps": [{"hang": true}]}])).await;
    let household = Household::with_model(&model);
    let mut daemon = household.start().await;
    let session = busy(&daemon, "general").await;
    let before = daemon.butler("general").await;
    let household = with_garden(household);
    let (code, done) = reload(&household).await;
    assert_eq!(code, 0, "{done}");
    let garden = of(&done, "garden");
    assert_eq!((garden["change"].as_str(), garden["state"].as_str()), (Some("added"), Some("up")), "{done}");
    let others = done["butlers"].as_array().expect("a list").iter().filter(|b| b["name"] != "garden");
    assert!(others.into_iter().all(|b| b["change"] == "unchanged"), "{done}");
    let tools = mcp(&daemon, "garden").await;
    assert_eq!(tools.ok("plant_add", json!({"name": "sage"})).await["name"], "sage");
    assert!(names(&daemon).await.contains(&"garden".to_owned()), "{:?}", names(&daemon).await);
    let file = std::fs::read_to_string(household.data().join("run/daemon.json")).expect("the file");
    assert!(serde_json::from_str::<Value>(&file).expect("JSON")["butlers"]["garden"].is_u64(), "{file}");

    let away = household.path().join("garden");
    std::fs::rename(household.roster().join("garden"), &away).expect("moved");
    let (code, done) = reload(&household).await;
    assert_eq!((code, of(&done, "garden")["change"].as_str()), (0, Some("removed")), "{done}");
    let said = "removed from the roster; its data is kept in schema garden";
    let garden = daemon.butler("garden").await;
    assert_eq!((garden["state"].as_str(), garden["note"].as_str()), (Some("stopped"), Some(said)), "{garden}");
    let (_, out, _) = tokio::task::block_in_place(|| household.cli(&["status"]));
    assert!(out.contains(&format!("garden is stopped: {said}")), "{out}");
    assert!(tools.try_call("plant_list", json!({})).await.is_none(), "its port is closed");
    let listed = daemon.mcp("general").ok("list_butlers", json!({})).await;
    assert!(listed.as_array().is_some_and(|l| l.iter().all(|b| b["name"] != "garden")), "{listed}");
    let sessions = tokio::task::block_in_place(|| household.cli(&["sessions", "list", "--json"])).1;
    assert!(!sessions.contains("garden"), "nobody misses it: {sessions}");

    // Its neighbour was at work all the while.
    let general = daemon.butler("general").await;
    assert_eq!((&general["since"], &general["restarts"]), (&before["since"], &json!(0)), "{general}");
    assert_eq!(general["sessions_running"], 1, "{general}");
    let (code, out, err) = tokio::task::block_in_place(|| household.cli(&["sessions", "cancel", &session]));
    assert_eq!(code, 0, "{out}{err}");

    // A daemon that is started meanwhile says the same, and the butler comes back to what it had.
    tokio::task::block_in_place(|| daemon.kill());
    let daemon = household.start().await;
    let garden = daemon.butler("garden").await;
    assert_eq!((garden["removed"].as_bool(), garden["note"].as_str()), (Some(true), Some(said)), "{garden}");
    daemon.ready().await;
    std::fs::rename(&away, household.roster().join("garden")).expect("moved back");
    let (code, done) = reload(&household).await;
    assert_eq!((code, of(&done, "garden")["change"].as_str()), (0, Some("added")), "{done}");
    assert_eq!(mcp(&daemon, "garden").await.ok("plant_list", json!({})).await, json!([{"name": "sage"}]));
    assert_eq!(daemon.butler("garden").await["note"], Value::Null);
    let log = "SELECT string_agg(coalesce(from_state || '>', '') || to_state, ' ' ORDER BY id)
               FROM butler_registry_eligibility_log WHERE name = 'garden'";
    eventually("the registry's log", || async {
        let client = household.role("switchboard").await;
        client.batch_execute("SET butlerd.tenant = 'owner'").await.expect("the tenant");
        let told: Option<String> = client.query_one(log, &[]).await.expect("the log").get(0);
        match told.as_deref() {
            Some("active active>removed removed>active") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_butler_finishes_its_sessions_and_messages_wait_for_it() {
    let model = model(json!([
        {"when": "work", "steps": [{"call": {"tool": "plant_list", "arguments": {}}}, {"say": "finished"}]},
        {"when": "blood", "steps": [{"say": "noted"}]},
    ]))
    .await;
    let household = with_garden(Household::with_model(&model));
    let daemon = household.start().await;
    let health = daemon.butler("health").await;
    let switchboard = daemon.mcp("switchboard");
    let rule = json!({"kind": "substring", "pattern": "blood", "action": "route_to", "butler": "garden"});
    switchboard.ok("triage_rule_add", rule).await;
    // Its tool waits until it is let go.
    let lock = household.owner().await;
    lock.batch_execute("BEGIN; LOCK TABLE garden.plants IN ACCESS EXCLUSIVE MODE").await.expect("the lock");
    let working = {
        let garden = daemon.mcp("garden");
        tokio::spawn(async move { garden.call("trigger", json!({"prompt": "work"})).await.result() })
    };
    eventually("the session is at its tool", || async {
        let asked = model.requests().iter().filter(|r| r.answer.contains("plant_list")).count();
        if asked > 0 { Ok(()) } else { Err(daemon.butler("garden").await.to_string()) }
    })
    .await;
    let household = household
        .write(
            "garden/tools/plant_count.sql",
            "/*---\ndescription: How many.\nreturns: value\nmeta: {effect: none}\n---*/\nSELECT count(*) FROM plants\n",
        )
        .replace("garden/butler.toml", "Plants and beds", "Plants, beds and pots");
    let reloading = tokio::spawn(async move {
        let done = reload(&household).await;
        (household, done)
    });
    eventually("garden drains", || async {
        let garden = daemon.butler("garden").await;
        if garden["state"] == "draining" { Ok(()) } else { Err(garden.to_string()) }
    })
    .await;
    // What comes for it now is its own all the same.
    let (status, accepted) = ingest(&daemon, &message("1", "c1", "My blood pressure")).await;
    assert_eq!(status, 202, "{accepted}");
    assert!(names(&daemon).await.contains(&"garden".to_owned()));
    lock.batch_execute("COMMIT").await.expect("the lock's end");
    let (household, (code, done)) = reloading.await.expect("the reload");
    assert_eq!((code, of(&done, "garden")["change"].as_str()), (0, Some("changed")), "{done}");
    let session = working.await.expect("the session");
    assert_eq!((&session["success"], &session["output"]), (&json!(true), &json!("finished")), "{session}");
    let garden = mcp(&daemon, "garden").await;
    assert_eq!(garden.ok("plant_count", json!({})).await, json!(0));
    let entry = ended(&daemon, accepted["request_id"].as_str().expect("an id")).await;
    assert_eq!(entry["segments"][0]["butler"], "garden", "{entry}");
    assert_eq!(entry["replies"][0]["message"], "noted", "{entry}");
    assert_eq!(daemon.butler("health").await["since"], health["since"]);
    eventually("the registration follows", || async {
        let listed = daemon.mcp("general").ok("list_butlers", json!({})).await.to_string();
        if listed.contains("Plants, beds and pots") { Ok(()) } else { Err(listed) }
    })
    .await;
    // Nothing changed: nothing is touched, be it asked by a signal.
    let since = daemon.butler("garden").await["since"].clone();
    let (code, done) = reload(&household).await;
    assert!(code == 0 && of(&done, "garden")["change"] == "unchanged", "{done}");
    let household = household
        .write("garden/tests/plants.toml", "# Only `butlerd test` reads this.\n")
        .butler("attic", "[butler]\nname = \"attic\"\nport = 40181\ndescription = \"t\"\n");
    daemon.signal(libc::SIGHUP);
    eventually("attic is up", || async {
        let status = daemon.status().await;
        let attic = status["butlers"].as_array().and_then(|l| l.iter().find(|b| b["name"] == "attic").cloned());
        if attic.as_ref().is_some_and(|a| a["state"] == "up") { Ok(()) } else { Err(format!("{attic:?}")) }
    })
    .await;
    assert_eq!(daemon.butler("garden").await["since"], since);
    drop(household);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_files_change_nothing_that_runs() {
    let household = with_garden(Household::new());
    let daemon = household.start().await;
    let garden = mcp(&daemon, "garden").await;
    garden.ok("plant_add", json!({"name": "sage"})).await;
    let since = daemon.butler("garden").await["since"].clone();
    // Wrong by itself; wrong only by the measure of `check`; and one that never ran.
    let household = household
        .replace("garden/butler.toml", "name = \"garden\"", "name = \"garten\"")
        .replace("health/tools/measurement_latest.sql", "description:", "descriptoin:")
        .butler("attic", "[butler]\nname = \"attic\"\nport = 70000\n")
        // It wants what garden holds until its files are right.
        .butler(
            "cellar",
            "[butler]\nname = \"cellar\"\nport = 40182\n\n[butler.db]\nname = \"butlers\"\nschema = \"garden\"\n",
        );
    let (code, done) = reload(&household).await;
    assert_eq!(code, 1, "{done}");
    for (butler, change, state, why) in [
        ("garden", "kept", "up", "garden/butler.toml:2: butler.name: found \"garten\""),
        ("health", "kept", "up", "health/tools/measurement_latest.sql"),
        ("attic", "added", "parked", "attic/butler.toml:3: butler.port"),
        ("cellar", "added", "parked", "butler.db.schema: found garden, which `garden` holds"),
        ("general", "unchanged", "up", ""),
    ] {
        let told = of(&done, butler);
        assert_eq!((told["change"].as_str(), told["state"].as_str()), (Some(change), Some(state)), "{told}");
        assert!(told["error"].as_str().unwrap_or_default().contains(why), "{told}");
    }
    assert_eq!(garden.ok("plant_list", json!({})).await, json!([{"name": "sage"}]));
    let kept = daemon.butler("garden").await;
    assert_eq!(kept["since"], since);
    assert!(kept["note"].as_str().is_some_and(|n| n.contains("runs on with the former ones")), "{kept}");
    let (_, out, _) = tokio::task::block_in_place(|| household.cli(&["status"]));
    assert!(out.contains("garden is up: its files have mistakes"), "{out}");

    // Put right, one after the other; who was left alone forgets what was said.
    let household = household
        .replace("garden/butler.toml", "name = \"garten\"", "name = \"garden\"")
        .replace("health/tools/measurement_latest.sql", "descriptoin:", "description:")
        .replace("attic/butler.toml", "port = 70000", "port = 40183")
        .replace("cellar/butler.toml", "schema = \"garden\"", "schema = \"cellar\"");
    let (code, done) = reload(&household).await;
    assert_eq!(code, 0, "{done}");
    for (butler, change) in
        [("garden", "unchanged"), ("health", "unchanged"), ("attic", "changed"), ("cellar", "changed")]
    {
        assert_eq!(
            (&of(&done, butler)["change"], &of(&done, butler)["state"]),
            (&json!(change), &json!("up")),
            "{done}"
        );
    }
    assert_eq!(daemon.butler("garden").await["note"], Value::Null);

    // A household that could not be started is not reloaded either.
    std::fs::rename(household.roster().join("messenger"), household.path().join("messenger")).expect("moved");
    let refused = tokio::task::block_in_place(|| household.cli(&["reload"]));
    assert_eq!(refused.0, 1, "{refused:?}");
    assert!(refused.2.contains("no `messenger` in it"), "{refused:?}");
    std::fs::rename(household.path().join("messenger"), household.roster().join("messenger")).expect("moved back");
    std::fs::create_dir_all(household.path().join("config")).expect("the directory");
    let settings = household.path().join("config/butlerd.toml");
    std::fs::write(&settings, "[owner]\nnaem = \"x\"\n").expect("the settings");
    let household = household.butler("garden", &GARDEN.replace("beds", "pots"));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "butlerd.reload", "params": {}});
    let rpc = || async {
        let request = http().post(format!("http://{}/rpc", daemon.admin())).bearer_auth(daemon.token());
        request.json(&body).send().await.expect("an answer").json::<Value>().await.expect("JSON")
    };
    let refused = rpc().await;
    assert_eq!(refused["error"]["data"]["code"], "configuration", "{refused}");
    assert!(
        refused["error"]["message"].as_str().is_some_and(|m| m.contains("config/butlerd.toml:2: owner.naem")),
        "{refused}"
    );
    assert_eq!(daemon.butler("garden").await["since"], since, "nothing was touched");
    // Right settings that differ: told, and the roster is taken up.
    std::fs::write(&settings, "[owner]\nname = \"Ada\"\n").expect("the settings");
    let done = rpc().await["result"].clone();
    assert_eq!(done["restart_for"], json!(["owner"]), "{done}");
    assert_eq!(of(&done, "garden")["change"], "changed", "{done}");
    drop(household);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sql_that_no_database_takes_keeps_the_running_butler() {
    let household = with_garden(Household::new());
    let daemon = household.start().await;
    let garden = mcp(&daemon, "garden").await;
    garden.ok("plant_add", json!({"name": "sage"})).await;
    let since = daemon.butler("garden").await["since"].clone();
    // Only a database sees what is wrong: a column that is not there.
    let household = household.replace("garden/tools/plant_list.sql", "ORDER BY name", "ORDER BY nmae");
    let kept = async |household: &Household, place: &str| {
        let (code, done) = reload(household).await;
        let told = of(&done, "garden");
        assert_eq!((code, told["change"].as_str(), told["state"].as_str()), (1, Some("kept"), Some("up")), "{done}");
        assert!(told["error"].as_str().is_some_and(|why| why.contains(place)), "{told}");
        assert_eq!(garden.ok("plant_list", json!({})).await, json!([{"name": "sage"}]));
        assert_eq!(daemon.butler("garden").await["since"], since);
    };
    kept(&household, "garden/tools/plant_list.sql:6").await;
    let beds =
        |kind: &str| format!("CREATE TABLE beds (\n    name {kind} NOT NULL);\nSELECT shared.tenant_table('beds');\n");
    // A migration with a type that is none; nothing of it reaches the household's own database.
    let household = household
        .replace("garden/tools/plant_list.sql", "ORDER BY nmae", "ORDER BY name")
        .write("garden/migrations/002_beds.sql", &beds("texd"));
    kept(&household, "garden/migrations/002_beds.sql:2").await;
    // The trial leaves no trace in the log, and right SQL is taken up.
    assert!(!daemon.log().contains("a new master key was made"), "{}", daemon.log());
    let household = household.write("garden/migrations/002_beds.sql", &beds("text"));
    let (code, done) = reload(&household).await;
    assert_eq!((code, of(&done, "garden")["change"].as_str()), (0, Some("changed")), "{done}");
    assert_eq!(mcp(&daemon, "garden").await.ok("plant_list", json!({})).await, json!([{"name": "sage"}]));
}

/// Waits until so many statements wait for a lock on the garden's plants.
async fn queued_at_plants(client: &tokio_postgres::Client, many: i64) {
    let sql = "SELECT count(*) FROM pg_locks WHERE relation = 'garden.plants'::regclass AND NOT granted";
    eventually("statements wait for the plants", || async {
        let found: i64 = client.query_one(sql, &[]).await.expect("the locks").get(0);
        if found == many { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_that_loses_a_deadlock_runs_again() {
    let household = with_garden(Household::new()).write(
        "garden/migrations/002_pots.sql",
        "CREATE TABLE pots (name text NOT NULL);\nSELECT shared.tenant_table('pots');\n",
    );
    let daemon = household.start().await;
    let (watcher, first, reader) = (household.owner().await, household.owner().await, household.owner().await);
    // One reads the plants; another has read the pots, and comes to the plants after the migration has come there. The
    // server's look for deadlocks ends the migration, because the reader has never asked for one.
    first.batch_execute("BEGIN; SELECT FROM garden.plants").await.expect("read");
    reader.batch_execute("SET deadlock_timeout = '1h'; BEGIN; SELECT FROM garden.pots").await.expect("read");
    let household = household.write(
        "garden/migrations/003_wide.sql",
        "ALTER TABLE plants ADD COLUMN bed text;\nALTER TABLE pots ADD COLUMN bed text;\n",
    );
    let reloading = tokio::spawn(async move { (reload(&household).await, household) });
    queued_at_plants(&watcher, 1).await;
    let reading = tokio::spawn(async move { reader.batch_execute("SELECT FROM garden.plants; COMMIT").await });
    queued_at_plants(&watcher, 2).await;
    first.batch_execute("COMMIT").await.expect("the first is done");
    reading.await.expect("a task").expect("the reader has read both");
    let ((code, done), _household) = reloading.await.expect("a task");
    assert_eq!((code, of(&done, "garden")["state"].as_str()), (0, Some("up")), "{done}");
    daemon.logged(&["a migration lost a deadlock and runs again", "003_wide.sql"], 1).await;
    let sql = "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'garden' AND column_name = 'bed'";
    let found: i64 = watcher.query_one(sql, &[]).await.expect("the columns").get(0);
    assert_eq!(found, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_a_reload_and_a_port_is_handed_on() {
    let model = model(json!([{"when": "forever", "steps": [{"hang": true}]}])).await;
    let household = with_garden(Household::with_model(&model)).env("BUTLERD_DAEMON__SHUTDOWN_TIMEOUT", "20s").replace(
        "garden/butler.toml",
        "[butler.switchboard]",
        "[butler.shutdown]\ntimeout = \"1s\"",
    );
    let mut daemon = household.start().await;
    busy(&daemon, "garden").await;
    // One directory under another name: the same port, so that the new one waits for the old one's end.
    std::fs::rename(household.roster().join("garden"), household.roster().join("orchard")).expect("renamed");
    let household = household.replace("orchard/butler.toml", "name = \"garden\"", "name = \"orchard\"").replace(
        "orchard/butler.toml",
        "[modules.garden]",
        "[modules.orchard]",
    );
    let (code, done) = reload(&household).await;
    assert_eq!(code, 0, "{done}");
    assert_eq!((&of(&done, "garden")["change"], &of(&done, "orchard")["state"]), (&json!("removed"), &json!("up")));
    assert!(of(&done, "orchard")["ms"].as_f64() > Some(900.0), "it waited for the port: {done}");
    // A stop comes while a butler drains: it wins, and nothing is started any more.
    busy(&daemon, "orchard").await;
    let household = household.replace("orchard/butler.toml", "timeout = \"1s\"", "timeout = \"10m\"");
    let (code, done) = reload(&household).await;
    assert_eq!((code, of(&done, "orchard")["change"].as_str()), (0, Some("changed")), "{done}");
    busy(&daemon, "orchard").await;
    let household = household.replace("orchard/butler.toml", "timeout = \"10m\"", "timeout = \"9m\"");
    daemon.signal(libc::SIGHUP);
    eventually("orchard drains", || async {
        let orchard = daemon.butler("orchard").await;
        if orchard["state"] == "draining" { Ok(()) } else { Err(orchard.to_string()) }
    })
    .await;
    let started = std::time::Instant::now();
    let code = tokio::task::block_in_place(|| daemon.stop_blocking());
    assert!(code == 0 && started.elapsed() < Duration::from_secs(40), "{code} {:?}", started.elapsed());
    let daemon = household.start().await;
    assert_eq!(daemon.butler("orchard").await["state"], "up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_household_is_not_ready_while_a_butler_boots() {
    let household = Household::new();
    let daemon = household.start().await;
    daemon.ready().await;
    // Its boot stands still where it would write down its migrations.
    let client = household.owner().await;
    let hold = "BEGIN; LOCK TABLE shared.schema_migrations IN ACCESS EXCLUSIVE MODE";
    client.batch_execute(hold).await.expect("the lock");
    let household = with_garden(household);
    std::thread::scope(|scope| {
        let loading = scope.spawn(|| household.cli(&["reload", "--json"]));
        let told = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                let told = eventually("readyz says so", || async {
                    let (status, body) = daemon.get("/readyz").await;
                    let said: Value = serde_json::from_str(&body).expect("JSON");
                    // A busy machine may be another reason.
                    let reasons = said["reasons"].as_array().expect("reasons");
                    let says = status == 503 && reasons.contains(&json!("butlers"));
                    if says { Ok(body) } else { Err(format!("{status} {body}")) }
                })
                .await;
                let troubles = daemon.status().await["troubles"].to_string();
                let (_, shown, _) = household.cli(&["status"]);
                assert!(shown.lines().next().is_some_and(|line| line.ends_with(": not ready")), "{shown}");
                client.batch_execute("ROLLBACK").await.expect("the lock goes");
                (told, troubles)
            })
        });
        assert!(told.0.contains("\"butlers\"") && told.1.contains("still booting: garden"), "{told:?}");
        assert_eq!(loading.join().expect("reload").0, 0);
    });
    daemon.ready().await;
    eventually("status says so, too", || async {
        let (_, shown, _) = tokio::task::block_in_place(|| household.cli(&["status"]));
        if shown.lines().next().is_some_and(|line| line.ends_with(": ready")) { Ok(()) } else { Err(shown) }
    })
    .await;
}
