//! The dashboard as a browser's requests see it, without a browser.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Daemon, markup};

/// Places that everybody knows.
pub const PLACES: [&str; 21] = [
    "/",
    "/sessions",
    "/approvals",
    "/inbox",
    "/conversations",
    "/schedules",
    "/memory",
    "/costs",
    "/council",
    "/journal",
    "/projects",
    "/people",
    "/deliveries",
    "/connectors",
    "/rules",
    "/notes",
    "/secrets",
    "/settings",
    "/audit",
    "/undo",
    "/butlers/health",
];

/// So many pages of one list are looked at.
const FROM_A_LIST: usize = 4;

/// A browser that has signed in.
pub struct Page {
    client: reqwest::Client,
    at: String,
    pub cookie: String,
}

impl Page {
    /// One that may do what the daemon's operator may.
    pub async fn of(daemon: &Daemon) -> Self {
        Self::with(daemon, json!({})).await
    }

    /// One that such a link signed in.
    pub async fn with(daemon: &Daemon, wanted: Value) -> Self {
        let link = daemon.rpc("login_link", json!({"wanted": wanted})).await;
        let url = link["url"].as_str().expect("a link").to_owned();
        let path = url.split_once("/login/").expect("its path").1.to_owned();
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
        let at = format!("http://{}", daemon.admin());
        let answer = client.post(format!("{at}/login/{path}")).send().await.expect("an answer");
        assert_eq!(answer.status(), 303, "{}", answer.text().await.unwrap_or_default());
        let cookie = answer.headers()["set-cookie"].to_str().expect("a cookie").to_owned();
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        Self { client, at, cookie }
    }

    pub async fn get(&self, path: &str) -> String {
        let ask = |path: &str| self.client.get(format!("{}{path}", self.at)).header("cookie", &self.cookie).send();
        let mut answer = ask(path).await.expect("an answer");
        if answer.status() == 303 {
            let to = answer.headers()["location"].to_str().expect("a path").to_owned();
            answer = ask(&to).await.expect("an answer");
        }
        let (status, text) = (answer.status(), answer.text().await.expect("a page"));
        assert_eq!(status, 200, "{path}: {text}");
        text
    }

    /// An answer as it comes, to a request that says which change was heard last.
    pub async fn answer(&self, path: &str, last_event: Option<&str>) -> reqwest::Response {
        let mut request = self.client.get(format!("{}{path}", self.at)).header("cookie", &self.cookie);
        if let Some(last) = last_event {
            request = request.header("last-event-id", last);
        }
        request.send().await.expect("an answer")
    }

    /// An answer as it comes to a browser that takes it packed.
    pub async fn packs(&self, path: &str) -> reqwest::Response {
        let request = self.client.get(format!("{}{path}", self.at)).header("cookie", &self.cookie);
        request.header("accept-encoding", "gzip").send().await.expect("an answer")
    }

    /// How many bytes come packed, and by what.
    pub async fn packed(&self, path: &str) -> (usize, String) {
        let answer = self.packs(path).await;
        assert_eq!(answer.status(), 200, "{path}");
        let by =
            answer.headers().get("content-encoding").and_then(|by| by.to_str().ok()).unwrap_or_default().to_owned();
        (answer.bytes().await.expect("bytes").len(), by)
    }

    /// The status of a page.
    pub async fn status(&self, path: &str) -> u16 {
        let request = self.client.get(format!("{}{path}", self.at)).header("cookie", &self.cookie);
        request.send().await.expect("an answer").status().as_u16()
    }

    /// What the forms of this session hold, as a page of it has it.
    pub async fn proof(&self, page: &str) -> String {
        let html = self.get(page).await;
        let proof = html.split_once("name=\"form\" value=\"").expect("a form").1;
        proof.split('"').next().unwrap_or_default().to_owned()
    }

    /// All pages that links lead to from these on, by their paths: of the pages of one list the first few.
    pub async fn walk(&self, from: &[String]) -> BTreeMap<String, String> {
        let (mut seen, mut of_list) = (BTreeMap::new(), BTreeMap::<String, usize>::new());
        let mut known: BTreeSet<String> = from.iter().cloned().collect();
        let mut next: Vec<String> = from.to_vec();
        while let Some(path) = next.pop() {
            let list = path.split('?').next().unwrap_or_default().to_owned();
            let many = of_list.entry(list).or_default();
            *many += 1;
            if *many > FROM_A_LIST && !from.contains(&path) {
                continue;
            }
            let answer = self.answer(&path, None).await;
            assert!(!answer.status().is_server_error(), "{path}: {}", answer.status());
            let html =
                answer.headers().get("content-type").is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
            let goes = answer.headers().get("location").and_then(|to| to.to_str().ok()).map(str::to_owned);
            next.extend(goes.filter(|to| known.insert(to.clone())));
            let text = answer.text().await.expect("a page");
            let links = if html { markup::links(&text) } else { Vec::new() };
            next.extend(links.into_iter().filter(|to| known.insert(to.clone())));
            seen.insert(path, text);
        }
        seen
    }

    /// Sends exactly these fields.
    pub async fn post(&self, to: &str, fields: &[(&str, &str)]) -> reqwest::Response {
        let body: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
        let request = self.client.post(format!("{}{to}", self.at)).header("cookie", &self.cookie);
        let request = request.header("content-type", "application/x-www-form-urlencoded").header("origin", &self.at);
        request.body(body.join("&")).send().await.expect("an answer")
    }

    /// Sends a form as the page has it, and returns where the answer leads.
    pub async fn send(&self, page: &str, to: &str, fields: &[(&str, &str)]) -> String {
        let proof = self.proof(page).await;
        let all: Vec<(&str, &str)> = fields.iter().copied().chain([("form", proof.as_str())]).collect();
        let answer = self.post(to, &all).await;
        let status = answer.status();
        let goes = answer.headers().get("location").and_then(|to| to.to_str().ok()).unwrap_or_default().to_owned();
        assert_eq!(status, 303, "{to}: {}", answer.text().await.unwrap_or_default());
        goes
    }
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
