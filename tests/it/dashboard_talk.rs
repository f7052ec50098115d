//! What people read and write in the browser: conversations, the inbox, deliveries, people, rules and notes.

use serde_json::json;

use crate::support::pages::Page;
use crate::support::{Household, eventually, model};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_written_in_the_browser_is_answered_there() {
    let model = model(json!([{"when": "how are", "steps": [{"say": "All is <b>well</b>."}]}])).await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let page = Page::of(&daemon).await;
    let fields = [("text", "how are <i>you</i>?"), ("butler", "health")];
    let to = page.send("/conversations", "/conversations", &fields).await;
    let path = to.split('?').next().unwrap_or_default();
    let request = path.strip_prefix("/conversations/").expect("the message's conversation");
    // The stream ends with the answer in it, as text.
    let told = page.get(&format!("/live/chat/{request}")).await;
    assert!(told.contains("event: piece") && told.contains("All is &lt;b&gt;well&lt;/b&gt;."), "{told}");
    assert!(told.trim_end().ends_with("event: over\ndata:"), "{told}");
    let shown = eventually("the answer is in the conversation", async || {
        let shown = page.get(path).await;
        if shown.contains("<li class=\"out\"") { Ok(shown) } else { Err(shown) }
    })
    .await;
    assert!(shown.contains("how are &lt;i&gt;you&lt;/i&gt;?") && !shown.contains("<i>you"), "{shown}");
    assert!(page.get("/conversations?q=ARE%20%3Ci").await.contains(&format!("/conversations/{request}")));
    assert!(page.get("/conversations?q=100%25").await.contains("Nobody said anything of the kind"));
    assert!(page.get("/conversations").await.contains("/conversations/"));
    let inbox = page.get("/inbox?state=done").await;
    assert!(inbox.contains(&format!("/inbox/{request}")), "{inbox}");
    assert!(!page.get(&format!("/inbox?before={request}")).await.contains(&format!("/inbox/{request}")));
    assert!(page.get(&format!("/inbox/{request}")).await.contains("Make the rule"));
    let deliveries = page.get("/deliveries?state=sent").await;
    let delivery = deliveries.split("href=\"/deliveries/").nth(1).map(|rest| &rest[..36]);
    let delivery = delivery.unwrap_or_else(|| panic!("{deliveries}"));
    assert!(page.get(&format!("/deliveries/{delivery}")).await.contains("All is"));
    assert!(page.get("/deliveries?state=bad").await.contains("Nothing went wrong"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_and_rules_are_made_and_ended_in_the_browser() {
    let household = Household::with_model(&model(json!([])).await);
    let daemon = household.start().await;
    let page = Page::of(&daemon).await;
    let new = [("name", "Ada <b>"), ("channel", "email"), ("identity", "ada@example.org")];
    page.send("/people", "/people", &new).await;
    let people = page.get("/people").await;
    assert!(people.contains("Ada &lt;b&gt;") && people.contains("ada@example.org"), "{people}");
    let contact = people.split("/conversations/with/").nth(1).map(|rest| &rest[..36]).expect("a person");
    assert!(page.get(&format!("/conversations/with/{contact}")).await.contains("Nothing was said here"));
    page.send("/people", "/people/remove", &new[1..]).await;
    assert!(!page.get("/people").await.contains("ada@example.org"));
    let rule = [("kind", "sender_domain"), ("pattern", "example.org"), ("action", "route_to"), ("butler", "health")];
    page.send("/rules", "/rules", &rule).await;
    let rules = page.get("/rules").await;
    let id = rules.split("/rules/").nth(1).map(|rest| &rest[..36]).unwrap_or_else(|| panic!("{rules}"));
    page.send("/rules", &format!("/rules/{id}/switch"), &[("on", "no")]).await;
    page.send("/rules", &format!("/rules/{id}/end"), &[]).await;
    assert!(page.get("/rules").await.contains("There is no rule yet"));
    assert!(page.get("/connectors").await.contains("Messages of the past"));
    assert!(page.get("/notes").await.contains("<h1"));
}
