//! One part that is broken stays one part: the others are up, and status, doctor and the log name it.

use serde_json::{Value, json};

use crate::support::{Household, ports};

fn probe(more: &str) -> String {
    format!("[butler]\nname = \"tester\"\nport = 40190\ndescription = \"for tests\"\n\n{more}\n")
}

async fn others_are_up(daemon: &crate::support::Daemon, but: &str) {
    let status = daemon.status().await;
    for butler in status["butlers"].as_array().expect("butlers") {
        if butler["name"] != but {
            assert_eq!(butler["state"], "up", "{butler}");
        }
    }
    daemon.ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_butler_toml_parks_that_butler_alone() {
    let household = Household::whole().replace("travel/butler.toml", "port = 40106", "port = \"no\"").replace(
        "travel/butler.toml",
        "max_queued = 20",
        "max_queud = 20",
    );
    let daemon = household.start().await;
    others_are_up(&daemon, "travel").await;
    let travel = daemon.butler("travel").await;
    assert_eq!(travel["state"], "parked");
    daemon.logged(&["max_queud"], 1).await;
    for told in [travel["error"].as_str().unwrap_or_default(), &daemon.log(), &household.cli(&["doctor"]).1] {
        assert!(told.contains("travel/butler.toml:3") && told.contains("butler.port"), "{told}");
        assert!(told.contains("max_queud"), "{told}");
    }
    let (code, out, err) = household.cli(&["check"]);
    assert_eq!(code, 2, "{out}{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_core_butler_that_is_broken_makes_the_household_not_ready() {
    let household = Household::few().replace("switchboard/butler.toml", "max_queued = 20", "max_queud = 20");
    let daemon = household.start().await;
    let (code, body) = daemon.get("/readyz").await;
    let ready: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((code, &ready["ready"], &ready["reasons"]), (503, &json!(false), &json!(["butlers"])), "{body}");
    assert_eq!(ready["butlers"]["switchboard"]["state"], "parked", "{body}");
    assert_eq!(ready["butlers"]["messenger"]["state"], "up", "{body}");
    // The command line says the same, and why.
    let (_, out, err) = household.cli(&["status"]);
    assert!(out.lines().next().is_some_and(|line| line.ends_with(": not ready")), "{out}{err}");
    assert!(out.contains("not up, and every household needs it: switchboard"), "{out}{err}");
    assert!(out.contains("max_queud"), "{out}{err}");
    let (_, out, err) = household.cli(&["status", "--json"]);
    let status: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
    assert_eq!(status["ready"], ready["ready"], "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_module_fails_alone_in_each_phase() {
    for (phase, word) in [
        ("config", "asked to fail in phase config"),
        ("credentials", "PROBE_CREDENTIAL"),
        ("migration", "no_such_column"),
        ("startup", "asked to fail in phase startup"),
        ("tools", "asked to fail in phase tools"),
    ] {
        let toml = probe(&format!("[modules.probe]\nfail_in = \"{phase}\"\n\n[modules.probe_child]\n"));
        let household = Household::new().butler("tester", &toml);
        let daemon = household.start().await;
        others_are_up(&daemon, "").await;
        let status = daemon.butler("tester").await;
        let failed = &status["modules"]["probe"];
        assert_eq!(failed["health"], "failed", "{phase}: {status}");
        assert_eq!(failed["failure_phase"], phase);
        assert!(failed["failure_error"].as_str().is_some_and(|e| e.contains(word)), "{phase}: {failed}");
        let above = &status["modules"]["probe_child"];
        assert_eq!(above["health"], "cascade_failed", "{phase}: {status}");
        assert!(above["failure_error"].as_str().is_some_and(|e| e.contains("probe")), "{above}");
        let tools = daemon.mcp("tester").tools().await;
        assert!(!tools.iter().any(|t| t.starts_with("probe")), "{phase}: {tools:?}");
        assert!(tools.contains(&"state_get".to_owned()));
        daemon.logged(&[word], 1).await;
        let doctor = household.cli(&["doctor"]);
        assert!(doctor.1.contains("probe") && doctor.1.contains(word), "{phase}: {}{}", doctor.1, doctor.2);
        let refused = daemon.mcp("tester").ok("module.set_enabled", json!({"name": "probe", "enabled": false})).await;
        assert_eq!(refused["code"], "module_failed", "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_is_undeclared_or_taken_fails_its_module() {
    for (more, word) in
        [("undeclared = \"probe_extra\"", "does not declare"), ("tool = \"state_get\"", "belongs to butlerd's core")]
    {
        let household = Household::new().butler("tester", &probe(&format!("[modules.probe]\n{more}\n")));
        let daemon = household.start().await;
        let failed = daemon.butler("tester").await["modules"]["probe"].clone();
        assert_eq!(failed["failure_phase"], "tools", "{failed}");
        assert!(failed["failure_error"].as_str().is_some_and(|e| e.contains(word)), "{failed}");
        // The core tool still is the core's own.
        assert_eq!(daemon.mcp("tester").ok("state_get", json!({"key": "k"})).await["value"], Value::Null);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_sql_tool_with_a_wrong_column_fails_the_roster_module_with_file_and_line() {
    let sql = "/*---\ndescription: d\nargs:\n  kind: {type: string}\nreturns: rows\n---*/\nSELECT id,\n  no_such_column\n\
               FROM measurements WHERE kind = :kind::text\n";
    let household = Household::new().write("health/tools/broken_one.sql", sql);
    let daemon = household.start().await;
    others_are_up(&daemon, "").await;
    let failed = daemon.butler("health").await["modules"]["health"].clone();
    assert_eq!(failed["failure_phase"], "tools", "{failed}");
    let error = failed["failure_error"].as_str().expect("an error");
    assert!(error.contains("broken_one.sql:8") && error.contains("no_such_column"), "{error}");
    daemon.logged(&["broken_one.sql:8"], 1).await;
    let tools = daemon.mcp("health").tools().await;
    assert!(!tools.iter().any(|t| t.starts_with("measurement")), "{tools:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_in_use_parks_that_butler_alone() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its address").port();
    // Ports from the roster, every one of them free but one.
    let ports = ports::free(7);
    let names = ["switchboard", "general", "relationship", "health", "messenger", "finance", "travel"];
    let mut household = Household::whole()
        .env("BUTLERD_DAEMON__PORTS", "roster")
        .env("BUTLERD_ADMIN__LISTEN", &format!("127.0.0.1:{}", ports[6]));
    for (n, name) in names.iter().enumerate() {
        let new = if *name == "travel" { port } else { ports[n.min(5)] };
        household = household.replace(
            &format!("{name}/butler.toml"),
            &format!("port = {}", 40100 + n),
            &format!("port = {new}"),
        );
    }
    // `messenger` is 40104, `finance` 40105: the roster's order of ports.
    let daemon = household.start().await;
    others_are_up(&daemon, "travel").await;
    let travel = daemon.butler("travel").await;
    assert_eq!(travel["state"], "parked", "{travel}");
    assert_eq!(travel["failed_phase"], "port");
    let error = travel["error"].as_str().expect("an error");
    assert!(error.contains(&port.to_string()) && error.contains("another program"), "{error}");
    daemon.logged(&[error], 1).await;
    let (_, report, _) = tokio::task::block_in_place(|| household.cli(&["doctor"]));
    let held = report.lines().find(|line| line.contains(&format!("127.0.0.1:{port}, for travel, is held by ")));
    let held = held.unwrap_or_else(|| panic!("{report}"));
    assert!(held.contains(&std::process::id().to_string()), "{held}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disabled_module_stays_listed_refuses_and_stays_disabled() {
    let household = Household::new();
    let mut daemon = household.start().await;
    let health = daemon.mcp("health");
    let before = health.tools().await;
    health.ok("module.set_enabled", json!({"name": "health", "enabled": false})).await;
    assert_eq!(health.tools().await, before, "tools/list changed");
    let refused = health.ok("measurement_latest", json!({"kind": "weight"})).await;
    assert_eq!(refused["code"], "module_disabled", "{refused}");
    assert_eq!(daemon.stop_blocking(), 0);
    let daemon = household.start().await;
    let health = daemon.mcp("health");
    assert_eq!(health.ok("module.states", json!({})).await["health"]["enabled"], false);
    assert_eq!(health.ok("measurement_latest", json!({"kind": "weight"})).await["code"], "module_disabled");
    health.ok("module.set_enabled", json!({"name": "health", "enabled": true})).await;
    assert_eq!(health.ok("measurement_latest", json!({"kind": "weight"})).await["found"], false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_sees_jobs_and_gates_without_a_database() {
    let entry = |name: &str, job: &str, more: &str| {
        format!(
            "[[butler.schedule]]\nname = \"{name}\"\ncron = \"0 8 * * *\"\ndispatch_mode = \"job\"\n\
             job_name = \"{job}\"\n{more}\n"
        )
    };
    let toml = probe(
        &[
            entry("there", "good", "job_args = { days = 3 }\n"),
            entry("tidy", "tidy", ""),
            entry("gone", "nowhere", ""),
            entry("odd", "good", "job_args = { dais = 3 }\n"),
            "[modules.tester]\n\n[modules.probe]\n\n[modules.approvals.gated_tools.notify]\n\n".to_owned(),
            "[modules.approvals.gated_tools.probe_echo]\n\n[modules.approvals.gated_tools.own]\n\n".to_owned(),
            "[modules.approvals.gated_tools.pending_action_count]\n\n[modules.approvals.gated_tools.paint]\n"
                .to_owned(),
        ]
        .concat(),
    );
    let good = "/*---\ndescription: d\nargs:\n  days: {type: integer, required: true}\nprompt: Look.\n---*/\n\
                SELECT 1 AS n WHERE :days::int > 0\n";
    let own = "/*---\ndescription: d\nreturns: rows\nmeta: {reads_private: false}\n---*/\nSELECT 1 AS n\n";
    let household = Household::bare()
        .butler("tester", &toml)
        .write("tester/jobs/good.sql", good)
        .write("tester/tools/own.sql", own);
    let told = |household: &Household| {
        let (code, out, err) = household.cli(&["check", "--offline", "--json"]);
        let said: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
        let list = said["mistakes"].as_array().cloned().unwrap_or_default();
        (
            code,
            list.iter()
                .map(|m| (m["line"].as_u64(), m["key"].as_str().unwrap_or_default().to_owned(), m.clone()))
                .collect::<Vec<_>>(),
        )
    };
    let line_of = |text: &str| toml.lines().position(|l| l.contains(text)).map(|n| n as u64 + 1);
    let (code, found) = told(&household);
    let keys: Vec<(Option<u64>, &str)> = found.iter().map(|(line, key, _)| (*line, key.as_str())).collect();
    let wanted = [
        (line_of("nowhere"), "butler.schedule[2].job_name"),
        (line_of("dais"), "butler.schedule[3].job_args"),
        (line_of("paint"), "modules.approvals.gated_tools.paint"),
    ];
    assert_eq!((code, keys), (2, wanted.to_vec()), "{found:?}");
    assert!(found[0].2["problem"].as_str().is_some_and(|p| p.contains("jobs/nowhere.sql")), "{found:?}");
    assert!(found[1].2["problem"].as_str().is_some_and(|p| p.contains("da")), "{found:?}");
    assert!(found[2].2["expected"].as_str().is_some_and(|p| p.contains("butlerd tool list tester")), "{found:?}");
    // Broken files are named with their line, as people would call them.
    let files: [(&str, String, u64, &str); 5] = [
        ("jobs/one.sql", good.replace("prompt: Look.\n", ""), 1, "either notify or prompt"),
        ("jobs/two.sql", good.replace(":days::int", ":nights::int"), 7, "nights"),
        ("jobs/three.sql", good.replace("SELECT 1 AS n", "DELETE FROM state"), 7, "only reads"),
        ("jobs/four.sql", good.replace("1 AS n", "now() AS n"), 7, "now"),
        ("tools/five.sql", own.replace("returns: rows", "returns: everything"), 1, "everything"),
    ];
    for (file, text, line, why) in files {
        let wrong =
            Household::bare().butler("tester", &probe("[modules.tester]\n")).write(&format!("tester/{file}"), &text);
        let (code, found) = told(&wrong);
        let [(at, _, mistake)] = &found[..] else { panic!("{file}: {found:?}") };
        let said = mistake["problem"].as_str().unwrap_or_default();
        let named = mistake["file"].as_str().is_some_and(|f| f.ends_with(&format!("roster/tester/{file}")));
        assert!(code == 2 && named && at.is_some_and(|at| at >= line) && said.contains(why), "{file}: {found:?}");
        let (_, doctor, _) = wrong.cli(&["doctor"]);
        assert!(doctor.contains(file), "{file}: {doctor}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tools_that_butlers_have_by_themselves_are_known_without_one() {
    let household = Household::new();
    let daemon = household.start().await;
    for name in ["messenger", "switchboard"] {
        let mut tools = daemon.mcp(name).tools().await;
        // These come with skills.
        tools.retain(|tool| !tool.starts_with("skill_"));
        tools.sort();
        let mut known = butler::own_tools(name);
        // This one comes with a council.
        known.retain(|tool| *tool != "council_ask");
        known.sort_unstable();
        assert_eq!(tools, known, "{name}");
    }
}
