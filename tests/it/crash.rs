//! `kill -9` at seeded moments over the whole life of a trigger, then a start: nothing left, nothing lost, no hand
//! needed.

use serde_json::{Value, json};

use crate::inbound_database::{server, signal};
use crate::soak;
use crate::support::{Daemon, FAKE, Household, eventually, model};

/// A small generator, so that a failing round can be run again by its number.
fn random(seed: u64) -> u64 {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(0x1234_5678_9ABC_DEF1);
    x ^= x >> 30;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^= x >> 27;
    x.wrapping_mul(0x94D0_49BB_1331_11EB) ^ (x >> 31)
}

/// Processes that live in this household's workspaces.
fn children(household: &Household) -> Vec<i32> {
    let work = household.data().join("work");
    let work = work.to_string_lossy();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if String::from_utf8_lossy(&environ).contains(&*work) {
            found.push(pid);
        }
    }
    found
}

/// Kills all of the household's database, if one runs.
pub fn kill_postgres(household: &Household) {
    let file = household.data().join("postgres/postmaster.pid");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    if let Some(pid) = text.lines().next().and_then(|l| l.trim().parse::<i32>().ok()) {
        signal(&server(pid), libc::SIGKILL);
    }
}

const PROBE: &str = "[butler]\nname = \"tester\"\nport = 40190\ndescription = \"for tests\"\n\n[butler.runtime]\nmodel = \"scripted\"\n\n\
                     [modules.probe]\n";

/// After the kill: the next start makes it right by itself.
async fn check_recovery(household: &Household, round: &str, expect_interrupted: Option<usize>) {
    let daemon = household.start().await;
    daemon.ready().await;
    let status = daemon.status().await;
    for butler in status["butlers"].as_array().expect("butlers") {
        assert_eq!(butler["state"], "up", "{round}: {butler}");
    }
    eventually(&format!("{round}: children of the last run are gone"), || async {
        let left = children(household);
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    let probe = daemon.mcp("tester");
    let sessions = probe.ok("sessions_list", json!({"limit": 200})).await;
    let sessions = sessions.as_array().expect("a list");
    let open: Vec<&Value> = sessions.iter().filter(|s| s["completed_at"].is_null()).collect();
    assert!(open.is_empty(), "{round}: {open:?}");
    if let Some(n) = expect_interrupted {
        let interrupted = sessions.iter().filter(|s| s["state"] == "interrupted").count();
        assert_eq!(interrupted, n, "{round}: {sessions:?}");
    }
    probe.ok("state_set", json!({"key": round, "value": 1})).await;
    let left: Vec<_> = std::fs::read_dir(household.data().join("work")).expect("the directory").flatten().collect();
    assert!(left.is_empty(), "{round}: {left:?}");
}

/// Waits until the daemon has died of its crash point.
async fn died(daemon: &mut Daemon, round: &str) {
    let started = std::time::Instant::now();
    while !daemon.ended() {
        assert!(started.elapsed().as_secs() < 60, "{round}: the crash point was never passed:\n{}", daemon.log());
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_boot_and_migration() {
    let points = [
        "migration.before_history",
        "migration.after_commit",
        "cluster.initdb",
        "cluster.rename",
        "cluster.spawn",
        "cluster.started",
    ];
    for n in 0..12u64 {
        let point = points[(n as usize) % points.len()];
        // The migrations of eight butlers and `shared` are passed one after the other; hit one of them.
        let nth = if point.starts_with("migration") { 1 + random(n) % 9 } else { 1 };
        let round = format!("round {n}: {point}:{nth}");
        let household = Household::bare().butler("tester", PROBE);
        let with_point = household.env("BUTLERD_CRASH_POINT", &format!("{point}:{nth}"));
        let mut daemon = Daemon::spawn(&with_point);
        died(&mut daemon, &round).await;
        if n % 4 == 0 {
            kill_postgres(&with_point);
        }
        let household = with_point.env("BUTLERD_CRASH_POINT", "");
        check_recovery(&household, &round, Some(0)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_with_a_tool_in_flight() {
    let model = model(json!([
        {"when": "wait", "steps": [{"call": {"tool": "probe_echo", "arguments": {"text": "x", "ms": 60000}}}, {"say": "over"}]},
    ]))
    .await;
    let household = Household::few_with_model(&model).butler("tester", PROBE);
    for n in 0..20u64 {
        let round = format!("round {n}: tool in flight");
        let mut daemon = household.start().await;
        let probe = daemon.mcp("tester");
        let trigger = tokio::spawn(async move {
            // The answer never comes: the daemon dies first.
            let request = probe.call("trigger", json!({"prompt": "wait"}));
            tokio::time::timeout(std::time::Duration::from_secs(60), request).await.ok()
        });
        eventually(&round, || async {
            let running = daemon.butler("tester").await["sessions_running"].as_u64();
            if running == Some(1) && !children(&household).is_empty() { Ok(()) } else { Err(format!("{running:?}")) }
        })
        .await;
        // Somewhere between the spawn, the first request and the long call.
        tokio::time::sleep(std::time::Duration::from_millis(random(n) % 60)).await;
        if n % 3 == 0 {
            kill_postgres(&household);
        }
        daemon.kill();
        trigger.abort();
        check_recovery(&household, &round, Some(n as usize + 1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_the_steps_of_a_session() {
    let model = model(json!([
        {"when": "work", "steps": [{"call": {"tool": "state_set", "arguments": {"key": "w", "value": 1}}}, {"say": "done"}]},
    ]))
    .await;
    let household = Household::few_with_model(&model).butler("tester", PROBE);
    let points = [
        "session.opened",
        "session.running",
        "session.spawned",
        "session.final_event",
        "session.final_event",
        "session.final_event",
        "session.before_close",
    ];
    for n in 0..21u64 {
        let point = points[(n as usize) % points.len()];
        let round = format!("round {n}: {point}");
        let household = Household::clone_of(&household).env("BUTLERD_CRASH_POINT", point);
        let mut daemon = household.start().await;
        let probe = daemon.mcp("tester");
        let trigger = tokio::spawn(async move {
            let request = probe.call("trigger", json!({"prompt": "work"}));
            tokio::time::timeout(std::time::Duration::from_secs(60), request).await.ok()
        });
        died(&mut daemon, &round).await;
        if n % 5 == 0 {
            kill_postgres(&household);
        }
        trigger.abort();
        let household = household.env("BUTLERD_CRASH_POINT", "");
        // Its end was never committed, so the one session of this household is interrupted.
        check_recovery(&household, &round, Some(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_with_children_that_misbehave() {
    let household = Household::misbehaving();
    // Of another daemon, which lives on.
    let neighbours = Household::misbehaving();
    let mut neighbour = neighbours.start().await;
    let hang = |daemon: &Daemon, steps: &str| {
        let (faker, prompt) = (daemon.mcp(FAKE), soak::prompt(steps));
        tokio::spawn(async move {
            let request = faker.call("trigger", json!({"prompt": prompt}));
            tokio::time::timeout(std::time::Duration::from_secs(120), request).await.ok()
        })
    };
    // No double fork here: the one in the middle would come and go while they are counted.
    let other = hang(&neighbour, "start; fork setsid; hang");
    let untouched = eventually("the neighbour's child", || async {
        let fakes = neighbours.fakes();
        if fakes.len() == 2 { Ok(fakes) } else { Err(format!("{fakes:?}")) }
    })
    .await;
    let mut interrupted = 0;
    for kinds in [["plain", "setsid"], ["double", "hidden"], ["hopper", "double"]] {
        let round = format!("{kinds:?}");
        let mut daemon = household.start().await;
        let steps = format!("start; deaf; undying; fork {}; fork {}; hang", kinds[0], kinds[1]);
        let triggers = [hang(&daemon, &steps), hang(&daemon, &steps)];
        eventually(&format!("{round}: two children with two of their own"), || async {
            let fakes = household.fakes();
            if fakes.len() >= 5 { Ok(()) } else { Err(format!("{fakes:?}")) }
        })
        .await;
        // A process that has nothing to do with it, whose pid one of the rows names, as if it had been given anew.
        let mut stranger = std::process::Command::new("sleep").arg("1000").spawn().expect("a stranger");
        let client = household.role(FAKE).await;
        client.batch_execute("SET butlerd.tenant = 'owner'").await.expect("a setting");
        let named = format!(
            "UPDATE sessions SET pid = {} WHERE id = (SELECT min(id::text)::uuid FROM sessions WHERE state = 'running')",
            stranger.id()
        );
        assert_eq!(client.execute(&named, &[]).await.expect("an update"), 1);
        drop(client);
        daemon.kill();
        interrupted += 2;
        triggers.iter().for_each(|trigger| trigger.abort());
        let daemon = household.start().await;
        eventually(&format!("{round}: children of the last run are gone"), || async {
            let (left, work) = (household.fakes(), household.workspaces());
            if left.is_empty() && work.is_empty() { Ok(()) } else { Err(format!("{left:?} {work:?}")) }
        })
        .await;
        let sessions = daemon.mcp(FAKE).ok("sessions_list", json!({"limit": 200})).await;
        let states: Vec<&Value> = sessions.as_array().expect("a list").iter().map(|s| &s["state"]).collect();
        assert_eq!(states, vec!["interrupted"; interrupted], "{round}");
        assert!(
            stranger.try_wait().expect("its state").is_none(),
            "{round}: a process that is nobody's child was killed"
        );
        stranger.kill().and_then(|()| stranger.wait()).expect("the stranger's end");
        assert_eq!(neighbours.fakes(), untouched, "{round}: children of another daemon were touched");
        drop(daemon);
    }
    neighbour.stop_blocking();
    other.abort();
    assert_eq!(neighbours.fakes(), [0; 0]);
}
