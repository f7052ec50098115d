//! A conversation: what is said is accepted, dealt with, and answered once, in the terminal and over HTTP.

use std::sync::Arc;

use serde_json::{Value, json};
use testkit::model::{ScriptedModel, demo_script};

use crate::support::{Daemon, Household, Terminal, eventually, http, model};

/// The events of a stream of the chat that has come to its end.
async fn events(response: reqwest::Response) -> Vec<Value> {
    told(&response.text().await.expect("a stream"))
}

/// The events of a stream, without pieces of texts: the whole texts are there as well.
fn told(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = data.map(|data| serde_json::from_str(data).expect("JSON"));
    events.filter(|e: &Value| e["event"] != "text_delta").collect()
}

async fn post(daemon: &Daemon, token: &str, body: &Value) -> reqwest::Response {
    let request = http().post(format!("http://{}/api/chat", daemon.admin())).bearer_auth(token);
    request.json(body).send().await.expect("an answer")
}

/// Says something and waits for the end of it.
pub async fn say(daemon: &Daemon, body: Value) -> Vec<Value> {
    let response = post(daemon, &daemon.token(), &body).await;
    assert_eq!(response.status(), 200, "{}", response.text().await.unwrap_or_default());
    events(response).await
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|e| e["event"].as_str()).collect()
}

/// The replies, as kind, text or emoji, and whether they were sent for the butler.
fn replies(events: &[Value]) -> Vec<(&str, &str, bool)> {
    let replies = events.iter().filter(|e| e["event"] == "reply");
    let of = |e: &'_ Value| e["auto"] == true;
    replies
        .map(|e| {
            let said = e["message"].as_str().or(e["emoji"].as_str()).unwrap_or_default();
            (e["kind"].as_str().unwrap_or_default(), said, of(e))
        })
        .collect()
}

fn notify(arguments: Value) -> Value {
    json!({"call": {"tool": "notify", "arguments": arguments}})
}

/// A run of the command line that may take as long as the daemon does.
async fn cli(household: &Arc<Household>, args: &[&str], input: &str) -> (i32, String, String) {
    let (household, input) = (household.clone(), input.to_owned());
    let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
    let run = move || {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        household.cli_with_input(&args, &input)
    };
    tokio::task::spawn_blocking(run).await.expect("the command's end")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_style_of_answer_arrives_once_and_no_end_is_silent() {
    let weight = json!({"call": {"tool": "measurement_log", "arguments": {"kind": "weight", "value": {"kg": 82}}}});
    let model = model(json!([
        {"when": "thank you", "steps": [notify(json!({"intent": "react", "emoji": "👍"})), {"say": "I reacted."}]},
        {"when": "I weigh 82", "steps": [weight, notify(json!({"message": "Noted."})), {"say": "Told them."}]},
        {"when": "log my weight", "steps": [{"say": "How much do you weigh?"}]},
        {"when": "what do I weigh", "steps": [
            {"call": {"tool": "measurement_latest", "arguments": {"kind": "weight"}}},
            notify(json!({"intent": "reply", "message": "{{result.0./value/kg}} kg, as of today."})),
            {"say": "Answered."}]},
        {"when": "best week ever", "steps": [
            {"calls": [{"tool": "notify", "arguments": {"intent": "react", "emoji": "🎉"}},
                       {"tool": "notify", "arguments": {"message": "Three in a row."}}]},
            {"say": "Done."}]},
        {"when": "nothing to say", "steps": [{"say": " "}]},
    ]))
    .await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let cases = [
        ("react", "thank you", vec![("react", "👍", false)]),
        ("affirm", "I weigh 82", vec![("reply", "Noted.", false)]),
        // It ends without an answer of its own, and its last words are sent.
        ("follow-up", "log my weight", vec![("reply", "How much do you weigh?", true)]),
        ("answer", "what do I weigh", vec![("reply", "82 kg, as of today.", false)]),
        ("react+reply", "best week ever", vec![("react", "🎉", false), ("reply", "Three in a row.", false)]),
        ("silence", "nothing to say", vec![("reply", "I came to an end and had nothing to say.", true)]),
    ];
    for (style, text, wanted) in cases {
        let told = say(&daemon, json!({"text": text, "butler": "health", "thread": style})).await;
        assert_eq!(replies(&told), wanted, "{style}: {told:?}");
        let names = names(&told);
        assert_eq!(names[..3], ["accepted", "routed", "session"], "{style}: {names:?}");
        assert_eq!(told.last().map(|e| (&e["event"], &e["state"])), Some((&json!("ended"), &json!("done"))), "{style}");
        assert_eq!((told[1]["butler"].as_str(), told[0]["duplicate"].as_bool()), (Some("health"), Some(false)));
    }
    let told = say(&daemon, json!({"text": "what do I weigh", "butler": "health", "thread": "again"})).await;
    let call = told.iter().position(|e| e["event"] == "tool_call" && e["name"] == "measurement_latest");
    let result = told.iter().position(|e| e["event"] == "tool_result" && e["name"] == "measurement_latest");
    let reply = told.iter().position(|e| e["event"] == "reply");
    // What its program says of its calls is read beside what the calls themselves do: the reply may be told before
    // them.
    assert!(call.is_some() && call < result && reply.is_some(), "{told:?}");

    // The script knows nothing of this one: its session fails, and the person is told.
    let told = say(&daemon, json!({"text": "break it", "butler": "health", "thread": "failure"})).await;
    let failure = replies(&told);
    assert!(matches!(failure[..], [("failure", text, false)] if text.starts_with("I could not do this")), "{told:?}");
    let end = told.last().expect("an end");
    assert_eq!((end["event"].as_str(), end["state"].as_str()), (Some("ended"), Some("dead")), "{told:?}");
    assert!(end["error"].is_string(), "{end}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_has_its_speakers_trust_and_can_be_followed_again() {
    let model = model(json!([{"when": "hello", "steps": [{"say": "Good morning."}]}])).await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let message = json!({"text": "hello", "butler": "general", "id": "one"});
    let told = say(&daemon, message.clone()).await;
    let id = told[0]["request_id"].as_str().expect("an id").to_owned();
    let (_, body) = daemon.get(&format!("/api/inbox/{id}")).await;
    let entry: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((entry["trust"].as_str(), entry["channel"].as_str()), (Some("owner"), Some("chat")), "{entry}");
    assert_eq!((entry["tier"].as_str(), &entry["segments"][0]["chosen_by"]), (Some("interactive"), &json!("pinned")));
    // The same again under the client's own name is the same, and its stream is whole.
    let again = say(&daemon, message).await;
    assert_eq!((again[0]["request_id"].as_str(), again[0]["duplicate"].as_bool()), (Some(id.as_str()), Some(true)));
    assert_eq!((replies(&again), again[1..].to_vec()), (replies(&told), told[1..].to_vec()));
    let followed = http().get(format!("http://{}/api/chat/{id}", daemon.admin())).bearer_auth(daemon.token());
    let followed = events(followed.send().await.expect("an answer")).await;
    assert_eq!(followed[1..], told[1..]);

    let unknown = post(&daemon, &daemon.token(), &json!({"text": "hello", "butler": "gardener"})).await;
    let (status, body) = (unknown.status().as_u16(), unknown.json::<Value>().await.expect("JSON"));
    assert_eq!((status, body["code"].as_str()), (404, Some("unknown_butler")), "{body}");
    assert!(body["butlers"].as_array().is_some_and(|list| list.contains(&json!("health"))), "{body}");
    for wrong in [json!({"text": " "}), json!({"words": "hello"}), json!({"text": "hello", "trust": "owner"})] {
        assert_eq!(post(&daemon, &daemon.token(), &wrong).await.status(), 400, "{wrong}");
    }
    let none = http().get(format!("http://{}/api/chat/{}", daemon.admin(), uuid::Uuid::now_v7()));
    assert_eq!(none.bearer_auth(daemon.token()).send().await.expect("an answer").status(), 404);

    // Tokens: one that may not, and one that is held to a butler.
    let token = |args: &[&str]| {
        let (code, out, err) = household.cli(&[&["token", "new", "--json"], args].concat());
        assert_eq!(code, 0, "{out}{err}");
        let made: Value = serde_json::from_str(&out).expect("JSON");
        made["token"].as_str().expect("a token").to_owned()
    };
    let reader = token(&["--scope", "read"]);
    assert_eq!(post(&daemon, &reader, &json!({"text": "hello"})).await.status(), 403);
    let phone = token(&["--label", "phone", "--butler", "general"]);
    assert_eq!(post(&daemon, &phone, &json!({"text": "hello", "butler": "health"})).await.status(), 403);
    let own = events(post(&daemon, &phone, &json!({"text": "hello"})).await).await;
    assert_eq!((own[1]["butler"].as_str(), replies(&own).len()), (Some("general"), 1), "{own:?}");
    let follow = async |token: &str, id: &str| {
        let request = http().get(format!("http://{}/api/chat/{id}", daemon.admin())).bearer_auth(token);
        request.send().await.expect("an answer").status().as_u16()
    };
    assert_eq!(follow(&phone, &id).await, 404, "a token of one butler sees what it said itself");
    // A tenant's token speaks for that tenant's owner, to that tenant's rows.
    let neighbour = token(&["--tenant", "neighbour", "--scope", "tools,read"]);
    let own = events(post(&daemon, &neighbour, &json!({"text": "hello", "butler": "general"})).await).await;
    let their = own[0]["request_id"].as_str().expect("an id").to_owned();
    let request = http().get(format!("http://{}/api/inbox/{their}", daemon.admin())).bearer_auth(&neighbour);
    let entry: Value = request.send().await.expect("an answer").json().await.expect("JSON");
    assert_eq!((&entry["trust"], own[0]["duplicate"].as_bool()), (&json!("owner"), Some(false)), "{entry}");
    assert_eq!((follow(&neighbour, &id).await, follow(&daemon.token(), &their).await), (404, 404));
}

/// The prompts that the model was asked, those of routing apart.
fn asked(model: &ScriptedModel, words: &str) -> Vec<String> {
    let bodies = model.requests().into_iter().map(|r| r.body["messages"].to_string());
    bodies.filter(|body| body.contains(words)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follow_up_is_understood_from_what_was_said_before() {
    let route = |prompt: &str, context: Option<&str>| {
        json!({"call": {"tool": "route_to_butler",
                        "arguments": {"butler": "health", "prompt": prompt, "context": context.unwrap_or("none")}}})
    };
    let model = model(json!([
        {"when": "(?s)\"message\": ?\"and last week\\?\".*Route the message in", "steps": [
            route("and last week?", Some("They asked for their weight this week."))]},
        {"when": "(?s)my weight this week.*Route the message in", "steps": [route("what was my weight this week?", None)]},
        {"when": "(?s)and last week\\?\\s*$", "steps": [notify(json!({"message": "83 kg last week."})), {"say": "Told."}]},
        {"when": "(?s)and last week\\?", "steps": [notify(json!({"message": "83 kg last week."})), {"say": "Told."}]},
        {"when": "what was my weight this week", "steps": [notify(json!({"message": "82 kg this week."})), {"say": "Told."}]},
    ]))
    .await;
    let household = Arc::new(Household::with_model(&model));
    let _daemon = household.start().await;
    let (code, out, err) = cli(&household, &["chat"], "what was my weight this week?\n\nand last week?\n").await;
    assert_eq!(code, 0, "{out}{err}");
    let answers: Vec<&str> = out.lines().filter(|line| line.starts_with("health:")).collect();
    assert_eq!(answers, ["health: 82 kg this week.", "health: 83 kg last week."], "{out}{err}");
    assert!(out.contains("→ health") && out.contains("notify"), "{out}");
    let routing: Vec<String> =
        asked(&model, "Route the message in").into_iter().filter(|b| b.contains("and last week?")).collect();
    assert!(!routing.is_empty(), "the follow-up is routed by the model");
    for prompt in routing {
        assert!(prompt.contains("what was my weight this week?") && prompt.contains("82 kg this week."), "{prompt}");
    }
    let answered: Vec<String> =
        asked(&model, "and last week?").into_iter().filter(|b| !b.contains("Route the message in")).collect();
    assert!(!answered.is_empty(), "the follow-up is answered");
    for prompt in answered {
        assert!(prompt.contains("what was my weight this week?") && prompt.contains("82 kg this week."), "{prompt}");
        assert!(prompt.contains("They asked for their weight this week."), "{prompt}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_demos_sentence_works_from_the_chat() {
    let model = ScriptedModel::start(demo_script().expect("a right script")).await.expect("the model");
    let household = Arc::new(Household::with_model(&model));
    let daemon = household.start().await;
    let said = "I weighed 81.4 kg this morning, log it and tell me the trend\n";
    let (code, out, err) = cli(&household, &["chat"], said).await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("→ health") && out.contains("measurement_log"), "{out}");
    assert_eq!(out.matches("health: Logged: 81.4 kg.").count(), 1, "{out}");
    let found = daemon.mcp("health").ok("measurement_latest", json!({"kind": "weight"})).await;
    assert_eq!(found["value"]["kg"], 81.4, "{found}");
    let (code, out, _) = cli(&household, &["chat", "health", "--json", "--thread", "second"], said).await;
    let told: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((code, names(&told).first(), names(&told).last()), (0, Some(&"accepted"), Some(&"ended")), "{out}");
    let (code, _, err) = cli(&household, &["chat", "gardener"], "hello\n").await;
    assert!(code == 1 && err.contains("There is no butler `gardener`") && err.contains("health"), "{code} {err}");
    drop(daemon);
    let (code, _, err) = cli(&household, &["chat"], "hello\n").await;
    assert_eq!(code, 3, "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn line_by_line_failures_are_told_once_waits_at_once_and_commands_are_no_messages() {
    let model = model(json!([
        {"when": "break it", "steps": [{"fail": {"status": 400}}]},
        {"when": "hello", "steps": [{"say": "Good morning."}]},
    ]))
    .await;
    let household = Household::with_model(&model).env("TERM", "dumb");
    // Nobody listens there.
    let household =
        Arc::new(household.runtime("general", "endpoint = \"http://127.0.0.1:9\"").model("general", "away-1"));
    let _daemon = household.start().await;
    let (code, out, err) = cli(&household, &["chat", "health"], "break it\n").await;
    let said = format!("{out}{err}");
    assert_eq!((code, said.matches("I could not do this").count()), (1, 1), "{said}");
    assert_eq!(said.matches("Once that is mended: butlerd inbox retry ").count(), 1, "{said}");
    assert!(!said.contains("The message failed"), "{said}");
    // A terminal that can do no more than lines.
    let mut chat = Terminal::chat(&household, &["health", "--thread", "dumb"]);
    chat.sees("/help lists what you can do here").await;
    chat.answers("> ", "/help").await;
    chat.sees("/quit           end the chat").await;
    chat.answers("> ", "/hepl").await;
    chat.sees("There is no command `/hepl`, and nothing was sent. Commands: /help, /quit").await;
    chat.answers("> ", "/approve").await;
    chat.sees("Nothing waits for your decision.").await;
    chat.answers("> ", "hello").await;
    chat.sees("health: Good morning.").await;
    chat.answers("> ", "/quit").await;
    assert_eq!(chat.end(), 0, "{}", chat.shown());
    let mut chat = Terminal::chat(&household, &["general"]);
    chat.answers("> ", "good evening").await;
    chat.sees("; butlerd tries again by itself, and the answer is shown here.").await;
    chat.interrupts();
    chat.sees("The household works on the message all the same.").await;
    chat.end();
    let (_, out, _) = cli(&household, &["inbox", "list", "--json"], "").await;
    let messages: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(messages["items"].as_array().map(Vec::len), Some(3), "commands are no messages: {out}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_survives_a_restart_of_the_daemon() {
    let model = model(json!([
        {"when": "very good", "steps": [{"say": "Always."}]},
        {"when": "are you there", "steps": [{"hang": {"times": 1}}, {"say": "Still here."}]}]))
    .await;
    let household = Arc::new(Household::with_model(&model));
    let mut daemon = household.start().await;
    let talking = {
        let household = household.clone();
        tokio::spawn(async move { cli(&household, &["chat", "general"], "are you there?\nvery good\n").await })
    };
    eventually("the session", || async {
        match model.requests().iter().any(|r| r.answer == "hang") {
            true => Ok(()),
            false => Err(format!("{:?}", model.requests().len())),
        }
    })
    .await;
    daemon.kill();
    let daemon = household.start().await;
    let (code, out, err) = talking.await.expect("the conversation's end");
    assert_eq!(code, 0, "{out}{err}\n{}", daemon.log());
    assert_eq!(out.lines().collect::<Vec<_>>(), ["general: Still here.", "general: Always."], "{out}{err}");
    let (_, out, _) = cli(&household, &["inbox", "list", "--json"], "").await;
    let messages: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(messages["items"].as_array().map(Vec::len), Some(2), "each line is one message: {out}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_come_as_they_happen_and_a_client_that_leaves_changes_nothing() {
    let model = model(json!([
        {"when": "wait for it", "steps": [
            {"say": "I look it up.", "call": {"tool": "measurement_latest", "arguments": {"kind": "weight"}}},
            {"hang": true}]}]))
    .await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let mut response = post(&daemon, &daemon.token(), &json!({"text": "wait for it", "butler": "health"})).await;
    let mut seen = String::new();
    // The model says nothing more: what is here came while the session runs.
    while !seen.contains("event: tool_result\n") {
        let bytes = response.chunk().await.expect("a stream").expect("more of it");
        seen.push_str(&String::from_utf8_lossy(&bytes));
    }
    drop(response);
    let told = told(&seen);
    assert!(told.iter().any(|e| e["event"] == "text" && e["text"] == "I look it up."), "{told:?}");
    let text = |name: &str, key: &str| {
        let event = told.iter().find(|e| e["event"] == name);
        event.and_then(|e| e[key].as_str()).unwrap_or_else(|| panic!("no {name} in {told:?}")).to_owned()
    };
    let (request, session) = (text("accepted", "request_id"), text("session", "session_id"));
    let (_, body) = daemon.get(&format!("/api/inbox/{request}")).await;
    assert_eq!(serde_json::from_str::<Value>(&body).expect("JSON")["state"], "processing", "{body}");
    let (code, out, err) = household.cli(&["sessions", "cancel", &session]);
    assert_eq!(code, 0, "{out}{err}");
    let again = http().get(format!("http://{}/api/chat/{request}", daemon.admin())).bearer_auth(daemon.token());
    let again = events(again.send().await.expect("an answer")).await;
    assert_eq!(again[1..told.len()], told[1..], "the same, from its beginning");
    assert!(matches!(replies(&again)[..], [("failure", _, false)]), "{again:?}");
    assert_eq!(again.last().map(|e| &e["state"]), Some(&json!("dead")), "{again:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_two_parts_gets_both_answers() {
    let part = |butler: &str, prompt: &str| json!({"tool": "route_to_butler", "arguments": {"butler": butler, "prompt": prompt}});
    let model = model(json!([
        {"when": "(?s)rent.*Route the message in", "steps": [
            {"calls": [part("health", "I weigh 82 kg"), part("finance", "the rent is paid")]}]},
        {"when": "the rent is paid\\s*$|^the rent is paid", "steps": [{"say": "The rent is noted."}]},
        {"when": "I weigh 82 kg", "steps": [{"say": "The weight is noted."}]}]))
    .await;
    let household = Arc::new(Household::whole_with_model(&model));
    let _daemon = household.start().await;
    let (code, out, err) = cli(&household, &["chat"], "I weigh 82 kg and the rent is paid\n").await;
    assert_eq!(code, 0, "{out}{err}");
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["finance: The rent is noted.", "health: The weight is noted.", "→ finance", "→ health"],
        "{out}{err}"
    );
}
