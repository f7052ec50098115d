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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_a_delivery_is_a_download_and_never_a_page() {
    let household = Household::with_model(&model(json!([])).await);
    let daemon = household.start().await;
    let page = Page::of(&daemon).await;
    let db = household.owner().await;
    // Who wrote it chose what it is called and says it is.
    let sql = "SET butlerd.tenant = 'owner';
        INSERT INTO shared.outbox (id, origin, request_id, kind, intent, channel, target, lane, message, priority,
            idempotency_key, context, state, due_at, settled_at, followed_at, trust)
        VALUES ('0190a0a0-0000-7000-8000-000000000001', 'general', gen_random_uuid(), 'message', 'send', 'chat', 'owner', 'chat|x',
            'See the file.', 'medium', 'x', '{}', 'sent', now(), now(), now(), 'owner');
        INSERT INTO shared.outbox_attempts (outbox_id, n, lane, ended_at, outcome, trust)
        VALUES ('0190a0a0-0000-7000-8000-000000000001', 1, 'chat|x', now(), 'sent', 'owner');
        INSERT INTO shared.outbox_files (outbox_id, n, name, media_type, size, sha256, content, trust)
        SELECT '0190a0a0-0000-7000-8000-000000000001', n, name, 'text/html', octet_length(c), encode(sha256(c), 'hex'),
            CASE WHEN n = 1 THEN c END, 'owner'
        FROM (VALUES (1, '<b>\"plan\u{e9}.html', '<script>alert(1)</script>'::bytea), (2, 'gone.txt', 'gone'::bytea)) AS f (n, name, c)";
    db.batch_execute(sql).await.expect("a delivery with files");
    let at = "/deliveries/0190a0a0-0000-7000-8000-000000000001";
    let shown = page.get(at).await;
    assert!(shown.contains("25 bytes") && shown.contains("is not kept") && !shown.contains("<b>\""), "{shown}");
    assert!(shown.contains(&format!("href=\"{at}/files/0\"")) && !shown.contains("/files/1"), "{shown}");
    let file = page.answer(&format!("{at}/files/0"), None).await;
    let header = |name: &str| file.headers()[name].to_str().unwrap_or_default().to_owned();
    assert_eq!(header("content-type"), "application/octet-stream");
    let disposition = header("content-disposition");
    assert!(
        disposition.starts_with("attachment; filename=\"bplan_.html\"; filename*=UTF-8''bplan%C3%A9.html"),
        "{disposition}"
    );
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert!(header("content-security-policy").contains("default-src 'none'"));
    assert_eq!(file.text().await.expect("its content"), "<script>alert(1)</script>");
    for nothing in ["/files/1", "/files/2", "/files/x"] {
        assert_eq!(page.status(&format!("{at}{nothing}")).await, 404, "{nothing}");
    }
}
