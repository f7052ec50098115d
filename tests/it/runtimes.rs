//! One conversation through every runtime, with its real program: the same session record.

use rust_decimal::Decimal;
use serde_json::{Value, json};
use testkit::model::ScriptedModel;

use crate::support::{Household, Runtime, installed, model};

const PROMPT: &str = "Paint the house: remember its colour, forget an old plan, greet as you were taught.";
const FINAL: &str = "FINAL: the colour is teal";
const SKILL: &str = "---\nname: greeter\ndescription: Greets people\nversion: \"1\"\ntrigger_patterns: [\"greet\"]\n---\n\n\
                     Say hello warmly, and then the secret word: marigold.\n";
/// What the turns use. No part is written to a cache: two of the four APIs can't say that.
const USAGE: [(u64, u64, u64); 5] = [(1000, 20, 0), (200, 30, 1000), (250, 10, 1200), (300, 15, 1400), (350, 25, 1600)];
const NOBODY: &str = "01939f00-0000-7000-8000-000000000001";

/// The conversation: two calls of tools, one of them an error, a skill, and one more call; then words. Only what the
/// program calls its way to a skill differs.
async fn conversation(runtime: &Runtime) -> ScriptedModel {
    let skill = match runtime.skill_tool {
        "Skill" => json!({"skill": "butler:greeter"}),
        _ => json!({"name": "greeter"}),
    };
    let turns = [
        json!({"say": "I begin.", "call": {"tool": "state_set", "arguments": {"key": "colour", "value": "teal"}}}),
        json!({"call": {"tool": "schedule_delete", "arguments": {"task_id": NOBODY}}}),
        json!({"call": {"tool": runtime.skill_tool, "arguments": skill}}),
        json!({"call": {"tool": "state_get", "arguments": {"key": "colour"}}}),
        json!({"say": "FINAL: the colour is {{last_result./value}}"}),
    ];
    let steps = turns.into_iter().zip(USAGE).map(|(mut step, (input, output, read))| {
        step["usage"] = json!({"input_tokens": input, "output_tokens": output, "cache_read_tokens": read});
        step
    });
    model(json!([{"when": "Paint the house", "steps": steps.collect::<Vec<_>>()}])).await
}

/// What is the same with every runtime.
#[derive(Debug, PartialEq)]
struct Record {
    state: Value,
    error: Value,
    result: Value,
    /// Tool, arguments, outcome, in order.
    calls: Vec<(String, Value, String)>,
    /// Names of the skills that were read, in order.
    skills: Vec<Value>,
    tokens: [u64; 4],
    cost: Value,
}

/// What so many tokens of input, output and cache cost in US dollars, by the price list.
fn cost(model: &str, input: u64, output: u64, cache_read: u64) -> String {
    let list = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/config/pricing.toml")).expect("the list");
    let list: toml_edit::DocumentMut = list.parse().expect("TOML");
    let price = |kind: &str| -> Decimal {
        let text = list["models"][model][kind].to_string();
        text.trim().parse().unwrap_or_else(|e| panic!("{model}.{kind}: {text}: {e}"))
    };
    let parts = [("input", input), ("output", output), ("cache_read", cache_read)];
    let sum: Decimal = parts.into_iter().map(|(kind, tokens)| price(kind) * Decimal::from(tokens)).sum();
    (sum / Decimal::from(1_000_000)).normalize().to_string()
}

async fn run(runtime: Runtime) -> Record {
    let model = conversation(&runtime).await;
    let household = Household::with_model(&model)
        .with_runtimes(&[runtime], "")
        .write(&format!("{}/skills/greeter/SKILL.md", runtime.kind), SKILL);
    let daemon = household.start().await;
    let butler = daemon.mcp(runtime.kind);
    let done = butler.ok("trigger", json!({"prompt": PROMPT})).await;
    assert_eq!(done["success"], true, "{}: {done}\n{}", runtime.kind, daemon.log());
    let session = butler.ok("sessions_get", json!({"session_id": done["session_id"]})).await;
    assert_eq!(session["runtime"], runtime.kind, "{session}");
    // The skill's text reached the model.
    let asked = model.requests();
    let last = asked.iter().rev().find(|r| r.body.to_string().contains("Paint the house")).expect("a request");
    assert!(last.body.to_string().contains("marigold"), "{}: the skill is not in {}", runtime.kind, last.body);
    // The model was offered its butler's tools and the way to skills, and nothing that acts.
    let acting = ["shell", "Bash", "run_shell_command", "write_file", "Write", "apply_patch", "web_fetch", "WebFetch"];
    let offered = last.body["tools"].to_string();
    let names: Vec<&&str> = acting.iter().filter(|t| offered.contains(&format!("\"name\":\"{t}\""))).collect();
    assert!(names.is_empty(), "{}: {names:?} were offered", runtime.kind);

    let calls = session["tool_calls"].as_array().expect("calls").iter().map(|call| {
        let text = |key: &str| call[key].as_str().unwrap_or_default().to_owned();
        (text("tool"), call["arguments"].clone(), text("outcome"))
    });
    // Two of the programs read a skill with a tool of the butler's, which has its own event as well.
    let calls = calls.filter(|(tool, ..)| tool != "skill_read").collect();
    let number = |key: &str| session[key].as_u64().unwrap_or_default();
    let tokens = ["input_tokens", "output_tokens", "cached_input_tokens", "cache_creation_tokens"].map(number);
    let role = household.role(runtime.kind).await;
    role.batch_execute("SET butlerd.tenant = 'owner'").await.expect("the tenant");
    let id: uuid::Uuid = session["id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
    let read = "SELECT body->>'name' FROM session_events WHERE session_id = $1 AND kind = 'skill' ORDER BY seq";
    let rows = role.query(read, &[&id]).await.expect("the events");
    Record {
        state: session["state"].clone(),
        error: session["error"].clone(),
        result: session["result"].clone(),
        calls,
        skills: rows.iter().map(|r| json!(r.get::<_, Option<String>>(0))).collect(),
        tokens,
        cost: session["cost_usd"].clone(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_conversation_leaves_the_same_record_through_every_runtime() {
    let runtimes = installed("runtimes::one_conversation_leaves_the_same_record_through_every_runtime");
    let running: Vec<_> = runtimes.iter().map(|runtime| (runtime, tokio::spawn(run(*runtime)))).collect();
    let call = |tool: &str, arguments: Value, outcome: &str| (tool.to_owned(), arguments, outcome.to_owned());
    let sum = |part: fn(&(u64, u64, u64)) -> u64| USAGE.iter().map(part).sum::<u64>();
    for (Runtime { kind, model, .. }, record) in running {
        let record = record.await.unwrap_or_else(|e| panic!("{kind}: {e}"));
        let expected = Record {
            state: json!("succeeded"),
            error: Value::Null,
            result: json!(FINAL),
            calls: vec![
                call("state_set", json!({"key": "colour", "value": "teal"}), "ok"),
                call("schedule_delete", json!({"task_id": NOBODY}), "refused"),
                call("state_get", json!({"key": "colour"}), "ok"),
            ],
            skills: vec![json!("greeter")],
            tokens: [sum(|u| u.0), sum(|u| u.1), sum(|u| u.2), 0],
            cost: json!(cost(model, sum(|u| u.0), sum(|u| u.1), sum(|u| u.2))),
        };
        assert_eq!(record, expected, "{kind}");
    }
}

/// An answer that is a list reaches the model through every runtime. The Gemini CLI refuses one that comes as text
/// alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_reaches_the_model_through_every_runtime() {
    let runtimes = installed("runtimes::a_list_reaches_the_model_through_every_runtime");
    let list = |runtime: Runtime| async move {
        let call = |tool: &str, arguments: Value| json!({"call": {"tool": tool, "arguments": arguments}});
        let steps = [
            call("state_set", json!({"key": "colour of the house", "value": "teal"})),
            call("state_list", json!({})),
            json!({"say": "FINAL: {{last_result}}"}),
        ];
        let model = model(json!([{"when": "List what you keep", "steps": steps}])).await;
        let household = Household::with_model(&model).with_runtimes(&[runtime], "");
        let daemon = household.start().await;
        let done = daemon.mcp(runtime.kind).ok("trigger", json!({"prompt": "List what you keep."})).await;
        assert_eq!(done["success"], true, "{done}\n{}", daemon.log());
        done["output"].to_string()
    };
    let running: Vec<_> = runtimes.iter().map(|runtime| (runtime.kind, tokio::spawn(list(*runtime)))).collect();
    for (kind, output) in running {
        let output = output.await.unwrap_or_else(|e| panic!("{kind}: {e}"));
        assert!(output.contains("FINAL") && output.contains("colour of the house"), "{kind}: {output}");
    }
}
