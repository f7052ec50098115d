//! A session is told of the tools that it needs, within what `tool_budget` gives; the others it finds and calls.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testkit::model::LoggedRequest;

use crate::support::{Household, Runtime, http, installed, model};

/// Tokens of what a model is told of tools, as vendors count JSON, about.
fn tokens(told: &Value) -> usize {
    told.to_string().len() * 2 / 7
}

/// The names of the tools of a request to Anthropic's API.
fn names(request: &LoggedRequest) -> Vec<&str> {
    request.body["tools"].as_array().expect("tools").iter().filter_map(|t| t["name"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_shipped_butler_stays_within_the_budget() {
    let model = model(json!([{"when": "hello", "steps": [{"say": "good day"}]}])).await;
    let household = Household::whole_with_model(&model).runtime("travel", "tool_budget = 2500");
    let daemon = household.start().await;
    for (butler, budget) in
        [("general", 6000), ("health", 6000), ("relationship", 6000), ("finance", 6000), ("travel", 2500)]
    {
        let done = daemon.mcp(butler).ok("trigger", json!({"prompt": "hello"})).await;
        assert_eq!(done["success"], true, "{done}");
        let asked = model.requests();
        let first = asked.last().expect("a request");
        let (tools, whole) = (tokens(&first.body["tools"]), tokens(&first.body));
        println!("{butler}: {} tools of {tools} tokens, the whole request {whole}", names(first).len());
        assert!(tools <= budget, "{butler}: {tools} tokens of tools");
        assert!(whole <= 9000, "{butler}: {whole} tokens in all");
        assert!(names(first).iter().any(|name| name.ends_with("tool_find")), "{:?}", names(first));
    }
    let (code, out, err) =
        tokio::task::block_in_place(|| household.cli(&["trigger", "health", "I weighed 81.4 kg today", "--dry-run"]));
    assert_eq!(code, 0, "{out}{err}");
    for told in ["more to be found", "always: ", "for the prompt: ", "measurement_log"] {
        assert!(out.contains(told), "{told}: {out}");
    }
}

/// The runtimes whose programs list a server's tools again when it says that there are others now. For the rest, and until
/// then, there is `tool_call`.
const FOLLOW: [&str; 2] = ["claude-code", "gemini"];

/// Looks for a tool that it was not told of and calls it; then again by its own name, once its client has listed it.
fn finds(query: &str, follows: bool) -> Value {
    let costs = json!({"call": {"tool": "schedule_costs", "arguments": {}}});
    let mut steps = vec![json!({"call": {"tool": "tool_find", "arguments": {"query": query}}}), costs.clone()];
    if follows {
        // Two in turn: the same call five times in a row ends a session.
        let idle =
            [json!({"tool": "state_list", "arguments": {}}), json!({"tool": "state_get", "arguments": {"key": "x"}})];
        steps.extend([json!({"calls": idle, "until": "schedule_costs"}), costs]);
    }
    steps.push(json!({"say": "FINAL"}));
    json!([{"when": "Look around", "steps": steps}])
}

async fn found_and_called(runtime: Runtime) {
    let follows = FOLLOW.contains(&runtime.kind);
    let model = model(finds("what do the schedules cost", follows)).await;
    let household =
        Household::with_model(&model).with_runtimes(&[runtime], "").env("BUTLERD_SPAWNER__TOOL_BUDGET", "1500");
    let daemon = household.start().await;
    let butler = daemon.mcp(runtime.kind);
    let done = butler.ok("trigger", json!({"prompt": "Look around and write down what you see"})).await;
    assert_eq!(done["success"], true, "{}: {done}\n{}", runtime.kind, daemon.log());
    let asked = model.requests();
    let told = |r: &&LoggedRequest| r.body["tools"].to_string().contains("tool_find");
    let has = |r: &LoggedRequest| r.body["tools"].to_string().contains("schedule_costs");
    let first = asked.iter().find(told).unwrap_or_else(|| panic!("{}: tool_find was not told", runtime.kind));
    assert!(!has(first), "{}: it was told at once", runtime.kind);
    let turns = asked.iter().filter(told).count();
    println!("{}: {turns} turns, listed in turn {:?}", runtime.kind, asked.iter().filter(told).position(has));
    assert_eq!(has(asked.iter().rfind(told).expect("a request")), follows, "{}", runtime.kind);
    let session = butler.ok("sessions_get", json!({"session_id": done["session_id"]})).await;
    let calls = session["tool_calls"].as_array().expect("calls").iter();
    let calls: Vec<(&Value, &Value)> = calls.map(|call| (&call["tool"], &call["outcome"])).collect();
    // On record is what was meant.
    let (find, costs) = ((&json!("tool_find"), &json!("ok")), (&json!("schedule_costs"), &json!("ok")));
    assert_eq!(calls[..2], [find, costs], "{}: {session}", runtime.kind);
    assert_eq!(calls.last(), Some(&costs), "{}: {session}", runtime.kind);
    assert_eq!(calls.len() > 2, follows, "{}: {session}", runtime.kind);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_runtime_finds_and_calls_a_tool_that_it_was_not_told_of() {
    let runtimes = installed("tool_budget::every_runtime_finds_and_calls_a_tool_that_it_was_not_told_of");
    let running: Vec<_> =
        runtimes.into_iter().map(|runtime| (runtime.kind, tokio::spawn(found_and_called(runtime)))).collect();
    for (kind, run) in running {
        run.await.unwrap_or_else(|e| panic!("{kind}: {e}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_in_disguise_has_no_more_rights_and_a_conversation_keeps_its_tools() {
    let call = |arguments: Value| json!({"call": {"tool": "tool_call", "arguments": arguments}});
    let model = model(json!([
        {"when": "in disguise", "steps": [
            call(json!({"name": "memory_purge", "arguments": {"before": "2030-01-01"}})),
            call(json!({"name": "tool_call", "arguments": {"name": "state_list"}})),
            call(json!({"arguments": {}})),
            call(json!({"name": "state_set", "arguments": "{\"key\": \"colour\", \"value\": \"teal\"}"})),
            {"say": "{{last_result}}"}]},
        {"when": "(weigh|slept)", "steps": [{"say": "noted"}]},
    ]))
    .await;
    let household = Household::with_model(&model).env("BUTLERD_SPAWNER__TOOL_BUDGET", "4000");
    let daemon = household.start().await;
    let health = daemon.mcp("health");
    let done = health.ok("trigger", json!({"prompt": "do it in disguise"})).await;
    assert_eq!(done["success"], true, "{done}");
    assert_eq!(health.ok("state_get", json!({"key": "colour"})).await["value"], "teal");
    let session = health.ok("sessions_get", json!({"session_id": done["session_id"]})).await;
    let calls = session["tool_calls"].as_array().expect("calls").iter();
    let calls: Vec<(&Value, &Value)> = calls.map(|call| (&call["tool"], &call["outcome"])).collect();
    // What was refused is on record, too, and counts.
    let (refused, done) = ((&json!("tool_call"), &json!("refused")), (&json!("state_set"), &json!("ok")));
    assert_eq!(calls, [refused, refused, refused, done], "{session}");

    // The second message of a conversation has what the first one had.
    let say = async |text: &str| {
        let request = http().post(format!("http://{}/api/chat", daemon.admin())).bearer_auth(daemon.token());
        let body = json!({"text": text, "butler": "health", "thread": "body"});
        request.json(&body).send().await.expect("an answer").text().await.expect("a stream");
        let asked = model.requests();
        let last = asked.iter().rev().find(|r| r.body.to_string().contains(text)).expect("a request");
        names(last).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let first = say("I weigh 81.4 kg").await;
    let second = say("and I slept badly").await;
    assert!(first.iter().any(|name| name.ends_with("measurement_log")), "{first:?}");
    // But for what fits the new words best, and what their skills name.
    let kept = first.iter().filter(|name| second.contains(name)).count();
    println!("{kept} of {} tools were kept", first.len());
    assert!(kept * 2 >= first.len(), "{first:?} {second:?}");
    assert!(second.iter().any(|name| name.ends_with("measurement_log")), "{second:?}");
}

/// One labelled prompt of `tests/data/tool_prompts.jsonl`: which tool answers it.
#[derive(serde::Deserialize)]
struct Labelled {
    butler: String,
    tool: String,
    prompt: String,
    /// `direct`, or `indirect`: it has none of the tool's own words.
    kind: String,
    /// Kept apart: nothing is tuned by it.
    held: bool,
}

/// So many tools `tool_find` tells whole, and so many more in a line.
const WHOLE: usize = 5;
const BRIEF: usize = 30;

/// Of so many prompts the needed tool is shown, and told by `tool_find` whole, at least in a line, at least by name.
type Count = [usize; 5];

/// The names of an answer of `tool_find`, the best first.
fn ranked(found: &Value) -> Vec<String> {
    let list = |key: &str| found[key].as_array().expect("a list").clone();
    let whole = list("tools").into_iter().map(|tool| tool["name"].clone());
    let names = whole.chain(list("more")).chain(found["others"].as_str().expect("names").split(' ').map(Value::from));
    names.filter_map(|name| Some(name.as_str()?.split(':').next()?.to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_needed_tool_is_shown_or_found() {
    let model = model(json!([])).await;
    let household = Household::whole_with_model(&model);
    let daemon = household.start().await;
    let prompts: Vec<Labelled> = include_str!("../data/tool_prompts.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
        .collect();
    let (mut missed, mut unreached, mut most) = (Vec::new(), Vec::new(), 0);
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    for p in &prompts {
        let preview = daemon.rpc("trigger_preview", json!({"butler": p.butler, "prompt": p.prompt})).await;
        most = most.max(preview["tool_tokens"].as_u64().expect("tokens"));
        let shown: Vec<&str> = preview["tools"].as_array().expect("tools").iter().filter_map(Value::as_str).collect();
        // With the whole prompt for a query, though a model asks for what it wants done; and with all tools to be found.
        let found = ranked(&daemon.mcp(&p.butler).ok("tool_find", json!({"query": p.prompt})).await);
        let place = found.iter().position(|name| *name == p.tool).map_or(usize::MAX, |at| at + 1);
        let apart = if p.held { "held apart" } else { "the others" };
        let is_shown = shown.contains(&p.tool.as_str());
        let counted = [true, is_shown, place <= WHOLE, place <= WHOLE + BRIEF, place < usize::MAX];
        for (count, is) in counts.entry(format!("{apart}, {}", p.kind)).or_default().iter_mut().zip(counted) {
            *count += usize::from(is);
        }
        if !is_shown {
            // Its session would be told of those alone that it was not shown.
            let left = found.iter().filter(|name| !shown.contains(&name.as_str()));
            let there = left.take_while(|name| **name != p.tool).count() + 1;
            missed.push((there, format!("{apart}, {}: {} for {:?}", p.butler, p.tool, p.prompt)));
        }
        if place == usize::MAX {
            unreached.push(format!("{}: {} for {:?}", p.butler, p.tool, p.prompt));
        }
    }
    for (of, [all, shown, whole, described, named]) in &counts {
        println!(
            "{of}: {shown} of {all} shown; of all tools tool_find tells {whole} whole, {described} at least in a line, {named} at least by name"
        );
    }
    println!("at most {most} tokens; not shown, and which one tool_find tells of then:");
    missed.iter().for_each(|(there, what)| println!("{there}. {what}"));
    assert!(most <= 6000, "{most} tokens");
    assert!(unreached.is_empty(), "{}", unreached.join("\n"));
    let all = prompts.len();
    assert!(missed.len() * 100 <= all * 3, "{} of {all} are not shown", missed.len());
    assert!(missed.iter().all(|(there, _)| *there <= WHOLE + BRIEF), "{missed:?}");
    let described: usize = counts.values().map(|[_, _, _, described, _]| described).sum();
    assert!(described * 100 >= all * 98, "of {all} only {described} are described");
}
