//! What leaves over a webhook: signed, in order, sent again only where that is safe, and never lost in silence.

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::support::{Hook, Household, Receiver, SECRET, eventually};

fn to(endpoint: &str, message: &str) -> Value {
    json!({"intent": "send", "channel": "webhook", "recipient": endpoint, "message": message})
}

/// Waits until a delivery is in this state; its row.
pub async fn settled(client: &tokio_postgres::Client, id: &str, wanted: &str) -> tokio_postgres::Row {
    eventually(&format!("delivery {id} is {wanted}"), || async {
        let sql = "SELECT state, last_error, reason, attempts, (SELECT count(*) FROM shared.outbox_attempts a WHERE a.outbox_id = o.id)
                   FROM shared.outbox o WHERE id = $1::text::uuid";
        let row = client.query_one(sql, &[&id]).await.map_err(|e| e.to_string())?;
        let state: String = row.get(0);
        if state == wanted { Ok(row) } else { Err(format!("{state}: {:?}", row.get::<_, Option<String>>(1))) }
    })
    .await
}

/// Whether a call was answered before the end of its delivery: it waits two seconds for that, which a busy machine may
/// take longer for.
fn on_its_way(answer: &Value) -> bool {
    ["pending", "sending"].iter().any(|state| answer["state"] == *state)
}

/// Waits until what a call asked for is sent. The call was told so, or that it is on its way.
pub async fn sent(client: &tokio_postgres::Client, answer: &Value) {
    assert!(answer["status"] == "ok" && (answer["state"] == "sent" || on_its_way(answer)), "{answer}");
    settled(client, &id(answer), "sent").await;
}

pub fn id(answer: &Value) -> String {
    answer["delivery_id"].as_str().unwrap_or_else(|| panic!("no delivery in {answer}")).to_owned()
}

/// The signature of a request under this key.
fn signed(hook: &Hook, key: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("a key");
    mac.update(format!("{}.{}", hook.headers["x-butlerd-timestamp"], hook.raw).as_bytes());
    let hex: String = mac.finalize().into_bytes().iter().map(|b| format!("{b:02x}")).collect();
    format!("sha256={hex}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_is_the_stored_secret_before_the_variable_that_token_env_names() {
    let receiver = Receiver::start().await;
    let named = "token_env = \"THE_VARIABLE\"";
    let household = Household::new().with_webhook(&receiver, named).env("THE_VARIABLE", "from-the-environment");
    // The variable of the secret's own name is not the one that is named.
    let daemon = household.start().await;
    let of =
        |message: &str| receiver.of(message).first().cloned().unwrap_or_else(|| panic!("{message} did not arrive"));
    sent(&household.owner().await, &daemon.mcp("general").ok("notify", to("wise", "first")).await).await;
    assert_eq!(of("first").headers["x-butlerd-signature"], signed(&of("first"), "from-the-environment"));
    let store = || household.cli_with_input(&["secret", "set", SECRET.0], "from-the-database\n");
    let (code, out, err) = tokio::task::block_in_place(store);
    assert_eq!(code, 0, "{out}{err}");
    drop(daemon);
    let daemon = household.start().await;
    sent(&household.owner().await, &daemon.mcp("general").ok("notify", to("wise", "second")).await).await;
    assert_eq!(of("second").headers["x-butlerd-signature"], signed(&of("second"), "from-the-database"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_arrives_signed_once_and_the_butler_knows() {
    let receiver = Receiver::start().await;
    let household = Household::new().with_webhook(&receiver, "");
    let daemon = household.start().await;
    let general = daemon.mcp("general");
    let client = household.owner().await;
    let answer = general.ok("notify", to("door", "open")).await;
    sent(&client, &answer).await;
    let hooks = receiver.hooks();
    assert_eq!(hooks.len(), 1, "{hooks:?}");
    let hook = &hooks[0];
    assert_eq!((hook.message(), hook.body["schema_version"].as_str()), ("open", Some("notify.v1")));
    assert_eq!((hook.body["origin_butler"].as_str(), hook.delivery()), (Some("general"), id(&answer)));
    assert_eq!(hook.headers["idempotency-key"], id(&answer));
    assert_eq!(hook.headers["x-butlerd-signature"], signed(hook, SECRET.1));
    // To whom nobody knows nothing goes.
    for recipient in ["window", "eve@example.org"] {
        let nobody = general.ok("notify", to(recipient, "open")).await;
        assert_eq!(nobody["status"], "pending_missing_identifier", "{nobody}");
    }
    let wrong = general.ok("notify", json!({"intent": "send", "channel": "pigeon", "message": "coo"})).await;
    assert_eq!(wrong["code"], "unknown_channel", "{wrong}");
    eventually("it is refused on record too", || async {
        let sql = "SELECT outcome FROM general.tool_calls WHERE tool = 'notify' ORDER BY id DESC LIMIT 1";
        let outcome: String = client.query_one(sql, &[]).await.map_err(|e| e.to_string())?.get(0);
        if outcome == "refused" { Ok(()) } else { Err(outcome) }
    })
    .await;
    // The messenger's own tool is a row like any other.
    let messenger = daemon.mcp("messenger");
    assert!(messenger.tools().await.contains(&"webhook_send_message".to_owned()));
    let direct = messenger.ok("webhook_send_message", json!({"recipient": "wise", "message": "by hand"})).await;
    sent(&client, &direct).await;
    let mine = general.ok("notifications", json!({})).await;
    assert_eq!(mine.as_array().map(Vec::len), Some(1), "its own alone: {mine}");
    assert_eq!(mine[0]["state"], "sent");
    assert_eq!(receiver.hooks().len(), 2);
    // A butler's role reads its own through the function, and writes nothing past it.
    let role = household.role("general").await;
    role.batch_execute("SET butlerd.tenant = 'owner'").await.expect("a setting");
    let own: i64 = role.query_one("SELECT count(*) FROM shared.deliveries()", &[]).await.expect("a count").get(0);
    assert_eq!(own, 1);
    for sql in [
        "SELECT * FROM shared.outbox",
        "SELECT shared.queue_delivery_as('butlerd', 'owner', '{}')",
        "SELECT shared.queue_delivery('{\"intent\": \"send\", \"state\": \"sent\"}', 'a guess')",
        "SELECT shared.queue_delivery('{\"intent\": \"send\", \"kind\": \"notice\"}', NULL)",
    ] {
        let e = role.batch_execute(sql).await.expect_err(sql);
        assert_eq!(e.code().map(|c| c.code()), Some("42501"), "{sql}: {e}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_have_arrived_is_not_sent_again_where_that_would_double_it() {
    let receiver = Receiver::start().await;
    // Of the two that which never hears anything back soon gives up; to the other an answer may take a while.
    let household = Household::new().with_webhook(&receiver, "timeout = \"1s\"").replace(
        "messenger/butler.toml",
        "idempotent = true\ntimeout = \"1s\"",
        "idempotent = true",
    );
    let daemon = household.start().await;
    let (general, client) = (daemon.mcp("general"), household.owner().await);
    for message in ["[drop] one", "[hang] two", "[between] three"] {
        let answer = general.call("notify", to("door", message)).await.text();
        settled(&client, &id(&answer), "unknown").await;
        if !on_its_way(&answer) {
            assert_eq!((&answer["status"], &answer["state"]), (&json!("unknown"), &json!("unknown")), "{answer}");
            assert!(answer["error"].as_str().is_some_and(|e| e.contains("Don't send it again")), "{answer}");
        }
        // The same once more is the same.
        let again = general.call("notify", to("door", message)).await.text();
        assert_ne!(again["delivery_id"], answer["delivery_id"], "another call of a person is another request");
        settled(&client, &id(&again), "unknown").await;
    }
    // Where a repetition is known it is sent again, under the same key.
    let answer = general.ok("notify", to("wise", "[drop] four")).await;
    settled(&client, &id(&answer), "sent").await;
    let four = receiver.of("[drop] four");
    assert_eq!(four.iter().map(|hook| hook.answered).collect::<Vec<_>>(), [0, 200]);
    assert_eq!(four[0].headers["idempotency-key"], four[1].headers["idempotency-key"]);
    for message in ["[drop] one", "[hang] two", "[between] three"] {
        assert_eq!(receiver.of(message).len(), 2, "{message}: once for each call");
    }
    let sql = "SELECT count(*), count(DISTINCT subject), count(*) FILTER (WHERE kind = 'delivery_unknown') FROM shared.notices";
    eventually("a notice for each", || async {
        let row = client.query_one(sql, &[]).await.map_err(|e| e.to_string())?;
        let counts: (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
        if counts == (6, 6, 6) { Ok(()) } else { Err(format!("{counts:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_puts_off_or_fails_gets_it_later_and_in_order() {
    let receiver = Receiver::start().await;
    let household = Household::new().with_webhook(&receiver, "");
    let daemon = household.start().await;
    let (general, client) = (daemon.mcp("general"), household.owner().await);
    let (first, second) = tokio::join!(general.call("notify", to("door", "[later] first")), async {
        eventually("the first was tried", || async {
            if receiver.of("[later] first").is_empty() { Err("not yet".to_owned()) } else { Ok(()) }
        })
        .await;
        general.call("notify", to("door", "second")).await
    });
    for answer in [first.text(), second.text()] {
        settled(&client, &id(&answer), "sent").await;
    }
    let order: Vec<String> = receiver.hooks().iter().map(|hook| hook.message().to_owned()).collect();
    assert_eq!(order, ["[later] first", "[later] first", "second"]);
    let waited = receiver.hooks()[1].at - receiver.hooks()[0].at;
    assert!(waited >= std::time::Duration::from_millis(990), "retry-after: 1 was not kept: {waited:?}");
    // Three answers of 500, no, 500, 500, 200.
    let broken = general.call("notify", to("door", "[broken]")).await.text();
    let row = settled(&client, &id(&broken), "sent").await;
    assert_eq!((row.get::<_, i32>(3), row.get::<_, i64>(4)), (3, 3));
    // Never: refused at once, or dead after its tries.
    let no = general.call("notify", to("door", "[no]")).await.text();
    settled(&client, &id(&no), "failed").await;
    assert!(on_its_way(&no) || no["state"] == "failed" && no["code"] == "not_delivered", "{no}");
    let down = general.call("notify", to("door", "[down]")).await.text();
    let row = settled(&client, &id(&down), "dead").await;
    assert_eq!((row.get::<_, i32>(3), row.get::<_, Option<&str>>(2)), (10, Some("exhausted")));
    // Nobody listens: surely not sent, so it arrives once they do.
    let gone = receiver.die().await;
    let waiting = general.call("notify", to("door", "are you there")).await.text();
    let receiver = Receiver::revive(gone).await;
    settled(&client, &id(&waiting), "sent").await;
    assert_eq!(receiver.of("are you there").len(), 1);
}
