//! Who writes: a stranger, somebody known, or the owner; decided as the message is accepted.

use serde_json::{Value, json};

use crate::inbound::{ended, ingest, message};
use crate::support::{Household, model};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_is_a_stranger_until_somebody_says_who_it_is() {
    let model = model(json!([])).await;
    let household = Household::with_model(&model).env("BUTLERD_OWNER__IDENTITIES__TELEGRAM", "4711");
    let daemon = household.start().await;
    // Whatever is handed in ends there: who wrote it is on record all the same.
    let rule = json!({"kind": "channel", "pattern": "telegram", "action": "metadata_only"});
    daemon.mcp("switchboard").ok("triage_rule_add", rule).await;
    let trust = async |id: &str, sender: &str| {
        let mut envelope = message(id, "c", "hello");
        envelope["sender"]["identity"] = json!(sender);
        let (_, accepted) = ingest(&daemon, &envelope).await;
        let entry = ended(&daemon, accepted["request_id"].as_str().expect("an id")).await;
        entry["trust"].as_str().expect("a trust").to_owned()
    };
    assert_eq!(trust("1", "4711").await, "owner");
    assert_eq!(trust("2", "@Bea").await, "stranger");
    let cli = |args: &[&str]| {
        let (code, out, err) = household.cli(args);
        (code, format!("{out}{err}"))
    };
    assert!(cli(&["contacts", "list"]).1.contains("No contacts"));
    // Another tenant's people are not the household's.
    let (_, made, _) = household.cli(&["token", "new", "--tenant", "other", "--scope", "tools", "--json"]);
    let token: Value = serde_json::from_str(&made).expect("JSON");
    let other = daemon.mcp("switchboard").with_token(token["token"].as_str());
    other.ok("contact_identity_add", json!({"name": "Bea", "channel": "telegram", "identity": "@bea"})).await;
    assert_eq!(trust("3", "@bea").await, "stranger", "that is another tenant's contact");
    let (code, said) = cli(&["contacts", "add", "Bea", "telegram", "@bea"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(trust("4", "@Bea").await, "known", "identities know no case");
    assert_eq!(cli(&["contacts", "add", "bea", "email", "Bea B. <bea@example.org>"]).0, 0);
    assert_eq!(cli(&["contacts", "add", "Bea", "telegram", "@bea"]).0, 0, "the same again is the same");
    let (_, said) = cli(&["contacts", "list", "--json"]);
    let list = serde_json::from_str::<Value>(&said).expect("JSON")["items"].clone();
    assert_eq!(list.as_array().map(Vec::len), Some(2), "{said}");
    assert_eq!(list[0]["contact_id"], list[1]["contact_id"], "one person: {said}");
    assert_eq!(list[0]["identity"], "bea@example.org", "{said}");
    let (code, said) = cli(&["contacts", "add", "Carl", "telegram", "@BEA"]);
    assert!(code == 1 && said.contains("is Bea already"), "{said}");
    let (code, said) = cli(&["contacts", "add", "Carl", "telegramm", "@carl"]);
    assert!(code == 1 && said.contains("did you mean `telegram`?"), "{said}");
    assert!(!cli(&["contacts", "list"]).1.contains("telegramm"), "nothing was noted");
    assert_eq!(cli(&["contacts", "add", "Carl", "pigeon", "ring 7", "--new-channel"]).0, 0);
    assert_eq!(cli(&["contacts", "rm", "pigeon", "ring 7"]).0, 0);
    assert_eq!(cli(&["contacts", "rm", "telegram", "@bea"]).0, 0);
    assert_eq!(trust("5", "@bea").await, "stranger");
    let (code, said) = cli(&["contacts", "rm", "telegram", "@bea"]);
    assert!(code == 1 && said.contains("Nobody is known as @bea"), "{said}");
    // The owner stays the owner, also where a contact of that identity is noted.
    assert_eq!(cli(&["contacts", "add", "Ada", "telegram", "4711"]).0, 0);
    assert_eq!(trust("6", "4711").await, "owner");
    assert_eq!(other.ok("contact_identity_list", json!({})).await.as_array().map(Vec::len), Some(1));
}
