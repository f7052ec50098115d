//! What no channel takes waits and is not called sent; the owner is told once, and it goes out when a channel comes.

use serde_json::{Value, json};

use crate::support::tally::{envelope, insist};
use crate::support::{Household, Receiver, eventually, http, model};

/// Hands in a question that `general` answers.
async fn asked(household: &Household, id: &str, channel: &str, endpoint: &str) -> String {
    let mut message = envelope(id, id, "is it open", "interactive");
    message["source"] = json!({"channel": channel, "provider": "internal", "endpoint_identity": endpoint});
    message["control"]["pinned_target"] = json!("general");
    insist(&household.data(), &message).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_channel_takes_waits_until_one_does() {
    let model = model(json!([{"when": "is it open", "steps": [{"say": "It is shut."}]}])).await;
    let receiver = Receiver::start().await;
    let household = Household::with_model(&model);
    let file = household.roster().join("messenger/butler.toml");
    let without = std::fs::read_to_string(&file).expect("the messenger");
    let household = household.with_webhook(&receiver, "").env("BUTLERD_NOTICE_SECONDS", "0");
    let with = std::fs::read_to_string(&file).expect("the messenger");
    let household = household.write("messenger/butler.toml", &without);
    let daemon = household.start().await;
    let text = |args: &[&str]| {
        let (code, out, err) = tokio::task::block_in_place(|| household.cli(args));
        assert_eq!(code, 0, "{args:?}: {out}{err}");
        out
    };
    let deliveries = |state: &str| -> Vec<Value> {
        let listed = text(&["deliveries", "list", "--state", state, "--json"]);
        let listed: Value = serde_json::from_str(&listed).unwrap_or_else(|e| panic!("{e}: {listed}"));
        listed["items"].as_array().expect("items").clone()
    };

    // Nobody took them: they wait, untried, and everything says so.
    let first = asked(&household, "1", "email", "home@example.org").await;
    asked(&household, "2", "webhook", "wise").await;
    eventually("both answers wait", || async {
        let waiting = deliveries("waiting");
        if waiting.len() == 2 { Ok(()) } else { Err(format!("{waiting:?}")) }
    })
    .await;
    for one in deliveries("waiting") {
        assert_eq!(
            (&one["attempts"], &one["reason"], &one["settled_at"]),
            (&json!(0), &json!("no_channel"), &json!(null))
        );
        let why = one["last_error"].as_str().unwrap_or_default();
        assert!(why.starts_with("waiting for a channel: no module of the messenger sends over "), "{one}");
        let shown = text(&["deliveries", "show", one["id"].as_str().expect("an id")]);
        assert!(shown.contains("waiting for a channel") && shown.contains(why), "{shown}");
    }
    assert!(text(&["deliveries", "list"]).contains("waiting for a channel"));
    let trouble = |status: &str, channel: &str| status.contains(&format!("for the channel {channel}:"));
    eventually("status, metrics and the owner know", || async {
        let (status, metrics) = (text(&["status"]), daemon.get("/metrics").await.1);
        let (_, notes) = daemon.get("/api/chat/notes").await;
        let told = notes.contains("over email is not sent") && notes.contains("over webhook is not sent");
        let counted = metrics.contains("butlerd_deliveries_waiting{channel=\"email\"} 1");
        match trouble(&status, "email") && trouble(&status, "webhook") && told && counted {
            true => Ok(()),
            false => Err(format!("{status}\n{notes}\n{counted}")),
        }
    })
    .await;
    // Once, however much comes to wait.
    let third = asked(&household, "3", "email", "office@example.org").await;
    let client = household.owner().await;
    eventually("the third waits, too", || async {
        let metrics = daemon.get("/metrics").await.1;
        let two = metrics.contains("butlerd_deliveries_waiting{channel=\"email\"} 2");
        if two { Ok(()) } else { Err(metrics) }
    })
    .await;
    let notices = "SELECT count(*) FROM shared.notices WHERE kind = 'channel_missing'";
    assert_eq!(client.query_one(notices, &[]).await.expect("a count").get::<_, i64>(0), 2);

    // The channel comes.
    std::fs::write(&file, &with).expect("the messenger");
    text(&["reload"]);
    eventually("the answer has arrived", || async {
        let seen = receiver.of("It is shut.").len();
        if seen == 1 { Ok(()) } else { Err(format!("{seen} times")) }
    })
    .await;
    household.all_delivered("the channel is there").await;
    eventually("nothing waits for it any more", || async {
        let status = text(&["status"]);
        if trouble(&status, "webhook") { Err(status) } else { Ok(()) }
    })
    .await;
    assert_eq!(client.query_one(notices, &[]).await.expect("a count").get::<_, i64>(0), 1);

    // A program that speaks for an end of the channel reads its answer, and so it is there; whoever else looks takes
    // nothing.
    let made = text(&[
        "token",
        "new",
        "--json",
        "--label",
        "mailer",
        "--scope",
        "ingest,read",
        "--channel",
        "email",
        "--endpoint",
        "home@example.org",
    ]);
    let made: Value = serde_json::from_str(&made).expect("JSON");
    let mailer = made["token"].as_str().expect("a token").to_owned();
    let read = async |token: String, request: &str| {
        let url = format!("http://{}/api/inbox/{request}", daemon.admin());
        let entry: Value =
            http().get(url).bearer_auth(token).send().await.expect("an answer").json().await.expect("JSON");
        assert_eq!(entry["replies"][0]["message"], "It is shut.", "{entry}");
    };
    read(daemon.token(), &first).await;
    read(mailer.clone(), &third).await;
    assert_eq!(deliveries("waiting").len(), 2);
    read(mailer, &first).await;
    let waiting = deliveries("waiting");
    assert_eq!((waiting.len(), &waiting[0]["request_id"]), (1, &json!(third)));
    let sent = deliveries("sent").into_iter().find(|one| one["request_id"] == json!(first)).expect("it arrived");
    assert_eq!(sent["receipt"], json!({"read_by": "mailer"}));
    household.invariants("read").await;
    // What is not wanted any more is called off.
    text(&["deliveries", "cancel", waiting[0]["id"].as_str().expect("an id")]);
    assert!(deliveries("waiting").is_empty());
}
