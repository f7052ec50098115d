//! What people read and write in the browser: conversations, the inbox, deliveries, people, rules and notes.

use serde_json::json;

use crate::support::{Daemon, Household, eventually, http, model};

/// A browser that has signed in.
struct Page {
    client: reqwest::Client,
    at: String,
    cookie: String,
}

impl Page {
    async fn of(daemon: &Daemon) -> Self {
        let link = daemon.rpc("login_link", json!({"wanted": {}})).await;
        let url = link["url"].as_str().expect("a link").to_owned();
        let path = url.split_once("/login/").expect("its path").1.to_owned();
        let _ = http();
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
        let at = format!("http://{}", daemon.admin());
        let answer = client.post(format!("{at}/login/{path}")).send().await.expect("an answer");
        assert_eq!(answer.status(), 303, "{}", answer.text().await.unwrap_or_default());
        let cookie = answer.headers()["set-cookie"].to_str().expect("a cookie").to_owned();
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        Self { client, at, cookie }
    }

    async fn get(&self, path: &str) -> String {
        let request = self.client.get(format!("{}{path}", self.at)).header("cookie", &self.cookie);
        let answer = request.send().await.expect("an answer");
        let (status, text) = (answer.status(), answer.text().await.expect("a page"));
        assert_eq!(status, 200, "{path}: {text}");
        text
    }

    /// Sends a form as the page has it, and returns where the answer leads.
    async fn send(&self, page: &str, to: &str, fields: &[(&str, &str)]) -> String {
        let html = self.get(page).await;
        let proof = html.split_once("name=\"form\" value=\"").expect("a form").1;
        let proof = proof.split('"').next().unwrap_or_default();
        let all: Vec<(&str, &str)> = fields.iter().copied().chain([("form", proof)]).collect();
        let body: Vec<String> = all.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
        let request = self.client.post(format!("{}{to}", self.at)).header("cookie", &self.cookie);
        let request = request.header("content-type", "application/x-www-form-urlencoded").header("origin", &self.at);
        let answer = request.body(body.join("&")).send().await.expect("an answer");
        let status = answer.status();
        let goes = answer.headers().get("location").and_then(|to| to.to_str().ok()).unwrap_or_default().to_owned();
        assert_eq!(status, 303, "{to}: {}", answer.text().await.unwrap_or_default());
        goes
    }
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

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
