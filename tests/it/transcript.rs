//! What happens in a session is on record as it comes: it can be followed, read afterwards, and found by any id.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Daemon, FAKE, Household, butlerd, eventually, model};

/// `butlerd ARGS --json` at work, line by line.
struct Live {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Live {
    fn start(household: &Household, args: &[&str]) -> Self {
        let mut child = Command::new(butlerd())
            .args(args)
            .arg("--json")
            .arg("--data-dir")
            .arg(household.data())
            .arg("--roster")
            .arg(household.roster())
            .env_clear()
            .envs(household.environment())
            .current_dir(household.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("butlerd runs");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        Self { child, lines }
    }

    /// The next event; none when it is over.
    fn next(&mut self) -> Option<Value> {
        let line = self.lines.next()?.expect("a line");
        Some(serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}")))
    }

    /// All until the event of this kind.
    fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(event) = self.next() {
            let last = event["event"] == kind;
            all.push(event);
            if last {
                return all;
            }
        }
        panic!("no {kind} among {all:#?}")
    }

    fn exit(mut self) -> i32 {
        self.child.wait().expect("its end").code().unwrap_or(-1)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|e| e["event"].as_str()).collect()
}

fn numbers(events: &[Value]) -> Vec<i64> {
    events.iter().filter_map(|e| e["seq"].as_i64()).collect()
}

/// From 1, each once.
fn whole(events: &[Value]) {
    let count = i64::try_from(events.len()).expect("a number");
    assert_eq!(numbers(events), (1..=count).collect::<Vec<_>>(), "{events:#?}");
}

fn show(household: &Household, id: &str) -> Value {
    let (code, out, err) = household.cli(&["sessions", "show", id, "--json"]);
    assert_eq!(code, 0, "{out}{err}");
    serde_json::from_str(&out).expect("JSON")
}

async fn newest(daemon: &Daemon, butler: &str) -> String {
    eventually("a session is there", || async {
        let list = daemon.mcp(butler).ok("sessions_list", json!({})).await;
        list[0]["id"].as_str().map(str::to_owned).ok_or_else(|| list.to_string())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_followed_without_gaps_or_doubles_and_read_afterwards() {
    let household = Household::misbehaving();
    let daemon = household.start().await;
    let words: String = (0..300).map(|n| format!("do say word {n}\n")).collect();
    let prompt = format!(
        "do start\ndo call state_set {{\"key\": \"a\", \"value\": 1}}\n{words}do call probe_echo {{\"ms\": 1500}}\n{words}do finish the end"
    );
    let faker = daemon.mcp(FAKE);
    let trigger = tokio::spawn(async move { faker.ok("trigger", json!({"prompt": prompt})).await });
    let id = newest(&daemon, FAKE).await;
    // One follows from early on, one joins in the middle: both see all of it once.
    let (early, late) = tokio::task::block_in_place(|| {
        let mut early = Live::start(&household, &["sessions", "tail", &id]);
        let mut first = early.until("tool_result");
        let mut late = Live::start(&household, &["sessions", "tail", &id]);
        first.extend(early.until("ended"));
        assert_eq!(early.next(), None);
        assert_eq!(early.exit(), 0);
        let all = late.until("ended");
        assert_eq!(late.exit(), 0);
        (first, all)
    });
    assert_eq!(trigger.await.expect("an end")["output"], "the end");
    whole(&early);
    assert_eq!(numbers(&early), numbers(&late));
    assert_eq!(kinds(&early), kinds(&late));
    let story = kinds(&early);
    assert_eq!(&story[..6], ["queued", "tools", "prompt", "started", "connected", "tool_call"], "{story:?}");
    assert_eq!(story.iter().filter(|k| **k == "text").count(), 600);
    assert_eq!(&story[story.len() - 2..], ["exit", "ended"]);
    let result = early.iter().find(|e| e["event"] == "tool_result").expect("a result");
    assert_eq!((&result["name"], &result["is_error"]), (&json!("state_set"), &json!(false)), "{result}");
    assert!(result["duration_ms"].as_i64().is_some(), "{result}");
    let slow = early.iter().filter(|e| e["event"] == "tool_result").nth(1).expect("the slow one");
    assert!(slow["duration_ms"].as_i64().is_some_and(|ms| ms >= 300), "{slow}");
    // Afterwards it is the same story.
    let shown = show(&household, &id);
    let events = shown["events"].as_array().expect("events");
    assert_eq!(kinds(events), kinds(&early));
    assert!(shown["system_prompt"].as_str().is_some_and(|p| p.contains("A butler for tests")), "{shown}");
    let asked = events.iter().find(|e| e["event"] == "prompt").expect("the prompt");
    assert_eq!(asked["prompt"].as_str().map(|p| p.starts_with("do start")), Some(true));
    assert_eq!(events.last().expect("one")["result"]["output"], "the end");
    let (code, text, _) = household.cli(&["sessions", "show", &id]);
    assert_eq!(code, 0);
    for words in [
        "calls    state_set {\"key\":\"a\",\"value\":1}",
        "says     word 299",
        "exits",
        "ends     succeeded",
        "\nanswer\nthe end",
    ] {
        assert!(text.contains(words), "{words:?} in\n{text}");
    }
    // Over long since: told from the record, with the same end.
    let (code, out, _) = household.cli(&["sessions", "tail", &id, "--json"]);
    assert_eq!((code, out.lines().count()), (0, early.len()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_went_wrong_is_told() {
    // Of little time only where it is to run out, and then not before the child is deaf.
    for (timeout, steps, state, wanted) in [
        ("6s", "do start\ndo deaf\ndo hang", "timed_out", &["signal", "signal", "exit", "ended"][..]),
        ("60s", "do nonsense", "failed", &["exit", "ended"]),
        ("60s", "do start\ndo deaf\ndo finish x\ndo hang", "succeeded", &["signal", "signal", "exit", "ended"]),
    ] {
        let household = Household::misbehaving().session_timeout(timeout);
        let daemon = household.start().await;
        let ended = daemon.mcp(FAKE).ok("trigger", json!({"prompt": steps})).await;
        let id = ended["session_id"].as_str().expect("an id");
        let (code, out, _) = household.cli(&["sessions", "tail", id, "--json"]);
        let events: Vec<Value> = out.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
        whole(&events);
        assert!(kinds(&events).ends_with(wanted), "{steps}: {events:#?}");
        assert_eq!(
            (code, &events.last().expect("one")["result"]["state"]),
            (i32::from(state != "succeeded"), &json!(state))
        );
        let signals: Vec<&Value> = events.iter().filter(|e| e["event"] == "signal").collect();
        if let [term, kill] = signals[..] {
            assert_eq!((&term["signal"], &kill["signal"]), (&json!("SIGTERM"), &json!("SIGKILL")));
            let why = if state == "timed_out" { "session_timeout" } else { "final event" };
            assert!(term["why"].as_str().is_some_and(|w| w.contains(why)), "{term}");
        } else {
            let exit = events.iter().find(|e| e["event"] == "exit").expect("an exit");
            assert!(exit["stderr"].as_str().is_some_and(|s| s.contains("there is no step")), "{exit}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_is_cut_and_says_so() {
    let household = Household::misbehaving();
    let daemon = household.start().await;
    let ended = daemon
        .mcp(FAKE)
        .ok("trigger", json!({"prompt": "do start\ndo flood stdout 3000000 events\ndo raw .\ndo finish x"}))
        .await;
    assert_eq!(ended["success"], true, "{ended}");
    let shown = show(&household, ended["session_id"].as_str().expect("an id"));
    let events = shown["events"].as_array().expect("events");
    whole(events);
    assert!((5000..5100).contains(&events.len()), "{} events", events.len());
    assert_eq!(kinds(&events[events.len() - 3..]), ["cut", "exit", "ended"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_daemon_leaves_the_story_so_far() {
    let household = Household::misbehaving();
    let mut daemon = household.start().await;
    let faker = daemon.mcp(FAKE);
    let trigger = tokio::spawn(async move {
        let prompt = json!({"prompt": "do start\ndo say so far\ndo hang"});
        let _ = tokio::time::timeout(std::time::Duration::from_secs(60), faker.call("trigger", prompt)).await;
    });
    let id = newest(&daemon, FAKE).await;
    eventually("the words are on record", || async {
        let events = show(&household, &id)["events"].clone();
        let events = events.as_array().cloned().unwrap_or_default();
        if kinds(&events).contains(&"text") { Ok(()) } else { Err(format!("{events:?}")) }
    })
    .await;
    daemon.kill();
    trigger.abort();
    let _daemon = household.start().await;
    let shown = show(&household, &id);
    let events = shown["events"].as_array().expect("events");
    whole(events);
    assert_eq!(kinds(events), ["queued", "tools", "prompt", "started", "connected", "text", "ended"]);
    let told = events[1]["shown"].as_array().expect("tools");
    assert!(!told.is_empty() && told.iter().all(|tool| tool["reason"] == "all"), "{told:?}");
    assert_eq!(events.last().expect("one")["result"]["state"], "interrupted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_id_shows_its_timeline() {
    let model = model(json!([
        {"when": "outer", "steps": [
            {"call": {"tool": "schedule_create", "arguments": {"name": "s", "cron": "0 0 1 1 *", "prompt": "inner"}}},
            {"call": {"tool": "schedule_trigger", "arguments": {"id": "{{result.0./id}}"}}},
            {"say": "outer done"}]},
        {"when": "inner", "steps": [{"say": "inner done"}]},
    ]))
    .await;
    // What memory is asked and told would be among the calls.
    let household =
        Household::with_model(&model).replace("general/butler.toml", "[modules.memory]\nenabled = true\n", "");
    let daemon = household.start().await;
    let mut live = Live::start(&household, &["trigger", "general", "outer", "--follow"]);
    let followed = tokio::task::block_in_place(|| live.until("result"));
    assert_eq!(live.exit(), 0);
    whole(&followed[..followed.len() - 1]);
    let outer = followed[0]["session_id"].as_str().expect("an id").to_owned();
    let general = daemon.mcp("general");
    let sessions = general.ok("sessions_list", json!({})).await;
    let inner = sessions.as_array().expect("a list").iter().find(|s| s["parent_session_id"] == outer.as_str());
    let inner = inner.unwrap_or_else(|| panic!("{sessions}"));
    let schedules = general.ok("schedule_list", json!({})).await;
    let schedule = schedules.as_array().expect("a list").iter().find(|s| s["name"] == "s").expect("the schedule");
    let parent = show(&household, &outer);
    let ids = [
        outer.as_str(),
        inner["id"].as_str().expect("an id"),
        parent["request_id"].as_str().expect("an id"),
        inner["request_id"].as_str().expect("an id"),
        parent["trace_id"].as_str().expect("an id"),
        schedule["id"].as_str().expect("an id"),
    ];
    for id in ids {
        let (code, out, err) = household.cli(&["timeline", id, "--json"]);
        assert_eq!(code, 0, "{id}: {out}{err}");
        let whole: Value = serde_json::from_str(&out).expect("JSON");
        let sessions = whole["sessions"].as_array().expect("sessions");
        let found: Vec<(&Value, u64)> =
            sessions.iter().map(|s| (&s["id"], s["depth"].as_u64().expect("a depth"))).collect();
        assert_eq!(found, [(&json!(outer), 0), (&inner["id"], 1)], "{id}");
        // Four model calls of 1,100 and 20 tokens, at 3 and 15 dollars a million.
        assert_eq!((&whole["cost_usd"], &whole["sessions_of_unknown_cost"]), (&json!("0.0144"), &json!(0)));
        let times: Vec<&str> =
            whole["events"].as_array().expect("events").iter().filter_map(|e| e["at"].as_str()).collect();
        let parsed: Vec<jiff::Timestamp> = times.iter().map(|t| t.parse().expect("a time")).collect();
        assert!(parsed.is_sorted() && parsed.len() > 10, "{times:?}");
        // The child's session stands within its parent's call.
        let at = |session: &Value, kind: &str| {
            let events = whole["events"].as_array().expect("events");
            events.iter().position(|e| e["session_id"] == *session && e["event"] == kind).expect("an event")
        };
        assert!(at(&json!(outer), "started") < at(&inner["id"], "queued"));
        assert!(at(&inner["id"], "ended") < at(&json!(outer), "ended"));
    }
    let (_, text, _) = household.cli(&["timeline", &outer]);
    assert!(text.contains("inner done") && text.contains("2 sessions, 2 tool calls"), "{text}");
    let (code, _, err) = household.cli(&["timeline", "00000000-0000-7000-8000-000000000000"]);
    assert!(code == 1 && err.contains("Nothing is on record"), "{err}");
}
