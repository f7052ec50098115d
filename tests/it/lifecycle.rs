//! Stopping, draining, restarting, and a database that goes away.

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Daemon, Household, eventually, model};

async fn exited(mut daemon: Daemon) -> i32 {
    tokio::task::spawn_blocking(move || daemon.stop_blocking()).await.expect("the stop")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_waits_for_sessions_and_ends_those_that_take_too_long() {
    let model = model(json!([
        {"when": "quick", "steps": [{"call": {"tool": "probe_echo", "arguments": {"ms": 5000}}}, {"say": "finished"}]},
        {"when": "forever", "steps": [{"hang": true}]},
    ]))
    .await;
    let probe = |n: &str, port: u16, timeout: &str| {
        format!(
            "[butler]\nname = \"{n}\"\nport = {port}\ndescription = \"t\"\n\n[butler.runtime]\nmodel = \"m\"\n\n\
             [butler.shutdown]\ntimeout = \"{timeout}\"\n\n[modules.probe]\n"
        )
    };
    let household = Household::with_model(&model)
        .butler("patient", &probe("patient", 40190, "20s"))
        .butler("strict", &probe("strict", 40191, "500ms"));
    let daemon = household.start().await;
    let (patient, strict) = (daemon.mcp("patient"), daemon.mcp("strict"));
    // The one that does not end by itself first: whatever time its start takes, the other is not over by then.
    let forever = tokio::spawn(async move { strict.call("trigger", json!({"prompt": "forever"})).await });
    eventually("one hangs", || async {
        let asked = model.requests().len();
        if asked > 0 { Ok(()) } else { Err(daemon.butler("strict").await.to_string()) }
    })
    .await;
    let quick = tokio::spawn(async move { patient.call("trigger", json!({"prompt": "quick"})).await });
    eventually("both sessions run", || async {
        let (a, b) = (daemon.butler("patient").await, daemon.butler("strict").await);
        let running = (a["sessions_running"].as_u64(), b["sessions_running"].as_u64());
        // The child of the quick one is at its tool, so that the stop meets it there.
        let asked = model.requests().iter().filter(|r| r.answer.contains("probe_echo")).count();
        if running == (Some(1), Some(1)) && asked > 0 { Ok(()) } else { Err(format!("{running:?} {asked}")) }
    })
    .await;
    assert_eq!(exited(daemon).await, 0);
    let finished = quick.await.expect("an answer").result();
    assert_eq!((&finished["success"], &finished["output"]), (&json!(true), &json!("finished")), "{finished}");
    let ended = forever.await.expect("an answer").result();
    assert_eq!(ended["success"], false, "{ended}");
    let daemon = household.start().await;
    let sessions = daemon.mcp("strict").ok("sessions_list", json!({})).await;
    assert_eq!(sessions[0]["state"], "interrupted", "{sessions}");
    assert_eq!(daemon.butler("strict").await["interrupted_sessions"], 0, "it was closed by the stop itself");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_butler_takes_no_new_work() {
    let household = Household::new();
    let daemon = household.start().await;
    let general = daemon.mcp("general");
    let started = Instant::now();
    assert_eq!(exited(daemon).await, 0);
    assert!(started.elapsed() < Duration::from_secs(20));
    let refused = std::panic::AssertUnwindSafe(async { general.call("status", json!({})).await });
    assert!(futures_util::FutureExt::catch_unwind(refused).await.is_err(), "the port still answers");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_butler_whose_task_dies_is_started_again_and_parked_when_it_keeps_dying() {
    let household = Household::whole().env("BUTLERD_PANIC_POINT", "butler.travel:2");
    let daemon = household.start().await;
    let travel = eventually("travel comes back", || async {
        let travel = daemon.butler("travel").await;
        if travel["state"] == "up" && travel["restarts"] == 2 { Ok(travel) } else { Err(travel.to_string()) }
    })
    .await;
    assert_eq!(travel["error"], Value::Null);
    assert_eq!(daemon.butler("general").await["restarts"], 0);
    drop(daemon);
    let household = household.env("BUTLERD_PANIC_POINT", "butler.travel:100");
    let daemon = household.start().await;
    let travel = eventually("travel is parked", || async {
        let travel = daemon.butler("travel").await;
        if travel["state"] == "parked" { Ok(travel) } else { Err(travel.to_string()) }
    })
    .await;
    assert_eq!(travel["restarts"], 5, "{travel}");
    assert!(travel["error"].as_str().is_some_and(|e| e.contains("given up")), "{travel}");
    assert_eq!(daemon.butler("health").await["state"], "up");
    // The core butlers are up.
    daemon.ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_daemon_outlives_its_database() {
    let household = Household::new();
    let daemon = household.start().await;
    let general = daemon.mcp("general");
    general.ok("state_set", json!({"key": "before", "value": 1})).await;
    let pid = std::fs::read_to_string(household.data().join("postgres/postmaster.pid")).expect("the pid file");
    let pid: i32 = pid.lines().next().and_then(|l| l.parse().ok()).expect("a pid");
    unsafe { libc::kill(pid, libc::SIGKILL) };
    daemon.logged(&["the embedded database is down"], 1).await;
    // Meanwhile a call may fail, with a sentence and without losing what it was told was done.
    eventually("the database is back", || async {
        let answer = general.call("state_set", json!({"key": "after", "value": 2})).await;
        if answer.body["result"]["isError"] == json!(true) {
            let code = answer.text()["code"].clone();
            assert!(code == "unavailable" || code == "outcome_unknown", "{answer:?}");
            return Err(answer.text().to_string());
        }
        Ok(())
    })
    .await;
    assert_eq!(general.ok("state_get", json!({"key": "before"})).await["value"], 1);
    eventually("the household is ready again", || async {
        let status = daemon.status().await;
        if status["ready"] == true { Ok(()) } else { Err(status["troubles"].to_string()) }
    })
    .await;
    let log = general.ok("state_list", json!({})).await;
    assert_eq!(log, json!(["after", "before"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn systemd_is_told_ready_status_watchdog_and_stopping() {
    let household = Household::whole();
    let path = household.path().join("notify.sock");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let household = household.env("NOTIFY_SOCKET", path.to_str().expect("a path")).env("WATCHDOG_USEC", "400000");
    let daemon = household.start().await;
    let pid = daemon.pid();
    let (messages, mut daemon) = tokio::task::spawn_blocking(move || {
        let mut seen = String::new();
        let mut buffer = [0u8; 4096];
        let mut stopping = false;
        while !(seen.contains("STOPPING=1")) {
            let n = socket.recv(&mut buffer).expect("a message");
            seen.push_str(&String::from_utf8_lossy(&buffer[..n]));
            seen.push('\n');
            if seen.matches("WATCHDOG=1").count() >= 2 && !stopping {
                stopping = true;
                daemon.signal(libc::SIGTERM);
            }
        }
        (seen, daemon)
    })
    .await
    .expect("the messages");
    assert!(messages.contains("READY=1"), "{messages}");
    assert!(messages.contains("STATUS=7 of 7 butlers up"), "{messages}");
    assert!(messages.find("READY=1") < messages.find("WATCHDOG=1"), "{messages}");
    assert_eq!(daemon.pid(), pid);
    // A second signal would end it at once.
    tokio::task::spawn_blocking(move || daemon.wait_end()).await.expect("its end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_daemon_on_the_same_data_is_refused_with_a_sentence() {
    let household = Household::new();
    let daemon = household.start().await;
    let (code, out, err) = household.cli(&["serve"]);
    assert_eq!(code, 1, "{out}{err}");
    assert!(err.contains(&daemon.pid().to_string()), "it names the other: {err}");
    assert_eq!(daemon.mcp("general").call("status", json!({})).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_butler_whose_loop_panics_is_started_again() {
    let model = model(json!([{"when": "anything", "steps": [{"say": "done"}]}])).await;
    let household = Household::with_model(&model).env("BUTLERD_PANIC_POINT", "queue.routed.general:1");
    let daemon = household.start().await;
    eventually("it is up again", || async {
        let general = daemon.butler("general").await;
        match (general["state"].as_str(), general["restarts"].as_u64()) {
            (Some("up"), Some(1)) => Ok(()),
            _ => Err(general.to_string()),
        }
    })
    .await;
    daemon.logged(&["its task routed panicked"], 1).await;
    let port =
        daemon.butler("general").await["port"].as_u64().and_then(|port| u16::try_from(port).ok()).expect("a port");
    let general = crate::support::Mcp::new(port, Some(daemon.token()));
    let ended = general.ok("trigger", json!({"prompt": "anything"})).await;
    assert_eq!(ended["success"], true, "{ended}");
    assert_eq!(exited(daemon).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_the_daemon_at_once() {
    let model = model(json!([{"when": "forever", "steps": [{"hang": true}]}])).await;
    let household = Household::with_model(&model);
    let mut daemon = household.start().await;
    let general = daemon.mcp("general");
    let hangs = tokio::spawn(async move {
        let call = std::panic::AssertUnwindSafe(general.call("trigger", json!({"prompt": "forever"})));
        drop(futures_util::FutureExt::catch_unwind(call).await);
    });
    eventually("it runs", || async {
        let running = daemon.butler("general").await["sessions_running"].clone();
        if running == 1 { Ok(()) } else { Err(running.to_string()) }
    })
    .await;
    daemon.signal(libc::SIGTERM);
    daemon.logged(&["stopping"], 1).await;
    let asked = Instant::now();
    daemon.signal(libc::SIGTERM);
    let (code, log) = tokio::task::spawn_blocking(move || (daemon.wait_end(), daemon.log())).await.expect("its end");
    assert!(asked.elapsed() < Duration::from_secs(5), "it took {:?}", asked.elapsed());
    assert!(code == 1 && log.contains("a second signal"), "{code} {log}");
    hangs.await.expect("the caller");
    // The next start makes it right.
    let daemon = household.start().await;
    let sessions = daemon.mcp("general").ok("sessions_list", json!({})).await;
    assert_eq!(sessions[0]["state"], "interrupted", "{sessions}");
    assert_eq!(exited(daemon).await, 0);
}
