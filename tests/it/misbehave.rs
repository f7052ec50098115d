//! Children that misbehave, one way after the other: the session's state and class say what happened, it ends in time,
//! and nothing of it is left.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::soak::{self, proc};
use crate::support::{Daemon, FAKE, Household, eventually};

/// Runs one session of these steps. Its row, with the `output` of the trigger as `report` where that is JSON.
async fn session(daemon: &Daemon, steps: &str) -> Value {
    let faker = daemon.mcp(FAKE);
    let done = faker.ok("trigger", json!({"prompt": soak::prompt(steps)})).await;
    let mut row = faker.ok("sessions_get", json!({"session_id": done["session_id"]})).await;
    assert!(row["completed_at"].is_string(), "{steps}: {done} {row}");
    if let Some(report) = done["output"].as_str().and_then(|o| serde_json::from_str(o).ok()) {
        row["report"] = report;
    }
    row
}

/// What the step that begins so found; fails the test where it was refused.
fn found<'a>(row: &'a Value, step: &str) -> &'a Value {
    let one = reported(row, step);
    assert_eq!(one["ok"], true, "{one}");
    &one["found"]
}

fn reported<'a>(row: &'a Value, step: &str) -> &'a Value {
    let steps = row["report"]["steps"].as_array().unwrap_or_else(|| panic!("no report: {row}"));
    steps.iter().find(|s| s["step"].as_str().is_some_and(|s| s.starts_with(step))).unwrap_or_else(|| panic!("{row}"))
}

/// What a daemon holds that has just run a session.
struct Rest {
    descriptors: std::collections::BTreeMap<String, usize>,
}

impl Rest {
    async fn of(daemon: &Daemon) -> Self {
        // Where sessions have little time, a busy machine may need it for the start of one.
        eventually("a session ends well", || async {
            let row = session(daemon, "start; finish well").await;
            match (&row["state"], &row["result"]) {
                (state, result) if state == "succeeded" && result == "well" => Ok(()),
                (state, _) if state == "timed_out" => Err(row.to_string()),
                _ => panic!("{row}\n{}", daemon.log()),
            }
        })
        .await;
        Self { descriptors: proc::descriptors(daemon.pid()) }
    }

    /// Waits until nothing is left of any session. The row is closed: 5 s are what the rest may take.
    async fn again(&self, what: &str, household: &Household, daemon: &Daemon) {
        let ended = Instant::now();
        eventually(&format!("{what}: nothing is left"), || async {
            let (fakes, zombies, work) = (household.fakes(), household.zombies(daemon), household.workspaces());
            // Connections to the database come and go by themselves.
            let mut now = proc::descriptors(daemon.pid());
            let mut before = self.descriptors.clone();
            now.remove("socket");
            before.remove("socket");
            let same = now == before;
            if fakes.is_empty() && zombies.is_empty() && work.is_empty() && same {
                return Ok(());
            }
            Err(format!("processes {fakes:?}, zombies {zombies:?}, {work:?}, {now:?} (before: {before:?})"))
        })
        .await;
        assert!(ended.elapsed() < Duration::from_secs(5), "{what}: it took {:?}", ended.elapsed());
    }
}

/// One way to misbehave: steps, the session's state, its error class, words of its error, and the milliseconds that it
/// may take.
type Way<'a> = (&'a str, &'a str, Option<&'a str>, &'a str, u64);

async fn all_end_as_they_should(household: Household, ways: &[Way<'_>]) {
    let daemon = household.start().await;
    let rest = Rest::of(&daemon).await;
    for (steps, state, class, words, ms) in ways {
        let row = session(&daemon, steps).await;
        assert_eq!((&row["state"], &row["error_class"]), (&json!(state), &json!(class)), "{steps}: {row}");
        assert!(row["error"].as_str().unwrap_or_default().contains(words), "{steps}: {row}");
        let took = row["duration_ms"].as_u64().expect("a duration");
        assert!(took <= *ms, "{steps}: {took} ms; at most {ms}");
        rest.again(steps, &household, &daemon).await;
    }
}

/// The same, with a limit of two seconds for those sessions alone that are to come to it: a start may take as long on a
/// busy machine.
async fn all_end_in_time(ways: &[Way<'_>]) {
    let (late, soon): (Vec<Way<'_>>, Vec<Way<'_>>) = ways.iter().copied().partition(|way| way.1 == "timed_out");
    all_end_as_they_should(Household::misbehaving().session_timeout("2s"), &late).await;
    all_end_as_they_should(Household::misbehaving(), &soon).await;
}

/// What a busy machine may add to a limit, in milliseconds.
const SLACK: u64 = 5000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_end_has_its_state() {
    let soon = SLACK;
    // The session's own time, and a second of grace after SIGTERM.
    let late = 2000 + 1000 + SLACK;
    let ways: &[Way<'_>] = &[
        ("start; exit 0", "failed", Some("crashed"), "ended (exit 0) without its final event", soon),
        ("start; half; exit 0", "failed", Some("crashed"), "(exit 0) without its final event", soon),
        ("start; half; die 9", "failed", Some("killed"), "ended (SIGKILL)", soon),
        ("start; die 11", "failed", Some("crashed"), "ended (SIGSEGV)", soon),
        ("start; die 6", "failed", Some("crashed"), "SIGABRT: it broke down by itself", soon),
        ("start; exit 134", "failed", Some("crashed"), "(exit 134) without its final event", soon),
        ("start; exit 134", "failed", Some("crashed"), "see whether it works with [spawner] sandbox = \"off\"", soon),
        ("start; finish done; exit 3", "succeeded", None, "", soon),
        ("start; finish done; mute; exit 3", "succeeded", None, "", soon),
        // A second after its final event it is killed, deaf or not.
        ("start; deaf; finish done; hang", "succeeded", None, "", 1000 + SLACK),
        ("start; finish done; stop", "succeeded", None, "", 1000 + SLACK),
        ("start failed; finish done", "failed", Some("mcp_unreachable"), "could not reach", soon),
        ("start failed; deaf; hang", "failed", Some("mcp_unreachable"), "could not reach", 1000 + soon),
        ("start; hang", "timed_out", Some("timed_out"), "session_timeout", late),
        ("start; deaf; hang", "timed_out", Some("timed_out"), "session_timeout", late),
        ("deaf; mute; hang", "timed_out", Some("timed_out"), "session_timeout", late),
        ("start; stop; hang", "timed_out", Some("timed_out"), "session_timeout", late),
        ("no such step", "failed", Some("crashed"), "its last words: there is no step", soon),
    ];
    all_end_in_time(ways).await;
}

/// The grace that people have who set none: five seconds, as `config/butlerd.toml` says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deaf_child_has_the_default_grace_and_not_more() {
    // Deaf before its time is over, on a busy machine as well.
    let household = Household::misbehaving().without("BUTLERD_SPAWNER__KILL_GRACE").session_timeout("6s");
    let daemon = household.start().await;
    let rest = Rest::of(&daemon).await;
    let least = 6000 + 5000;
    for steps in ["start; deaf; hang", "start; deaf; fork hidden; hang"] {
        let row = session(&daemon, steps).await;
        assert_eq!((&row["state"], &row["error_class"]), (&json!("timed_out"), &json!("timed_out")), "{steps}: {row}");
        let took = row["duration_ms"].as_u64().expect("a duration");
        assert!((least..=least + SLACK).contains(&took), "{steps}: {took} ms; {least} and at most {SLACK} more");
        rest.again(steps, &household, &daemon).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_descendant_outlives_its_session() {
    let soon = SLACK;
    let late = 2000 + 1000 + SLACK;
    let mut ways: Vec<(String, &str, Option<&str>, u64)> = Vec::new();
    for kind in ["plain", "setsid", "double", "hidden"] {
        ways.push((format!("start; fork {kind}; finish done"), "succeeded", None, soon));
        ways.push((format!("start; fork {kind}; exit 0"), "failed", Some("crashed"), soon));
        ways.push((format!("start; fork {kind}; die 9"), "failed", Some("killed"), soon));
    }
    for kind in ["setsid", "double", "hidden", "unmarked", "hopper"] {
        ways.push((format!("start; deaf; fork {kind}; hang"), "timed_out", Some("timed_out"), late));
    }
    ways.push(("start; finish done; fork loud; exit 0".into(), "succeeded", None, soon));
    let many = "; fork double; fork plain; fork hidden".repeat(8);
    ways.push((format!("start{many}; finish done"), "succeeded", None, soon));
    let ways: Vec<Way<'_>> =
        ways.iter().map(|(steps, state, class, ms)| (steps.as_str(), *state, *class, "", *ms)).collect();
    all_end_in_time(&ways).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_ends_the_session_and_not_the_daemon() {
    // The flood is to end it, not the clock, however slow the machine is just now.
    let household = Household::misbehaving().session_timeout("15m");
    let daemon = household.start().await;
    let rest = Rest::of(&daemon).await;
    let before = proc::memory(daemon.pid(), "VmRSS");
    let flood = "flood both 104857600";
    for (steps, state) in [
        (format!("start; {flood} words; hang"), "failed"),
        (format!("start; {flood} line; hang"), "failed"),
        (format!("start; {flood} events; hang"), "failed"),
        (format!("start; {flood} wide; hang"), "failed"),
        ("start; flood stderr 104857600 line; hang".to_owned(), "failed"),
        (format!("start; finish done; {flood} wide; hang"), "succeeded"),
    ] {
        let row = session(&daemon, &steps).await;
        assert_eq!(row["state"], state, "{steps}: {row}");
        let error = row["error"].as_str().unwrap_or_default();
        assert!(state == "succeeded" || error.contains("wrote more output"), "{steps}: {row}");
        rest.again(&steps, &household, &daemon).await;
        let (most, now) = (proc::memory(daemon.pid(), "VmHWM"), proc::memory(daemon.pid(), "VmRSS"));
        println!("{steps}: resident {before} KiB before, at most {most}, now {now}");
        assert!(most - before < 96 << 10, "{steps}: {before} KiB before, at most {most}, now {now}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_beyond_the_limit_is_refused() {
    let household = Household::misbehaving().env("BUTLERD_SPAWNER__LIMITS__MEMORY", "256 MiB");
    all_end_as_they_should(
        household,
        &[("start; eat 2000000000; finish done", "failed", Some("crashed"), "no more memory after", SLACK)],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workspace_goes_however_it_was_left() {
    all_end_as_they_should(Household::misbehaving(), &[("start; litter; finish done", "succeeded", None, "", SLACK)])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_caller_is_ended() {
    let steps = "start; call-forever probe_echo {\"text\": \"again\"}";
    let way = (steps, "failed", Some("runaway"), "5 times in a row", 1000 + SLACK);
    all_end_as_they_should(Household::misbehaving(), &[way]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_butlers_token_opens_nothing() {
    let household = Household::misbehaving();
    let toml = std::fs::read_to_string(household.roster().join("faker/butler.toml")).expect("the file");
    let household = household.butler("second", &toml.replace("faker", "second").replace("40191", "40192"));
    let daemon = household.start().await;
    let rest = Rest::of(&daemon).await;
    let second = daemon.mcp("second");
    let hanging = tokio::spawn(async move { second.call("trigger", json!({"prompt": "do start\ndo hang"})).await });
    // What a thief could have got hold of: the token of a session that runs.
    let (stolen, id) = eventually("the second butler's session", || async {
        let pid = *household.fakes().first().ok_or("no process")?;
        let environ = std::fs::read(format!("/proc/{pid}/environ")).map_err(|e| e.to_string())?;
        let environ = String::from_utf8_lossy(&environ).into_owned();
        let servers = environ.split('\0').find_map(|v| v.strip_prefix("MCP_SERVERS=")).ok_or("no servers")?;
        let servers: Value = serde_json::from_str(servers).map_err(|e| e.to_string())?;
        let server = &servers["mcpServers"]["butler"];
        let token = server["headers"]["Authorization"].as_str().and_then(|h| h.strip_prefix("Bearer "));
        let id = server["url"].as_str().and_then(|u| u.split("runtime_session_id=").nth(1));
        Ok((token.ok_or("no token")?.to_owned(), id.ok_or("no id")?.to_owned()))
    })
    .await;
    let address = format!("127.0.0.1:{}", daemon.port("second"));
    // In parts: whole, it would be hidden from the thief's prompt.
    let stolen = format!("{}+{}", &stolen[..10], &stolen[10..]);
    let steps = format!(
        "start; http own {stolen} sessions_list; http {address} own sessions_list; http own nonsense sessions_list; \
         http own own sessions_list; finish"
    );
    let row = session(&daemon, &steps).await;
    assert_eq!(reported(&row, "http own")["error"], "HTTP 403", "{row}");
    assert_eq!(reported(&row, "http own nonsense")["error"], "HTTP 401", "{row}");
    // Where it may not even connect there, that is as good.
    let elsewhere = &reported(&row, &format!("http {address}"))["error"];
    assert!(elsewhere == "HTTP 403" || elsewhere == "EACCES", "{row}");
    found(&row, "http own own");
    let (code, out, err) = household.cli(&["sessions", "cancel", &id]);
    assert_eq!(code, 0, "{out}{err}");
    let ended = hanging.await.expect("an answer").result();
    assert_eq!(ended["error_class"], "cancelled", "{ended}");
    let row = session(&daemon, &format!("start; http own {stolen} sessions_list; finish")).await;
    assert_eq!(reported(&row, "http own")["error"], "HTTP 401", "a token must die with its session: {row}");
    rest.again("tokens", &household, &daemon).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_its_own_stays_as_it_is() {
    let household = Household::misbehaving();
    let daemon = household.start().await;
    let rest = Rest::of(&daemon).await;
    let (data, roster) = (household.data(), household.roster());
    let before = std::fs::read_to_string(roster.join("faker/butler.toml")).expect("the file");
    let mut steps = vec!["start".to_owned(), "write ~/mine".to_owned(), "read ~/mine".to_owned()];
    let foreign = [
        data.join("run/operator.token"),
        data.join("work/other"),
        data.join("master.key"),
        data.join("postgres/PG_VERSION"),
        roster.join("faker/butler.toml"),
        roster.join("faker/new.md"),
        "/etc/passwd".into(),
        "/usr/bin/new".into(),
    ];
    for path in &foreign {
        steps.push(format!("write {}", path.display()));
    }
    for path in [data.join("run/operator.token"), data.join("master.key"), "/etc/shadow".into()] {
        steps.push(format!("read {}", path.display()));
    }
    steps.push(format!("list {}", data.join("work").display()));
    steps.push("finish".to_owned());
    let row = session(&daemon, &steps.join("; ")).await;
    assert_eq!(row["state"], "succeeded", "{row}");
    found(&row, "write ~/mine");
    found(&row, "read ~/mine");
    for step in steps.iter().filter(|s| s.contains(" /")) {
        let one = reported(&row, step);
        let refused = ["EACCES", "EPERM", "EROFS"].iter().any(|e| one["error"] == *e);
        assert!(refused, "{one}");
    }
    assert_eq!(std::fs::read_to_string(roster.join("faker/butler.toml")).expect("the file"), before);
    rest.again("writing", &household, &daemon).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_leave_nothing_behind() {
    let household = Household::misbehaving().write("faker/butler.toml", &soak::butler(FAKE, 40191, "5s"));
    let household = soak::SETTINGS.iter().fold(household, |household, (key, value)| {
        household.env(&format!("BUTLERD_{}", key.to_uppercase().replace('.', "__")), value)
    });
    let daemon = household.start().await;
    let (target, faker) = (household.soaked(&daemon), daemon.mcp(FAKE));
    let call = |tool: &'static str, arguments: Value| {
        let faker = faker.clone();
        async move { faker.ok(tool, arguments).await }
    };
    let seen = soak::soak(target, 64, 6, call).await;
    println!("{seen:#?}");
    let nothing: [&dyn std::fmt::Debug; 3] = [&seen.wrong, &seen.left, &seen.zombies];
    assert!(seen.wrong.is_empty() && seen.left.is_empty() && seen.zombies.is_empty(), "{nothing:#?}");
    assert_eq!(seen.workspaces, 0, "{seen:#?}");
    // A connection to the database more or less; one left by each session would be dozens.
    assert!(seen.descriptors[2] <= seen.descriptors[0] + 4, "{seen:#?}");
    // A thousand show whether it grows; of so few this only says that nothing large is kept.
    assert!(seen.resident[2] * 4 <= seen.resident[0] * 5, "{seen:#?}");
}
