//! A session is told of the tools that it needs, within what `tool_budget` gives; the others it finds and calls.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testkit::model::LoggedRequest;

use crate::support::{Daemon, Household, Runtime, http, installed, model};

/// Tokens of what a model is told of tools, as vendors count JSON, about.
fn tokens(told: &Value) -> usize {
    told.to_string().len() * 2 / 7
}

/// The names of the tools of a request to Anthropic's API.
fn names(request: &LoggedRequest) -> Vec<&str> {
    request.body["tools"].as_array().expect("tools").iter().filter_map(|t| t["name"].as_str()).collect()
}

/// The budget of a household is halved for models on the owner's own network, as those of tests are.
const TWICE_2500: &str = "5000";
/// The default.
const TWICE_6000: &str = "12000";

const BUTLERS: [&str; 7] = ["general", "health", "relationship", "finance", "travel", "switchboard", "messenger"];

/// Says hello to each shipped butler, and looks at the first request and at what people are told of it.
async fn hello(set: &str, budget: usize) {
    let model = model(json!([{"when": "hello", "steps": [{"say": "good day"}]}])).await;
    let household = Household::whole_with_model(&model).env("BUTLERD_SPAWNER__TOOL_BUDGET", set);
    let daemon = household.start().await;
    for butler in BUTLERS {
        let done = daemon.mcp(butler).ok("trigger", json!({"prompt": "hello"})).await;
        assert_eq!(done["success"], true, "{done}");
        let asked = model.requests();
        let first = asked.last().expect("a request");
        let (tools, whole) = (tokens(&first.body["tools"]), tokens(&first.body));
        // Claude Code calls each `mcp__butler__NAME` in its list.
        let longer = names(first).len() * format!("mcp__{butler}__").len() * 2 / 7;
        println!("{butler}: {} tools of {tools} tokens, the whole request {whole} and {longer}", names(first).len());
        assert!(tools <= budget, "{butler}: {tools} tokens of tools");
        assert!(whole + longer <= 9000, "{butler}: {whole} and {longer} tokens in all");
        let id = done["session_id"].as_str().expect("an id");
        let (code, out, err) = tokio::task::block_in_place(|| household.cli(&["sessions", "show", id]));
        assert_eq!(code, 0, "{out}{err}");
        let finds = names(first).iter().any(|name| name.ends_with("tool_find"));
        let told = if finds { "always: " } else { "all that it may call: " };
        assert!(out.contains(" tools of about ") && out.contains(told), "{out}");
        assert!(finds || !out.contains("more to be found"), "{out}");
        assert!(butler != "health" || out.contains("more to be found"), "{out}");
    }
    let (code, out, err) =
        tokio::task::block_in_place(|| household.cli(&["trigger", "health", "I weighed 81.4 kg today", "--dry-run"]));
    assert_eq!(code, 0, "{out}{err}");
    for told in ["more to be found", "always: ", "for the prompt: ", "measurement_log"] {
        assert!(out.contains(told), "{told}: {out}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_shipped_butler_stays_within_the_budget() {
    hello(TWICE_6000, 6000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_shipped_butler_stays_within_a_small_budget() {
    hello(TWICE_2500, 2500).await;
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
    let household = Household::with_model(&model).env("BUTLERD_SPAWNER__TOOL_BUDGET", "8000");
    let mut daemon = household.start().await;
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

    // A conversation keeps its tools, whatever happens to the daemon.
    let first = said(&daemon, &household, "I weigh 81.4 kg").await;
    assert!(first.iter().any(|(name, _)| name == "measurement_log"), "{first:?}");
    let second = said(&daemon, &household, "and I slept badly").await;
    kept(&first, &second);
    assert!(second.iter().any(|(name, reason)| name == "symptom_log" && reason == "prompt"), "{second:?}");
    daemon.kill();
    let daemon = household.start().await;
    kept(&second, &said(&daemon, &household, "how much did I weigh yesterday, and why did I sleep so badly?").await);
}

/// Says something in a chat with the health butler: what its session is shown, with the reasons, in their order.
async fn said(daemon: &Daemon, household: &Household, text: &str) -> Vec<(String, String)> {
    let request = http().post(format!("http://{}/api/chat", daemon.admin())).bearer_auth(daemon.token());
    let body = json!({"text": text, "butler": "health", "thread": "body"});
    request.json(&body).send().await.expect("an answer").text().await.expect("a stream");
    let list = daemon.mcp("health").ok("sessions_list", json!({"limit": 1})).await;
    let id = list[0]["id"].as_str().unwrap_or_else(|| panic!("no session: {list}"));
    let (code, out, err) = tokio::task::block_in_place(|| household.cli(&["sessions", "show", id, "--json"]));
    assert_eq!(code, 0, "{out}{err}");
    let session: Value = serde_json::from_str(&out).expect("JSON");
    assert!(session.to_string().contains(text), "{session}");
    let events = session["events"].as_array().expect("events");
    let told = events.iter().find(|event| event["event"] == "tools").expect("the tools");
    let word = |tool: &Value, key: &str| tool[key].as_str().expect("a word").to_owned();
    told["shown"].as_array().expect("tools").iter().map(|tool| (word(tool, "name"), word(tool, "reason"))).collect()
}

/// All tools stay as they were told; new are those that fit the prompt best, and those of its skills, behind the others.
fn kept(before: &[(String, String)], after: &[(String, String)]) {
    let names = |all: &[(String, String)]| all.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let (had, has) = (names(before), names(after));
    assert!(has.starts_with(&had), "{had:?} {has:?}");
    let new = &after[before.len()..];
    println!("{} tools stay, new are {new:?}", before.len());
    assert!(new.iter().filter(|(_, reason)| reason == "prompt").count() <= 6, "{new:?}");
    assert!(new.iter().all(|(_, reason)| reason == "prompt" || reason == "skill"), "{new:?}");
    assert!(after.iter().any(|(_, reason)| reason == "conversation"), "{after:?}");
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
    let household = Household::whole_with_model(&model).env("BUTLERD_SPAWNER__TOOL_BUDGET", TWICE_6000);
    let daemon = household.start().await;
    let prompts: Vec<Labelled> = include_str!("../data/tool_prompts.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
        .collect();
    let (indirect, held) = (prompts.iter().filter(|p| p.kind == "indirect"), prompts.iter().filter(|p| p.held));
    let (indirect, held) = (indirect.count(), held.count());
    assert!(indirect * 2 >= prompts.len() && held * 3 >= prompts.len(), "{indirect} and {held} of {}", prompts.len());
    let (mut missed, mut unreached, mut most, mut missed_held) = (Vec::new(), Vec::new(), 0, 0);
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
            missed_held += usize::from(p.held);
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
    println!("{} of {all} are shown; of {held} held apart {}", all - missed.len(), held - missed_held);
    assert!(missed_held * 100 <= held * 3, "{missed_held} of {held} held apart are not shown");
    assert!(missed.iter().all(|(there, _)| *there <= WHOLE + BRIEF), "{missed:?}");
    let described: usize = counts.values().map(|[_, _, _, described, _]| described).sum();
    assert!(described * 100 >= all * 98, "of {all} only {described} are described");
    skills_tools_are_shown_or_found(&daemon).await;
    descriptions_are_short(&daemon).await;
}

/// Each tool that a skill names is shown to a session that is to do its workflow, or the first answer of `tool_find` tells
/// of it: with the prompt for a query, or at worst with the name that the skill says.
async fn skills_tools_are_shown_or_found(daemon: &Daemon) {
    let roster = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("roster");
    let (mut tried, mut named_in_all, mut unshown, mut lacking) = (0, 0, 0, Vec::new());
    for butler in BUTLERS {
        let Ok(skills) = std::fs::read_dir(roster.join(butler).join("skills")) else { continue };
        let all = ranked(&daemon.mcp(butler).ok("tool_find", json!({"query": "anything"})).await);
        for skill in skills.map(|skill| skill.expect("a skill").path()) {
            let text = std::fs::read_to_string(skill.join("SKILL.md")).expect("its text");
            let name = skill.file_name().and_then(|name| name.to_str()).expect("a name");
            let word = |c: char| !(c.is_alphanumeric() || c == '_');
            let named: Vec<&String> = all.iter().filter(|tool| text.split(word).any(|w| w == *tool)).collect();
            let mut triggers = text
                .lines()
                .skip_while(|line| !line.starts_with("trigger_patterns"))
                .skip(1)
                .take_while(|line| line.starts_with("  - "))
                .map(|line| line[4..].trim_matches(['"', '\'']).to_owned());
            // Not a regular expression: a word that people say.
            let trigger = triggers.find(|word| word.chars().all(|c| c.is_alphanumeric() || c == ' '));
            for prompt in [Some(format!("Run the {name} workflow")), trigger].into_iter().flatten() {
                tried += 1;
                let preview = daemon.rpc("trigger_preview", json!({"butler": butler, "prompt": prompt})).await;
                let shown: Vec<&str> =
                    preview["tools"].as_array().expect("tools").iter().filter_map(Value::as_str).collect();
                let found = ranked(&daemon.mcp(butler).ok("tool_find", json!({"query": prompt})).await);
                let left: Vec<&String> = found.iter().filter(|name| !shown.contains(&name.as_str())).collect();
                named_in_all += named.len();
                for tool in named.iter().filter(|tool| !shown.contains(&tool.as_str())) {
                    unshown += 1;
                    if !left.iter().take(WHOLE + BRIEF).any(|name| name == tool) {
                        lacking.push(format!("{butler}: {tool} for {prompt:?}"));
                        // As one asks who has read of it in the skill.
                        let found = daemon.mcp(butler).ok("tool_find", json!({"query": tool})).await;
                        assert_eq!(found["tools"][0]["name"], tool.as_str());
                    }
                }
            }
        }
    }
    println!("skills: {tried} prompts, {named_in_all} tools, {unshown} not shown, only by name are found {lacking:?}");
    assert!(tried > 40 && lacking.len() * 50 <= named_in_all, "{tried}, {named_in_all}: {lacking:#?}");
}

/// What a model is told of a tool, here by `tool_find`, has at most two sentences.
async fn descriptions_are_short(daemon: &Daemon) {
    let mut seen = 0;
    for butler in BUTLERS {
        let mcp = daemon.mcp(butler);
        for name in ranked(&mcp.ok("tool_find", json!({"query": "anything"})).await) {
            let found = mcp.ok("tool_find", json!({"query": name})).await;
            let tool = &found["tools"][0];
            assert_eq!(tool["name"], name.as_str());
            let description = tool["description"].as_str().expect("a description");
            let ends = description.as_bytes().windows(3).filter(|end| {
                matches!(end[0], b'.' | b'!' | b'?') && end[1].is_ascii_whitespace() && end[2].is_ascii_uppercase()
            });
            assert!(ends.count() < 2, "{butler}: {name}: {description}");
            seen += 1;
        }
    }
    println!("{seen} descriptions have at most two sentences");
    assert!(seen > 300, "{seen}");
}
