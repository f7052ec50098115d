//! A plain MCP client over HTTP, that can also behave badly.

use serde_json::{Value, json};

/// A client of one butler's server.
#[derive(Clone)]
pub struct Mcp {
    pub url: String,
    token: Option<String>,
    http: reqwest::Client,
}

/// What came back: HTTP status, and the body where it was JSON.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Answer {
    /// The tool's JSON result; fails the test when the call was an error.
    pub fn result(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        assert_ne!(self.body["result"]["isError"], json!(true), "{self:?}");
        self.text()
    }

    /// The JSON of the tool's text content.
    pub fn text(&self) -> Value {
        let text = self.body["result"]["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("no text content in {self:?}"));
        serde_json::from_str(text).expect("JSON in the text content")
    }
}

/// A client of plain HTTP; the library wants to know its TLS provider all the same.
pub fn http() -> reqwest::Client {
    // An error means that another test did it before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}

impl Mcp {
    pub fn new(port: u16, token: Option<String>) -> Self {
        Self { url: format!("http://127.0.0.1:{port}/mcp"), token, http: http() }
    }

    /// The same server with another token, or none.
    pub fn with_token(&self, token: Option<&str>) -> Self {
        Self { token: token.map(str::to_owned), ..self.clone() }
    }

    /// The same server at another path or query.
    pub fn with_url(&self, url: String) -> Self {
        Self { url, ..self.clone() }
    }

    /// One request of JSON-RPC.
    pub async fn request(&self, method: &str, params: Value) -> Answer {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.post(body, &[]).await
    }

    /// A body with extra headers.
    pub async fn post(&self, body: Value, headers: &[(&str, &str)]) -> Answer {
        let mut request = self
            .http
            .post(&self.url)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-06-18")
            .json(&body);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.expect("the server answers");
        let status = response.status().as_u16();
        let text = response.text().await.expect("a body");
        Answer { status, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
    }

    /// Calls a tool.
    pub async fn call(&self, tool: &str, args: Value) -> Answer {
        self.request("tools/call", json!({"name": tool, "arguments": args})).await
    }

    /// Calls a tool of a server that may go away; `None`: it did.
    pub async fn try_call(&self, tool: &str, args: Value) -> Option<Answer> {
        let params = json!({"name": tool, "arguments": args});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let mut request = self
            .http
            .post(&self.url)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-06-18")
            .json(&body);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.ok()?;
        let status = response.status().as_u16();
        let text = response.text().await.ok()?;
        Some(Answer { status, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) })
    }

    /// Calls a tool that must succeed and returns its JSON.
    pub async fn ok(&self, tool: &str, args: Value) -> Value {
        self.call(tool, args).await.result()
    }

    /// Names of the tools that the server lists.
    pub async fn tools(&self) -> Vec<String> {
        let answer = self.request("tools/list", json!({})).await;
        let list = answer.body["result"]["tools"].as_array().cloned();
        let list = list.unwrap_or_else(|| panic!("no tools in {answer:?}"));
        list.iter().filter_map(|t| t["name"].as_str().map(str::to_owned)).collect()
    }
}
